"""mCE and relative mCE (Hendrycks and Dietterich, arXiv:1903.12261): error under corruption against AlexNet's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.core.types import Score, without_interval
from holdfast.metrics.means import TOGETHER, SampledValues, correlation_of_means, difference, mean_of, mean_over, scaled
from holdfast.metrics.scopes import ModelRuns
from holdfast.store.footer import Footer

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
        alone = without_interval(lost / error, clean.n, TOGETHER)
        each[name] = alone if outcomes is None else _errors(outcomes, {name: error})
        relative += (lost - (1 - clean.value)) / (error - baseline_clean) / len(baseline)
    if outcomes is None:
        none = without_interval(relative, clean.n, TOGETHER)
        return CorruptionErrors(mean_of(each), none, each)
    return CorruptionErrors(_errors(outcomes, baseline), _relative(outcomes, baseline, baseline_clean), each)


def _errors(outcomes: Outcomes, baseline: Mapping[str, float]) -> Score:
    """The mean over corruptions of error / baseline error."""
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


SOURCE = "arXiv:1903.12261"
IMAGENET = "imagenet"
CALLED = {"jpeg": "jpeg-compression"}  # our name → that of ImageNet-C
STORED = ("imagenet-c", "cifar10-c", "cifar100-c")


class _CorruptionError:
    """What both have in common: the baseline, and which runs count."""

    unit = "percent"

    def __init__(self, *, baseline: str | None = "alexnet") -> None:
        self.baseline = baseline

    def is_about(self, footer: Footer) -> bool:
        """One corruption at one severity, or a stored one, and no attack."""
        return _corruption(footer) is not None

    def errors(self, runs: ModelRuns, scenarios: Sequence[str], reference: str | None) -> CorruptionErrors:
        clean = reference or _clean(runs, scenarios)
        named = _named(runs, [name for name in scenarios if name != clean])
        levels = {name: [runs.lines[each].accuracy for each in some] for name, some in named.items()}
        outcomes = Outcomes(
            _cell(runs, clean), {name: [_cell(runs, each) for each in some] for name, some in named.items()}
        )
        accuracy = runs.lines[clean].accuracy
        if self.baseline is None:  # the error itself: over a baseline of 1 that loses all of it
            ones = dict.fromkeys(levels, 1.0)
            return corruption_errors(accuracy, levels, baseline=ones, baseline_clean=0.0, outcomes=outcomes)
        if self.baseline != "alexnet":
            raise HoldfastError(f"no baseline `{self.baseline}`", hint="alexnet, or none for the error itself")
        dataset = runs.lines[clean].footer.dataset.partition(":")[0]
        if dataset != IMAGENET:
            raise HoldfastError(
                f"mCE divides by the errors of AlexNet on ImageNet-C, and these runs are of `{dataset}`",
                hint="baseline=none gives the mean corruption error, not divided: `mce:baseline=none`",
            )
        return corruption_errors(accuracy, levels, outcomes=outcomes)


@register("metric", "mce", source=SOURCE)
class MeanCorruptionError(_CorruptionError):
    """mCE: error under each corruption over its severities / AlexNet's, mean over 15 corruptions; lower is better.

    `baseline=none` is the mean error itself, for other datasets and choices of corruptions.
    """

    def of_runs(self, runs: ModelRuns, scenarios: Sequence[str], reference: str | None) -> Score:
        return self.errors(runs, scenarios, reference).mean


@register("metric", "relative-mce", source=SOURCE)
class RelativeCorruptionError(_CorruptionError):
    """Relative mCE: what is lost under each corruption against the clean error / what AlexNet loses; lower is better.

    `baseline=none` is the mean loss itself.
    """

    def of_runs(self, runs: ModelRuns, scenarios: Sequence[str], reference: str | None) -> Score:
        return self.errors(runs, scenarios, reference).relative


def _corruption(footer: Footer) -> tuple[str, float] | None:
    """The corruption of a run and its severity; None for a run of anything else."""
    name = footer.dataset.partition(":")[0]
    if name in STORED and not footer.changes:
        args = dict(part.partition("=")[::2] for part in footer.dataset.partition(":")[2].split(","))
        return args.get("corruption", ""), float(args.get("severity", "3"))
    if len(footer.changes) != 1 or footer.changes[0].kind != "corruption" or name in STORED:
        return None
    change = footer.changes[0]
    return CALLED.get(change.name, change.name), float(change.args.get("severity", 0))


def _clean(runs: ModelRuns, scenarios: Sequence[str]) -> str:
    datasets = {runs.lines[name].footer.dataset for name in scenarios}
    clean = [name for name in datasets if name in runs.lines]
    if not clean:
        raise HoldfastError("relative to what: there is no run without a corruption", hint="evaluate the dataset alone")
    return clean[0]


def _cell(runs: ModelRuns, scenario: str) -> SampledValues:
    rows = runs.rows(scenario)
    return SampledValues(np.asarray(rows.ids), rows.correct)


def _named(runs: ModelRuns, scenarios: Sequence[str]) -> Mapping[str, list[str]]:
    """The scenarios of each corruption, one per severity."""
    levels: dict[str, list[str]] = {}
    for name in scenarios:
        corruption = _corruption(runs.lines[name].footer)
        if corruption is None:
            raise HoldfastError(f"`{name}` is no corruption at one severity", hint="mCE takes corruptions alone")
        levels.setdefault(CALLED.get(corruption[0], corruption[0]), []).append(name)
    return levels
