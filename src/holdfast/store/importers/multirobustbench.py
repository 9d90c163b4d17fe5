"""MultiRobustBench: accuracy of defences under attacks of rising strength, from the files of its leaderboard.

Source: arXiv:2302.10980. Reads `def_accs.js` as the site has it, from a checkout, its folder `data` or the file itself,
or the same as JSON. A setting is `Attack/strength`, `NoAttack` without one. Where `ata_accs.js` lies beside, its
accuracies (ResNet-18s trained on the attack itself) are the row `acc*`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.store.js_data import js_data
from holdfast.store.scores import Imported, Scores
from holdfast.store.source_files import BadFile, ScoreCells, Source, beside, one_file, opened, share_from_percent

NAME = "multirobustbench"
BEST = "acc*"
DETAILS = {
    "Title": "title",
    "Paper URL": "paper",
    "Architecture": "architecture",
    "Extra Data": "extra_data",
    "Comments": "training",
}


def read_multirobustbench(path: Path) -> Imported:
    folder = path / "data" if (path / "data").is_dir() else path
    source = opened(one_file(folder, "def_accs.js*", "def_accs.js"))
    content = _content(source)
    if not isinstance(content, dict) or not content:
        raise BadFile(f"{source.path} holds no defences", hint="give the path of def_accs.js")
    cells = ScoreCells(source.path)
    for model, entry in content.items():
        if not isinstance(entry, dict) or "Accuracies" not in entry:
            raise BadFile(f"{source.path} has no `Accuracies` of `{model}`", hint="give the path of def_accs.js")
        details = entry.get("Details", {})
        facts = {ours: str(details[theirs]) for theirs, ours in DETAILS.items() if details.get(theirs) is not None}
        cells.model(model, facts | {"attacks_used": json.dumps(details.get("Attacks Used", {}))})
        _add(cells, model, entry["Accuracies"])
    origin = source.origin(NAME)
    sources = [str(origin)]
    best = beside(source.path, f"ata_accs{source.path.suffix}")
    if best is not None:
        reference = opened(best)
        cells.model(BEST, {"type": "reference", "architecture": "ResNet-18"})
        _add(cells, BEST, _content(reference))
        sources.append(f"acc*: {reference.origin(NAME)}")
    imported = cells.table("; ".join(sources))
    return Imported((Scores(NAME, imported, dict.fromkeys(imported.settings, "percent"), origin),))


def _content(source: Source) -> Any:
    return js_data(source.text()) if source.path.suffix == ".js" else source.json()


def _add(cells: ScoreCells, model: str, accuracies: Any) -> None:
    if not isinstance(accuracies, dict) or "NoAttack" not in accuracies:
        raise BadFile(f"`{model}` has no accuracy without an attack", hint="`NoAttack` is missing")
    for attack, values in accuracies.items():
        by_strength = values if isinstance(values, dict) else {"": values}
        for strength, value in by_strength.items():
            setting = f"{attack}/{strength}" if strength else attack
            cells.add(model, setting, share_from_percent(value, f"{cells.path}, `{setting}` of `{model}`"))
