"""Every interval that the program prints is measured by docs/coverage.md, and holds the truth as often as it says.

The page is made by `benchmarks/coverage.py`; here every case runs with few trials, and bounds allow for three standard
errors below 93 %.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from holdfast.core.registry import registry

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import coverage_cases  # noqa: E402
from coverage_listed import LISTED, MADE_OF  # noqa: E402
from coverage_measuring import LEAST, measured  # noqa: E402

INTERVALS = {
    *("Score", "Tested", "Band", "Interval", "R2Matrix", "Matrix", "ColumnBands", "Rank", "Placement", "RankInterval"),
    *("Competitiveness", "RadiusCurve", "InsideOutside", "Stability", "Calibration", "Agreement"),
    *("CalibrationError", "RatioPoint", "Confidence", "CorruptionErrors", "OodScores", "Comparison", "Unpaired"),
    *("Prediction", "Predicted", "Bounds", "MultiRunScore"),
}
FOLDERS = ("core", "metrics", "trends", "boards")
CASES = {getattr(case.draw, "__name__", "worst ratio"): case for case in coverage_cases.cases()}
FAST = ("share", "differences", "consistency", "beyond_a_stated_line", "correlated", "places", "unlike")


def functions() -> set[str]:
    """The public functions that return something with bounds, by their annotations."""
    found = set()
    for folder in FOLDERS:
        for path in sorted((ROOT / "src" / "holdfast" / folder).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.FunctionDef) and node.returns is not None and not node.name.startswith("_"):
                    names = {part.id for part in ast.walk(node.returns) if isinstance(part, ast.Name)}
                    if names & INTERVALS:
                        place = path.relative_to(ROOT / "src" / "holdfast").with_suffix("")
                        found.add(".".join((*place.parts, node.name)))
    return found - {"core.types.without_interval"}


def test_every_function_and_metric_with_an_interval_is_listed() -> None:
    metrics = {f"metric {name}" for name in registry.entries("metric")}
    assert (functions() | metrics) - set(LISTED) == set(), "measure it in benchmarks/coverage_cases.py, and list it"
    gone = {name for name in LISTED if not name.startswith("`predict`")} - functions() - metrics
    assert gone == set(), "no longer there: take it off the list"


def test_every_row_that_is_listed_stands_on_the_page() -> None:
    page = (ROOT / "docs" / "coverage.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \|", page, flags=re.MULTILINE)
    for name, row in LISTED.items():
        if not row.startswith(("none: ", MADE_OF)):
            assert any(each.startswith(row.partition(";")[0]) for each in rows), f"{name}: no row `{row}`"


def test_the_page_has_no_interval_that_holds_less_than_it_promises() -> None:
    assert "**!**" not in (ROOT / "docs" / "coverage.md").read_text().partition("## Shares")[2]


def holds(name: str, trials: int) -> None:
    case = CASES[name]
    for made in measured(case._replace(slow=1.0), trials, seed=1):
        enough = made.given >= 0.2 * made.trials
        words = f"{made.row}: {made.held} of {made.given} at n {made.n}, {made.share}"
        assert not enough or made.coverage >= LEAST - made.slack, words


@pytest.mark.parametrize("name", FAST)
def test_an_interval_holds_the_truth_as_often_as_it_says(name: str) -> None:
    holds(name, 150)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(CASES) - set(FAST)))
def test_a_slow_interval_holds_the_truth_as_often_as_it_says(name: str) -> None:
    holds(name, 40)


def test_a_percentile_bootstrap_of_a_rare_share_would_be_found_out() -> None:
    """The check can fail: the interval of width zero that shares of 0 used to have."""

    def bootstrap(random: np.random.Generator, n: int, p: float) -> dict[str, coverage_cases.Held]:
        drawn = random.binomial(n, random.binomial(n, p) / n, 200) / n
        bounds = np.quantile(drawn, [0.025, 0.975])
        return {"bootstrap": coverage_cases.Held(coverage_cases.Score(0, *map(float, bounds), n), p)}

    case = coverage_cases.Case("", bootstrap, shares=(0.01,), sizes=(20,))
    (made,) = measured(case, 150)
    assert made.coverage < LEAST - made.slack
