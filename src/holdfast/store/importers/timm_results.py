"""timm: its results-*.csv of top-1 and top-5 accuracy, one file per test set, or a folder of them.

Source: github.com/huggingface/pytorch-image-models, results. A model is `name@image-size`; what it was pre-trained on
comes from `model_metadata*.csv` where that lies beside.
"""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.core.errors import Misuse
from holdfast.store.scores import Imported, Scores
from holdfast.store.source_files import BadFile, ScoreCells, beside, files_matching, opened, share_from_percent

NAME = "timm"
FILE = re.compile(r"results-(.+)\.csv")


def read_timm_results(path: Path) -> Imported:
    files = files_matching(path, "results-*.csv") if path.is_dir() else [path]
    if not files:
        raise Misuse(f"no file named results-*.csv in {path}")
    together = ScoreCells(path)
    pretrained = _pretrained(files[0])
    for file in files:
        source = opened(file)
        named = FILE.fullmatch(file.name)
        if named is None:
            raise BadFile(f"{file.name} does not say the test set", hint="name it as published: results-imagenet.csv")
        cells = ScoreCells(file)
        for record in source.records(["model", "img_size", "top1", "top5"]):
            model = f"{record['model']}@{record['img_size']}"
            facts = {"parameters_million": record.get("param_count", ""), "image_size": record["img_size"]}
            cells.model(model, facts | {"pretrained_on": pretrained.get(record["model"], "")})
            for name, setting in (("top1", named[1]), ("top5", f"{named[1]}/top5")):
                cells.add(model, setting, share_from_percent(record[name], f"{file}, `{name}` of `{model}`"))
                together.sources[setting] = str(source.origin(NAME))
        together.values |= cells.values
        together.facts |= cells.facts
    origin = opened(files[0]).origin(NAME)
    return Imported((Scores(NAME, together.table(), {}, origin),))


def _pretrained(file: Path) -> dict[str, str]:
    path = beside(file, "model_metadata*.csv")
    if path is None:
        return {}
    return {record["model"]: record["pretrain"] for record in opened(path).records(["model", "pretrain"])}
