"""Every board there is: a model once, ranks without gaps, and one value for one cell wherever a person meets it."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.boards.benchmark_tables import store_board
from holdfast.boards.board_list import BrokenSuite, board_suites
from holdfast.boards.board_text import number_in_unit
from holdfast.boards.entries import Board
from holdfast.core.suites import Suite
from holdfast.site.addresses import slug
from holdfast.site.build import build_site
from holdfast.store import Store
from holdfast.store.exporting import escaped
from holdfast.store.importers import read_results

ROOT = Path(__file__).parents[2]
FILES = Path(os.environ.get("HOLDFAST_PUBLISHED", ROOT.parent / "shared" / "published"))
FOLDERS = {
    "robustbench": "robustbench/model_info",
    "multirobustbench": "multirobustbench",
    "oodrobustbench": "oodrobustbench",
    "imagenet-testbed": "imagenet-testbed",
    "timm": "timm",
    "cifar10-1-predictions": "cifar10.1-predictions",
}
SHARES = ("percent", "fraction")


@dataclass(frozen=True)
class Everything:
    """A store, its boards, and the site made of it."""

    store: Store
    boards: dict[str, tuple[Suite, Board]]
    site: Path


def measured(store: Store, synthetic: Any) -> None:
    """Runs with awkward values: 93.25 %, differences that round to zero, parts, other datasets, printed models."""
    for dataset, model in (
        ("cifar10", "mine"),
        ("cifar10", "resnet18"),
        ("uci-digits", "mine"),
        ("fashion-mnist-2k", "f"),
    ):
        synthetic.add(store, 373 / 400, model=model, dataset=dataset, n=400, population=400)
        for radius, norm in ((8 / 255, "linf"), (0.5, "l2"), (4 / 255, "linf"), (16 / 255, "linf"), (1.0, "l2")):
            attack = synthetic.pgd(radius, f"pgd-{norm}")
            synthetic.add(store, 0.5, attack, model=model, dataset=dataset, n=80, population=400)
    synthetic.add(store, 0.59, model="Carmon2019Unlabeled", n=400, population=400)
    attack = synthetic.pgd(8 / 255, "autoattack-linf")
    synthetic.add(store, 0.3, attack, model="Carmon2019Unlabeled", n=400, population=400)
    synthetic.add(store, 0.7, attack, model="Wong2020Fast", n=40, population=400)


@pytest.fixture(scope="module", params=["fresh", pytest.param("public", marks=pytest.mark.slow)])
def everything(request: Any, synthetic: Any, tmp_path_factory: pytest.TempPathFactory) -> Everything:
    base = tmp_path_factory.mktemp(request.param)
    store = Store(str(base / "store"))
    measured(store, synthetic)
    if request.param == "public":
        if not FILES.is_dir():
            pytest.skip(f"the public files are not at {FILES}")
        for name, folder in FOLDERS.items():
            made = read_results(name, FILES / folder)
            for scores in made.scores:
                store.add_scores(scores)
            for rows in made.rows:
                store.add_rows(rows)
    found = {}
    for suite in board_suites(store):
        assert not isinstance(suite, BrokenSuite)
        found[suite.board_name] = (suite, store_board(suite, store))
    assert not build_site(store, base / "site").failed
    return Everything(store, found, base / "site")


def test_a_model_stands_once_and_ranks_have_no_gaps(everything: Everything) -> None:
    for name, (_, board) in everything.boards.items():
        models = [entry.model for entry in board.entries]
        assert len(set(models)) == len(models), name
        every = [other for entry in board.entries for other in entry.names]
        assert len(set(every)) == len(every), f"{name}: a name belongs to one entry"
        ranks = [entry.rank for entry in board.entries if entry.rank is not None]
        assert ranks == list(range(1, len(ranks) + 1)), name


def test_a_suite_run_on_another_dataset_has_its_board(everything: Everything, run: Callable[..., Any]) -> None:
    assert {"quick on uci-digits", "demo on uci-digits", "quick on cifar10"} <= everything.boards.keys()
    _, board = everything.boards["quick on uci-digits"]
    assert [entry.model for entry in board.entries] == ["mine"]
    listed = json.loads(run("board", "--store", everything.store.url, "--json").out)
    assert {(one["suite"], one["dataset"]) for one in listed} >= {("quick", "uci-digits"), ("demo", "uci-digits")}
    assert (everything.site / f"boards/{slug('quick on uci-digits')}.html").is_file()


def test_predictions_of_others_are_not_measured_here(everything: Everything) -> None:
    imported = {footer.model for footer in everything.store.footers().values() if footer.is_imported}
    for name, (_, board) in everything.boards.items():
        for entry in board.entries:
            assert not (imported & set(entry.names) and entry.is_measured), name
        if imported and name != "multi-id":
            assert not imported & {entry.model for entry in board.entries}, f"{name}: they have only clean accuracy"
    index = (everything.site / "index.html").read_text()
    assert "5 models measured here" in index


def page_of(everything: Everything, suite: Suite) -> dict[str, Any]:
    text = (everything.site / f"boards/{slugged(suite)}.html").read_text()
    found = re.search(r'id="board-data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def slugged(suite: Suite) -> str:
    return slug(suite.board_name)


def page_cells(everything: Everything, suite: Suite) -> dict[tuple[str, str], dict[str, Any]]:
    """Every cell of a page, those that are loaded later included."""
    data = page_of(everything, suite)
    cells = {
        (row["model"], column["name"]): cell
        for row in data["rows"]
        for column, cell in zip(data["columns"], row["cells"], strict=True)
    }
    if data["more"]:
        text = (everything.site / f"boards/data/{data['more']}.js").read_text()
        for name, by_row in json.loads(text.partition("] = ")[2].removesuffix(";\n")).items():
            cells |= {(data["rows"][int(i)]["model"], name): cell for i, cell in by_row.items()}
    return cells


def written(cell: dict[str, Any]) -> str:
    """A cell as a page puts it together."""
    if "value" not in cell:
        return str(cell["text"])
    part = f"n {cell['n']:,}" if cell.get("part") else ""
    return " ".join(filter(None, [cell["text"], cell.get("bounds", ""), part, cell.get("differs", "")]))


def by_cell(text: str) -> dict[tuple[str, str], dict[str, str]]:
    return {(line["model"].removeprefix("'"), line["score"]): line for line in csv.DictReader(io.StringIO(text))}


def words_of(suite: Suite) -> list[str]:
    return [suite.name, *(["--dataset", suite.dataset] if suite.is_moved else [])]


def plotted(everything: Everything, suite: Suite) -> Iterator[tuple[str, str, float]]:
    """Title of the axis, model and value of every point of the board's own scores."""
    text = (everything.site / f"boards/{slugged(suite)}.html").read_text()
    found = re.search(r'data-plot="scatter".*?<script type="application/json">(.*?)</script>', text, re.DOTALL)
    data = json.loads(found[1]) if found else {"axes": [], "models": []}
    for axis in data["axes"]:
        for model, value in zip(data["models"], axis["values"], strict=True):
            if axis["group"] == "board" and value is not None:
                yield axis["title"], model, value


