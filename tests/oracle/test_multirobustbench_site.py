"""MultiRobustBench's site: what it shows for every defence, again from its files, by its own rules written out here."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from holdfast.boards.suite_board import suite_board
from holdfast.core.suites import load_suite
from holdfast.store.importers import read_results
from holdfast.store.published import published
from holdfast.store.store import Store

FOLDER = Path(os.environ.get("HOLDFAST_PUBLISHED", Path(__file__).parents[3] / "shared" / "published"))
FILES = FOLDER / "multirobustbench"
RANKED = (
    *("AutoL1Attack", "AutoLinfAttack", "AutoL2Attack", "ElasticAttack", "JPEGL1Attack", "JPEGLinfAttack"),
    *("ReColorAdvAttack", "StAdvAttack", "LPIPSAttack"),
)
WHOLE = 20  # defences with all 181 accuracies; the site averages what one more has
here = pytest.mark.skipif(not FILES.is_dir(), reason="the published results of MultiRobustBench are not here")


def shown_by_the_site(entry: dict, best: dict) -> dict[str, float]:
    """The leaderboard's columns and bar charts for one defence: the rules of its pages in plain loops."""
    accuracies, seen = entry["Accuracies"], entry["Details"]["Attacks Used"]
    clean = accuracies["NoAttack"] / best["NoAttack"]
    ratios, inside, outside = [clean], [clean], []
    made = {"clean-accuracy": accuracies["NoAttack"]}
    for attack in RANKED:
        own = [clean]
        for strength, accuracy in accuracies[attack].items():
            ratio = accuracy / best[attack][strength]
            own.append(ratio)
            ratios.append(ratio)
            (inside if float(strength) <= seen.get(attack, -1) else outside).append(ratio)
        made[f"single-cr-{attack}"] = 100 * sum(own) / len(own)
    made["cr-ind-avg"], made["cr-ind-worst"] = 100 * sum(ratios) / len(ratios), 100 * min(ratios)
    made["cr-in"], made["cr-out"] = 100 * sum(inside) / len(inside), 100 * sum(outside) / len(outside)
    cells = {(a, s): v for a in RANKED for s, v in accuracies[a].items()} | {("", ""): accuracies["NoAttack"]}
    strongest = {key: best[key[0]][key[1]] if key[0] else best["NoAttack"] for key in cells}
    made["cr-exp"] = 100 * sum(cells.values()) / sum(strongest.values())
    made["cr-max"] = 100 * min(cells.values()) / min(strongest.values())
    known = [key for key in cells if not key[0] or float(key[1]) <= seen.get(key[0], -1)]
    made["attacks-seen"] = 100 * len(known) / len(cells)
    steepest = 0.0
    for one in known:
        for other in cells:
            gap = abs(strongest[one] - strongest[other])
            if one != other and 0 < gap < 3:
                steepest = max(steepest, abs(cells[one] - cells[other]) / gap)
    made["stability-constant"] = steepest
    return made


def as_script(record: object, name: str) -> str:
    """A file as the site has it: an assignment, single quotes, and a fraction that is written as one."""
    text = json.dumps(record).replace("0.03137254901960784", "8/255").replace('"', "'")
    return f"var {name} = {text};\n"


@here
def test_every_score_of_every_defence_is_the_sites_from_a_checkout(tmp_path: Path) -> None:
    best, defences = (json.loads((FILES / name).read_text()) for name in ("ata_accs.json", "def_accs.json"))
    folder = tmp_path / "checkout"
    (folder / "data").mkdir(parents=True)
    for record in defences.values():
        for key in ("Title", "Comments"):
            record["Details"][key] = record["Details"][key].replace("'", "")  # the quotes of the script
    (folder / "data" / "def_accs.js").write_text(as_script(defences, "defense_data"))
    (folder / "data" / "ata_accs.js").write_text(as_script(best, "ata_accs"))
    store = Store(str(tmp_path / "store"))
    for scores in read_results("multirobustbench", folder).scores:
        store.add_scores(scores)
    shown = suite_board(load_suite("multirobustbench"), store, sort="cr-ind-worst").entries
    entries = {entry.model: entry for entry in shown}
    expected: dict[str, dict[str, float]] = {}
    for name, record in defences.items():
        if any(len(record["Accuracies"].get(attack, {})) < 20 for attack in RANKED):
            assert entries[name].rank is None
            continue
        expected[name] = shown_by_the_site(record, best)
        for score, value in expected[name].items():
            cell = entries[name].cell(score)
            assert cell.origin == "imported"
            assert cell.score is not None
            scale = 1 if score == "stability-constant" else 100
            assert math.isclose(scale * cell.score.value, value, rel_tol=1e-6), (name, score)
    assert sum(map(len, expected.values())) == WHOLE * 18
    ranked = [expected[entry.model]["cr-ind-worst"] for entry in shown if entry.rank is not None]
    assert ranked == sorted(ranked, reverse=True)


@here
def test_what_comes_with_the_package_is_what_the_files_give() -> None:
    best, defences = (json.loads((FILES / name).read_text()) for name in ("ata_accs.json", "def_accs.json"))
    shipped, known = published("multirobustbench-site").table, published("multirobustbench-best").table
    compared = 0
    for name, record in defences.items():
        if all(len(record["Accuracies"].get(attack, {})) == 20 for attack in RANKED):
            for score, expected in shown_by_the_site(record, best).items():
                scale = 1 if score == "stability-constant" else 100
                value = scale * shipped.values[shipped.models.index(name), shipped.settings.index(score)]
                assert abs(value - expected) <= 0.005001, (name, score)
                compared += 1
    assert compared == WHOLE * 18
    for setting, value in zip(known.settings, known.values[0], strict=True):
        attack, _, strength = setting.partition("/")
        theirs = best[attack][strength] if strength else best[attack]
        assert abs(100 * value - theirs) < 1e-9
    assert len(known.settings) == 456
