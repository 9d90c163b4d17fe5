"""The data of the interactive plots: which there are, and that their numbers are those of metrics and trends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simulated
from synthetic import add, pgd

from holdfast.boards.suite_board import suite_board
from holdfast.core.suites import Column, Suite, load_suite, suites
from holdfast.core.table import Table
from holdfast.metrics.along_ratios import over_adversarial_ratio
from holdfast.site.plots import Plot, agreement_curves, plots_of
from holdfast.site.plots.points import points_of
from holdfast.site.plots.scatter import AxisPair, fitted_models, line_record
from holdfast.site.report import inline_json
from holdfast.store.scores import Scores
from holdfast.store.store import Store
from holdfast.trends.bands import band
from holdfast.trends.fits import fit

KINDS = {"scatter", "plane", "attacks", "single", "degradation", "agreement"}
MEGABYTE = 2**20


def made(suite: Suite, store: Store) -> dict[str, Any]:
    """The data of every plot as a page has it, by id."""
    plots = plots_of(suite, suite_board(suite, store), store)
    assert len({plot.id for plot in plots}) == len(plots)
    return {plot.id: json.loads(inline_json(plot.data)) for plot in plots}


@pytest.mark.parametrize("name", [name for name in suites() if load_suite(name).published])
def test_what_papers_print_is_drawn_without_any_run(name: str, store: Store) -> None:
    suite = load_suite(name)
    shown = suite_board(suite, store)
    plots: list[Plot] = plots_of(suite, shown, store)
    assert {plot.kind for plot in plots} <= KINDS
    assert all(plot.title and plot.about for plot in plots)
    if any(column.unit == "percent" for column in shown.columns) and len(shown.entries) > 2:
        assert plots[0].id in ("scatter", "attacks")


def test_a_line_and_its_band_are_those_of_trends(store: Store) -> None:
    suite = load_suite("oodrobustbench-cifar10-linf")
    data = made(suite, store)["scatter"]
    x, y = (data["axes"][data["lines"][0][k]]["values"] for k in "xy")
    table = Table(tuple(data["models"]), ("x", "y"), np.array([x, y]).T, np.zeros((len(x), 2), dtype=np.int64))
    for space in ("linear", "logit", "probit"):
        line, drawn = fit(table, "y", "x", space=space), data["lines"][0][space]
        assert drawn["slope"] == pytest.approx(line.slope, abs=1e-6)
        assert drawn["intercept"] == pytest.approx(line.intercept, abs=1e-6)
        expected = band(line, np.array(drawn["at"]))
        assert drawn["low"] == pytest.approx(expected.low, abs=1e-4)  # places are rounded to five digits
        assert drawn["high"] == pytest.approx(expected.high, abs=1e-4)


def test_measured_models_are_placed_and_not_fitted_on(tmp_path: Path) -> None:
    suite = simulated.suite(tmp_path, simulated.SHIFTS)
    store = simulated.measured_store(tmp_path / "store")
    points = points_of(suite, suite_board(suite, store), store)
    measured = np.array([entry.origin == "measured" for entry in points.entries])
    assert measured.sum() == 2
    assert not fitted_models(points, suite)[measured].any()
    total = sum(points.axes[points.axis_of(name)].values for name in ("id-accuracy", "id-robustness"))
    assert (fitted_models(points, suite) == (~measured & (total >= 1.10 - 1e-12))).all()


def test_a_zoo_measured_here_has_its_own_line_where_nobody_else_has_the_scores(tmp_path: Path, store: Store) -> None:
    text = """
        title = "Zoo"
        dataset = "cifar10"
        published = ["oodrobustbench-cifar10-linf"]
        lists = {kinds = ["fog"]}
        board = [
            {name = "id-accuracy", scenarios = ["{dataset}"]},
            {name = "{each}-accuracy", each = "kinds", detail = true, scenarios = ["{dataset}+{each}:severity={1,3}"]},
        ]
    """
    suite = simulated.suite(tmp_path, text)
    for i in range(5):
        add(store, 0.7 + 0.05 * i, model=f"ours-{i}")
        for severity in (1, 3):
            add(store, 0.7 + 0.04 * i - 0.1 * severity, simulated.fog(severity), model=f"ours-{i}")
    points = points_of(suite, suite_board(suite, store), store)
    x, y = points.axis_of("id-accuracy"), points.axis_of("fog-accuracy")
    assert x is not None
    assert y is not None
    assert points.axes[y].values[np.isfinite(points.axes[y].values)].size == 5
    made = line_record(points, AxisPair(x, y), fitted_models(points, suite))["linear"]
    assert isinstance(made, dict)
    assert made["all"]
    assert made["n"] == 5
    assert made["slope"] == pytest.approx(0.8, abs=1e-6)
    assert made["r2"] == pytest.approx(1.0)


def test_a_model_that_is_printed_and_imported_counts_once(tmp_path: Path, store: Store) -> None:
    suite = simulated.suite(tmp_path, simulated.SHIFTS)
    printed = suite_board(suite).entries[0].model
    values = np.array([[0.9, 0.8, 0.7, 0.5]])
    names = ("id-accuracy", "ood-d-accuracy", "id-robustness", "ood-d-robustness")
    store.add_scores(Scores("oodrobustbench-cifar10-linf", Table((printed,), names, values, np.zeros((1, 4), int))))
    points = points_of(suite, suite_board(suite, store), store)
    kept = [entry.origin for entry, fitted in zip(points.entries, fitted_models(points, suite), strict=True)
            if entry.model == printed and fitted]  # fmt: skip
    assert kept == ["imported"]


def test_a_setting_and_the_scenario_that_measures_it_are_one_axis(tmp_path: Path, store: Store) -> None:
    text = """
        title = "Joined"
        dataset = "cifar10"
        part = [{name = "all", scenarios = ["cifar10+fog:severity=3"], settings = ["fog.3"]}]
        board = [{name = "clean", scenarios = ["{dataset}"]}]
    """
    suite = simulated.suite(tmp_path, text)
    add(store, 0.9, model="ours")
    add(store, 0.7, simulated.fog(3), model="ours")
    store.add_scores(
        Scores("made-up", Table(("theirs",), ("clean", "fog.3"), np.array([[0.9, 0.6]]), np.ones((1, 2), int)))
    )
    points = points_of(suite, suite_board(suite, store), store)
    axis = points.axes[points.axis_of("fog.3")]
    assert points.axis_of("cifar10+fog:severity=3") == points.axis_of("fog.3")
    assert dict(zip([e.model for e in points.entries], axis.values, strict=True)) == {"ours": 0.7, "theirs": 0.6}


def test_a_plane_goes_over_two_references(tmp_path: Path, store: Store) -> None:
    suite = simulated.suite(tmp_path, simulated.PLANE)
    scores = simulated.on_a_plane(30)
    store.add_scores(scores)
    shown = suite_board(suite, store)
    assert "plane" not in {plot.id for plot in plots_of(suite, shown, store)}
    beyond = Column("beyond", score="effective-robustness", of=("imagenet-v2", "imagenet", "yfcc"))
    plots = plots_of(replace(suite, board=(*suite.board, beyond)), shown, store)
    (drawn, *_) = next(json.loads(inline_json(plot.data)) for plot in plots if plot.id == "plane")["planes"]
    expected = fit(scores.table, "v2-125", ("imagenet-125", "yfcc-125"))
    assert drawn["logit"]["weights"] == pytest.approx(expected.weights, abs=1e-6)
    assert drawn["logit"]["intercept"] == pytest.approx(expected.intercept, abs=1e-6)
    assert drawn["logit"]["mae"] == pytest.approx(expected.mae, abs=1e-5)


def test_without_the_accuracies_of_each_attack_the_plot_says_how_to_get_them(store: Store) -> None:
    data = made(load_suite("multirobustbench"), store)["attacks"]
    assert data["models"] == []
    assert "holdfast import multirobustbench" in data["missing"]


def test_every_accuracy_of_a_battery_is_there_in_full(tmp_path: Path, store: Store) -> None:
    suite = simulated.suite(tmp_path, simulated.MANY_ATTACKS)
    scores = simulated.battery(("one", "two", "three"))
    store.add_scores(scores)
    data = made(suite, store)["attacks"]
    table = scores.table
    assert [attack["name"] for attack in data["attacks"]] == list(simulated.ATTACKS)
    assert [attack["ranked"] for attack in data["attacks"]] == [True, True, True, False]
    for model in data["models"]:
        row = table.values[table.models.index(model["name"])]
        flat = [model["clean"], *(value for attack in model["accuracies"] for value in attack)]
        assert [np.nan if value is None else value for value in flat] == pytest.approx(row, abs=1e-9, nan_ok=True)
    assert data["models"][1]["trained"] == {"AutoLinfAttack": 0.05}
    assert data["models"][2]["official"] == [None, None, None]  # it lacks an attack


def test_a_sweep_answers_every_strength_and_a_sample_broken_at_one_does_not_survive_it(
    tmp_path: Path, store: Store
) -> None:
    suite = simulated.suite(tmp_path, simulated.MANY_ATTACKS)
    store.add_scores(simulated.battery(("theirs", "other")))
    simulated.add_sweep(store, [0.0, 0.025, 0.1, 0.1, float("inf")])
    (ours,) = [model for model in made(suite, store)["attacks"]["models"] if model["name"] == "ours"]
    assert ours["clean"] == 0.8
    assert ours["accuracies"][0] == [0.6, 0.6, 0.6, 0.2]
    assert ours["accuracies"][1] == [None] * 4
    assert ours["trained"] == {"AutoLinfAttack": pytest.approx(8 / 255)}


def test_a_shift_is_compared_with_the_same_attack_without_it(tmp_path: Path) -> None:
    suite = simulated.suite(tmp_path, simulated.SHIFTS)
    store = simulated.measured_store(tmp_path / "store")
    data = made(suite, store)
    axes = [axis["title"] for axis in data["scatter"]["axes"]]
    measures = {
        one["title"]: {
            (shift, level): (axes[axis], axes[reference]) for shift, level, axis, reference, _ in one["cells"]
        }
        for one in data["degradation"]["measures"]
    }
    assert measures["Accuracy"]["fog", "2"] == ("cifar10+fog:severity=2", "accuracy, ID")
    assert measures["Accuracy"]["cifar10.1", ""] == ("cifar10.1", "accuracy, ID")
    under = measures["Under mm5-linf:radius=8/255"]
    assert under["jpeg", "3"] == ("cifar10+jpeg:severity=3+mm5-linf:radius=8/255", "robustness, ID")
    attacked = measures["Attacks, against no attack"]
    assert attacked["mm5-linf", "16/255"] == ("cifar10+mm5-linf:radius=16/255", "accuracy, ID")
    assert measures["Scores of the board"]["robustness, OOD_d", ""] == ("robustness, OOD_d", "robustness, ID")


def test_agreement_over_ratios_is_that_of_the_metric(tmp_path: Path) -> None:
    suite = simulated.suite(tmp_path, simulated.SHIFTS)
    store = simulated.measured_store(tmp_path / "store", ("ours",))
    curves = {curve["scenario"]: curve for curve in made(suite, store)["agreement"]["curves"]}
    assert set(curves) == {f"cifar10+mm5-linf:radius={radius}/255" for radius in (4, 8, 16)}
    curve = curves["cifar10+mm5-linf:radius=8/255"]
    keys = {footer.scenario: key for key, footer in store.footers().items()}
    expected = over_adversarial_ratio(store.read(keys["cifar10"]), store.read(keys[curve["scenario"]]), resamples=200)
    assert [value for value, _, _ in curve["agreement"]] == pytest.approx(
        [point.agreement.score.value for point in expected], abs=1e-5
    )
    assert curve["afr_t"][-1] == pytest.approx(
        [expected[-1].afr_t.value, expected[-1].afr_t.low, expected[-1].afr_t.high], abs=1e-5
    )
    assert curve["radius"] == pytest.approx(8 / 255)


def test_curves_are_computed_once_and_kept_in_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of many runs; a kept file that is damaged is made again, and a store stays sound with them."""
    suite = simulated.suite(tmp_path, simulated.SHIFTS)
    store = simulated.measured_store(tmp_path / "store", ("ours",))
    first = made(suite, store)["agreement"]["curves"]
    last = first[-1]
    assert all(len(last[name]) == len(last["ratios"]) == 11 for name in ("beta", "before", "after"))
    assert last["before"][-1][0] == pytest.approx(last["before"][0][0]), "it is of the clean set, whatever the ratio"
    kept = sorted((tmp_path / "store" / "derived" / "agreement").iterdir())
    assert len(kept) == len(first)
    assert all(check.problem is None for check in store.verify()) or not store.damaged()

    agreement_curves._values.cache_clear()
    with monkeypatch.context() as without:
        without.setattr(agreement_curves, "over_adversarial_ratio", None)
        assert made(suite, store)["agreement"]["curves"] == first, "from the files alone"
    kept[0].write_text("{")
    agreement_curves._values.cache_clear()
    assert made(suite, store)["agreement"]["curves"] == first


