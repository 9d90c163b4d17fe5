"""Calibration: whether a model that says 80 % is right in 80 % of such cases, also under a shift.

All three scores are made of one set of probabilities: those of the prediction and of the label from the float32 columns
of the rows, those of the other classes as shares of what is left.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError
from holdfast.core.intervals import CONFIDENCE
from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.metrics.bootstrap_draws import RESAMPLES
from holdfast.metrics.calibration_error import BINS, CalibrationError, calibration_error
from holdfast.store.rows import Rows

MOST_BRIER = 2.0  # certain of a wrong class
_AT_ONCE = 2_000_000  # weights held in memory: 16 MB


def brier_terms(rows: Rows) -> NDArray[np.float64]:
    """Squared distance between the predicted probabilities and the truth, per sample: 0 to 2; NaN without an answer."""
    logits = rows.logits
    if logits is None:
        raise HoldfastError(
            f"run {rows.footer.key} keeps only its largest logits, the Brier score takes all",
            hint="negative log-likelihood and calibration error do without",
        )
    label, wrong = np.exp(-nll_terms(rows)), np.where(rows.correct, 0.0, rows.confidence)
    left = np.maximum(0.0, 1 - label - wrong)
    others = logits.copy()
    answered = np.flatnonzero(~np.isnan(rows.predictions))
    others[answered, rows.labels[answered]] = -np.inf
    others[answered, rows.predictions[answered].astype(np.int64)] = -np.inf
    return np.asarray((1 - label) ** 2 + wrong**2 + left**2 * _concentration(others))


def nll_terms(rows: Rows) -> NDArray[np.float64]:
    """Negative logarithm of the label's probability, per sample, in nats; NaN without an answer."""
    return np.maximum(0.0, rows.floats("logsumexp") - rows.floats("label_logit"))


def largest_loss(rows: Rows) -> float:
    """The most nats that any label could have cost on these samples: of the tenth class where only ten are kept."""
    above = rows.floats("logsumexp") - rows.floats("prediction_logit")
    most = [rows.widest + np.nanmax(above, initial=0.0), np.nanmax(nll_terms(rows), initial=0.0)]
    return float(np.nanmax(most))


def bounded_mean(values: NDArray[np.float64], largest: float, *, resamples: int = RESAMPLES) -> Score:
    """The mean of values between 0 and `largest`, with an interval that holds though a sample has missed a tail.

    Samples are weighted at random with one of value 0 added for the lower end and one of `largest` for the upper
    (Gaffke 2005; Learned-Miller and Thomas 2019, arXiv:1905.06208).
    """
    n = len(values)
    if not n:
        return Score(math.nan, math.nan, math.nan, 0)
    value = float(values.mean())
    if not resamples:
        return Score(value, math.nan, math.nan, n)
    random = np.random.default_rng(0)
    means, extra = np.empty(resamples), np.empty(resamples)
    step = max(1, _AT_ONCE // n)
    for start in range(0, resamples, step):
        part = slice(start, min(start + step, resamples))
        weights = random.standard_exponential((part.stop - part.start, n))
        added = random.standard_exponential(len(weights))
        total = weights.sum(axis=1) + added
        means[part], extra[part] = weights @ values / total, added / total
    tail = (1 - CONFIDENCE) / 2
    low, high = float(np.quantile(means, tail)), float(np.quantile(means + extra * largest, 1 - tail))
    return Score(value, min(low, value), max(min(high, largest), value), n)


@register("metric", "ece", source="arXiv:1706.04599; debiased, see docs/metrics.md")
class ExpectedCalibrationError:
    """Mean gap between confidence and accuracy over bins of equal width, without what chance in the bins adds.

    None without confidences.
    """

    def __init__(self, *, bins: int = BINS) -> None:
        self.bins = bins

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:  # noqa: ARG002
        return _known(reliability(rows, bins=self.bins).debiased)


@register("metric", "ece-plain", source="arXiv:1706.04599")
class PlainCalibrationError(ExpectedCalibrationError):
    """Mean gap between confidence and accuracy over bins of equal width, as published: chance in the bins adds to it.

    The interval is that of the calibration error, as `ece` has it: the value may lie at its upper end. None without
    confidences.
    """

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:  # noqa: ARG002
        made, plain, _ = reliability(rows, bins=self.bins)
        return _known(Score(plain, min(made.low, plain), max(made.high, plain), made.n))


@register("metric", "brier", source="Brier 1950, doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2")
class Brier:
    """Mean squared distance of the probabilities from the truth, 0 to 2; None where not all logits are kept."""

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:  # noqa: ARG002
        if rows.logits is None:
            return None
        terms = brier_terms(rows)
        return _known(bounded_mean(terms[~np.isnan(terms)], MOST_BRIER))


@register("metric", "nll")
class NegativeLogLikelihood:
    """Mean negative logarithm of the probability given to the label, in nats; None without logits."""

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:  # noqa: ARG002
        terms = nll_terms(rows)
        return _known(bounded_mean(terms[~np.isnan(terms)], largest_loss(rows)))


def reliability(rows: Rows, *, bins: int = BINS, resamples: int = RESAMPLES) -> CalibrationError:
    """The calibration error of a run with its bins, of samples that have an answer."""
    known = ~np.isnan(rows.confidence)
    return calibration_error(rows.confidence[known], rows.correct[known], bins=bins, resamples=resamples)


def _known(score: Score) -> Score | None:
    return score if score.n else None


def _concentration(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ q² of the softmax q over the classes that are not -inf; 0 where there is none."""
    top = logits.max(axis=1, initial=-np.inf)
    powers = np.exp(logits - np.where(top > -np.inf, top, 0.0)[:, None])
    total = powers.sum(axis=1)
    return np.asarray(((powers / np.where(total > 0, total, 1.0)[:, None]) ** 2).sum(axis=1))
