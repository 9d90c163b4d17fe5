"""Scores that follow from others, as axes and columns: effective and relative robustness, and what a shift costs.

effective:imagenet-a                            above the line on its reference, over the models of the fit
effective:imagenet-a|val-on-imagenet-a-classes  the same, with the reference named
relative:imagenet-a                             minus the score of the baseline model
drop:avg_corruptions|val                        minus the reference
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.core.errors import Misuse, unknown
from holdfast.core.table import Table
from holdfast.trends.fits import ZeroPolicy
from holdfast.trends.matrices import ACCURACY, ROBUSTNESS
from holdfast.trends.piecewise import Trend, fit_trend
from holdfast.trends.robustness import effective_robustness
from holdfast.trends.spaces import Floats
from holdfast.trends.testbed import NATURAL, RENDITIONS, VAL

EFFECTIVE, RELATIVE, DROP = "effective", "relative", "drop"
WAYS = (EFFECTIVE, RELATIVE, DROP)
UNDISTURBED = ("id-accuracy", "id-robustness")


@dataclass(frozen=True, slots=True)
class DerivedAxis:
    """An axis as written: the way it is made, the setting and the one that it is compared with."""

    text: str
    way: str
    setting: str
    reference: str


def is_derived(text: str) -> bool:
    """Whether a text names a score that follows from others."""
    return text.partition(":")[0] in WAYS


def derived_axis(text: str, settings: Sequence[str], *, baseline: str | None = None) -> DerivedAxis:
    """The axis that a text stands for, checked against what there is."""
    way, _, rest = text.partition(":")
    setting, _, other = rest.partition("|")
    if setting not in settings:
        raise unknown("setting", setting, settings)
    if way == RELATIVE:
        if not (other or baseline):
            raise Misuse(f"`{text}` is relative to a model", hint=f"--baseline resnet50, or `{text}|resnet50`")
        return DerivedAxis(text, way, setting, other or str(baseline))
    other = other or reference_setting(setting, settings)
    if other not in settings:
        raise unknown("setting", other, settings)
    return DerivedAxis(text, way, setting, other)


def reference_setting(setting: str, settings: Sequence[str]) -> str:
    """The undisturbed score that a shifted one is compared with, by its benchmark's own choice."""
    known = {pair.y: pair.x for pair in (*NATURAL.values(), *RENDITIONS.values())}
    by_ending = dict(zip((ACCURACY, ROBUSTNESS), UNDISTURBED, strict=True))
    ending = next((name for end, name in by_ending.items() if setting.endswith(end)), VAL)
    choice = known.get(setting, ending)
    if choice not in settings:
        raise Misuse(f"no reference is known for `{setting}`", hint=f"name it: `effective:{setting}|REFERENCE`")
    return choice


def is_reference_setting(setting: str) -> bool:
    """Whether a score is undisturbed, by its name."""
    return setting in (*UNDISTURBED, VAL, "imagenet") or setting.startswith((f"{VAL}-on-", f"{VAL}_"))


def with_axes(
    table: Table,
    axes: Sequence[DerivedAxis],
    *,
    fitted_on: Callable[[str, str], Sequence[str]],
    space: str = "logit",
    zero: ZeroPolicy | None = None,
) -> tuple[Table, dict[str, Trend]]:
    """The table with a column per axis, and the lines that effective robustness is measured from.

    `fitted_on` says which models a line of a setting on its reference goes through.
    """
    columns: dict[str, Floats] = {}
    lines: dict[str, Trend] = {}
    for axis in axes:
        if axis.way == EFFECTIVE:
            chosen = fitted_on(axis.setting, axis.reference)
            line = fit_trend(table, axis.setting, axis.reference, models=chosen, space=space, zero=zero)
            lines[axis.text] = line
            columns[axis.text] = effective_robustness(line, table)
        elif axis.way == RELATIVE:
            baseline = table.of([axis.reference]).column(axis.setting)[0]
            columns[axis.text] = table.column(axis.setting) - baseline
        else:
            columns[axis.text] = table.column(axis.setting) - table.column(axis.reference)
    return table.with_columns(columns), lines
