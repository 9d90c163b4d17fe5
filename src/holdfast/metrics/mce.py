"""mCE and relative mCE of a model by name, from its runs under corruptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.metrics.corruption_error import ALEXNET, ALEXNET_CLEAN, CorruptionErrors, Outcomes, corruption_errors
from holdfast.metrics.means import SampledValues
from holdfast.metrics.scopes import ModelRuns
from holdfast.store.footer import Footer

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
        if self.baseline is None:  # the error itself: over a baseline of 1 that loses all of it
            return corruption_errors(
                runs.lines[clean].accuracy,
                levels,
                baseline=dict.fromkeys(levels, 1.0),
                baseline_clean=0.0,
                outcomes=outcomes,
            )
        if self.baseline != "alexnet":
            raise HoldfastError(f"no baseline `{self.baseline}`", hint="alexnet, or none for the error itself")
        dataset = runs.lines[clean].footer.dataset.partition(":")[0]
        if dataset != IMAGENET:
            raise HoldfastError(
                f"mCE divides by the errors of AlexNet on ImageNet-C, and these runs are of `{dataset}`",
                hint="baseline=none gives the mean corruption error, not divided: `mce:baseline=none`",
            )
        return corruption_errors(
            runs.lines[clean].accuracy,
            levels,
            baseline=ALEXNET,
            baseline_clean=ALEXNET_CLEAN,
            outcomes=outcomes,
        )


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
