"""CIFAR-10.1: what 30-odd models predict for every image of CIFAR-10 and of its new test sets, as rows.

Source: arXiv:1806.00451, github.com/modestyachts/CIFAR-10.1. PATH is the folder with `model_predictions` and labels.
There are no logits, so ranks, confidence and top-5 are missing. Sample ids are those of the datasets `cifar10` and
`cifar10.1`, so that a model measured here is compared with these sample by sample.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.core.errors import Misuse
from holdfast.core.types import Flag, ModelCard
from holdfast.store.footer import Footer
from holdfast.store.rows import SCHEMA, Rows
from holdfast.store.scores import Imported
from holdfast.store.source_files import BadFile, Source, files_matching, opened

NAME = "cifar10-1-predictions"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ENDING = "_predictions.json"
# folder → scenario, names of the labels, prefix and width of the sample ids
SETS = {
    "original_predictions": ("cifar10", ("Y_cifar10.npy",), "test-", 5),
    "v4_predictions": ("cifar10.1:version=v4", ("cifar10.1_v4_labels.npy",), "v4-", 4),
    "v6_predictions": ("cifar10.1", ("cifar10.1_v6_labels.npy", "Y_cifar10.1.npy"), "v6-", 4),
}
ONLY_PREDICTIONS = Flag("published", "note", "predictions published by others, without logits")


def read_cifar10_1_predictions(path: Path) -> Imported:
    predictions = path / "model_predictions"
    if not predictions.is_dir():
        raise Misuse(f"no folder model_predictions in {path}", hint="give the folder that holds it and the labels")
    made: list[Rows] = []
    for folder, (scenario, label_files, prefix, width) in SETS.items():
        files = files_matching(predictions / folder, f"*{ENDING}")
        if not files:
            continue
        labels = _labels(path, label_files)
        ids = [f"{prefix}{i:0{width}}" for i in range(len(labels))]
        made += [_rows(opened(file), scenario, labels, ids) for file in files]
    if not made:
        raise Misuse(f"no file named *{ENDING} below {predictions}")
    return Imported(rows=tuple(made))


def _labels(path: Path, names: tuple[str, ...]) -> NDArray[np.int64]:
    present = [path / name for name in names if (path / name).is_file()]
    if not present:
        raise Misuse(f"no labels in {path}", hint=f"they are in {names[0]}")
    source = opened(present[0])
    try:
        labels = np.load(io.BytesIO(source.data), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise BadFile(f"{source.path} is no array of labels: {error}", hint="fetch it again") from error
    return _classes(labels, source)


def _classes(values: NDArray[np.generic], source: Source) -> NDArray[np.int64]:
    whole = values.dtype.kind in "iu" and values.ndim == 1
    if not whole or (len(values) and not 0 <= int(values.min()) <= int(values.max()) < len(CLASSES)):
        raise BadFile(f"{source.path} must hold whole numbers from 0 to 9, one per image")
    return values.astype(np.int64)


def _rows(source: Source, scenario: str, labels: NDArray[np.int64], ids: list[str]) -> Rows:
    values = source.json()
    if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
        raise BadFile(f"{source.path} must hold a list of classes")
    predictions = _classes(np.array(values, dtype=np.int64), source)
    if len(predictions) != len(labels):
        raise BadFile(f"{source.path} has {len(predictions)} predictions for {len(labels)} images")
    empty = {name: pa.nulls(len(labels), SCHEMA.field(name).type) for name in SCHEMA.names}
    columns = empty | {
        "id": pa.array(ids, pa.string()),
        "label": pa.array(labels, pa.int32()),
        "prediction": pa.array(predictions, pa.int32()),
    }
    footer = _footer(source, scenario, len(labels))
    return Rows(pa.table(columns, schema=SCHEMA), footer).sealed(footer)


def _footer(source: Source, scenario: str, n: int) -> Footer:
    model = source.path.name.removesuffix(ENDING)
    origin = source.origin(NAME)
    key = hashlib.sha256(f"{NAME} {model} {scenario} {origin.sha256}".encode()).hexdigest()[:24]
    card = ModelCard(name=model, source="published", classes=len(CLASSES), size=32, paper="arXiv:1806.00451")
    return Footer(
        key=key,
        family=key,
        model=model,
        model_full=model,
        scenario=scenario,
        scenario_full=scenario,
        dataset=scenario,
        changes=(),
        seed=0,
        selection="all",
        samples=None,
        precision=None,
        weights="",
        data="",
        card=card,
        classes=CLASSES,
        population=n,
        n=n,
        finished=origin.date,
        facts={"imported from": origin.file, "sha256": origin.sha256, "format": NAME},
        flags=(ONLY_PREDICTIONS,),
        command=f"holdfast import {NAME} FOLDER",
    )
