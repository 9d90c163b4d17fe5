"""The scores of OODRobustBench (arXiv:2310.12793): robustness under dataset shift and threat shift, and both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.metrics.means import difference, mean_of
from holdfast.metrics.scopes import ModelRuns
from holdfast.store.footer import Footer


class OodScores(NamedTuple):
    """R_c, R_n, OOD_d, OOD_t and OOD of the paper, with what is lost against the unshifted score.

    `corruption` is the mean over corruptions x severities, `natural` over natural sets, `dataset` the mean of these
    two, `threat` the mean over unforeseen attacks, `overall` the mean of dataset and threat.
    """

    corruption: Score
    natural: Score
    dataset: Score
    threat: Score
    overall: Score
    dataset_loss: Score
    threat_loss: Score
    loss: Score


def ood_scores(
    reference: Score,
    *,
    corruptions: Mapping[str, Score | None],
    natural: Mapping[str, Score | None],
    attacks: Mapping[str, Score | None],
) -> OodScores:
    """From one score per corruption and severity, natural set, and unforeseen attack; a missing one is refused."""
    return overall(
        reference,
        corruption=mean_of(corruptions, what="corruptions"),
        natural=mean_of(natural, what="natural sets"),
        threat=mean_of(attacks, what="unforeseen attacks"),
    )


def overall(reference: Score, *, corruption: Score, natural: Score, threat: Score) -> OodScores:
    """From means already taken. Natural and corrupted sets weigh the same, however many there are of each."""
    dataset = mean_of((corruption, natural))
    both = ood(dataset, threat)
    losses = [difference(reference, shifted) for shifted in (dataset, threat, both)]
    return OodScores(corruption, natural, dataset, threat, both, *losses)


def ood(dataset: Score, threat: Score) -> Score:
    """(OOD_d + OOD_t) / 2."""
    return mean_of((dataset, threat))


Part = Literal["overall", "dataset", "threat", "corruption", "natural", "loss", "dataset_loss", "threat_loss"]


@register("metric", "ood", source="arXiv:2310.12793")
class OodScore:
    """OOD robustness of OODRobustBench: the mean over dataset shifts and threat shifts, or one `part` of it.

    The reference is the run under the foreseen attack. Runs under that attack with a corruption before it, or of
    another dataset, are dataset shifts; other attacks on the same dataset are threat shifts. A `loss` is against the
    reference.
    """

    unit = "percent"
    over_datasets = True

    def __init__(self, *, part: Part = "overall") -> None:
        self.part = part

    def is_about(self, footer: Footer) -> bool:
        return footer.is_attacked

    def of_runs(self, runs: ModelRuns, scenarios: Sequence[str], reference: str | None) -> Score:
        if reference is None or reference not in runs.lines:
            raise HoldfastError(
                "OOD robustness is against the run under the foreseen attack, and nothing says which that is",
                hint='--reference "cifar10+mm5-linf:radius=8/255", or `reference` of the column',
            )
        score: Score = getattr(self.scores(runs, scenarios, reference), self.part)
        return score

    def scores(self, runs: ModelRuns, scenarios: Sequence[str], reference: str) -> OodScores:
        """All parts."""
        kinds: dict[str, dict[str, Score | None]] = {"corruptions": {}, "natural": {}, "attacks": {}}
        home = runs.lines[reference].footer
        for name in scenarios:
            kind = _kind(runs.lines[name].footer, home)
            if kind is not None:
                kinds[kind][name] = runs.lines[name].accuracy
        return ood_scores(runs.lines[reference].accuracy, **kinds)


def _kind(footer: Footer, home: Footer) -> str | None:
    """What shifts a run against the reference; None for the reference itself, and for both kinds of shift at once."""
    same_set = footer.dataset == home.dataset
    changes, foreseen = [change.text for change in footer.changes], [change.text for change in home.changes]
    if changes == foreseen:
        return None if same_set else "natural"
    if not same_set:
        return None
    if changes[1:] == foreseen and footer.changes[0].kind == "corruption":
        return "corruptions"
    return "attacks" if len(changes) == len(foreseen) else None
