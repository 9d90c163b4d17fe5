"""RobustBench: the JSON entries of its `model_info`, one file or a folder of them.

Source: arXiv:2010.09670, github.com/RobustBench/robustbench. The folders dataset/threat of an entry name its benchmark
`robustbench-DATASET-THREAT`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from holdfast.core.errors import Misuse
from holdfast.store.reading import Cells, Source, Unreadable, number, opened, percent
from holdfast.store.scores import Imported, Origin, Scores, grid

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
FACTS = {"name": "title", "link": "paper", "venue": "venue", "architecture": "architecture", "eps": "radius"}


def read(path: Path) -> Imported:
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    if not files:
        raise Misuse(f"no JSON file below {path}", hint="give the folder model_info of RobustBench")
    groups: dict[str, list[Source]] = {}
    for file in files:
        groups.setdefault(f"{file.parent.parent.name}-{file.parent.name}".lower(), []).append(opened(file))
    return Imported(tuple(_group(name, sources) for name, sources in groups.items()))


def _group(name: str, sources: list[Source]) -> Scores:
    folder = sources[0].path.parent
    cells = Cells(folder)
    where: dict[str | tuple[str, str], str] = {}
    for source in sources:
        entry: Any = source.json()
        model = source.path.stem
        for need in NEEDS:
            if not isinstance(entry, dict) or need not in entry:
                raise Unreadable(f"{source.path} has no field `{need}`", hint="is it an entry of model_info?")
        facts = {ours: str(entry[theirs]) for theirs, ours in FACTS.items() if entry.get(theirs) is not None}
        cells.model(model, facts | {"extra_data": "yes" if entry.get("additional_data") else "no"})
        for field, setting in SHARES.items():
            cells.add(model, setting, percent(_text(entry.get(field)), f"{source.path}, `{field}`"))
        for field, setting in RATIOS.items():
            value = number(_text(entry.get(field)), f"{source.path}, `{field}`")
            cells.add(model, setting, None if value is None else value / 100)
        where |= {key: str(source.origin(NAME)) for key in cells.values if key[0] == model}
    table = grid(cells.values, facts=cells.facts, sources=where)
    return Scores(f"{NAME}-{name}", table, {}, _together(folder, sources))


def _together(folder: Path, sources: list[Source]) -> Origin:
    if len(sources) == 1:
        return sources[0].origin(NAME)
    one = sources[0].origin(NAME)
    summed = hashlib.sha256(b"".join(source.data for source in sources)).hexdigest()
    return Origin(NAME, f"{folder.parent.name}/{folder.name}, {len(sources)} files", summed, one.date)


def _text(value: object) -> object:
    """Entries write what nobody reported as null, as `null`, as `-` or as nothing."""
    return None if value in ("-", "", "null") else value
