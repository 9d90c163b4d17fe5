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
    for message in ("suite, 2 scenarios", "What to know.", "changed", "under a", "d+a"):
        assert message in shown
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


def test_a_board_ranks_by_any_score_and_averages_over_its_entries(
    run: Callable[..., Any], tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    store = Store(str(tmp_path / "store"))
    right = {("m", "d"): 9, ("m", "d+a"): 4, ("n", "d"): 7, ("n", "d+a"): 6, ("o", "d"): 8}
    for (model, scenario), count in right.items():
        store.add_rows(rows_for([i < count for i in range(10)], footer=footer_for(model, scenario)))
    first = ["board", "mine.toml", "--store", "store"]
    ranked = json.loads(run(*first, "--by", "a", "--json").out)
    ranks = {each["model"]: each["rank"] for each in ranked["scores"]}
    assert ranks == {"n": 1, "m": 2, "o": None}
    assert "means" not in ranked
    means = json.loads(run(*first, "--column", "*", "--mean", "--json").out)["means"]
    assert [(each["score"], each["n"], round(each["mean"], 9)) for each in means] == [("clean", 3, 0.8), ("a", 2, 0.5)]
    assert abs(means[0]["deviation"] - 0.1) < 1e-9  # of 0.9, 0.7 and 0.8, as of a sample
    assert "80.0 ± 10.0, n 3" in run(*first, "--mean").out
    assert run(*first, "--mean", "--csv").out.splitlines()[0] == "score,unit,mean,deviation,n"
    wrong = run(*first, "--column", "b*")
    assert (wrong.code, "no score of the board" in wrong.err) == (2, True)


def test_scores_over_attacks_are_made_of_a_published_table(run: Callable[..., Any]) -> None:
    words = ("scores", "--benchmark", "multirobustbench", "--store", "empty", "--json")
    made = json.loads(run(*words, "--metric", "cr-exp").out)
    wrong = run(*words, "--metric", "brier")
    assert wrong.code == 2
    assert len(made) == 20
    assert (made[0]["model"], made[0]["value"]) == ("Madaan2021Learning_MNG-AC-RST", 0.7535)  # as the site computes it
    other = run("scores", "--benchmark", "imagenet-testbed", "--store", "empty", "--metric", "cr-exp")
    assert (other.code, "--benchmark multirobustbench" in other.err) == (2, True)
