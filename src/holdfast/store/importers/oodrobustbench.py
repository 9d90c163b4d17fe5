"""OODRobustBench: the CSV of a leaderboard; its file name says dataset and threat.

Source: arXiv:2310.12793, oodrobustbench.github.io. A model is its method and architecture, with its place where two
lines share both.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from pathlib import Path

from holdfast.core.errors import Misuse
from holdfast.store.scores import Imported, Scores
from holdfast.store.source_files import BadFile, ScoreCells, files_matching, opened, share_from_percent

NAME = "oodrobustbench"
FILE = re.compile(r"(cifar10|cifar100|imagenet)_(linf|l2)_leaderboard\.csv", re.IGNORECASE)
SETTINGS = {
    "id_clean": "id-accuracy",
    "oodd_clean": "ood-d-accuracy",
    "id_robust": "id-robustness",
    "oodd_robust": "ood-d-robustness",
    "oodt_robust": "ood-t-robustness",
    "ood_robust": "ood-robustness",
}
EXTRA = {"☑": "yes", "×": "no"}


def read_oodrobustbench(path: Path) -> Imported:
    files = files_matching(path, "*_leaderboard.csv") if path.is_dir() else [path]
    if not files:
        raise Misuse(f"no file named *_leaderboard.csv in {path}")
    return Imported(tuple(_board(file) for file in files))


def _board(path: Path) -> Scores:
    source = opened(path)
    named = FILE.fullmatch(path.name)
    if named is None:
        raise BadFile(
            f"{path.name} does not say dataset and threat", hint="name it as published: cifar10_Linf_leaderboard.csv"
        )
    records = source.records(["rank", "method", "arch", *SETTINGS])
    times = Counter((record["method"], record["arch"]) for record in records)
    cells = ScoreCells(path)
    seen = set()
    for record in records:
        values = tuple(record[name] for name in ("method", "arch", *SETTINGS))
        if values in seen:
            raise BadFile(f"{path} has the model `{record['method']}, {record['arch']}` twice")
        seen.add(values)
        shared = times[record["method"], record["arch"]] > 1
        model = f"{record['method']}, {record['arch']}" + (f" (place {record['rank']})" if shared else "")
        extra = html.unescape(record.get("extra_data", ""))
        facts = {
            "method": record["method"],
            "architecture": record["arch"],
            "paper": record.get("url", ""),
            "venue": record.get("venue", ""),
            "extra_data": EXTRA.get(extra, extra),
            "notes": record.get("footnote", ""),
            "threat": named[2].lower(),
        }
        cells.model(model, facts)
        for name, setting in SETTINGS.items():
            cells.add(model, setting, share_from_percent(record[name], f"{path}, `{name}` of `{model}`"))
    origin = source.origin(NAME)
    return Scores(f"{NAME}-{named[1].lower()}-{named[2].lower()}", cells.table(str(origin)), {}, origin)
