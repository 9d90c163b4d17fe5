"""Posterior agreement against closed forms, a dense scan and the authors' optimiser."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.metrics.agreement import checked, posterior_agreement

LOGITS = st.floats(-30, 30, allow_nan=False, width=32)


def exact(one: object, other: object):
    return posterior_agreement(one, other, resamples=0)  # type: ignore[arg-type]


def two_classes(margins: list[float], agrees: list[bool]) -> tuple[np.ndarray, np.ndarray]:
    """Logits (±margin / 2); the second set has the other sign where the samples do not agree."""
    half = np.array(margins)[:, None] / 2 * np.array([1.0, -1.0])
    return half, np.where(np.array(agrees)[:, None], half, -half)


def noisy(seed: int, n: int = 200, k: int = 4, noise: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    one = random.normal(size=(n, k))
    one[np.arange(n), random.integers(0, k, n)] += 3
    return one, one + noise * random.normal(size=(n, k))


@pytest.mark.parametrize("margin", [0.01, 1.0, 40.0])
@pytest.mark.parametrize("agreeing", [51, 60, 75, 90, 99])
def test_equal_margins_have_a_closed_form(margin: float, agreeing: int) -> None:
    made = exact(*two_classes([margin] * 100, [i < agreeing for i in range(100)]))
    a = agreeing / 100
    assert made.total / 100 == pytest.approx(a * math.log(a) + (1 - a) * math.log(1 - a), rel=1e-10)
    # eight digits are promised; near a = 1/2 the maximum is flat and β is only as good as F'' lets it be
    assert made.beta.value == pytest.approx(2 * math.acosh(1 / math.sqrt(2 * (1 - a))) / margin, rel=1e-8)


def test_the_largest_of_two_maxima_is_found() -> None:
    margins = [20.0] * 3 + [6.0] + [0.2] * 200
    made = exact(*two_classes(margins, [i != 3 for i in range(204)]))
    assert made.total == pytest.approx(-104.40, abs=0.005)
    assert made.beta.value == pytest.approx(12.0, abs=0.01)
    assert [round(total, 2) for _, total in made.maxima] == [-139.69, -104.40]


def test_the_authors_optimiser_stops_at_the_first_maximum() -> None:
    one, other = two_classes([20.0] * 3 + [6.0] + [0.2] * 200, [i != 3 for i in range(204)])
    made = posterior_agreement(one, other, mode="adam", epochs=200, resamples=0)
    assert made.total == pytest.approx(-139.69, abs=0.5)  # Adam circles about its maximum


def test_equal_predictions_agree_fully_at_no_temperature() -> None:
    one, _ = noisy(0)
    made = posterior_agreement(one, 3 * one)
    assert made.beta.value == math.inf
    assert made.score.value == made.score.high == math.log(4)
    assert math.log(4) - 0.2 < made.score.low < math.log(4)  # 200 samples cannot exclude a few that differ
    assert made.record()["beta"] == "inf"


def test_predictions_that_never_agree_are_worth_nothing() -> None:
    made = exact(*two_classes([2.0] * 10, [False] * 10))
    assert (made.score.value, made.beta.value) == (0.0, 0.0)


def test_constant_logits_are_worth_nothing() -> None:
    made = posterior_agreement(np.zeros((5, 3)), np.zeros((5, 3)))
    assert made.score.value == 0.0


@given(st.integers(0, 10_000), st.floats(0.2, 4))
def test_no_temperature_does_better(seed: int, noise: float) -> None:
    pair = checked(*noisy(seed, n=40, noise=noise))
    made = exact(pair.one, pair.other)
    assert pair.terms(np.geomspace(1e-4, 1e3, 700)).sum(axis=0).max() <= made.total + 1e-9


@given(arrays(np.float32, (6, 3), elements=LOGITS), arrays(np.float32, (6, 3), elements=LOGITS))
def test_any_logits_stay_within_bounds_and_above_a_dense_scan(one: np.ndarray, other: np.ndarray) -> None:
    made = exact(one, other)
    assert 0 <= made.score.value <= math.log(3)
    dense = checked(one, other).terms(np.geomspace(1e-5, 1e4, 900)).sum(axis=0).max()
    assert dense <= made.total + 1e-7 * max(1, abs(made.total))


@given(st.integers(0, 10_000))
def test_the_order_of_sets_samples_and_classes_does_not_matter(seed: int) -> None:
    one, other = noisy(seed)
    random = np.random.default_rng(seed)
    rows, columns = random.permutation(len(one)), random.permutation(one.shape[1])
    first = exact(one, other)
    for again in (exact(other, one), exact(one[rows][:, columns], other[rows][:, columns])):
        assert again.total == pytest.approx(first.total, rel=1e-12)
        assert again.beta.value == pytest.approx(first.beta.value, rel=1e-8)


@given(st.integers(0, 10_000), st.floats(-50, 50), st.floats(0.01, 100))
def test_a_shift_of_all_logits_changes_nothing_and_a_scale_only_beta(seed: int, shift: float, scale: float) -> None:
    one, other = noisy(seed, n=60)
    first, again = exact(one, other), exact(scale * (one + shift), scale * (other - shift))
    assert again.total == pytest.approx(first.total, rel=1e-9)
    assert again.beta.value * scale == pytest.approx(first.beta.value, rel=1e-6)


def test_terms_of_shards_add_up() -> None:
    one, other = noisy(3, n=5000, k=40)
    whole = checked(one, other)
    parts = [checked(one[i : i + 700], other[i : i + 700]) for i in range(0, 5000, 700)]
    assert sum(part.value(0.8) for part in parts) == pytest.approx(whole.value(0.8), rel=1e-12)


def test_f_and_its_derivatives_match_differences() -> None:
    pair = checked(*noisy(4))
    h = 1e-4
    low, middle, high = (pair.value(0.7 + step) for step in (-h, 0, h))
    value, slope, bend = pair.curve(0.7)
    assert value == pytest.approx(middle, rel=1e-13)
    assert slope == pytest.approx((high - low) / (2 * h), rel=1e-6)  # the error of a central difference is h²
    assert bend == pytest.approx((high - 2 * middle + low) / h**2, rel=1e-4)


def test_the_ladder_by_squaring_equals_exponentials() -> None:
    pair = checked(*noisy(5, k=12))
    betas, values, slopes = pair.ladder(-16, 10)
    for beta, value, slope in zip(betas, values, slopes, strict=True):
        direct = pair.curve(float(beta))
        assert value == pytest.approx(direct.value, rel=1e-12)
        assert slope == pytest.approx(direct.slope, rel=1e-10, abs=1e-9)


def test_confident_disagreement_does_not_underflow() -> None:
    pair = checked([[1e4, 0.0], [1.0, 0.0]], [[0.0, 1e4], [1.0, 0.0]])
    assert pair.value(1.0) == pytest.approx(
        -1e4 + math.log(2) + math.log((1 + math.e**2) / (1 + math.e) ** 2), rel=1e-12
    )
    assert np.isfinite(exact(pair.one, pair.other).total)


@pytest.mark.parametrize("seed", range(3))
def test_the_exact_maximum_is_never_below_the_authors(seed: int) -> None:
    one, other = noisy(seed, n=300)
    authors = posterior_agreement(one, other, mode="adam", epochs=60, resamples=0)
    assert exact(one, other).total >= authors.total - 1e-9


def test_bootstrap_intervals_cover_the_truth() -> None:
    """400 draws of 300 samples from 60,000: the 95 % interval should miss about 20 times."""
    one, other = noisy(7, n=60_000)
    truth = exact(one, other)
    random = np.random.default_rng(8)
    hits = hits_beta = 0
    for seed in range(400):
        chosen = random.integers(0, len(one), 300)
        made = posterior_agreement(one[chosen], other[chosen], resamples=300, seed=seed)
        hits += made.score.low <= truth.score.value <= made.score.high
        hits_beta += made.beta.low <= truth.beta.value <= made.beta.high
    # three standard errors of a share of 0.95 in 400 trials are 0.033; the percentile bootstrap errs a little low
    assert hits / 400 >= 0.90
    assert hits_beta / 400 >= 0.90


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        (np.zeros((3, 2)), np.zeros((4, 2)), "differ in shape: 3 x 2 and 4 x 2"),
        (np.zeros((3, 1)), np.zeros((3, 1)), "one column"),
        (np.zeros(3), np.zeros(3), "samples x classes"),
        (np.array([[0, np.nan]]), np.zeros((1, 2)), "NaN or infinite, row 0 first"),
        (np.zeros((0, 2)), np.zeros((0, 2)), "no samples"),
        (np.array([["a", "b"]]), np.zeros((1, 2)), "logits are numbers"),
    ],
)
def test_what_cannot_be_compared_is_refused(one: np.ndarray, other: np.ndarray, says: str) -> None:
    with pytest.raises(HoldfastError, match=says):
        posterior_agreement(one, other)


def test_a_mode_is_one_of_two() -> None:
    with pytest.raises(Misuse, match="exact or adam"):
        posterior_agreement(np.eye(2), np.eye(2), mode="sgd")


def test_one_sample_has_no_interval() -> None:
    """Every resample is that sample: the interval of β had no width where both sides differ."""
    one = np.random.default_rng(0).normal(size=(1, 10))
    for other in (one, np.roll(one, 1, axis=1)):
        made = posterior_agreement(one, other)
        assert not made.score.has_interval
        assert not made.beta.has_interval
        assert "one sample" in made.beta.why
        assert made.record()["beta_low"] is None
