"""What a suite holds, told by `list` and `show`; details and datasets of its board."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.core.suites import load_suite
from holdfast.store import Footer, Rows, Store

MINE = """
title = "Mine"
dataset = "d"
notes = ["What to know."]
[[part]]
name = "changed"
[[board]]
name = "clean"
scenarios = ["{dataset}"]
[[board]]
name = "a"
title = "under a"
part = "changed"
scenarios = ["{dataset}+a"]
detail = true
"""


def test_a_suite_is_shown_with_its_parts_scores_and_notes(run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    shown = run("show", "mine.toml").out
    for said in ("suite, 2 scenarios", "What to know.", "changed", "under a", "d+a"):
        assert said in shown
    assert "e+a" in run("show", "suite:mine.toml", "--dataset", "e").out


def test_a_bundled_suite_is_shown_with_or_without_its_kind(run: Callable[..., Any]) -> None:
    record = json.loads(run("show", "suite:quick", "--json").out)
    assert record == json.loads(run("show", "quick", "--json").out)
    assert record["scenarios"] == list(load_suite("quick").scenarios)
    assert set(record["parts"]) == {"clean", "corruptions", "attacks", "combinations"}
    wrong = run("show", "suite:quik")
    assert (wrong.code, "did you mean `quick`" in wrong.err) == (2, True)
    listed = {each["name"]: each for each in json.loads(run("list", "suites", "--json").out)}
    assert listed["multirobustbench"]["parts"] == ["ranked", "unranked"]
    assert "AutoLinfAttack" not in listed["multirobustbench"]["board"]


def test_a_board_shows_details_and_other_datasets_when_asked(
    run: Callable[..., Any], tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    store = Store(str(tmp_path / "store"))
    for scenario, right in {"d": 9, "d+a": 4, "e": 5, "e+a": 3}.items():
        store.add_rows(rows_for([i < right for i in range(10)], footer=footer_for("m", scenario)))
    plain = run("board", "mine.toml", "--store", "store").out
    assert "90.0" in plain
    assert "under a" not in plain
    assert "40.0" in run("board", "mine.toml", "--store", "store", "--details").out
    assert "50.0" in run("board", "mine.toml", "--store", "store", "--dataset", "e").out
