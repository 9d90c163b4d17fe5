"""Calibration: whether a model that says 80 % is right in 80 % of such cases, also under a shift."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.metrics.resampling import RESAMPLES, percentiles, resampled_sums
from holdfast.store.rows import Rows

BINS = 15  # arXiv:1706.04599


class Calibration(NamedTuple):
    """Expected calibration error, Brier score (None where not all logits are kept) and negative log-likelihood in nats.

    Samples without a usable answer have no confidence: `left_out` says how many there were.
    """

    ece: Score
    brier: Score | None
    nll: Score
    left_out: int


def calibration(rows: Rows, *, bins: int = BINS, resamples: int = RESAMPLES) -> Calibration:
    """All three of one run."""
    known = ~np.isnan(rows.confidence)
    brier = None if rows.logits is None else _mean(brier_terms(rows)[known], resamples)
    nll = (rows.floats("logsumexp") - rows.floats("label_logit"))[known]
    ece = expected_calibration_error(rows.confidence[known], rows.correct[known], bins=bins, resamples=resamples)
    return Calibration(ece, brier, _mean(nll, resamples), int((~known).sum()))


def expected_calibration_error(
    confidence: NDArray[np.float64], correct: NDArray[np.bool_], *, bins: int = BINS, resamples: int = RESAMPLES
) -> Score:
    """Mean gap between confidence and accuracy over bins of equal width, weighted by their samples.

    A finite sample never shows less than the noise in its bins, and a resample shows more of it; the interval is moved
    back by that excess.
    """
    n = len(confidence)
    if not n:
        return Score(math.nan, math.nan, math.nan, 0)
    place = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    gaps = np.zeros((n, bins))
    gaps[np.arange(n), place] = correct - confidence
    value = float(np.abs(gaps.sum(axis=0)).sum() / n)
    if not resamples:
        return Score(value, math.nan, math.nan, n)
    replicates = np.abs(resampled_sums(gaps, resamples=resamples)).sum(axis=1) / n
    centred = np.maximum(replicates - (replicates.mean() - value), 0.0)
    return percentiles(value, centred, n)


def brier_terms(rows: Rows) -> NDArray[np.float64]:
    """Squared distance between the predicted probabilities and the truth, per sample: 0 to 2."""
    logits = rows.logits
    if logits is None:
        raise HoldfastError(
            f"run {rows.footer.key} keeps only its largest logits, the Brier score takes all",
            hint="negative log-likelihood and calibration error do without",
        )
    # probabilities from the exact logsumexp, not from rounded logits
    probabilities = np.exp(logits.astype(np.float64) - rows.floats("logsumexp")[:, None])
    label = np.exp(rows.floats("label_logit") - rows.floats("logsumexp"))
    return np.asarray((probabilities**2).sum(axis=1) - 2 * label + 1)


@register("metric", "ece", source="arXiv:1706.04599")
class ExpectedCalibrationError:
    """Mean gap between confidence and accuracy, over bins of equal width."""

    def __init__(self, *, bins: int = BINS) -> None:
        self.bins = bins

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score:  # noqa: ARG002
        return calibration(rows, bins=self.bins).ece


@register("metric", "brier", source="Brier 1950, doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2")
class Brier:
    """Mean squared distance of the probabilities from the truth, 0 to 2; None where not all logits are kept."""

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:  # noqa: ARG002
        return calibration(rows).brier


@register("metric", "nll")
class NegativeLogLikelihood:
    """Mean negative logarithm of the probability given to the label, in nats."""

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score:  # noqa: ARG002
        return calibration(rows).nll


def _mean(values: NDArray[np.float64], resamples: int) -> Score:
    if not len(values):
        return Score(math.nan, math.nan, math.nan, 0)
    value = float(values.mean())
    if not resamples:
        return Score(value, math.nan, math.nan, len(values))
    sums = resampled_sums(values[:, None], resamples=resamples)[:, 0]
    return percentiles(value, sums / len(values), len(values))
