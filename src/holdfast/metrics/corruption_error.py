"""mCE and relative mCE (Hendrycks and Dietterich, arXiv:1903.12261): error under corruption against AlexNet's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.types import Score
from holdfast.metrics.averages import mean_of

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


def corruption_errors(
    clean: Score,
    accuracies: Mapping[str, Sequence[Score]],
    *,
    baseline: Mapping[str, float] = ALEXNET,
    baseline_clean: float = ALEXNET_CLEAN,
) -> CorruptionErrors:
    """From accuracies by corruption, one per severity. Every corruption of the baseline must be there, and no other.

    CE_c = Σ_s error / Σ_s baseline error; relative CE_c takes the clean error off both. Their means over c are mCE and
    relative mCE. Intervals are means of intervals, as for cells on the same images; the baseline counts as exact.
    """
    _same_corruptions(accuracies, baseline)
    each: dict[str, Score] = {}
    relative: list[Score] = []
    for name, error in baseline.items():
        levels = accuracies[name]
        if error <= baseline_clean:
            raise HoldfastError(f"the baseline loses nothing under {name}, and no relative error to it is defined")
        mean = _error(levels)
        each[name] = Score(mean.value / error, mean.low / error, mean.high / error, mean.n)
        lost = error - baseline_clean
        # the clean and the corrupted error are of the same images: the interval of the corrupted one decides
        start = 1 - clean.value
        relative.append(
            Score((mean.value - start) / lost, (mean.low - start) / lost, (mean.high - start) / lost, mean.n)
        )
    return CorruptionErrors(mean_of(each), mean_of(relative), each)


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


def _error(levels: Sequence[Score]) -> Score:
    value, high, low = (
        1 - math.fsum(getattr(each, part) for each in levels) / len(levels) for part in ("value", "low", "high")
    )
    return Score(value, low, high, min(each.n for each in levels))
