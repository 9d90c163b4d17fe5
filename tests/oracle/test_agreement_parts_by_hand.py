"""Parts of the posterior agreement: its bounds by loops, the authors' optimiser, and what its intervals rest on."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp

from holdfast.metrics import agreement_intervals
from holdfast.metrics.agreement import adam_maximum, posterior_agreement
from holdfast.metrics.agreement_curve import LogitPair, Maximum
from holdfast.metrics.agreement_intervals import agreement_of_total, differing, intervals


def logits_of(n: int, classes: int, *, seed: int = 0, noise: float = 1.0, scale: float = 2.0) -> LogitPair:
    random = np.random.default_rng(seed)
    one = scale * random.normal(size=(n, classes))
    return LogitPair(one, one + noise * scale * random.normal(size=(n, classes)))


def overlap(one: np.ndarray, other: np.ndarray, beta: float) -> float:
    """g of one sample, as it is defined."""
    return float(logsumexp(beta * (one + other)) - logsumexp(beta * one) - logsumexp(beta * other))


# the curve


def test_what_bounds_the_curve_by_loops() -> None:
    pair = logits_of(7, 4)
    gaps, reach, spread, bend = [], 0.0, 0.0, 0.0
    for a, b in zip(pair.one, pair.other, strict=True):
        gaps.append(a.max() + b.max() - (a + b).max())
        reach += min(a.max() - a.mean(), b.max() - b.mean())
        spread = max(spread, a.max() - a.min(), b.max() - b.min())
        bend += 2 * float(((a - a.mean()) * (b - b.mean())).mean())
    outline = pair.outline
    np.testing.assert_allclose(outline.gaps, gaps, atol=1e-12)
    assert (outline.reach, outline.spread, outline.bend) == pytest.approx((reach, spread, bend))
    assert pair.floor == pytest.approx(-7 * math.log(4))
    # the bound that the reach is for, and the bend at zero
    for beta in (0.1, 0.5, 2.0):
        assert pair.value(beta) <= pair.floor + beta * reach + 1e-9
    h = 1e-3
    assert (pair.value(h) - pair.floor) / (h * h / 2) == pytest.approx(bend, rel=0.05)


def test_limits_of_ties_and_of_disagreement() -> None:
    """One class largest in both: 0. Two that tie on one side: -ln 2. Two on both, one shared: -ln 4. None: -inf."""
    one = np.array([[1.0, 0, 0], [1, 1, 0], [1, 1, 0], [1, 1, 0], [1, 0, 0]])
    other = np.array([[2.0, 0, 1], [5, 0, 0], [0, 3, 3], [3, 3, 0], [0, 1, 0]])
    pair = LogitPair(one, other)
    expected = [0.0, -math.log(2), -math.log(4), -math.log(2), -math.inf]
    np.testing.assert_allclose(pair.limits, expected)
    assert pair.limit == -math.inf
    np.testing.assert_allclose(pair.terms([60.0])[:4, 0], expected[:4], atol=1e-9)
    assert pair.same.tolist() == [True, True, False, True, False]


def test_a_part_is_every_so_many_of_the_samples() -> None:
    pair = logits_of(10, 3)
    assert np.array_equal(pair.part(3).one, pair.one[::3])
    assert np.array_equal(pair.part(3).other, pair.other[::3])
    assert pair.part(100).n == 10


@pytest.mark.parametrize("beta", [0.0, 0.3, 4.0, 2000.0])
def test_terms_are_the_definition_also_where_products_underflow(beta: float) -> None:
    pair = logits_of(6, 3, noise=3.0)
    expected = [overlap(a, b, beta) for a, b in zip(pair.one, pair.other, strict=True)]
    np.testing.assert_allclose(pair.terms([beta])[:, 0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n", [1, 3])
def test_logits_are_left_as_they_were(n: int) -> None:
    """Also those of one sample, whose transpose is the array itself; and arrays that cannot be written to."""
    pair = logits_of(n, 4)
    before = pair.one.copy(), pair.other.copy()
    for side in (pair.one, pair.other):
        side.flags.writeable = False
    assert len(pair.outline.gaps) == n
    posterior_agreement(pair.one, pair.other)
    assert np.array_equal(pair.one, before[0])
    assert np.array_equal(pair.other, before[1])


# the authors' optimiser


@pytest.mark.parametrize(("n", "epochs", "seed"), [(16, 40, 0), (40, 25, 1), (5, 60, 2)])
def test_the_authors_optimiser_is_adam_on_batches_of_sixteen(n: int, epochs: int, seed: int) -> None:
    """Algorithm 1 of arXiv:1412.6980 with its defaults on minus the mean of a batch, whose slope autograd gives.

    From β = 1 at a rate of 0.1, β kept at 0 or more; the epoch whose end has the largest F counts.
    """
    pair = logits_of(n, 5, seed=seed, noise=1.2)
    one, other = torch.from_numpy(pair.one), torch.from_numpy(pair.other)

    def terms(a: torch.Tensor, b: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
        return (beta * (a + b)).logsumexp(1) - (beta * a).logsumexp(1) - (beta * b).logsumexp(1)

    beta = torch.ones((), dtype=torch.float64)
    m, v, t = 0.0, 0.0, 0
    best = (1.0, float(terms(one, other, beta).sum()))
    for _ in range(epochs):
        for a, b in zip(one.split(16), other.split(16), strict=True):
            at, t = beta.clone().requires_grad_(), t + 1
            g = -float(torch.autograd.grad(terms(a, b, at).mean(), at)[0])
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            beta = (beta - 0.1 * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)).clamp_min(0.0)
        reached = float(terms(one, other, beta).sum())
        if reached > best[1]:
            best = (float(beta), reached)
    assert adam_maximum(pair, epochs=epochs) == pytest.approx(best, rel=1e-6)


def test_the_authors_optimiser_never_goes_below_zero() -> None:
    """Sides that contradict each other want β = 0; there F is its floor."""
    one = np.array([[3.0, 0.0]] * 4)
    beta, total = adam_maximum(LogitPair(one, one[:, ::-1]), epochs=60)
    assert beta == pytest.approx(0.0, abs=1e-6)
    assert total == pytest.approx(-4 * math.log(2), abs=1e-6)


# intervals


@pytest.mark.parametrize("n", [2, 5, 30, 1000])
def test_tails_are_those_of_student_widened_for_the_resamples(n: int) -> None:
    reach = stats.t.ppf(0.975, n - 1) * math.sqrt(n / (n - 1))
    assert agreement_intervals._tail(n) == pytest.approx(stats.norm.cdf(-reach))


def test_one_sample_has_a_tail_of_one_degree_of_freedom() -> None:
    assert agreement_intervals._tail(1) == pytest.approx(stats.norm.cdf(-stats.t.ppf(0.975, 1)))


def test_agreement_is_the_mean_above_the_floor_inside_its_bounds() -> None:
    pair = logits_of(4, 3)
    largest = math.log(3)
    made = agreement_of_total(np.array([-4 * largest, -4 * largest + 2.0, 0.0, 1e-9, -4 * largest - 1.0]), pair)
    np.testing.assert_allclose(made, [0.0, 0.5, largest, largest, 0.0], atol=1e-12)
    tiny = agreement_of_total(np.array([-4 * largest + 1e-12, -4 * largest + 1e-11]), pair)
    assert tiny[0] == 0.0
    assert tiny[1] > 0


def test_the_top_of_a_parabola_is_found_between_its_points() -> None:
    """-(x - c)² + h on the grid 0, 0.5, …, 2, also where the top lies beyond the first or the last but one."""
    grid = np.linspace(0, 2, 5)
    for centre, height in ((0.8, 3.0), (1.5, -1.0), (0.3, 0.0), (1.9, 2.0)):
        values = -((grid - centre) ** 2)[None] + height
        tops, where = agreement_intervals._peaks(grid, values)
        assert (float(tops[0]), float(where[0])) == pytest.approx((height, math.exp(centre)))
    # a line has no top: its highest point is an end, at most one step from the middle of its three points
    tops, where = agreement_intervals._peaks(grid, grid[None])
    assert float(tops[0]) == pytest.approx(2.0)
    flat, place = agreement_intervals._peaks(grid, np.zeros((1, 5)))
    assert (float(flat[0]), float(place[0])) == pytest.approx((0.0, math.exp(0.5)))
    # a top more than a step away is held at a step
    steep, held = agreement_intervals._peaks(grid, -((grid + 5) ** 2)[None])
    assert float(held[0]) == pytest.approx(math.exp(0.0))
    assert float(steep[0]) == pytest.approx(-25.0)


def test_the_largest_is_about_the_grid_at_another_maximum_or_nowhere() -> None:
    betas = np.exp(np.linspace(0, 2, 5))
    parabola = -((np.linspace(0, 2, 5) - 1.0) ** 2) - 1.0
    values = np.array([[*parabola, -3.0], [*parabola, -0.5], [*(parabola - 9), -8.0]])
    totals, where = agreement_intervals._largest(values, betas, [40.0], -5.0)
    np.testing.assert_allclose(totals, [-1.0, -0.5, -5.0])
    np.testing.assert_allclose(where, [math.e, 40.0, 0.0])


def test_slopes_and_bends_are_those_of_the_logarithm() -> None:
    """By wider differences of the definition in ln β."""
    pair, added = logits_of(9, 3), logits_of(1, 3, seed=5)
    beta, h = 0.7, 1e-3

    def total(which: LogitPair, log: float) -> np.ndarray:
        return np.array([overlap(a, b, math.exp(log)) for a, b in zip(which.one, which.other, strict=True)])

    at = math.log(beta)
    slopes = (total(pair, at + h) - total(pair, at - h)) / (2 * h)
    bend = float((total(pair, at + h) - 2 * total(pair, at) + total(pair, at - h)).sum()) / h**2
    # steps are even in β, not in its logarithm: the bend lacks the slope
    slope, made, error = agreement_intervals._bends(pair, added, beta)
    assert slope == pytest.approx(float(((total(added, at + h) - total(added, at - h)) / (2 * h))[0]), rel=1e-4)
    assert made == pytest.approx(bend - float(slopes.sum()), rel=1e-3)
    if made < 0:
        assert error == pytest.approx(math.sqrt(float((slopes**2).sum())) / -made, rel=1e-3)
    else:
        assert error == math.inf


def test_the_added_sample_differs_as_far_as_the_median_one() -> None:
    """Its two largest logits exchanged on one side; of gaps 1, 2 and 3 the middle one."""
    one = np.array([[5.0, 0, 0], [5.0, 0, 0], [5.0, 0, 0]])
    other = np.array([[3.0, 0, -9], [1.0, 0, -9], [2.0, 0, -9]])
    added = differing(LogitPair(one, other))
    assert added.n == 1
    np.testing.assert_array_equal(added.one, one[2:])
    np.testing.assert_array_equal(added.other, [[0.0, 2.0, -9.0]])
    apart = LogitPair(one[:1], np.array([[0.0, 1.0, 0.5]]))
    np.testing.assert_array_equal(differing(apart).other, [[0.0, 1.0, 0.5]])  # it differs already


@pytest.mark.parametrize("seed", range(3))
def test_an_interval_holds_its_value_and_narrows_with_the_samples(seed: int) -> None:
    widths = []
    for n in (50, 800):
        pair = logits_of(n, 4, seed=seed, noise=0.5)
        made = posterior_agreement(pair.one, pair.other)
        assert 0 <= made.score.low <= made.score.value <= made.score.high <= math.log(4)
        widths.append(made.score.high - made.score.low)
    # four times as narrow, give or take a half
    assert 2 < widths[0] / widths[1] < 8


def test_an_interval_of_samples_that_all_agree_reaches_down_and_not_up() -> None:
    one = np.array([[4.0, 0.0, 0.0]] * 30)
    pair = LogitPair(one, one)
    best = Maximum(math.inf, 0.0)
    score, beta = intervals(pair, best, (best,), resamples=200, seed=0, maximised=lambda both: (Maximum(1.0, -1.0),))
    assert score.value == score.high == pytest.approx(math.log(3))
    assert score.low < 0.95 * math.log(3)
    assert beta.value == beta.high == math.inf
    assert beta.low < math.inf
