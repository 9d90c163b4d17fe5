"""Every registered metric and every plot of the site keeps to the laws at the edges; rogue ones are noticed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from holdfast import conformance_metrics as conformance
from holdfast.core.registry import registry
from holdfast.core.suites import load_suite, suites
from holdfast.core.types import Score
from holdfast.site.plots.plot import Plot, PlotInputs, board_plots
from holdfast.store.rows import Rows

DRAWN = [name for name in suites() if load_suite(name).published]


@pytest.mark.parametrize("name", registry.entries("metric"))
def test_a_metric_conforms(name: str) -> None:
    conformance.check_metric(name)


@pytest.mark.parametrize("suite", DRAWN)
def test_the_plots_of_a_board_conform(suite: str) -> None:
    conformance.check_plots(suite)


def test_every_plot_is_found_by_its_module() -> None:
    names = {plot.__name__ for plot in board_plots()}
    assert names >= {"attacks_plot", "scatter_plot", "plane_plot", "degradation_plot", "agreement_plot"}


class Rogue:
    """A metric that breaks one law."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Any:
        right, n = int(rows.correct.sum()), len(rows)
        if self.how == "divides by the wrong":
            return Score(right / (n - right), 0.0, 100.0, n)
        if self.how == "divides arrays":
            share = float((rows.correct.sum() / (~rows.correct).sum()).item())
            return Score(share, 0.0, 100.0, n)
        if self.how == "first row":
            return Score(float(rows.correct[0]), 0.0, 1.0, n)
        value = {"nan": math.nan, "infinite": math.inf, "outside": 2.0}.get(self.how, 0.5)
        return value if self.how == "no score" else Score(value, 0.0, 1.0, n)


@pytest.mark.parametrize(
    ("how", "law"),
    [
        ("divides by the wrong", "ZeroDivisionError"),
        ("divides arrays", "RuntimeWarning"),
        ("first row", "another order of rows"),
        ("nan", "without a why"),
        ("infinite", "infinite"),
        ("outside", "outside"),
        ("no score", "is no Score"),
    ],
)
def test_a_metric_that_breaks_a_law_is_noticed(monkeypatch: pytest.MonkeyPatch, how: str, law: str) -> None:
    monkeypatch.setattr(conformance, "metric_of", lambda _: Rogue(how))
    with pytest.raises(AssertionError, match=law):
        conformance.check_metric("rogue")


def test_a_metric_of_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "metric_of", lambda _: object())
    with pytest.raises(AssertionError, match="a score of nothing"):
        conformance.check_metric("rogue")


def test_a_plot_that_needs_a_model_is_noticed() -> None:
    def first(inputs: PlotInputs) -> Plot:
        return Plot("first", "first", "First", "The first model.", {"model": inputs.points.entries[0].model})

    with pytest.raises(IndexError):
        conformance.check_plot(first, DRAWN[0])


def test_a_plot_that_writes_nan_is_noticed() -> None:
    def missing(inputs: PlotInputs) -> Plot:
        return Plot("missing", "missing", "Missing", "No number.", {"value": math.nan, "models": len(inputs.points)})

    with pytest.raises(ValueError, match="JSON"):
        conformance.check_plot(missing, DRAWN[0])


def test_a_plot_that_no_script_draws_is_noticed() -> None:
    def unknown(inputs: PlotInputs) -> Plot:
        return Plot("unknown", "unknown", "Unknown", "No drawing.", {"models": len(inputs.points)})

    with pytest.raises(AssertionError, match="no function in KINDS"):
        conformance.check_plot(unknown, DRAWN[0])