def test_runs_that_keep_only_their_largest_logits_have_no_agreement(tmp_path: Path, store: Store) -> None:
    suite = simulated.suite(tmp_path, simulated.SHIFTS)
    classes = [f"class {i}" for i in range(200)]
    for changes in ((), (pgd(8 / 255, "mm5-linf"),)):
        add(store, 0.5, *changes, classes=classes, sizes=0.01)
    assert "agreement" not in made(suite, store)


def test_a_thousand_models_and_213_settings_stay_small(store: Store) -> None:
    settings = ("val", *(f"imagenet-c.corruption-{i // 5}.{i % 5 + 1}_on-disk" for i in range(212)))
    store.add_scores(simulated.many(1000, settings, benchmark="imagenet-testbed"))
    suite = load_suite("imagenet-testbed")
    plots = plots_of(suite, suite_board(suite, store), store)
    assert sum(len(inline_json(plot.data)) for plot in plots) < 4 * MEGABYTE
    (scatter,) = [plot for plot in plots if plot.id == "scatter"]
    assert sum(axis["group"] == "settings" for axis in scatter.data["axes"]) >= 212  # type: ignore[index, attr-defined]


def test_an_empty_board_has_no_plots(tmp_path: Path, store: Store) -> None:
    suite = simulated.suite(tmp_path, simulated.PLANE)
    assert plots_of(suite, suite_board(suite, store), store) == []
