"""The numbers of `holdfast figure` against numpy, on made-up results."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.core.errors import Misuse
from holdfast.core.table import table
from holdfast.store.importers import read_results
from holdfast.trends.derived_axes import derived_axis, with_axes
from holdfast.trends.testbed import NATURAL, standard_models, table_2, with_averages

BENCHMARK = "oodrobustbench-cifar10-linf"
SETTINGS = ("id-accuracy", "id-robustness", "fog-accuracy", "fog-robustness", "snow-robustness")
FILES = Path(os.environ.get("HOLDFAST_PUBLISHED", Path(__file__).parents[4] / "shared" / "published"))
Zoo = dict[str, np.ndarray[Any, Any]]


@pytest.fixture
def zoo(run: Callable[..., Any]) -> Zoo:
    """Twelve models of others in a store, under five settings; one loses far more than the others in snow."""
    draws = np.random.default_rng(0)
    accuracy, robustness = 0.75 + 0.015 * np.arange(12), 0.4 + 0.02 * np.arange(12) + 0.02 * draws.random(12)
    columns = {
        "id-accuracy": accuracy,
        "id-robustness": robustness,
        "fog-accuracy": 0.8 * accuracy - 0.03 * draws.random(12),
        "fog-robustness": 0.6 * robustness - 0.05 * draws.random(12),
        "snow-robustness": 0.9 * robustness - 0.03 * draws.random(12),
    }
    columns["snow-robustness"][3] -= 0.25
    columns = {name: values.round(4) for name, values in columns.items()}
    with Path("zoo.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "setting", "value", "unit", "benchmark"])
        for name, values in columns.items():
            for i, value in enumerate(values):
                writer.writerow([f"zoo-{i}", name, f"{100 * value:.2f}", "percent", BENCHMARK])
    assert run("import", "tidy", "zoo.csv", "--store", "s").code == 0
    return columns


def figure(run: Callable[..., Any], kind: str, *words: str) -> Any:
    answer = run("figure", kind, "--benchmark", BENCHMARK, "--store", "s", "--json", *words)
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def test_every_cell_of_a_matrix_is_the_square_of_a_correlation(run: Callable[..., Any], zoo: Zoo) -> None:
    words = ("--y", "fog-accuracy", "--y", "fog-robustness", "--y", "snow-robustness")
    cells = {(each["kind"], each["shift"]): each for each in figure(run, "matrix", *words)}
    for (kind, shift), x, y in (
        (("Acc-Acc", "fog"), "id-accuracy", "fog-accuracy"),
        (("Rob-Rob", "fog"), "id-robustness", "fog-robustness"),
        (("Acc-Rob", "snow"), "id-accuracy", "snow-robustness"),
        (("Rob-Acc", "fog"), "id-robustness", "fog-accuracy"),
    ):
        kept = zoo["id-accuracy"] + zoo["id-robustness"] >= 1.10 - 1e-12
        expected = np.corrcoef(zoo[x][kept], zoo[y][kept])[0, 1] ** 2
        assert cells[kind, shift]["r2"] == pytest.approx(expected)
        assert cells[kind, shift]["n"] == kept.sum()
    swept = figure(run, "matrix", *words, "--kind", "Rob-Rob", "--threshold", "0", "--threshold", "130%")
    counts = {each["least"]: each["n"] for each in swept}
    total = zoo["id-accuracy"] + zoo["id-robustness"]
    assert counts == {0.0: 12, 1.3: int((total >= 1.3).sum())}


def test_limits_are_the_line_at_100_percent_and_its_slope(run: Callable[..., Any], zoo: Zoo) -> None:
    made = {each["shift"]: each for each in figure(run, "limits", "--y", "snow-robustness", "--fit", "zoo-*")}
    slope, intercept = np.polyfit(zoo["id-robustness"], zoo["snow-robustness"], 1)
    assert made["snow-robustness"]["slope"] == pytest.approx(slope)
    assert made["snow-robustness"]["upper_limit"] == pytest.approx(min(1.0, slope + intercept))


def test_boxes_hold_quartiles_and_flag_the_model_that_drops(run: Callable[..., Any], zoo: Zoo) -> None:
    made = figure(run, "boxes", "--y", "fog-robustness", "--y", "snow-robustness", "--model", "zoo-*")
    losses = zoo["id-robustness"] - zoo["snow-robustness"]
    box = next(each for each in made["boxes"] if each["shift"] == "snow-robustness")
    assert [box[name] for name in ("first", "median", "third")] == pytest.approx(
        list(np.quantile(losses, [0.25, 0.5, 0.75]))
    )
    assert box["mean"] == pytest.approx(losses.mean())
    assert box["outliers"][0]["model"] == "zoo-3"
    assert [(each["model"], each["shift"]) for each in made["flags"]] == [("zoo-3", "snow-robustness")]


def test_a_scatter_places_models_against_line_and_baseline(run: Callable[..., Any], zoo: Zoo) -> None:
    (made,) = figure(
        run, "scatter", "--y", "fog-robustness", "--baseline", "zoo-2", "--fit", "zoo-*", "--space", "linear"
    )
    slope, intercept = np.polyfit(zoo["id-robustness"], zoo["fog-robustness"], 1)
    for each in made["models"]:
        i = int(each["model"].removeprefix("zoo-"))
        assert each["effective"] == pytest.approx(
            zoo["fog-robustness"][i] - slope * zoo["id-robustness"][i] - intercept
        )
        assert each["relative"] == pytest.approx(zoo["fog-robustness"][i] - zoo["fog-robustness"][2])
    assert len(made["models"]) == 12


def test_derived_axes_are_checked_and_computed() -> None:
    cells = {(f"m{i}", name): 0.3 + 0.05 * i + 0.1 * (name == "val") for i in range(5) for name in ("val", "shifted")}
    scores = table(cells)
    axes = [derived_axis(text, scores.settings) for text in ("drop:shifted|val", "relative:shifted|m1")]
    made, _ = with_axes(scores, axes, fitted_on=lambda *_: scores.models)
    assert made.column("drop:shifted|val") == pytest.approx([-0.1] * 5)
    assert made.column("relative:shifted|m1") == pytest.approx([-0.05, 0.0, 0.05, 0.10, 0.15])
    with pytest.raises(Misuse, match="relative to a model"):
        derived_axis("relative:shifted", scores.settings)
    with pytest.raises(Misuse, match="no setting named"):
        derived_axis("effective:other", scores.settings)


def test_wrong_files_and_kinds_are_told(run: Callable[..., Any], zoo: Zoo) -> None:
    words = ("--benchmark", BENCHMARK, "--store", "s")
    assert run("figure", "boxes", *words, "--out", "f.gif").code == 2
    assert "did you mean" in run("figure", "matrix", *words, "--kind", "Rob-Robb").err
    assert "no setting named" in run("figure", "scatter", *words, "--y", "fogg-robustness").err
    assert run("figure", "pairs", "--x", "a", "--y", "b", "--store", "s").code != 0


@pytest.mark.skipif(not (FILES / "imagenet-testbed").is_dir(), reason="the public results are not here")
def test_effective_axes_correlate_as_table_2_says() -> None:
    (scores,) = read_results("imagenet-testbed", FILES / "imagenet-testbed").scores
    whole = with_averages(scores.table)
    made = table_2(scores.table, draws=0)
    fitted = standard_models(whole)
    others = [name for name in whole.models if whole.fact(name, "type") != "STANDARD" and "subsample" not in name]
    natural = [f"effective:{pair.y}" for pair in NATURAL.values()]
    for i, name in enumerate(made.synthetic):
        if name in ("avg_pgd", "fog_on-disk", "pgd.linf.eps2"):
            axes = [derived_axis(text, whole.settings) for text in (f"effective:{name}", *natural)]
            placed, _ = with_axes(whole, axes, fitted_on=lambda *_: fitted, zero="piecewise")
            placed = placed.of(others)
            x = placed.column(axes[0].text)
            for j, axis in enumerate(axes[1:]):
                both = np.isfinite(x) & np.isfinite(placed.column(axis.text))
                r = np.corrcoef(x[both], placed.column(axis.text)[both])[0, 1]
                assert r == pytest.approx(made.values[i, j], abs=1e-9)
