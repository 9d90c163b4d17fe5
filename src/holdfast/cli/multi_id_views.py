"""What `holdfast trend` shows of fits on several inputs: each alone, all together, by group, with models held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.cli.output import Output, out
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.json_text import attributes
from holdfast.core.rounding import percent, shown
from holdfast.core.table import Table
from holdfast.trends.fits import ZeroPolicy
from holdfast.trends.multi_id import GroupRobustness, MultiIdResult, multi_id
from holdfast.trends.selecting import fit_set, selector

if TYPE_CHECKING:
    from holdfast.cli.trend_views import LineExtras


@dataclass(frozen=True, slots=True)
class SeveralInputs:
    """Fits on each input alone and on all of them: for which settings, of which models, parted by which fact."""

    y: Sequence[str]
    x: Sequence[str]
    space: str
    zero: ZeroPolicy | None
    fact: str
    fit: Sequence[str]
    leave_out: Sequence[str]
    held_out: Sequence[str]
    benchmark: str

    def result(self, fitted: Table, placed: Table) -> MultiIdResult:
        """Fits over models of `fitted`, all models of `placed` against them."""
        if self.zero == "piecewise":
            raise Misuse("a piecewise fit is of one --y on one --x", hint="--zero drop or clip")
        chosen = fit_set(fitted, self.fit, self.leave_out, benchmark=self.benchmark).models
        held_out = {
            text: [model for model, holds in zip(placed.models, selector(placed, text).holds, strict=True) if holds]
            for text in self.held_out
        }
        return multi_id(
            *(placed, self.y, self.x),
            space=self.space,
            models=chosen,
            zero=self.zero,
            fact=self.fact,
            held_out=held_out,
        )


def add_several(made: LineExtras, several: SeveralInputs, fitted: Table, placed: Table) -> None:
    """What the fits on each input alone say beside the plane."""
    try:
        result = several.result(fitted, placed)
    except HoldfastError as error:  # a score of 0 or 1 on one input alone
        if several.held_out:
            raise
        made.record["multi_id"] = {"note": error.problem}
        return
    made.record["multi_id"] = result.record()
    for quality in result.fits:
        error_text = f"R² {shown(quality.r2, 3)}, mean error {percent(quality.mae, 2)} points"
        made.texts.append(f"on {_inputs(quality.x)}: {error_text}")
    made.texts.extend(
        f"held out {each.models}, on {_inputs(each.x)}: {each.n} models lie {percent(each.excluded, 2)} points from "
        f"the fit without them, {percent(each.included, 2)} from the fit with them"
        for each in result.held_out
    )
    if not several.fact:
        return
    for group in result.groups:
        models = f"{group.n} models, {group.fitted} fitted on"
        made.texts.append(f"{several.fact} {group.group} on {_inputs(group.x)}: {_around(group)} points, {models}")
    for ranking in result.rankings:
        if ranking.n > 1:
            tau = f"Kendall's τ of {ranking.alone} alone with all inputs {shown(ranking.tau, 4)}"
            made.texts.append(f"{several.fact} {ranking.group}: {tau}")


def show_multi_id(fitted: Table, placed: Table, several: SeveralInputs, how: Output) -> None:
    """For every setting: fits on each input alone and on all, groups of models, rankings, held-out models."""
    result = several.result(fitted, placed)
    about = {**attributes(several, "benchmark", "space"), "fact": several.fact or None, **result.record()}
    if how.data(result.lines(), whole=about):
        return
    group, error = several.fact or "group", "mean error, points"
    for columns, rows in (
        (
            ["y", "x", "R²", "R² of accuracies", error, "models"],
            [
                [e.y, _inputs(e.x), shown(e.r2, 3), shown(e.r2_accuracy, 3), percent(e.mae, 2), str(e.n)]
                for e in result.fits
            ],
        ),
        (
            ["y", "x", group, "above the fit, points", error, "models", "fitted on"],
            [
                [e.y, _inputs(e.x), e.group, _around(e), percent(e.mae, 2), str(e.n), str(e.fitted)]
                for e in result.groups
            ],
        ),
        (
            ["y", "x alone", group, "Kendall's τ with all x", "models"],
            [[e.y, e.alone, e.group, shown(e.tau, 4), str(e.n)] for e in result.rankings],
        ),
        (
            ["y", "x", "held out", "mean error without them, points", "with them, points", "models"],
            [
                [e.y, _inputs(e.x), e.models, percent(e.excluded, 2), percent(e.included, 2), str(e.n)]
                for e in result.held_out
            ],
        ),
    ):
        if rows:
            right = [name for name in columns if name not in ("y", "x", "x alone", "held out", group)]
            how.table(columns, rows, right=right)
            if not how.latex:
                out.print("")


def _inputs(x: Sequence[str]) -> str:
    return " & ".join(x)


def _around(each: GroupRobustness) -> str:
    return f"{percent(each.mean, 2, signed=True)} ± {percent(each.deviation, 2)}"
