"""The pieces of rows that a run is made of: which are needed, which failed, and which are to be measured again."""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.core.errors import NotRead
from holdfast.core.intervals import wilson
from holdfast.core.types import Flag, Score
from holdfast.engine.jobs import Job
from holdfast.store import Rows

UNDECODED = re.compile(r" (cannot be read|is no longer|has pixels of)")  # reasons that a file itself gives


def needed(pieces: Sequence[Rows], order: Sequence[str]) -> list[Rows]:
    """The pieces that hold a sample of the order which none before them holds: a shard measured twice counts once."""
    left, used = set(order), []
    for rows in pieces:
        if not left.isdisjoint(rows.ids):
            used.append(rows)
            left.difference_update(rows.ids)
    return used


def changed_samples(job: Job, rows: Rows) -> tuple[str, ...]:
    """Samples whose files held no image when the rows were made, and that read otherwise now."""
    if not rows.footer.failed:
        return ()
    reasons = dict(zip(rows.ids, rows.table.column("reason").to_pylist(), strict=True))
    failed = [name for name, reason in reasons.items() if reason and UNDECODED.search(reason)]
    index = {name: i for i, name in enumerate(job.dataset.ids)}
    try:
        now = job.dataset.images([index[name] for name in failed]).failed if failed else {}
    except NotRead:
        return ()
    return tuple(name for i, name in enumerate(failed) if now.get(i) != reasons[name])


def failure_flags(pieces: Sequence[Rows], order: Sequence[str]) -> tuple[Flag, ...]:
    """The flag of a run some of whose samples failed, which travels wherever its number does."""
    reasons: dict[str, str | None] = {}
    for rows in pieces:
        for name, reason in zip(rows.ids, rows.table.column("reason").to_pylist(), strict=True):
            reasons.setdefault(name, reason)
    failed = [reason for name in order if (reason := reasons.get(name))]
    if not failed:
        return ()
    text = f"{len(failed):,} of {len(order):,} samples failed and count as wrong; the first: {failed[0]}"
    return (Flag("failed-samples", "warning", text),)


def ending(what: str, rows: Rows) -> str:
    """How a run ended, with the samples that failed."""
    return f"{what}, {rows.footer.failed} failed" if rows.footer.failed else what


def standing(rows: Rows) -> Score | None:
    """The share of right answers so far; None where there are no labels."""
    if not rows.has_labels:
        return None
    return wilson(int(rows.correct.sum()), len(rows))
