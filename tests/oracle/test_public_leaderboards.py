"""Boards against the public leaderboards: RobustBench's entries as they are published, MultiRobustBench's ratios."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.boards.board_text import board_table
from holdfast.boards.entries import Board
from holdfast.boards.suite_board import suite_board
from holdfast.core.suites import load_suite
from holdfast.store import Store
from holdfast.store.importers import read_results
from holdfast.store.importers.robustbench import plain_footnote

ROOT = Path(__file__).parents[2]
FILES = Path(os.environ.get("HOLDFAST_PUBLISHED", ROOT.parent / "shared" / "published"))
needs_files = pytest.mark.skipif(not FILES.is_dir(), reason=f"the public files are not at {FILES}")
LISTS = {
    "robustbench-linf": "cifar10/Linf",
    "robustbench-l2": "cifar10/L2",
    "robustbench-corruptions": "cifar10/corruptions",
    "robustbench-cifar100-linf": "cifar100/Linf",
    "robustbench-cifar100-corruptions": "cifar100/corruptions",
    "robustbench-imagenet-linf": "imagenet/Linf",
    "robustbench-imagenet-corruptions": "imagenet/corruptions",
}


def leaderboard(folder: str) -> list[tuple[str, float]]:
    """As RobustBench's own code sorts: by what another attack found where there is such a number, else AutoAttack."""
    found = []
    for file in sorted((FILES / "robustbench/model_info" / folder).glob("*.json")):
        entry = json.loads(file.read_text())
        field = next(name for name in ("external", "autoattack_acc", "corruptions_acc") if entry.get(name))
        found.append((file.stem, float(entry[field])))
    return sorted(found, key=lambda pair: -pair[1])


def ranking(made: Board) -> list[tuple[str, float]]:
    scores = [(entry.model, entry.cells[made.sort].score) for entry in made.entries]
    return [(model, round(100 * score.value, 6)) for model, score in scores if score is not None]


@needs_files
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("source", ["shipped", "imported"])
def test_ranks_are_those_of_robustbench(name: str, source: str, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    if source == "imported":
        for scores in read_results("robustbench", FILES / "robustbench/model_info").scores:
            store.add_scores(scores)
    made = suite_board(load_suite(name), store)
    assert ranking(made) == leaderboard(LISTS[name])
    assert [entry.rank for entry in made.entries] == list(range(1, len(made.entries) + 1))


@needs_files
def test_ranks_are_those_of_multirobustbench(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for scores in read_results("multirobustbench", FILES / "multirobustbench").scores:
        store.add_scores(scores)
    accuracies = json.loads((FILES / "multirobustbench/def_accs.json").read_text())
    best = json.loads((FILES / "multirobustbench/ata_accs.json").read_text())
    suite = load_suite("multirobustbench")
    attacks = [name for term in next(c for c in suite.board if c.name == "cr-ind-avg").settings for name in term]

    def cells(table: dict[str, object]) -> dict[tuple[str, str], float]:
        found = {}
        for attack in attacks:
            values = table.get(attack, {})
            by_strength = values if isinstance(values, dict) else {"": values}
            found |= {(attack, strength): float(str(value)) for strength, value in by_strength.items()}
        return found

    reached = cells(best)
    ratios = {}
    for model, entry in accuracies.items():
        own = cells(entry["Accuracies"])
        if own.keys() == reached.keys():
            ratios[model] = sum(own[key] / reached[key] for key in reached) / len(reached)
    assert len(reached) == 181
    expected = sorted(ratios, key=lambda model: (-ratios[model], model))
    made = suite_board(suite, store)
    assert len(expected) == 20
    assert [entry.model for entry in made.entries if entry.rank is not None] == expected
    assert len(made.entries) == len(accuracies), "what the paper prints of a model stands in the same row"
    for entry in made.entries:
        if entry.rank is not None:
            score = entry.cells["cr-ind-avg"].score
            assert score is not None
            assert score.value == pytest.approx(ratios[entry.model], abs=1e-9)


def test_both_numbers_stand_on_the_board_and_the_lower_ranks() -> None:
    made = suite_board(load_suite("robustbench-linf"))
    rows = {entry.model: entry for entry in made.entries}
    first, second = made.entries[:2]
    assert (first.model, second.model) == ("Bartoldson2024Adversarial_WRN-94-16", "Amini2024MeanSparse_S-WRN-94-16")
    shown = board_table(made)
    column_of = {title: i for i, title in enumerate(shown.columns)}
    line = shown.rows[1]
    assert line[column_of["AutoAttack, linf 8/255"]].split()[0] == "75.3"
    assert line[column_of["best known"]].split()[0] == "73.1"
    assert suite_board(load_suite("robustbench-l2")).entries[0].model == "Wang2023Better_WRN-70-16"
    differing = [
        model
        for model, entry in rows.items()
        if (one := entry.cells["autoattack"].score) and (other := entry.cells["best-known"].score) and one != other
    ]
    assert len(differing) == 16
    assert all(rows[model].footnote for model in differing)


def test_unreliable_entries_are_marked_and_footnotes_are_shown() -> None:
    made = suite_board(load_suite("robustbench-linf"))
    assert {entry.model for entry in made.entries if entry.is_unreliable} == {"Kang2021Stable", "Xiao2020Enhancing"}
    shown = board_table(made)
    marked = next(row[1] for row in shown.rows if row[1].startswith("Kang2021Stable"))
    assert "†" in marked
    number = marked.split("[")[1].rstrip("]")
    note = next(text for text in shown.notes if text.startswith(f"[{number}]"))
    assert "64.20% robust accuracy is due to AutoAttack + transfer APGD" in note
    assert sum("†" in row[1] for row in shown.rows) == 2
    assert any(text.startswith("†") for text in shown.notes)


@pytest.mark.parametrize(
    ("text", "read_as"),
    [
        (r"Uses \(\ell_{\infty} \) = 0.031 ≈ 7.9/255", "Uses linf = 0.031 ≈ 7.9/255"),
        (
            r"Trained for \(\ell_2 \) robustness with \(\varepsilon = 0.5\).",
            "Trained for l2 robustness with radius = 0.5.",
        ),
        ('one<br>two <a href="https://x.org">three</a>', "one two three"),
        ("<script>alert(1)</script>", "alert(1)"),
        ("", ""),
    ],
)
def test_a_footnote_is_text(text: str, read_as: str) -> None:
    assert plain_footnote(text) == read_as
