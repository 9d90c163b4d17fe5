"""Boards: means that are whole or not shown, places, and where every number comes from."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable
from csv import DictReader
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.boards.board_text import records
from holdfast.boards.suite_board import suite_board
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import wilson
from holdfast.core.registry import registry
from holdfast.core.suites import Column, Suite, load_suite
from holdfast.core.table import table
from holdfast.core.types import ModelCard
from holdfast.metrics.compare import unpaired
from holdfast.metrics.multi_attack import CLEAN, Strength, battery, competitiveness, knowledge
from holdfast.metrics.stability import stability
from holdfast.store import Footer, Rows, Store
from holdfast.store.footer import ChangeRecord
from holdfast.store.importers import read_results
from holdfast.store.published import published
from holdfast.store.scores import Scores
from holdfast.trends.testbed import standard_models

ROOT = Path(__file__).parents[3]
FILES = Path(os.environ.get("HOLDFAST_PUBLISHED", ROOT.parent / "shared" / "published"))
needs_files = pytest.mark.skipif(not FILES.is_dir(), reason="the public result files are not on this machine")

SUITE = Suite(
    name="mine",
    title="Mine",
    scenarios=("d", "d+a", "d+b", "e"),
    sort="all",
    board=(
        Column("clean", scenarios=(("d",),), settings=(("val",),)),
        Column("changed", scenarios=(("d+a", "d+b"), ("e",)), settings=(("x", "y"), ("z",))),
        Column("all", of=("clean", "changed")),
    ),
)
TESTBED = published("imagenet-testbed").table
WHOLE = [
    model
    for model in TESTBED.models
    if not any(
        math.isnan(TESTBED.of([model]).column(name)[0])
        for name in ("imagenet", "imagenetv2-effective-robustness", "average-corruptions", "average-pgd")
    )
]
RIGHT = {"d": 9, "d+a": 4, "d+b": 6, "e": 7}


@pytest.fixture
def measured(tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]) -> Callable[..., Store]:
    def make(models: dict[str, dict[str, int]], population: int = 10) -> Store:
        store = Store(str(tmp_path / "store"))
        for model, results in models.items():
            for scenario, right in results.items():
                footer = footer_for(model, scenario, population=population)
                store.add_rows(rows_for([i < right for i in range(10)], footer=footer))
        return store

    return make


def test_a_column_is_the_mean_of_its_terms_not_of_its_cells(measured: Callable[..., Store]) -> None:
    (entry,) = suite_board(SUITE, measured({"m": RIGHT})).entries
    assert entry.cells["changed"].score is not None
    assert entry.cells["changed"].score.value == pytest.approx((0.5 + 0.7) / 2)
    assert entry.cells["all"].score is not None
    assert entry.cells["all"].score.value == pytest.approx((0.9 + 0.6) / 2)
    assert entry.is_complete
    assert (entry.rank, entry.origin, entry.missing) == (1, "measured", "")


def test_nothing_is_averaged_over_a_missing_result(measured: Callable[..., Store]) -> None:
    without = {name: right for name, right in RIGHT.items() if name != "d+b"}
    whole, part = suite_board(SUITE, measured({"part": without, "whole": RIGHT})).entries
    assert (whole.model, whole.rank) == ("whole", 1)
    assert (part.model, part.rank) == ("part", None)
    assert part.cells["changed"].score is None
    assert (part.cells["changed"].have, part.cells["changed"].of) == (2, 3)
    assert part.cells["all"].score is None
    assert part.missing == "changed 2 of 3, all 3 of 4"
    assert not part.is_complete
    assert [entry.model for entry in suite_board(SUITE, measured({})).complete().entries] == ["whole"]


def test_a_part_of_the_samples_is_marked(measured: Callable[..., Store]) -> None:
    (entry,) = suite_board(SUITE, measured({"m": RIGHT}, population=100)).entries
    assert all(cell.is_partial for cell in entry.cells.values())


def test_imported_settings_make_columns_and_own_names_count_as_they_are(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    cells = {("raw", "val"): 0.9, ("raw", "x"): 0.2, ("raw", "y"): 0.4, ("raw", "z"): 0.5, ("ready", "all"): 0.6}
    store.add_scores(Scores("mine", table(cells, counts={("raw", "val"): 100}, source="a file")))
    raw, ready = suite_board(SUITE, store).entries
    assert raw.cells["changed"].score is not None
    assert raw.cells["changed"].score.value == pytest.approx(0.4)
    assert raw.cells["clean"].score is not None
    assert raw.cells["clean"].score.n == 100
    assert raw.cells["changed"].score.n == 0
    assert ready.rank == 2
    assert ready.cells["all"].source == "a file"
    assert ready.missing == "clean 0 of 1, changed 0 of 3"


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=8))
def test_bounds_over_a_column_are_those_of_one_share(pairs: list[tuple[int, int]]) -> None:
    pairs = [(min(right, n), n) for right, n in pairs]
    cells = {(f"m{i}", "all"): right / n for i, (right, n) in enumerate(pairs)}
    counts = {(f"m{i}", "all"): n for i, (_, n) in enumerate(pairs)}
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        store.add_scores(Scores("mine", table(cells, counts=counts)))
        entries = {entry.model: entry for entry in suite_board(SUITE, store).entries}
    for i, (right, n) in enumerate(pairs):
        score = entries[f"m{i}"].cells["all"].score
        assert score is not None
        expected = wilson(right, n)
        assert (score.low, score.high, score.n) == pytest.approx((expected.low, expected.high, n), abs=1e-12)


def test_of_equal_scores_the_name_decides_and_no_rank_stands_twice(measured: Callable[..., Store]) -> None:
    worse = RIGHT | {"d": 5}
    entries = suite_board(SUITE, measured({"b": RIGHT, "a": RIGHT, "c": worse})).entries
    assert [(entry.model, entry.rank) for entry in entries] == [("a", 1), ("b", 2), ("c", 3)]


def test_lower_is_better_where_a_column_says_so(measured: Callable[..., Store]) -> None:
    suite = Suite("s", "S", (), sort="clean", board=(Column("clean", better="lower", scenarios=(("d",),)),))
    entries = suite_board(suite, measured({"a": {"d": 9}, "b": {"d": 3}})).entries
    assert [entry.model for entry in entries] == ["b", "a"]


def test_what_is_not_on_a_board_cannot_sort_it() -> None:
    with pytest.raises(Misuse, match="has no score `speed`"):
        suite_board(SUITE, sort="speed")
    with pytest.raises(Misuse, match="declares no board"):
        suite_board(Suite("s", "S", ("d",)))


@pytest.mark.parametrize(
    ("name", "entries", "complete"),
    [
        ("oodrobustbench-cifar10-linf", 20, 20),
        ("oodrobustbench-cifar10-l2", 19, 19),
        ("oodrobustbench-imagenet-linf", 20, 20),
        ("multirobustbench", 21, 20),
        ("imagenet-testbed", 196, len(WHOLE)),
    ],
)
def test_a_fresh_install_has_the_boards_of_the_papers(name: str, entries: int, complete: int) -> None:
    made = suite_board(load_suite(name))
    assert len(made.entries) == entries
    assert len(made.complete().entries) == complete
    assert all(record["source"] for record in records(made) if record["value"] is not None)


@pytest.mark.parametrize("name", ["cifar10-linf", "cifar10-l2", "imagenet-linf"])
def test_places_on_the_boards_follow_the_printed_ones(name: str) -> None:
    made = suite_board(load_suite(f"oodrobustbench-{name}"))
    printed_table = published(f"oodrobustbench-{name}").table
    printed = [float(printed_table.of([entry.model]).column("rank-ood")[0]) for entry in made.entries]
    # the paper ranked before it cut numbers off: equal printed scores may stand in either order
    values = [entry.cells["ood-robustness"].score for entry in made.entries]
    for i in range(len(printed) - 1):
        one, other = values[i], values[i + 1]
        assert one is not None
        assert other is not None
        assert printed[i] < printed[i + 1] or one.value == other.value


PRINTED_AND_PUBLIC = (
    "Madaan2021Learning_MNG-AC-RST",
    "Rebuffi2021Fixing_L2",
    "Madaan2021Learning_MNG-AC",
    "Dai2022Formulating_LPIPS",
    "LaidLaw2021Perceptual",
    "Jin2020Manifold",
)


@needs_files
def test_ratios_of_the_public_multirobustbench_are_the_printed_ones(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for scores in read_results("multirobustbench", FILES / "multirobustbench").scores:
        store.add_scores(scores)
    entries = {entry.model: entry for entry in suite_board(load_suite("multirobustbench"), store).entries}
    compared = 0
    for theirs in PRINTED_AND_PUBLIC:
        assert entries[theirs].every_origin == ("imported", "published")
        for name, cell in entries[theirs].cells.items():
            unit = 1 if name == "stability-constant" else 100
            for other in cell.others:
                assert cell.score is not None
                assert cell.origin == "imported"
                assert unit * abs(cell.score.value - other.score.value) <= 0.0051, (theirs, name)  # printed to 0.01
                compared += 1
    assert compared == 24 + 6 * 5  # printed in the paper, and shown by its site
    croce = entries["Croce2022Adversarial_Linf"].cells["cr-ind-avg"]
    assert (croce.score, croce.have, croce.of) == (None, 101, 181)


@pytest.fixture
def swept(
    tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> Callable[..., tuple[Store, dict[Strength, float]]]:
    """A store with a clean run and sweeps of MultiRobustBench, and the accuracies counted sample by sample."""

    def make(
        leave_out: int = 0, threats: tuple[str, ...] = (), best: bool = True
    ) -> tuple[Store, dict[Strength, float]]:
        random = np.random.default_rng(0)
        store, (part, _) = Store(str(tmp_path / "swept")), load_suite("multirobustbench").parts
        right = random.random(200) < 0.8
        accuracies = {CLEAN: float(right.mean())}
        card = ModelCard("m", "m", 10, threats=threats)
        store.add_rows(rows_for(right.tolist(), footer=footer_for("m", "cifar10", card=card, population=200)))
        for text, name in list(zip(part.scenarios, part.settings, strict=True))[1 : 10 - leave_out]:
            (change,) = registry.scenario(text).changes
            radii = [float(radius) for radius in change.arg("radii")]
            index = np.where(right, random.integers(1, 22, 200), 0)  # of the radius that breaks a sample; 21: none does
            smallest = np.array([0.0, *radii, math.inf], dtype=np.float32)[index]
            footer = footer_for("m", text, card=card, population=200, changes=(ChangeRecord.of(change),))
            store.add_rows(rows_for((index > 20).tolist(), footer=footer, radii=smallest))
            for i, radius in enumerate(radii, start=1):
                accuracies[Strength(name, radius)] = int((index > i).sum()) / 200
        if best:
            store.add_scores(Scores("multirobustbench", table(best_accuracies(), source="ata_accs.json")))
        return store, accuracies

    return make


def best_accuracies() -> dict[tuple[str, str], float]:
    (part, _), random = load_suite("multirobustbench").parts, np.random.default_rng(1)
    cells = {("acc*", "NoAttack"): 0.94}
    for text, name in list(zip(part.scenarios, part.settings, strict=True))[1:]:
        for radius in registry.scenario(text).changes[0].arg("radii"):
            cells["acc*", f"{name}/{radius:g}"] = float(random.uniform(0.3, 0.93))
    return cells


def test_ratios_from_our_own_sweeps_are_those_of_the_accuracies_counted(
    swept: Callable[..., tuple[Store, dict[Strength, float]]],
) -> None:
    store, accuracies = swept(threats=("pgd-linf:radius=8/255",))
    entries = {entry.model: entry for entry in suite_board(load_suite("multirobustbench"), store).entries}
    cells = entries["m"].cells
    best = {
        CLEAN if setting == "NoAttack" else Strength(setting.split("/")[0], float(setting.split("/")[1])): value
        for (_, setting), value in best_accuracies().items()
    }
    direct = battery({entry: accuracies[entry] for entry in best}, best, n=200)
    assert len(direct) == 181
    trained = {"AutoLinfAttack": 8 / 255}
    expected = {
        "clean-accuracy": accuracies[CLEAN],
        "cr-ind-avg": competitiveness(direct).average.value,
        "cr-ind-worst": competitiveness(direct).individual_worst.value,
        "stability-constant": stability(direct, trained).constant.value,
        "attacks-seen": knowledge(direct.entries, trained).share,
    }
    assert {name: cell.score.value for name, cell in cells.items() if cell.score} == pytest.approx(expected)
    assert expected["attacks-seen"] == 7 / 181  # no attack, and six strengths up to 8/255
    average = cells["cr-ind-avg"]
    assert average.score is not None
    assert average.score.low < average.score.value < average.score.high
    assert (average.have, average.of, average.source) == (181, 181, "measured here; acc*: ata_accs.json")
    strengths = [value for entry, value in accuracies.items() if entry.attack == "AutoLinfAttack"]
    linf = entries["m"].details["AutoLinfAttack"].score
    assert linf is not None
    assert linf.value == pytest.approx(sum(strengths) / 20)
    assert entries["m"].is_complete
    assert entries["m"].details["Hue"].score is None


def test_a_ratio_is_not_taken_over_missing_sweeps_nor_without_the_best_known(
    swept: Callable[..., tuple[Store, dict[Strength, float]]],
) -> None:
    store, _ = swept(leave_out=2, best=False)
    suite = load_suite("multirobustbench")
    entry = next(entry for entry in suite_board(suite, store).entries if entry.model == "m")
    assert entry.rank is None
    assert (entry.cells["cr-ind-avg"].have, entry.cells["cr-ind-avg"].of) == (141, 181)
    assert "cr-ind-avg 141 of 181" in entry.missing
    store, _ = swept(best=False)
    entry = next(entry for entry in suite_board(suite, store).entries if entry.model == "m")
    made = entry.cells["cr-ind-avg"]  # acc* comes with the package, and is named as what it rests on
    assert made.score is not None
    assert "acc*: multirobustbench.github.io, data/ata_accs.js" in made.source
    entry = next(e for e in suite_board(replace(suite, published=()), store).entries if e.model == "m")
    assert entry.cells["cr-ind-avg"].score is None
    assert "import a table with a row `acc*`" in entry.cells["cr-ind-avg"].note
    assert entry.cells["attacks-seen"].score is not None


def test_effective_robustness_is_the_distance_from_the_line_that_a_suite_states(
    measured: Callable[..., Store], tmp_path: Path
) -> None:
    line = Column("er", of=("e", "d"), score="effective-robustness", unit="points", weights=(0.9,), intercept=-0.5)
    suite = Suite(
        "s", "S", (), sort="d", board=(Column("d", scenarios=(("d",),)), Column("e", scenarios=(("e",),)), line)
    )
    expected = 0.7 - 1 / (1 + math.exp(0.5 - 0.9 * math.log(0.9 / 0.1)))
    (entry,) = suite_board(suite, measured({"m": RIGHT})).entries
    score = entry.cells["er"].score
    assert score is not None
    assert score.value == pytest.approx(expected)
    assert score.low < expected < score.high
    store = Store(str(tmp_path / "imported"))
    store.add_scores(Scores("s", table({("x", "d"): 0.9, ("x", "e"): 0.7, ("y", "d"): 1.0, ("y", "e"): 0.7})))
    one, other = sorted(suite_board(suite, store).entries, key=lambda each: each.model)
    assert one.cells["er"].score is not None
    assert one.cells["er"].score.value == pytest.approx(expected)
    assert other.cells["er"].score is None, "an accuracy of 1 has no logit"
    edge = next(e for e in suite_board(suite, measured({"edge": {"d": 10, "e": 7}})).entries if e.model == "edge")
    assert (edge.cells["er"].score, edge.cells["er"].note) == (None, "an accuracy of 0 or 1 has no place on the line")


def test_a_metric_makes_a_column_against_its_reference(measured: Callable[..., Store]) -> None:
    column = Column("stays", score="prediction-agreement", reference="d", scenarios=(("d+a", "d+b"),))
    suite = Suite("s", "S", (), sort="stays", board=(column,))
    entries = suite_board(suite, measured({"whole": RIGHT, "part": {"d+a": 4, "d+b": 6}})).entries
    score = entries[0].cells["stays"].score
    assert score is not None
    assert score.value == pytest.approx((0.5 + 0.7) / 2)  # 9 right before: 4 and one wrong alike, 6 and one
    assert entries[1].missing == "stays 2 of 3"
    with pytest.raises(Misuse, match="no score or metric named `prediction-agreemant`"):
        suite_board(replace(suite, board=(replace(column, score="prediction-agreemant"),)))


def test_a_metric_that_cannot_be_had_says_why(measured: Callable[..., Store]) -> None:
    suite = Suite("s", "S", (), board=(Column("x", score="mean-over-radii", scenarios=(("d+a",),)),), sort="x")
    (entry,) = suite_board(suite, measured({"m": RIGHT})).entries
    assert entry.missing == "x (`d+a` is no sweep)"


def test_an_entry_may_lack_details(measured: Callable[..., Store]) -> None:
    columns = (Column("clean", scenarios=(("d",),)), Column("more", scenarios=(("e", "z"),), detail=True))
    made = suite_board(Suite("s", "S", (), sort="clean", board=columns), measured({"m": RIGHT}))
    (entry,) = made.entries
    assert entry.is_complete
    assert [column.name for column in made.columns] == ["clean"]
    assert [column.name for column in made.details] == ["more"]
    assert (entry.cell("more").have, entry.cell("more").of) == (1, 2)
    assert [record["detail"] for record in records(made)] == [False, True]


@needs_files
def test_lines_of_the_testbed_suite_are_those_of_its_public_results(tmp_path: Path) -> None:
    (scores,) = read_results("imagenet-testbed", FILES / "imagenet-testbed").scores
    store = Store(str(tmp_path))
    store.add_scores(scores)
    suite = load_suite("imagenet-testbed")
    standard = set(standard_models(scores.table))
    entries = [e for e in suite_board(suite, store).entries if e.origin == "imported" and e.model in standard]
    lines = [column for column in suite.board if column.weights and column.pivot is None]
    assert len(lines) == 11
    for column in lines:
        pairs = [(entry.cell(column.of[0]).score, entry.cell(column.of[1]).score) for entry in entries]
        known = [(y.value, x.value) for y, x in pairs if y is not None and x is not None]
        y, x = (np.log(np.array(each) / (1 - np.array(each))) for each in zip(*known, strict=True))
        slope, intercept = np.polyfit(x, y, 1)
        assert (slope, intercept) == pytest.approx((column.weights[0], column.intercept), abs=1e-6), column.name
        assert column.line.startswith(f"{len(known)} standard models")


@needs_files
def test_piecewise_and_relative_robustness_are_those_of_the_public_file_for_every_model(tmp_path: Path) -> None:
    """Computed from the CSV alone: lines by numpy over the models named STANDARD, and differences to ResNet-50."""
    folder = FILES / "imagenet-testbed"
    with (folder / "robustness_top1s_2020-08-31_28477dc.csv").open(newline="") as file:
        rows = {
            row["model"]: {k: float(v) / 100 for k, v in row.items() if k != "model" and v} for row in DictReader(file)
        }
    types = json.loads((folder / "model_types_28477dc.json").read_text())
    standard = [
        m
        for m in rows
        if types[m]["nat"] == "STANDARD" and not any(word in m for word in ("aws", "batch64", "subsample"))
    ]
    assert len(standard) == 78
    store = Store(str(tmp_path))
    for scores in read_results("imagenet-testbed", folder).scores:
        store.add_scores(scores)
    entries = {entry.model: entry for entry in suite_board(load_suite("imagenet-testbed"), store).entries}

    def line(y: str, x: str, models: list[str]) -> tuple[float, float]:
        both = [(rows[m][x], rows[m][y]) for m in models if x in rows[m] and y in rows[m]]
        xs, ys = np.array(both).T
        slope, intercept = np.polyfit(np.log(xs / (1 - xs)), np.log(ys / (1 - ys)), 1)
        return float(slope), float(intercept)

    def expected(made: tuple[float, float], share: float) -> float:
        return float(1 / (1 + np.exp(-(made[0] * np.log(share / (1 - share)) + made[1]))))

    y, x = "imagenet-a", "val-on-imagenet-a-classes"
    pivot = rows["resnet50"][x]
    assert rows["resnet50"][y] == 0
    below = line(y, x, [m for m in standard if rows[m][x] < pivot])
    above = line(y, x, [m for m in standard if rows[m][x] > pivot])
    checked = 0
    for model, row in rows.items():
        if x in row and y in row:
            beyond = row[y] - expected(below if row[x] <= pivot else above, row[x])
            score = entries[model].cell("imagenet-a-effective-robustness").score
            assert score is not None
            assert score.value == pytest.approx(beyond, abs=1e-5)  # lines are kept with six decimals
            checked += 1
    assert checked == sum(x in row and y in row for row in rows.values()) >= 200
    for name, y, x in (
        ("imagenet-vid-robust-pm10", "imagenet-vid-robust_pm10", "imagenet-vid-robust_pm0"),
        ("ytbb-robust-pm10", "ytbb-robust_pm10", "ytbb-robust_pm0"),
    ):
        made = line(y, x, standard)
        for model, row in rows.items():
            if x in row and y in row:
                score = entries[model].cell(f"{name}-effective-robustness").score
                assert score is not None
                assert score.value == pytest.approx(row[y] - expected(made, row[x]), abs=1e-5)
    for name, y in (
        ("imagenetv2", "imagenetv2-matched-frequency-format-val"),
        ("objectnet", "objectnet-1.0-beta"),
        ("imagenet-vid-robust-pm0", "imagenet-vid-robust_pm0"),
        ("ytbb-robust-pm0", "ytbb-robust_pm0"),
        ("imagenet-vid-robust-pm10", "imagenet-vid-robust_pm10"),
        ("ytbb-robust-pm10", "ytbb-robust_pm10"),
        ("imagenet-a", "imagenet-a"),
    ):
        for model, row in rows.items():
            score = entries[model].cell(f"{name}-relative-robustness").score
            assert (score is None) == (y not in row), (name, model)
            if score is not None:
                assert score.value == pytest.approx(row[y] - rows["resnet50"][y], abs=1e-9)


@needs_files
def test_effective_robustness_of_the_public_testbed_is_the_printed_one(tmp_path: Path) -> None:
    store, name = Store(str(tmp_path)), "imagenetv2-effective-robustness"
    for scores in read_results("imagenet-testbed", FILES / "imagenet-testbed").scores:
        store.add_scores(scores)
    entries = suite_board(load_suite("imagenet-testbed"), store).entries
    cells = [entry.cells[name] for entry in entries]
    compared = [100 * abs(c.score.value - o.score.value) for c in cells if c.score is not None for o in c.others]
    assert len(compared) >= 170
    assert sum(difference <= 0.0051 for difference in compared) >= len(compared) - 6  # 6 of 183 differ in print


@needs_files
def test_averages_of_the_public_testbed_are_the_printed_ones(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for scores in read_results("imagenet-testbed", FILES / "imagenet-testbed").scores:
        store.add_scores(scores)
    entries = suite_board(load_suite("imagenet-testbed"), store).entries
    close = {"average-corruptions": 0, "average-pgd": 0}
    for entry in entries:
        for name in close:
            cell = entry.cells[name]
            for other in cell.others:
                assert cell.score is not None
                close[name] += 100 * abs(cell.score.value - other.score.value) <= 0.0051
    assert close["average-corruptions"] == 195
    assert close["average-pgd"] >= 172


def test_printed_scores_are_compared_without_pairs() -> None:
    made = unpaired(published("imagenet-testbed"), "resnet50", "vgg19")
    by = {each.setting: each for each in made}
    assert by["imagenet"].difference.value == pytest.approx(0.0375)
    assert by["imagenet"].verdict == "higher"
    assert by["imagenet"].record()["n"] == 50000
    assert by["average-corruptions"].verdict == "counts unknown"
    assert math.isnan(by["average-corruptions"].difference.low)
    assert by["average-corruptions"].texts() == ("41.59", "32.43", "+9.16", "")
    (one,) = unpaired(published("imagenet-testbed"), "resnet50", "vgg19", settings=["imagenet"])
    assert one.texts()[2].startswith("+3.75 [")
    with pytest.raises(HoldfastError, match="share no setting"):
        unpaired(Scores("x", table({("a", "s"): 0.5, ("b", "t"): 0.5})), "a", "b")
    with pytest.raises(Misuse, match="no setting named `imagenets`"):
        unpaired(published("imagenet-testbed"), "resnet50", "vgg19", settings=["imagenets"])
