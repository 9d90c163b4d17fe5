"""The ImageNet testbed: top-1 accuracies of models under settings, with types and counts where their files lie beside.

Source: arXiv:2007.00644, github.com/modestyachts/imagenet-testbed; its folder is read as it is. `model_types*.json` or
`model_types.py` (beside, or in `plotting`) gives the type of a model, `results_metadata*.csv` how many images each cell
rests on.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.store.model_types import types_beside
from holdfast.store.scores import Imported, Scores
from holdfast.store.source_files import ScoreCells, beside, one_file, opened, sample_count, share_from_percent

NAME = "imagenet-testbed"
SIZE = "_dataset_size"


def read_imagenet_testbed(path: Path) -> Imported:
    source = opened(one_file(path, "robustness_top1s*.csv", "the CSV file of accuracies"))
    records = source.records(["model", "val"])
    cells = ScoreCells(source.path)
    for record in records:
        model = record.pop("model")
        cells.model(model)
        for setting, text in record.items():
            cells.add(model, setting, share_from_percent(text, f"{source.path}, `{setting}` of `{model}`"))
    types, notes = _types(cells)
    extra = [*types, _counts(cells)]
    origin = source.origin(NAME)
    imported = cells.table("; ".join([str(origin), *filter(None, extra)]))
    scores = Scores(NAME, imported, dict.fromkeys(imported.settings, "percent"), origin)
    return Imported((scores,), notes=notes)


def _types(cells: ScoreCells) -> tuple[list[str], tuple[str, ...]]:
    """Where the types come from, and what to know of those that are missing."""
    typed = types_beside(cells.path)
    untyped = [model for model in cells.facts if model not in typed.types]
    for model, facts in cells.facts.items():
        if model in typed.types:
            kind = typed.types[model]
            facts |= {"type": kind.type} | ({"fine_type": kind.fine} if kind.fine else {})
    notes: tuple[str, ...] = ()
    if not typed.sources:
        notes = (
            f"no types beside {cells.path.name}: `trend --fit type=STANDARD` has nothing to go by; put model_types.py "
            "or model_types.json there and import again",
        )
    elif untyped:
        notes = (f"{len(untyped)} of {len(cells.facts)} models have no type, `{untyped[0]}` first",)
    return [f"types: {source.origin(NAME)}" for source in typed.sources], notes


def _counts(cells: ScoreCells) -> str:
    path = beside(cells.path, "results_metadata*.csv")
    if path is None:
        return ""
    source = opened(path)
    for record in source.records(["model"]):
        model = record["model"]
        if model not in cells.facts:
            continue
        if record.get("arch"):
            cells.facts[model]["architecture"] = record["arch"]
        for name, text in record.items():
            n = sample_count(text, f"{path}, `{name}` of `{model}`") if name.endswith(SIZE) else 0
            for setting in _counted(name.removesuffix(SIZE)) if n else ():
                if (model, setting) in cells.values:
                    cells.counts[model, setting] = n
    return f"counts: {source.origin(NAME)}"


def _counted(name: str) -> tuple[str, ...]:
    """The settings that a count is about: a corruption in memory or on disk has one for its five severities."""
    corruption, _, kept = name.rpartition("_")
    return (name, *(f"imagenet-c.{corruption}.{severity}_{kept}" for severity in range(1, 6)))
