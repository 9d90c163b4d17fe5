"""A run that searched for radii, read at each of them: one sweep answers like a run at every radius of its grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from holdfast.core.refs import parse_ref
from holdfast.metrics.radius_curves import smallest_radii
from holdfast.site.conditions import SEARCHED, SWEEP, is_number, reading_order
from holdfast.site.stated_radii import standard_radii, threat_of_change, trained_radii
from holdfast.store.footer import ChangeRecord, Footer
from holdfast.store.rows import SCHEMA, Rows

STEPS = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)  # of the standard radius: where a minimal attack is read


Name = tuple[str, float | None]


class View(NamedTuple):
    """A run at one radius; `radius` is None where the run is taken as it is. `footer` says so in its changes."""

    footer: Footer
    radius: float | None
    is_last: bool = True

    @property
    def name(self) -> Name:
        """The run and the radius: what tells views apart."""
        return (self.footer.key, self.radius)


def every_view(footers: Sequence[Footer], keeps_radii: Callable[[Footer], bool]) -> list[View]:
    """The runs, searches over radii at each of them, in reading order; one whose rows keep no radii is taken as it is.

    A search also asked about the samples without the attack. Where no run of its own did, that is one more view.
    """
    made: list[View] = []
    for footer in footers:
        read = views(footer)
        made += read if read[0].radius is None or keeps_radii(footer) else [View(footer, None)]
    plain = {identity(view.footer) for view in made if not view.footer.changes}
    for view in sorted(made, key=lambda view: (-view.footer.n, view.footer.key)):
        before = without_attack(view)
        if before is not None and not before.footer.changes and identity(before.footer) not in plain:
            plain.add(identity(before.footer))
            made.append(before)
    return sorted(made, key=lambda view: reading_order(view.footer))


def views(footer: Footer) -> list[View]:
    """The run at every radius it answers for, ascending; as it is where its last change searched for none."""
    last = footer.changes[-1] if footer.changes else None
    read: list[View] = []
    if last is not None and last.kind == "attack":
        if last.name == SWEEP:
            read = _of_sweep(footer, last)
        elif last.args.get("radius") == math.inf:
            read = _of_minimal(footer, last)
    return read or [View(footer, None)]


def without_attack(view: View) -> View | None:
    """The same samples before the attack; None for a run that searched for no radius."""
    if view.radius is None:
        return None
    return View(replace(view.footer, changes=view.footer.changes[:-1]), 0.0, is_last=False)


def identity(footer: Footer) -> tuple[str, str, str, str]:
    """What two runs must share to be compared as before and after: data, weights and model."""
    return (footer.dataset, footer.data, footer.weights, footer.model_full)


def rows_at(rows: Rows, view: View) -> Rows:
    """The rows as they would be at the view's radius.

    A sample that no radius up to this one breaks counts as right; one that was broken keeps its wrong prediction.
    Ranks are known at that radius alone, so there are none.
    """
    if view.radius is None:
        return rows
    stands = smallest_radii(rows) > float(np.float32(view.radius))  # as rows hold radii
    fell = rows.predictions
    predictions = np.where(stands, rows.labels, np.where(fell == rows.labels, np.nan, fell))
    known = np.isfinite(predictions)
    table = rows.table
    answers = pa.array(np.where(known, predictions, 0).astype(np.int32), mask=~known)
    columns = {"prediction": answers, "rank": pa.nulls(len(rows), pa.int32())}
    for name, column in columns.items():
        table = table.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), column)
    return Rows(table, view.footer)


def _of_sweep(footer: Footer, sweep: ChangeRecord) -> list[View]:
    inner = parse_ref(str(sweep.args.get("attack", "")) or SWEEP)
    how = {name: sweep.args[name] for name in ("exhaustive", "warm") if sweep.args.get(name)}
    args = {**inner.keywords, **how, SEARCHED: SWEEP}
    made = replace(sweep, name=inner.name, text=str(sweep.args.get("attack", "")), args=args)
    radii = sweep.args.get("radii", ())
    listed = radii if isinstance(radii, list | tuple) else [radii]
    return _at(footer, made, [float(one) for one in listed if is_number(one) and one > 0])


def _of_minimal(footer: Footer, attack: ChangeRecord) -> list[View]:
    threat = threat_of_change(attack)
    standard = [known.radius for known in standard_radii(footer.dataset) if known.threat == threat]
    trained = [known.radius for known in trained_radii(footer.card) if known.threat == threat]
    ladder = [step * standard[0] for step in STEPS] if standard else []
    searched = replace(attack, args={**attack.args, SEARCHED: "minimal"})
    return _at(footer, searched, [*ladder, *standard, *(radius for radius in trained if radius is not None)])


def _at(footer: Footer, attack: ChangeRecord, radii: Iterable[float]) -> list[View]:
    """Radii apply in the order of size; the last change of the run is the attack at each of them."""
    before = footer.changes[:-1]
    changes = [(radius, replace(attack, args={**attack.args, "radius": radius})) for radius in sorted(set(radii))]
    return [
        View(replace(footer, changes=(*before, change)), radius, radius == changes[-1][0]) for radius, change in changes
    ]
