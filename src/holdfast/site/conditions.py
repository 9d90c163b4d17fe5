"""What was done to the images: as keys that tell which runs belong together, and in words."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.core.refs import parse_ref
from holdfast.core.values import Value, number_text, value_text
from holdfast.site.wording import joined_words
from holdfast.store.footer import ChangeRecord, Footer

GROUPS = ("undisturbed", "corrupted", "attacked", "both")
AXES = ("severity", "radius")
THEN = ", then "
SWEEP = "sweep"
SEARCHED = "searched"  # marks a search over radii read at one of them: `sweep`, or `minimal` for a minimal attack


class StrengthAxis(NamedTuple):
    """The argument of one change along which a line may be drawn."""

    change: int
    name: str


def group(footer: Footer) -> str:
    """`undisturbed`, `corrupted`, `attacked` or `both`."""
    if not footer.changes:
        return "undisturbed"
    attacks = sum(change.kind == "attack" for change in footer.changes)
    return "corrupted" if attacks == 0 else "attacked" if attacks == len(footer.changes) else "both"


def condition(footer: Footer, *, without: StrengthAxis | None = None) -> str:
    """The same for two models that met the same images, whatever they are. `without` leaves one argument out."""
    changes = [
        [change.kind, change.name, change.version, _args(change, _hidden(without, i))]
        for i, change in enumerate(footer.changes)
    ]
    return json.dumps([footer.dataset, footer.data, footer.seed, changes], sort_keys=True)


def change_names(footer: Footer) -> tuple[str, ...]:
    """The dataset and the names of the changes: what must agree before anything else can."""
    return (footer.dataset, footer.data, *(change.name for change in footer.changes))


def axes(footer: Footer) -> list[StrengthAxis]:
    """The numeric severities and radii of a run."""
    return [
        StrengthAxis(i, name)
        for name in AXES
        for i, change in enumerate(footer.changes)
        if is_number(change.args.get(name))
    ]


def is_number(value: object) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def strength_on(footer: Footer, axis: StrengthAxis) -> float:
    """Where on the axis a run lies."""
    return float(footer.changes[axis.change].args[axis.name])


def in_levels(footer: Footer) -> bool:
    """Whether the radius of its attack was given in 255ths."""
    radii = [change.args.get("radius") for change in footer.changes]
    return any(isinstance(radius, float) and number_text(radius).endswith("/255") for radius in radii)


def change_text(footer: Footer, *, without: StrengthAxis | None = None) -> str:
    """`fog at severity 3, then pgd-linf at radius 8/255, steps 10`"""
    texts = [_one_change_text(change, _hidden(without, i)) for i, change in enumerate(footer.changes)]
    return THEN.join(texts) or "undisturbed"


def labels(footers: Sequence[Footer], *, without: StrengthAxis | None = None) -> list[str]:
    """What to call each run; runs that read alike also say in what they differ."""
    alike: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i, footer in enumerate(footers):
        alike[footer.dataset, change_text(footer, without=without)].append(i)
    named = [""] * len(footers)
    for (_, text), some in alike.items():
        differing = _differing([footers[i] for i in some], without) if len(some) > 1 else [""]
        for i, difference in zip(some, differing, strict=True):
            named[i] = f"{text}{difference}"
    return named


def reading_order(footer: Footer) -> tuple[Any, ...]:
    """Datasets as they are named; undisturbed first, then by change and strength."""
    strengths = tuple(strength_on(footer, axis) for axis in axes(footer))
    names = tuple(change.name for change in footer.changes)
    kind = GROUPS.index(group(footer))
    return (footer.dataset, footer.data, kind, names, strengths, footer.scenario_full, footer.key)


def as_tuples(value: Any) -> Value:
    """An argument as it was before JSON made lists of its tuples."""
    return tuple(as_tuples(item) for item in value) if isinstance(value, list | tuple) else value


def _hidden(without: StrengthAxis | None, change: int) -> str | None:
    """The argument of a change that is left out."""
    return without.name if without is not None and without.change == change else None


def _one_change_text(change: ChangeRecord, hidden: str | None) -> str:
    if change.name == SWEEP:
        return _sweep_text(change)
    given = parse_ref(change.text)
    strengths = [
        f"{name} {value_text(as_tuples(change.args[name]))}" for name in AXES if name in change.args and name != hidden
    ]
    others = [value_text(value) for value in given.positional]
    others += [f"{name} {value_text(value)}" for name, value in given.keywords.items() if name not in AXES]
    text = f"{change.name} at {joined_words(strengths)}" if strengths else change.name
    how = f" ({change.args[SEARCHED]})" if SEARCHED in change.args else ""
    return ", ".join([text, *others]) + how


def _sweep_text(change: ChangeRecord) -> str:
    """`sweep of pgd-linf, steps 10, over 6 radii from 1/255 to 32/255`"""
    inner = parse_ref(str(change.args.get("attack") or "unknown"))
    given = [f"{name} {value_text(value)}" for name, value in inner.keywords.items()]
    radii = change.args.get("radii")
    grid = sorted(float(one) for one in radii if is_number(one)) if isinstance(radii, list | tuple) else []
    span = f"from {number_text(grid[0])} to {number_text(grid[-1])}" if grid else "unknown"
    how = [name for name in ("exhaustive", "warm") if change.args.get(name)]
    return ", ".join([f"sweep of {inner.name}", *given, *how, f"over {len(grid)} radii {span}"])


def _differing(footers: Sequence[Footer], without: StrengthAxis | None) -> list[str]:
    facts = [_facts(footer, without) for footer in footers]
    names = list(dict.fromkeys(name for known in facts for name in known))
    telling = [name for name in names if len({known.get(name) for known in facts}) > 1]
    texts = [", ".join(f"{name} {known[name]}" for name in telling if name in known) for known in facts]
    return [f" [{text or f'run {footer.key}'}]" for text, footer in zip(texts, footers, strict=True)]


def _facts(footer: Footer, without: StrengthAxis | None) -> dict[str, str]:
    facts = {
        "seed": str(footer.seed),
        "weights": footer.weights[:8] or "unknown",
        "data": footer.data[:8] or "unknown",
        "model": footer.model_full,
    }
    for i, change in enumerate(footer.changes):
        prefix = f"{change.name} " if len(footer.changes) > 1 else ""
        facts[f"{prefix}version"] = str(change.version)
        facts |= {f"{prefix}{name}": value for name, value in _args(change, _hidden(without, i)).items()}
    return facts


def _args(change: ChangeRecord, hidden: str | None) -> dict[str, str]:
    return {name: value_text(as_tuples(value)) for name, value in change.args.items() if name != hidden}
