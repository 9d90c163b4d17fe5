"""What `demo` and `evaluate` print of finished runs, and how they end."""

from __future__ import annotations

import shlex
from typing import NamedTuple

import typer

from holdfast.boards.benchmark_tables import store_board
from holdfast.boards.board_text import cell_text
from holdfast.boards.ranking import rank_interval
from holdfast.cli.output import STORE, err, interval, out, print_table
from holdfast.core.errors import Absent, Misuse
from holdfast.core.rounding import percent
from holdfast.core.suites import Suite
from holdfast.core.types import NO_LABELS
from holdfast.engine.outcomes import Outcome
from holdfast.metrics.summary import line
from holdfast.store import Store


def print_outcomes(outcomes: list[Outcome]) -> None:
    """A line per run: what was right, of how many, with flags."""
    rows = []
    for outcome in outcomes:
        if outcome.rows is None:
            rows.append([outcome.model, outcome.scenario, "failed", "", "", "", ""])
            continue
        footer = outcome.rows.footer
        right, n, failed = NO_LABELS, f"{footer.n:,}", footer.failed
        if outcome.rows.has_labels:
            made = line(outcome.rows)
            right, failed = interval(made.accuracy), made.failed
            n = f"{made.accuracy.n:,}" + (f" of {footer.population:,}" if footer.is_partial else "")
        flags = ", ".join(flag.name for flag in footer.flags)
        rows.append([footer.model, footer.scenario, right, n, str(failed), flags, footer.key[:10]])
    print_table(["model", "scenario", "right", "n", "failed", "flags", "run"], rows, right=["n", "failed"])


class SuiteWords(NamedTuple):
    """How the user named the suite and the store, for the commands that are suggested."""

    suite: str
    store: str

    @property
    def store_option(self) -> str:
        return "" if self.store == STORE else f" --store {shlex.quote(self.store)}"


def print_standing(suite: Suite, store: Store, models: list[str], words: SuiteWords) -> None:
    """The rows of the suite's board for these models, and where they rank."""
    made = store_board(suite, store)
    own = [entry for entry in made.entries if set(entry.names) & set(models) and entry.is_measured]
    titles = [column.title or column.name for column in made.columns]
    rows = [[entry.model, *(cell_text(entry.cells[c.name], c.unit) for c in made.columns)] for entry in own]
    out.print(f"\n[bold]{made.title}[/]")
    print_table(["model", *titles], rows, right=titles)
    by = next(column.title or column.name for column in made.columns if column.name == made.sort)
    for entry in own:
        rank = rank_interval(made, entry.model)
        if rank is None:
            out.print(f"{entry.model} is not ranked by {by}: it lacks {entry.missing}", markup=False)
            continue
        between = "" if rank.low == rank.high else f" (its interval allows {rank.low} to {rank.high})"
        others = f"; {rank.published} of the others are published" if rank.published else ""
        out.print(f"{entry.model} is {rank.rank} of {rank.of} by {by}{between}{others}", markup=False)
    for text, columns in suite.caveats.items():
        out.print(f"not like for like with printed numbers: {', '.join(columns)}: {text}", markup=False)
    company = [model for model in suite.models if model not in {entry.model for entry in made.entries}]
    named, options = shlex.quote(words.suite), suite.options + words.store_option
    if company and not suite.is_moved:
        out.print(f"to compare with: holdfast evaluate {' '.join(company)} --suite {named}{options}", markup=False)
    site = "site -o DIR" + (f" --suite {named}" if words.suite.endswith(".toml") else "") + words.store_option
    out.print(
        f"`holdfast board {named}{options}` shows all, `holdfast {site}` makes pages of it",
        markup=False,
    )


def exit_if_failed(outcomes: list[Outcome], *, may_lack_data: bool = False) -> None:
    """Exit 1 where a run failed. What a suite lacks for want of data is said; only if nothing ran is it a failure."""
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if may_lack_data and len(failed) < len(outcomes):
        lacking = [outcome for outcome in failed if isinstance(outcome.error, Absent)]
        failed = [outcome for outcome in failed if outcome not in lacking]
        if lacking:
            err.print(f"{len(lacking)} of {len(outcomes)} runs wait for data that is not here:")
            for hint in dict.fromkeys(str(outcome.error) for outcome in lacking):
                err.print(f"  {hint}", markup=False, soft_wrap=True)
    if failed:
        err.print(f"{len(failed)} of {len(outcomes)} runs failed:")
        for outcome in failed:
            err.print(f"  {outcome.model} under {outcome.scenario}: {outcome.error}", markup=False, soft_wrap=True)
        nothing_could_run = len(failed) == len(outcomes) and all(isinstance(each.error, Misuse) for each in failed)
        raise typer.Exit(2 if nothing_could_run else 1)


def print_matrix(outcomes: list[Outcome]) -> None:
    """Scenarios down, models across."""
    models = list(dict.fromkeys(outcome.model for outcome in outcomes))
    cells = {(outcome.scenario, outcome.model): _cell_text(outcome) for outcome in outcomes}
    scenarios = list(dict.fromkeys(outcome.scenario for outcome in outcomes))
    rows = [[name, *[cells.get((name, model), "") for model in models]] for name in scenarios]
    print_table(["scenario", *models], rows, right=models)


def _cell_text(outcome: Outcome) -> str:
    if outcome.rows is None:
        return "failed"
    if not outcome.rows.has_labels:
        return NO_LABELS
    scored = line(outcome.rows)
    value, low, high = (percent(getattr(scored.accuracy, part)) for part in ("value", "low", "high"))
    return f"{value} [{low}, {high}]" + (f" ({scored.failed} failed)" if scored.failed else "")
