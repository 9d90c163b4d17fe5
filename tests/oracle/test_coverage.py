"""Every interval that the program prints is measured by docs/coverage.md, and holds the truth as often as it says.

The page is made by `benchmarks/coverage.py`; here every case runs with few trials, and bounds allow for three standard
errors below 93 %.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from holdfast.boards.column_scores import above_line
from holdfast.core.intervals import share_intervals
from holdfast.core.registry import registry
from holdfast.core.suites import Column
from holdfast.core.table import Table
from holdfast.metrics.difference_tests import paired_difference, unpaired_difference
from holdfast.trends.ranks import rank_intervals, rank_intervals_of_scores

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import coverage_cases  # noqa: E402
import least_coverage  # noqa: E402
from coverage_listed import COMPOSED, LISTED  # noqa: E402
from coverage_measuring import LEAST, is_inside, measured, within  # noqa: E402

INTERVALS = {
    *("Score", "Tested", "Band", "Interval", "R2Matrix", "Matrix", "ColumnBands", "Rank", "Placement", "RankInterval"),
    *("Competitiveness", "RadiusCurve", "InsideOutside", "Stability", "Calibration", "Agreement"),
    *("CalibrationError", "RatioPoint", "Confidence", "CorruptionErrors", "OodScores", "Comparison", "Unpaired"),
    *("Prediction", "Predicted", "Bounds", "MultiRunScore"),
}
FOLDERS = ("core", "metrics", "trends", "boards")
CASES = {coverage_cases.name_of(case): case for case in coverage_cases.cases()}
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
        if not row.startswith(("none: ", COMPOSED)):
            assert any(each.startswith(row.partition(";")[0]) for each in rows), f"{name}: no row `{row}`"


def test_the_page_has_no_interval_that_holds_less_than_it_promises() -> None:
    assert "**!**" not in (ROOT / "docs" / "coverage.md").read_text().partition("## Shares")[2]


def test_where_the_page_has_more_than_it_promises_no_interval_could_have_less() -> None:
    """Cells above 99.5 % are those for which the least that is possible is above it too."""
    page = (ROOT / "docs" / "coverage.md").read_text().partition("## Shares")[2]
    cells, _, proofs = page.partition("## Above 99.5 %")
    marked = {line.split(" | ")[0] for line in cells.splitlines() if "†" in line}
    assert marked == set()
    shown = [line.split(" | ") for line in proofs.splitlines() if line.startswith("| ") and line.count(" | ") == 4]
    assert cells.count("‡") == sum(float(least.strip(" |")) > 99.5 for *_, least in shown[1:] if least[0] in "19")


@pytest.mark.parametrize(("p", "q"), [(0.01, 0.01), (0.01, 0.05), (0.05, 0.05)])
def test_no_consistent_interval_of_two_counts_holds_less_than_the_least_possible(p: float, q: float) -> None:
    """Of 12 samples each, every outcome: the score interval holds p - q as often as computed by hand, or more."""
    n = 12
    chance = np.outer(stats.binom.pmf(range(n + 1), n, p), stats.binom.pmf(range(n + 1), n, q))
    held = 0.0
    for k, j in np.ndindex(n + 1, n + 1):
        made = unpaired_difference(k, n, j, n).difference
        held += chance[k, j] * (made.low - 1e-9 <= p - q <= made.high + 1e-9)
    least = least_coverage.unpaired(n, p, q)
    assert 0.93 < least <= held + 1e-9
    # by a plain loop: an outcome may be left out where those at least as extreme are unlikely under every truth
    other = np.linspace(max(0.0, q - p), min(1.0, 1 - p + q), least_coverage.NUISANCE)
    by_loop = 0.0
    for k, j in np.ndindex(n + 1, n + 1):
        above = stats.binom.sf(k - 1, n, other + p - q) * stats.binom.cdf(j, n, other)
        below = stats.binom.cdf(k, n, other + p - q) * stats.binom.sf(j - 1, n, other)
        by_loop += chance[k, j] * (min(above.max(), below.max()) > least_coverage.TAIL)
    assert least == pytest.approx(by_loop, abs=1e-9)


def test_intervals_of_paired_differences_hold_between_93_and_99_5_of_cases() -> None:
    """Of 40 samples, every outcome: models that differ on 2 to 60 % of them, equal and not."""
    n, counts = 40, np.arange(41)
    for differing in (0.08, 0.15, 0.3, 0.6):
        for ahead in (0.5, 0.6, 0.8):
            truth, held = differing * (2 * ahead - 1), 0.0
            for total, weight in zip(counts.tolist(), stats.binom.pmf(counts, n, differing), strict=True):
                for first in range(total + 1) if weight > 1e-6 else ():
                    made = of_counts(first, total - first, n)
                    chance = weight * stats.binom.pmf(first, total, ahead)
                    held += chance * (made.low - 1e-9 <= truth <= made.high + 1e-9)
            assert 0.93 < held < 0.995, (differing, ahead)


@pytest.mark.parametrize(("n", "p", "expected"), [(20, 0.5, 0.9545), (100, 0.01, 0.9890), (100, 0.99, 0.9520)])
def test_effective_robustness_against_a_stated_line_holds_between_93_and_99_5_of_cases(
    n: int, p: float, expected: float
) -> None:
    """Every outcome of two counts. `expected` was computed apart, with the likeliest shares found on a grid."""
    count = np.arange(n + 1)
    low, high = share_intervals(count / n, np.full(n + 1, n))
    one, other = (grid.ravel() for grid in np.meshgrid(count, count, indexing="ij"))
    column = Column("er", of=("y", "x"), score="effective-robustness", weights=(0.9,), intercept=-0.2)
    bounds = [(which / n, low[which], high[which]) for which in (one, other)]
    value, lower, upper = above_line(column, bounds[0], [bounds[1]])
    chance = np.outer(*[stats.binom.pmf(count, n, p)] * 2).ravel() * np.isfinite(value)
    truth = coverage_cases.stated(p)[1]
    held = (lower - 1e-9 <= truth) & (truth <= upper + 1e-9)
    assert chance[held].sum() / chance.sum() == pytest.approx(expected, abs=2e-4)
    assert np.array_equal(np.isfinite(value), (other > 0) & (other < n))
    kept = np.isfinite(value)
    assert (lower[kept] <= value[kept]).all()
    assert (value[kept] <= upper[kept]).all()


@pytest.mark.parametrize("source", ["answers", "scores"])
@pytest.mark.parametrize("place", [1, 3, 6, 10])
def test_a_place_is_left_out_only_where_its_bound_allows_it(source: str, place: int) -> None:
    """Models in a random order of skill, so that the true place of the chosen one is often left out."""
    random, left_out = np.random.default_rng(place), 0
    names = tuple(map(str, range(10)))
    for _ in range(60):
        right = random.random((10, 60)) < random.permutation(np.linspace(0.1, 0.9, 10))[:, None]
        if source == "answers":
            made = rank_intervals(names, right)
        else:
            table = Table(names, ("s",), right.mean(axis=1)[:, None], np.full((10, 1), 60))
            made = rank_intervals_of_scores(table, "s")
        own = {each.model: each for each in made}[str(10 - place)]
        is_left_out = not own.low <= place <= own.high
        left_out += is_left_out
        allowed = least_coverage.may_leave_out(right[:, None], place, paired_answers=source == "answers")
        assert not is_left_out or allowed[0]
    assert left_out > 10


def test_a_coverage_is_decided_where_two_standard_errors_lie_within_what_is_promised() -> None:
    assert is_inside(950, 1000)
    assert not is_inside(95, 100)
    assert not is_inside(995, 1000)
    assert not is_inside(800, 800)
    assert within(800, 800)[0] == pytest.approx(800 / 804)
    assert within(0, 0) == (0, 1)


@cache
def of_counts(only_one: int, only_other: int, n: int) -> coverage_cases.Score:
    place = np.arange(n)
    return paired_difference(place < only_one, (place >= only_one) & (place < only_one + only_other))


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
