"""mCE and relative mCE (Hendrycks and Dietterich, arXiv:1903.12261): error under corruption against AlexNet's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.types import Score, without_interval
from holdfast.metrics.averages import TOGETHER, difference, mean_of
from holdfast.metrics.means import SampledValues, correlation_of_means, mean_over, scaled

# error of AlexNet on ImageNet-C, mean of five severities, as released with it (github.com/hendrycks/robustness)
ALEXNET: Mapping[str, float] = MappingProxyType(
    {
        "gaussian-noise": 0.886428,
        "shot-noise": 0.894468,
        "impulse-noise": 0.922640,
        "defocus-blur": 0.819880,
        "glass-blur": 0.826268,
        "motion-blur": 0.785948,
        "zoom-blur": 0.798360,
        "snow": 0.866816,
        "frost": 0.826572,
        "fog": 0.819324,
        "brightness": 0.564592,
        "contrast": 0.853204,
        "elastic-transform": 0.646056,
        "pixelate": 0.717840,
        "jpeg-compression": 0.606500,
    }
)
ALEXNET_CLEAN = 0.435  # arXiv:1903.12261, Table 1


class CorruptionErrors(NamedTuple):
    """mCE and relative mCE as fractions (the paper prints percent: AlexNet is 1), and the error of each corruption."""

    mean: Score
    relative: Score
    each: Mapping[str, Score]


class Outcomes(NamedTuple):
    """Which samples are right without a corruption, and by corruption and severity: the samples behind the scores."""

    clean: SampledValues
    corrupted: Mapping[str, Sequence[SampledValues]]


def corruption_errors(
    clean: Score,
    accuracies: Mapping[str, Sequence[Score]],
    *,
    baseline: Mapping[str, float] = ALEXNET,
    baseline_clean: float = ALEXNET_CLEAN,
    outcomes: Outcomes | None = None,
) -> CorruptionErrors:
    """From accuracies by corruption, one per severity. Every corruption of the baseline must be there, and no other.

    CE_c = Σ_s error / Σ_s baseline error; relative CE_c takes the clean error off both. Their means over c are mCE and
    relative mCE. Intervals need `outcomes`: only samples tell how cells vary together. The baseline counts as exact.
    """
    _same_corruptions(accuracies, baseline)
    each: dict[str, Score] = {}
    relative = 0.0
    for name, error in baseline.items():
        if error <= baseline_clean:
            raise HoldfastError(f"the baseline loses nothing under {name}, and no relative error to it is defined")
        lost = 1 - mean_of(accuracies[name]).value
        each[name] = _errors(outcomes, {name: error}) or without_interval(lost / error, clean.n, TOGETHER)
        relative += (lost - (1 - clean.value)) / (error - baseline_clean) / len(baseline)
    if outcomes is None:
        none = without_interval(relative, clean.n, TOGETHER)
        return CorruptionErrors(mean_of(each), none, each)
    mean = _errors(outcomes, baseline)
    assert mean is not None, "made of outcomes"
    return CorruptionErrors(mean, _relative(outcomes, baseline, baseline_clean), each)


def _errors(outcomes: Outcomes | None, baseline: Mapping[str, float]) -> Score | None:
    """The mean over corruptions of error / baseline error."""
    if outcomes is None:
        return None
    cells = _wrong(outcomes, baseline)
    return scaled(mean_over(cells), sum(cell.weight for cell in cells))


def _relative(outcomes: Outcomes, baseline: Mapping[str, float], baseline_clean: float) -> Score:
    """The mean over corruptions of what is lost / what the baseline loses: a difference on samples in common."""
    lost = {name: error - baseline_clean for name, error in baseline.items()}
    cells = _wrong(outcomes, lost)
    ids, right, _ = outcomes.clean
    clean = SampledValues(ids, 1 - np.asarray(right, dtype=np.float64))
    total = sum(cell.weight for cell in cells)
    return scaled(difference(mean_over(cells), mean_over([clean]), correlation_of_means(cells, [clean])), total)


def _wrong(outcomes: Outcomes, baseline: Mapping[str, float]) -> list[SampledValues]:
    """Errors, each weighed by its part of the mean over corruptions of error / baseline."""
    return [
        SampledValues(ids, 1 - np.asarray(right, dtype=np.float64), 1 / (len(baseline) * len(levels) * error))
        for name, error in baseline.items()
        for levels in (outcomes.corrupted[name],)
        for ids, right, _ in levels
    ]


def _same_corruptions(accuracies: Mapping[str, Sequence[Score]], baseline: Mapping[str, float]) -> None:
    missing = [name for name in baseline if not accuracies.get(name)]
    if missing:
        raise HoldfastError(
            f"{len(missing)} of {len(baseline)} corruptions are missing, `{missing[0]}` first",
            hint="mCE is a mean over all of them: measure the rest, or give a baseline over fewer and say so",
        )
    more = [name for name in accuracies if name not in baseline]
    if more:
        raise Misuse(f"the baseline has no error for `{more[0]}`", hint="leave it out: mCE does not count it")
    lengths = {len(levels) for levels in accuracies.values()}
    if len(lengths) > 1:
        raise HoldfastError(f"corruptions have different numbers of severities: {sorted(lengths)}")
