"""The scores of OODRobustBench by name, from the runs of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.core.types import Score
from holdfast.metrics.ood import OodScores, ood_scores
from holdfast.metrics.scopes import ModelRuns
from holdfast.store.footer import Footer

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
