"""Data on stdout, messages on stderr: tables for people, JSON and CSV for programs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.core.config import STORE as STORE
from holdfast.core.config import read_config
from holdfast.core.errors import Misuse
from holdfast.core.json_text import json_text
from holdfast.core.types import Score

if TYPE_CHECKING:
    from holdfast.store import Store

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False)

INTERRUPTED = 130  # the exit code after Ctrl-C, as shells have it
LONG = 2000  # rows: a longer table is printed without fitting it to the screen
StoreOption = Annotated[
    str, typer.Option("--store", help="Folder or fsspec path of the rows.", envvar="HOLDFAST_STORE")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
MarkdownOption = Annotated[bool, typer.Option("--markdown", help="Print a Markdown table, as for a pull request.")]
LatexOption = Annotated[bool, typer.Option("--latex", help="Print a LaTeX table.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1 …")]
ModelsOption = Annotated[list[str] | None, typer.Option("--model", help="Only these models.")]
ZeroOption = Annotated[
    str | None, typer.Option("--zero", help="For scores of exactly 0 or 1: piecewise, clip or drop.")
]
LeaveOutOption = Annotated[
    list[str] | None, typer.Option("--leave-out", help="Do not fit these models; written as for --fit.")
]
BaselineOption = Annotated[
    str | None, typer.Option("--baseline", help="Also show relative robustness: the score minus this model's.")
]


def with_options(function: Callable[..., None], names: Iterable[str] = (), **defaults: object) -> Callable[..., None]:
    """The function as a command: the options of a parameter that is a dataclass are options of the command.

    `names` are those that it takes, in the order of --help, all by default; `defaults` are others than declared.
    """
    own = inspect.signature(function, eval_str=True).parameters
    groups = {name: _options(each.annotation) for name, each in own.items() if is_dataclass(each.annotation)}
    known = {name: each for part in own.values() for name, each in groups.get(part.name, {part.name: part}).items()}
    known |= {name: each for name, each in own.items() if name not in groups}
    known |= {name: known[name].replace(default=default) for name, default in defaults.items()}
    spelled = [known[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in names or known]

    def command(**values: object) -> None:
        mine = {name: values.pop(name) for name in own if name in values}
        for name, group in groups.items():
            mine[name] = own[name].annotation(**{each: values.pop(each) for each in group if each in values})
        function(**mine)

    command.__doc__ = function.__doc__
    command.__annotations__ = {each.name: each.annotation for each in spelled}
    command.__signature__ = inspect.Signature(spelled)  # type: ignore[attr-defined]
    return command


def _options(group: Any) -> dict[str, inspect.Parameter]:
    """The fields of a dataclass that are options."""
    hints = get_type_hints(group, include_extras=True)
    return {
        each.name: inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name]
        )
        for each in fields(group)
        if hasattr(hints[each.name], "__metadata__")
    }


@dataclass(frozen=True)
class Output:
    """How to print: a table for people, or one of these."""

    csv: CsvOption = False
    latex: LatexOption = False
    markdown: bool = False
    json: JsonOption = False

    def data(self, records: Sequence[Mapping[str, object]], *, whole: object = None) -> bool:
        """Prints for programs where that is asked for, and says whether it did; `whole` is what JSON has instead."""
        if self.json:
            print_json(records if whole is None else whole)
        elif self.csv:
            print_csv(records)
        return self.json or self.csv

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
        """A table for people, or the same in LaTeX or Markdown."""
        if not self.latex and not self.markdown:
            print_table(columns, rows, right=right)
            return
        from holdfast.store.exporting import latex_table, markdown_table

        sys.stdout.write((latex_table if self.latex else markdown_table)(columns, rows, right=right))

    def show(
        self,
        records: Sequence[Mapping[str, object]],
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        right: Sequence[str] = (),
        whole: object = None,
    ) -> bool:
        """Records for programs or a table for people; says whether it was the table."""
        is_table = not self.data(records, whole=whole)
        if is_table:
            self.table(columns, rows, right=right)
        return is_table


@dataclass(frozen=True)
class MarkdownOutput(Output):
    """The same with a table for a pull request."""

    markdown: MarkdownOption = False


def tell_failures(store: Store, models: Collection[str]) -> None:
    """Says on stderr where samples behind the numbers just shown failed: they count as wrong."""
    for footer in store.footers().values():
        if footer.failed and footer.model in models:
            warn(
                f"{footer.failed:,} of {footer.n:,} samples of {footer.model} under {footer.scenario} failed and count "
                "as wrong: `holdfast scores` and the report say why"
            )


def open_store(path: str) -> Store:
    """A store that reports files that it cannot use on stderr, each once, and reads the others."""
    from holdfast.store import Store

    return Store(path, tell=lambda problem: warn(f"left aside: {problem}"), config=read_config())


def warn(text: str) -> None:
    err.print(f"warning: {text}", markup=False, soft_wrap=True)


def print_json(value: object) -> None:
    """JSON with NaN and infinity as null: every reader takes it."""
    sys.stdout.write(json_text(value, indent=2) + "\n")


def print_csv(records: Sequence[Mapping[str, object]]) -> None:
    if not records:
        return
    from holdfast.store.exporting import csv_text

    sys.stdout.write(csv_text(records))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), width: int = 0
) -> None:
    """A table as wide as its content where output is piped or long, fitted to the screen where it is not."""
    if len(rows) > LONG:
        _print_plain(columns, rows, right)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))  # as text: a list in a ref is no markup
    console = out if sys.stdout.isatty() else Console(highlight=False, width=width or max(200, out.width))
    console.print(table)


def _print_plain(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]) -> None:
    """Aligned and not folded: rich takes a minute for what this writes in a second."""
    lines = [columns, *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    pads = [str.rjust if column in right else str.ljust for column in columns]
    for line in lines:
        cells = [pad(cell, width) for pad, cell, width in zip(pads, line, widths, strict=True)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def interval(score: Score | None) -> str:
    return "" if score is None else score.percent()


def parse_share(text: str | None, option: str) -> float | None:
    """`1%`, `0.01` or `1/100` as a fraction."""
    from holdfast.core.values import parse_value

    if text is None:
        return None
    value = parse_value(text.strip().removesuffix("%"))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Misuse(f"{option} is a share such as 1% or 0.01, got `{text}`")
    return float(value) / 100 if text.strip().endswith("%") else float(value)


def seconds_text(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
