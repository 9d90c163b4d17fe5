"""The rows that a store has of a job, also under keys of older versions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from holdfast.core.component_code import CODE
from holdfast.core.refs import Run
from holdfast.engine.jobs import Job
from holdfast.store import Footer, Rows, Store
from holdfast.store.rows import ALL_LOGITS, EVERY

DRAWN = "-drawn frost"  # the version of runs whose first rows were made with photographs of frost
AFTER_BFLOAT16 = "-2"  # the version of runs whose first rows were made in bfloat16


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
        if any(map(partial(_is_of_other_code, run=job.run), store.footers().values())):
            note(
                f"the code of a component of `{job.run.scenario}` is not that of its rows for `{job.run.model}`: it is "
                "measured as another run, and those rows stay"
            )
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


def _is_of_other_code(footer: Footer, run: Run) -> bool:
    """Whether rows differ from those of a run in the code of their components; rows of old do not say which."""
    same = (run.model.full, run.scenario.full, run.weights, run.data, run.answers, run.seed)
    theirs = (footer.model_full, footer.scenario_full, footer.weights, footer.data, footer.answers, footer.seed)
    return CODE in run.sources and same == theirs and footer.sources != run.sources


def _is_photographed(rows: Rows) -> bool:
    """Whether rows of old, whose key does not name the source of frost, were made with photographs."""
    return not rows.footer.sources and rows.footer.facts.get("frost", "").startswith("photographs")
