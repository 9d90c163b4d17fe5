"""Posterior agreement and attack failure rates of rows, also as ever more of a set is attacked or shifted.

AFR_T is the accuracy on the changed set, AFR_P the share of predictions that stay; both as in the posterior agreement
paper, whose curves run over ratios 0.1 to 1 (adversarial) and 0.2 to 1 (shift) of the two runs mixed: ratio 0 is the
first run, 1 the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import wilson
from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.core.values import number_text
from holdfast.metrics.accuracy import accuracy, aligned
from holdfast.metrics.agreement import Agreement, posterior_agreement
from holdfast.metrics.bootstrap_draws import RESAMPLES
from holdfast.metrics.means import mean_of_values
from holdfast.store.rows import FLOAT16_MOST, Rows

ADVERSARIAL_RATIOS = tuple(tenth / 10 for tenth in range(11))
SHIFT_RATIOS = (0.2, 0.4, 0.6, 0.8, 1.0)
FEWEST = 100  # bootstrap draws of a mean confidence, also where agreement has no interval


@dataclass(frozen=True, slots=True)
class RatioPoint:
    """What a set is worth of which the share `ratio` is changed; `left_out` samples had no usable answer.

    `confidence`: how sure the model is where it was right, and where the change then broke it.
    """

    ratio: float
    agreement: Agreement
    afr_t: Score
    afr_p: Score
    left_out: int
    confidence: Confidence


@dataclass(frozen=True, slots=True)
class Confidence:
    """Mean confidence before, on samples the model gets right, and after, on those of them that the change broke."""

    before: Score
    after: Score

    @property
    def notices(self) -> bool:
        """Whether the model is less sure where it was broken: the intervals do not overlap."""
        return self.after.high < self.before.low


def afr_p(reference: Rows, changed: Rows) -> Score:
    """Attack failure rate against the prediction: the share of samples that keep it. No usable answer keeps nothing."""
    before = aligned(reference, changed.ids).predictions
    return wilson(int((before == changed.predictions).sum()), len(changed))


def agreement_of_rows(
    reference: Rows, changed: Rows, *, mode: str = "exact", resamples: int = RESAMPLES
) -> tuple[Agreement, int]:
    """Posterior agreement of two runs on the same samples, and how many without a usable answer it leaves out."""
    reference = aligned(reference, changed.ids)
    one, other = full_logits(reference), full_logits(changed)
    known = np.isfinite(one).all(axis=1) & np.isfinite(other).all(axis=1)
    if not known.any():
        raise HoldfastError("no sample has logits in both runs", hint="`holdfast scores` shows why samples failed")
    made = posterior_agreement(one[known], other[known], mode=mode, resamples=resamples)
    return made, int((~known).sum())


def over_adversarial_ratio(
    clean: Rows, attacked: Rows, *, ratios: Sequence[float] = ADVERSARIAL_RATIOS, resamples: int = RESAMPLES
) -> list[RatioPoint]:
    """PA and AFR as ever more samples are attacked, those with the smallest perturbation first; needs no new run."""
    return _along(clean, attacked, adversarial_ratio, ratios, resamples)


def over_shift_ratio(
    reference: Rows, shifted: Rows, *, ratios: Sequence[float] = SHIFT_RATIOS, resamples: int = RESAMPLES
) -> list[RatioPoint]:
    """PA and AFR as ever more samples are shifted."""
    return _along(reference, shifted, shift_ratio, ratios, resamples)


def confidence_before_after(reference: Rows, changed: Rows, *, resamples: int = RESAMPLES) -> Confidence:
    """How sure the model is where it was right, and where the change then broke it."""
    reference = aligned(reference, changed.ids)
    right = reference.correct
    broken = right & ~changed.correct
    before, after = reference.confidence[right], changed.confidence[broken]
    return Confidence(*(mean_of_values(some[~np.isnan(some)], draws=resamples) for some in (before, after)))


def full_logits(rows: Rows) -> NDArray[np.float64]:
    """All logits of a run, NaN for a sample without an answer; refused where rows do not hold them."""
    logits = rows.logits
    if logits is None:
        raise HoldfastError(
            f"run {rows.footer.key} keeps only its largest logits, posterior agreement takes all",
            hint="measure it with `--logits all`; or write all logits to a file: holdfast agree A.npy B.npy",
        )
    # the distance that stands for every larger one, and in files of old the logit that does
    with np.errstate(invalid="ignore"):
        wide = int((np.maximum(np.ptp(logits, axis=1), rows.floats("prediction_logit")) > FLOAT16_MOST - 1).sum())
    if wide:
        raise HoldfastError(
            f"{wide} of {len(rows)} samples of run {rows.footer.key} have logits {FLOAT16_MOST:.0f} apart or more, "
            "further than rows can hold",
            hint="write the logits to a file and give that: holdfast agree A.npy B.npy",
        )
    return logits


@register("metric", "posterior-agreement", source="the posterior agreement paper; see docs/metrics.md")
class PosteriorAgreement:
    """Overlap of the posteriors before and after the change at the best common temperature, in nats, up to ln classes.

    None without reference rows.
    """

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:
        return None if reference is None else agreement_of_rows(reference, rows)[0].score


@register("metric", "prediction-agreement", source="the posterior agreement paper; see docs/metrics.md")
class PredictionAgreement:
    """AFR_P: share of samples whose prediction is the same before and after the change. None without reference rows."""

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:
        return None if reference is None else afr_p(reference, rows)


def _along(
    reference: Rows,
    changed: Rows,
    mixed: Callable[[Rows, Rows, float], Rows],
    ratios: Sequence[float],
    resamples: int,
) -> list[RatioPoint]:
    made = []
    for ratio in ratios:
        rows = mixed(reference, changed, ratio)
        agreement, left_out = agreement_of_rows(reference, rows, resamples=resamples)
        sure = confidence_before_after(reference, rows, resamples=max(resamples, FEWEST))
        made.append(RatioPoint(ratio, agreement, accuracy(rows), afr_p(reference, rows), left_out, sure))
    return made


@register("metric", "mean-confidence-when-broken", source="the posterior agreement paper; see docs/metrics.md")
class ConfidenceWhenBroken:
    """Mean confidence in wrong answers to samples that were right before the change; None where none was broken.

    None without reference rows.
    """

    unit = "percent"

    def __call__(self, rows: Rows, reference: Rows | None = None) -> Score | None:
        after = None if reference is None else confidence_before_after(reference, rows).after
        return None if after is None or not after.n else after


def adversarial_ratio(clean: Rows, attacked: Rows, ratio: float) -> Rows:
    """The rows of a set of which the share `ratio` is attacked: those whose perturbation is smallest.

    All samples were attacked; the clean row comes back for the 1 - ratio with the largest perturbation. Of equal
    sizes the later sample comes back first. A sample without a size (its attack failed) counts as the largest.
    """
    sizes = attacked.floats("size")
    if np.isnan(sizes).all():
        raise HoldfastError(
            f"no row of run {attacked.footer.key} has the size of a perturbation", hint="give the rows of an attack"
        )
    order = np.argsort(np.where(np.isnan(sizes), np.inf, sizes), kind="stable")
    taken = np.zeros(len(attacked), dtype=bool)
    taken[order[: _count(ratio, len(attacked), "adversarial ratio")]] = True
    return _mixed(clean, attacked, taken, "adversarial ratio", ratio)


def shift_ratio(reference: Rows, shifted: Rows, ratio: float) -> Rows:
    """The rows of a set of which the share `ratio` is shifted: the last of the reference's order.

    The first 1 - ratio of the samples come from the reference, the rest from the shifted environment; nothing is
    shuffled.
    """
    shifted = _paired(shifted, reference)
    unshifted = len(reference) - _count(ratio, len(reference), "shift ratio")
    return _mixed(reference, shifted, np.arange(len(reference)) >= unshifted, "shift ratio", ratio)


def _count(ratio: float, n: int, what: str) -> int:
    if not 0 <= ratio <= 1:
        raise Misuse(f"{what} must lie in [0, 1], got {ratio}")
    return round(ratio * n)


def _paired(one: Rows, other: Rows) -> Rows:
    """The rows of `one` in the order of `other`, which must be of the same samples and the same model."""
    if (one.footer.model, one.footer.weights) != (other.footer.model, other.footer.weights):
        raise HoldfastError(f"the rows are of two models, {other.footer.model} and {one.footer.model}")
    if len(one) != len(other):
        raise HoldfastError(
            f"run {other.footer.key} has {len(other)} samples, run {one.footer.key} has {len(one)}",
            hint="evaluate both on the same samples: same dataset and same --samples",
        )
    paired = aligned(one, other.ids)
    if not np.array_equal(paired.labels, other.labels):
        raise HoldfastError(f"runs {other.footer.key} and {one.footer.key} have other labels for the same samples")
    return paired


def _mixed(first: Rows, second: Rows, taken: NDArray[np.bool_], what: str, ratio: float) -> Rows:
    """The rows of `second` where `taken`, else of `first`, in the order of `second`; each keeps the name of its run."""
    first = _paired(first, second)
    both = pa.concat_tables([first.table.replace_schema_metadata(), second.table.replace_schema_metadata()])
    every = np.arange(len(second))
    table = both.unify_dictionaries().take(np.where(taken, every + len(second), every))
    facts = {**second.footer.facts, what: number_text(ratio), "mixed with": first.footer.key}
    return Rows(table, replace(second.footer, facts=facts))