def told_by(text: str) -> list[dict[str, object]]:
    """The cells of a board in JSON, which has no NaN."""
    return list(json.loads(text, parse_constant=pytest.fail)["scores"])


def unequal(ours: list[dict[str, object]], theirs: list[dict[str, object]]) -> list[object]:
    """What differs between two downloads; sums in another order differ in the sixteenth digit."""
    found: list[object] = [] if len(ours) == len(theirs) else [len(ours), len(theirs)]
    for one, other in zip(ours, theirs, strict=False):
        for name in one.keys() | other.keys():
            a, b = one.get(name), other.get(name)
            same = math.isclose(a, b, rel_tol=1e-12) if isinstance(a, float) and isinstance(b, float) else a == b
            if not same:
                found.append((one.get("model"), one.get("score"), name, a, b))
    return found


@pytest.mark.slow
def test_a_cell_has_one_value_wherever_it_is_shown(
    everything: Everything, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "4000")
    compared, points = 0, 0
    for name, (suite, board) in everything.boards.items():
        store = ("--store", everything.store.url)
        told = by_cell(run("board", *words_of(suite), *store, "--csv").out)
        page = page_cells(everything, suite)
        download = by_cell((everything.site / f"downloads/{slugged(suite)}.csv").read_text())
        assert {key: line["shown"] for key, line in told.items()} == {
            key: line["shown"] for key, line in download.items()
        }, name
        as_json = told_by(run("board", *words_of(suite), *store, "--json").out)
        assert unequal(as_json, told_by((everything.site / f"downloads/{slugged(suite)}.json").read_text())) == []
        for record in as_json:
            key = (record["model"], record["score"])
            cell = page[key]
            shown = "" if record["value"] is None else cell["text"]
            assert (record["shown"], told[key]["shown"]) == (shown, shown), (name, key)
            assert shown != "-0.0"
            if record["value"] is not None:
                assert number_in_unit(record["value"], record["unit"]) == shown
                assert float(told[key]["value"]) == pytest.approx(record["value"], rel=1e-12)
                assert cell["value"] == pytest.approx(record["value"], rel=1e-12)
            compared += 1
        latex = run("board", *words_of(suite), *store, "--latex").out
        made = (everything.site / f"downloads/{slugged(suite)}.tex").read_text()
        body = [line.removesuffix(r" \\").split(" & ") for line in latex.splitlines() if line.endswith(r"\\")][1:]
        other = [line.removesuffix(r" \\").split(" & ") for line in made.splitlines() if line.endswith(r"\\")][1:]
        notes = sum(line.startswith("% ") for line in latex.splitlines())
        lines = run("board", *words_of(suite), *store).out.splitlines()
        table = lines[len(lines) - notes - len(board.entries) :]
        assert len(body) == len(other) == len(board.entries)
        for i, entry in enumerate(board.entries):
            cells = [written(page[entry.model, column.name]) for column in board.columns]
            assert body[i][2 : 2 + len(cells)] == other[i][2 : 2 + len(cells)] == [escaped(text) for text in cells]
            assert " ".join(" ".join(cells).split()) in " ".join(table[i].split()), (name, entry.model)
        titles = {column.title or column.name: column for column in board.columns if column.unit in SHARES}
        for title, model, value in plotted(everything, suite):
            column = titles[title]
            assert number_in_unit(value, column.unit) == page[model, column.name]["text"], (name, title, model)
            points += 1
    assert compared > 3000
    assert points > 1000


