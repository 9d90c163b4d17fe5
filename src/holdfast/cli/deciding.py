"""What a command decides for continuous integration: a verdict in sentences, JUnit XML, and the exit code."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.output import err
from holdfast.core.errors import HoldfastError, Misuse

if TYPE_CHECKING:
    from holdfast.metrics.decisions import Decision
    from holdfast.metrics.summary import Line
    from holdfast.store import Store

ByOption = Annotated[
    str, typer.Option("--by", help="interval: fail only on what the samples show; value: on the number itself.")
]
JunitOption = Annotated[Path | None, typer.Option("--junit", help="Write the decisions here, as JUnit XML.")]


@contextlib.contextmanager
def errors_are_no_verdict(deciding: bool) -> Iterator[None]:
    """Exit 1 says that something is too low or worse: where a command decides, an error ends with 2."""
    try:
        yield
    except HoldfastError as error:
        if deciding:
            error.exit_code = Misuse.exit_code
        raise
    except OSError as error:
        if not deciding or isinstance(error, BrokenPipeError):
            raise
        where = "" if error.filename is None else f"{error.filename}: "
        raise Misuse(f"{where}{error.strerror or error}") from error


def decide(name: str, decisions: Sequence[Decision], *, junit: Path | None, markdown: bool) -> None:
    """Says what passed and what did not; exit 1 where something did not."""
    from holdfast.metrics.decisions import junit_text

    if junit is not None:
        junit.parent.mkdir(parents=True, exist_ok=True)
        junit.write_text(junit_text(name, decisions), encoding="utf-8")
    failed = [decision for decision in decisions if not decision.passed]
    if markdown:
        for decision in failed:
            sys.stdout.write(f"\n**failed**: {decision.sentence}\n")
        if not failed:
            sys.stdout.write(f"\n**passed**: {len(decisions)} of {len(decisions)} scores\n")
    for decision in failed:
        err.print(f"failed: {decision.sentence}", markup=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)
    err.print(f"passed: {len(decisions)} of {len(decisions)} scores")


def refuse_gaps(store: Store, lines: Sequence[Line], models: Sequence[str], scenarios: Sequence[str]) -> None:
    """A score that is not there must not pass: an error where a run that was asked for is missing or unfinished."""
    for what, names, measured in (
        ("model", models, {line.footer.model for line in lines}),
        ("scenario", scenarios, {line.footer.scenario for line in lines}),
    ):
        for name in names:
            if name not in measured:
                raise Misuse(f"no finished run of the {what} `{name}` to judge", hint="`holdfast evaluate` makes it")
    if not lines:
        raise Misuse(f"no finished runs in {store.url} to judge", hint="`holdfast evaluate` makes some")
    shown_names = store.names()
    for parts in store.unfinished().values():
        footer = shown_names.shown(parts[0].footer)
        if (not models or footer.model in models) and (not scenarios or footer.scenario in scenarios):
            raise Misuse(
                f"{footer.model} under {footer.scenario} is unfinished: there is no score to judge",
                hint="the same `holdfast evaluate` goes on with it",
            )


def refuse_unjudged(model: str, scenarios: Sequence[str]) -> None:
    """What was not judged must not pass: an error after decisions that all passed."""
    if scenarios:
        raise Misuse(
            f"`{model}` was not measured under {scenarios[0]}"
            + (f" and {len(scenarios) - 1:,} more scenarios" if len(scenarios) > 1 else "")
            + ", so nothing can be said of them",
            hint="`holdfast evaluate` measures it there; --scenario chooses what is judged",
        )
