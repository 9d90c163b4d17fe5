"""The rows that a store has of a job, also under keys of older versions, and the pieces that a run's are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from holdfast.core.errors import NotRead
from holdfast.core.types import Flag
from holdfast.engine.jobs import Job
from holdfast.store import Rows, Store
from holdfast.store.rows import ALL_LOGITS, EVERY

DRAWN = "-drawn frost"  # the version of runs whose first rows were made with photographs of frost
AFTER_BFLOAT16 = "-2"  # the version of runs whose first rows were made in bfloat16
UNDECODED = re.compile(r" (cannot be read|is no longer|has pixels of)")  # reasons that a file itself gives


class JobRows(NamedTuple):
    """A job and the rows that the store has of it, None where it has none."""

    job: Job
    rows: Rows | None


def find_rows(job: Job, store: Store, note: Callable[[str], None]) -> JobRows:
    """The rows of a job, and the job under another key where those in the store were made by a weaker attack."""
    rows = store.find(job.run.key)
    if rows is None and job.run.sources:
        older = replace(job, run=replace(job.run, sources=""))
        if (rows := store.find(older.run.key)) is not None and _is_photographed(rows) and not rows.footer.is_weak:
            return JobRows(older, rows)
        rows = None
    if rows is not None and not job.run.sources and _is_photographed(rows):
        note(
            f"the rows of `{job.run.model}` under `{job.run.scenario}` were made with photographs of frost, which are "
            "not here: it is measured as another run with drawn frost, and those rows stay"
        )
        job = replace(job, run=replace(job.run, behaviour=f"{job.run.behaviour}{DRAWN}"))
        rows = store.find(job.run.key)
    if rows is None and not job.run.logits and job.model.card.classes > ALL_LOGITS:
        whole = replace(job, run=replace(job.run, logits=EVERY))  # rows with more than was asked for
        if (rows := store.find(whole.run.key)) is not None and not rows.footer.is_weak:
            return JobRows(whole, rows)
        rows = None
    if rows is None or not rows.footer.is_weak:
        return JobRows(job, rows)
    note(
        f"the rows of `{job.run.model}` under `{job.run.scenario}` were made with gradients in bfloat16, which attack "
        "weaker: it is measured as another run, and those rows stay"
    )
    job = replace(job, run=replace(job.run, behaviour=f"{job.run.behaviour}{AFTER_BFLOAT16}"))
    return JobRows(job, store.find(job.run.key))


def _is_photographed(rows: Rows) -> bool:
    """Whether rows of old, whose key does not name the source of frost, were made with photographs."""
    return not rows.footer.sources and rows.footer.facts.get("frost", "").startswith("photographs")


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