def test_details_fit_a_terminal_of_80_columns(everything: Everything, run: Callable[..., Any]) -> None:
    for name, (suite, board) in everything.boards.items():
        out = run("board", *words_of(suite), "--store", everything.store.url, "--details").out
        widest = max(out.splitlines(), key=len)
        assert len(widest) <= 80, (name, widest)
        result = " ".join(out.split())
        for column in board.details:
            heading = (column.title or column.name).split()[0]
            assert heading in result, (name, column.name)


def test_a_difference_of_a_board_is_that_of_the_report(everything: Everything) -> None:
    from holdfast.metrics.compare import compare

    text = (everything.site / f"boards/{slug('quick on cifar10')}.html").read_text()
    drawn = {
        kind: json.loads(re.search(rf'data-plot="{kind}".*?json">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
        for kind in ("scatter", "degradation")
    }
    models, axes = drawn["scatter"]["models"], [axis["title"] for axis in drawn["scatter"]["axes"]]
    runs = {footer.scenario: key for key, footer in everything.store.footers().items() if footer.model == "mine"}
    clean = everything.store.read(runs["cifar10"])
    attacked = everything.store.read(runs["cifar10+pgd-linf:radius=8/255"])
    expected = compare(attacked, clean).difference.value
    assert expected != pytest.approx(attacked.correct.mean() - clean.correct.mean(), abs=0.01), (
        "other samples, so it tells"
    )
    i = str(models.index("mine"))
    found = [
        cell[4][i][0]
        for measure in drawn["degradation"]["measures"]
        for cell in measure["cells"]
        if axes[cell[2]] == "linf 8/255" and i in cell[4]
    ]
    assert found
    assert found == pytest.approx([expected] * len(found), abs=1e-9)
