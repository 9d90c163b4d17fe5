"""Several ID sets against one: fit quality, groups of models, rankings and held-out models, as arXiv:2302.01381 has it.

Every OOD set (`y`) is explained by each ID set (`x`) alone and by all of them together. The models of all these fits
are the same: those chosen that have every score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from holdfast.core.errors import Misuse
from holdfast.core.table import Table
from holdfast.trends.fits import Fit, fit, kendall
from holdfast.trends.robustness import by_group, effective_robustness, score_columns
from holdfast.trends.spaces import Floats

AVERAGE = "average"  # of effective robustness over all OOD sets
EVERY = "all models"
UNKNOWN = "?"  # the group of a model of which the fact is not known


class FitQuality(NamedTuple):
    """How well some ID sets explain an OOD set."""

    y: str
    x: tuple[str, ...]
    r2: float
    r2_accuracy: float
    mae: float
    n: int


class GroupRobustness(NamedTuple):
    """Effective robustness of a group of models: mean, deviation (of the sample), and mean distance from the fit.

    `fitted` of the `n` models are among those that the fit goes through.
    """

    y: str
    x: tuple[str, ...]
    group: str
    mean: float
    deviation: float
    mae: float
    n: int
    fitted: int


class GroupRanking(NamedTuple):
    """Kendall's τ, within a group, of effective robustness over one ID set with that over all of them."""

    y: str
    alone: str
    group: str
    tau: float
    n: int


class HeldOutError(NamedTuple):
    """The mean distance of some models from the fit without them and from the fit with them."""

    y: str
    x: tuple[str, ...]
    models: str
    excluded: float
    included: float
    n: int


class MultiIdResult(NamedTuple):
    """All of it: one entry per OOD set, ID sets, and group."""

    fits: tuple[FitQuality, ...]
    groups: tuple[GroupRobustness, ...]
    rankings: tuple[GroupRanking, ...]
    held_out: tuple[HeldOutError, ...]

    def lines(self) -> list[dict[str, object]]:
        """One line per result for a CSV file; what a result has not is empty. Shares are fractions."""
        kinds = ("fit", "group", "ranking", "held out")
        every: Iterable[tuple[str, Sequence[NamedTuple]]] = zip(kinds, self, strict=True)
        records = [{"result": kind, **_plain(each)} for kind, some in every for each in some]
        names = dict.fromkeys(name for record in records for name in record)
        return [{name: record.get(name) for name in names} for record in records]

    def record(self) -> dict[str, object]:
        """What a program reads; shares are fractions."""
        return {kind: [_plain(each) for each in some] for kind, some in self._asdict().items()}


def _plain(each: NamedTuple) -> dict[str, object]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in each._asdict().items()}


def multi_id(
    table: Table,
    y: Sequence[str],
    x: Sequence[str],
    *,
    space: str = "logit",
    models: Sequence[str] | None = None,
    zero: Literal["clip", "drop"] | None = None,
    fact: str = "",
    held_out: Mapping[str, Sequence[str]] | None = None,
) -> MultiIdResult:
    """Fits of every `y` on each `x` alone and on all, over `models` without the held-out ones, by name of the choice.

    `fact` parts the models of the table into groups.
    """
    if len(x) < 2:
        raise Misuse("several ID sets are compared with one", hint="give --x twice or more")
    chosen = table.models if models is None else tuple(models)
    left = {name for names in (held_out or {}).values() for name in names}
    kept = [name for name in chosen if name not in left]
    every = (*((name,) for name in x), tuple(x))
    labels = [(table.fact(model, fact) or UNKNOWN) if fact else EVERY for model in table.models]
    qualities: list[FitQuality] = []
    groups: list[GroupRobustness] = []
    rankings: list[GroupRanking] = []
    errors: list[HeldOutError] = []
    beyond: dict[tuple[str, ...], list[Floats]] = {inputs: [] for inputs in every}
    for setting in y:
        whole = _with_scores(table, setting, x, kept)
        lines = {inputs: fit(table, setting, inputs, space=space, models=whole, zero=zero) for inputs in every}
        robust = {inputs: effective_robustness(line, table) for inputs, line in lines.items()}
        for inputs, above in robust.items():
            beyond[inputs].append(above)
        for inputs, line in lines.items():
            qualities.append(FitQuality(setting, inputs, line.r2, line.r2_accuracy, line.mae, line.n))
            groups += _groups(setting, inputs, robust[inputs], labels, line.points.models, table)
        rankings += _rankings(setting, x, robust, labels) if fact else []
        errors += _errors(table, setting, lines, chosen, held_out or {}, space, zero)
    if len(y) > 1:
        fitted = set.intersection(*(set(_with_scores(table, setting, x, kept)) for setting in y))
        for inputs, values in beyond.items():
            groups += _groups(AVERAGE, inputs, np.mean(np.stack(values), axis=0), labels, tuple(fitted), table)
    return MultiIdResult(tuple(qualities), tuple(groups), tuple(rankings), tuple(errors))


def _with_scores(table: Table, y: str, x: Sequence[str], models: Sequence[str]) -> list[str]:
    scores = score_columns(table, [y, *x])
    has = {model for model, own in zip(table.models, scores, strict=True) if np.isfinite(own).all()}
    return [model for model in models if model in has]


def _groups(
    y: str, x: tuple[str, ...], values: Floats, labels: Sequence[str], fitted: Sequence[str], table: Table
) -> list[GroupRobustness]:
    distances = {group.name: group.mean for group in by_group(np.abs(values), labels)}
    inside = [name for model, name in zip(table.models, labels, strict=True) if model in set(fitted)]
    return [
        GroupRobustness(y, x, name, mean, deviation, distances[name], n, inside.count(name))
        for name, mean, deviation, n in by_group(values, labels)
    ]


def _rankings(
    y: str, x: Sequence[str], robust: Mapping[tuple[str, ...], Floats], labels: Sequence[str]
) -> list[GroupRanking]:
    whole, groups = robust[tuple(x)], np.array(labels, dtype=object)
    rankings = []
    for group in dict.fromkeys(labels):
        for name in x:
            one = robust[(name,)]
            both = (groups == group) & np.isfinite(one) & np.isfinite(whole)
            tau = kendall(one[both], whole[both]) if both.sum() > 1 else float("nan")
            rankings.append(GroupRanking(y, name, group, tau, int(both.sum())))
    return rankings


def _errors(
    table: Table,
    y: str,
    lines: Mapping[tuple[str, ...], Fit],
    chosen: Sequence[str],
    held_out: Mapping[str, Sequence[str]],
    space: str,
    zero: Literal["clip", "drop"] | None,
) -> list[HeldOutError]:
    """For each choice of held-out models: their distance from the fit without any, and from that with them."""
    errors = []
    x = max(lines, key=len)
    fitted = set(lines[x].points.models)
    for text, names in held_out.items():
        some = _with_scores(table, y, x, names)
        with_them = _with_scores(table, y, x, [name for name in chosen if name in fitted or name in some])
        for inputs, line in lines.items():
            other = fit(table, y, inputs, space=space, models=with_them, zero=zero)
            apart = [float(np.abs(effective_robustness(one, table.of(some))).mean()) if some else float("nan")
                     for one in (line, other)]  # fmt: skip
            errors.append(HeldOutError(y, inputs, text, apart[0], apart[1], len(some)))
    return errors
