"""RobustBench: the JSON entries of its `model_info`, one file or a folder of them.

Source: arXiv:2010.09670, github.com/RobustBench/robustbench. The folders dataset/threat of an entry name its benchmark
`robustbench-DATASET-THREAT`. `external` is the robust accuracy that another attack than AutoAttack found; the public
list ranks by it where there is one. Footnotes and the mark `unreliable` are facts of a model.
"""

from __future__ import annotations

import hashlib
import html
import re
from pathlib import Path
from typing import Any

from holdfast.core.errors import Misuse
from holdfast.store.scores import Imported, Origin, Scores
from holdfast.store.source_files import (
    BadFile,
    ScoreCells,
    Source,
    files_matching,
    finite_number,
    opened,
    share_from_percent,
)

NAME = "robustbench"
NEEDS = ("name", "dataset", "clean_acc", "architecture")
SHARES = {
    "clean_acc": "clean-accuracy",
    "autoattack_acc": "autoattack",
    "reported": "reported",
    "external": "external",
    "corruptions_acc": "corruptions",
    "corruptions_acc_3d": "corruptions-3d",
}
RATIOS = {"corruptions_mce": "corruptions-mce", "corruptions_mce_3d": "corruptions-3d-mce"}
# images that accuracies rest on, as RobustBench evaluates: the test set of CIFAR, 5,000 of ImageNet's for attacks
SAMPLES = {("cifar10", "clean_acc"): 10_000, ("cifar100", "clean_acc"): 10_000}
ATTACKED = {"cifar10": 10_000, "cifar100": 10_000, "imagenet": 5_000}
FACTS = {"name": "title", "link": "paper", "venue": "venue", "architecture": "architecture", "eps": "radius"}


def read_robustbench(path: Path) -> Imported:
    files = files_matching(path, "**/*.json") if path.is_dir() else [path]
    if not files:
        raise Misuse(f"no JSON file below {path}", hint="give the folder model_info of RobustBench")
    groups: dict[str, list[Source]] = {}
    for file in files:
        groups.setdefault(f"{file.parent.parent.name}-{file.parent.name}".lower(), []).append(opened(file))
    return Imported(tuple(_group(name, sources) for name, sources in groups.items()))


def _group(name: str, sources: list[Source]) -> Scores:
    folder = sources[0].path.parent
    cells = ScoreCells(folder)
    for source in sources:
        entry: Any = source.json()
        model = source.path.stem
        for need in NEEDS:
            if not isinstance(entry, dict) or need not in entry:
                raise BadFile(f"{source.path} has no field `{need}`", hint="is it an entry of model_info?")
        facts = {ours: str(entry[theirs]) for theirs, ours in FACTS.items() if entry.get(theirs) is not None}
        facts |= {"extra_data": "yes" if entry.get("additional_data") else "no"}
        cells.model(model, facts | _warnings(entry))
        for field, setting in SHARES.items():
            value = share_from_percent(_text(entry.get(field)), f"{source.path}, `{field}`")
            cells.add(model, setting, value, _samples(entry, field))
        for field, setting in RATIOS.items():
            value = finite_number(_text(entry.get(field)), f"{source.path}, `{field}`")
            cells.add(model, setting, None if value is None else value / 100)
        cells.sources |= {key: str(source.origin(NAME)) for key in cells.values if key[0] == model}
    return Scores(f"{NAME}-{name}", cells.table(), {}, _together(folder, sources))


def _warnings(entry: dict[str, Any]) -> dict[str, str]:
    """What the list says to know of an entry: its footnote, and whether AutoAttack may have failed."""
    facts = {"footnote": plain_footnote(str(entry.get("footnote") or ""))}
    facts["unreliable"] = "yes" if entry.get("unreliable") in (True, "true", "True") else ""
    return {name: text for name, text in facts.items() if text}


def plain_footnote(text: str) -> str:
    """A footnote as text: without HTML, and with the norms as words."""
    text = re.sub(r"<br\s*/?>", " ", text)
    text = html.unescape(re.sub(r"<[^>]+>", "", text))
    text = re.sub(r"\\ell_\{?\\infty\s*\}?", "linf", text)
    text = re.sub(r"\\ell_\{?(\w)\}?", r"l\1", text).replace("\\varepsilon", "radius")
    return " ".join(re.sub(r"\\[()]", "", text).split())


def _samples(entry: dict[str, Any], field: str) -> int:
    dataset = str(entry["dataset"]).lower()
    if "autoattack_acc" in entry and field in ("clean_acc", "autoattack_acc", "external"):
        return ATTACKED.get(dataset, 0)
    return SAMPLES.get((dataset, field), 0)


def _together(folder: Path, sources: list[Source]) -> Origin:
    if len(sources) == 1:
        return sources[0].origin(NAME)
    one = sources[0].origin(NAME)
    summed = hashlib.sha256(b"".join(source.data for source in sources)).hexdigest()
    return Origin(NAME, f"{folder.parent.name}/{folder.name}, {len(sources)} files", summed, one.date)


def _text(value: object) -> object:
    """Entries write a missing number as null, as `null`, as `-` or as nothing."""
    return None if value in ("-", "", "null") else value
