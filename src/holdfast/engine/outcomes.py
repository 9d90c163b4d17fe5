"""How runs ended: each in a line, all as a table, and the error where there is no result."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from holdfast.core.errors import HoldfastError
from holdfast.core.intervals import wilson
from holdfast.core.types import Score
from holdfast.engine.watch import standing_text
from holdfast.store import Footer, Rows

HEADINGS = ("model", "scenario", "right", "n", "failed", "flags")


def standing(rows: Rows) -> Score | None:
    """The share of right answers; None where there are no labels."""
    return wilson(int(rows.correct.sum()), len(rows)) if rows.has_labels else None


@dataclass(frozen=True, slots=True, repr=False)
class Outcome:
    """How one run ended: without rows it failed, and `error` says why; not `fresh`: it was done before."""

    model: str
    scenario: str
    rows: Rows | None
    fresh: bool = False
    error: HoldfastError | None = None

    def shown_as(self, shown: Callable[[Footer], Footer]) -> Outcome:
        """The same with the footer of its rows as tables show it."""
        return self if self.rows is None else replace(self, rows=Rows(self.rows.table, shown(self.rows.footer)))

    @property
    def passes(self) -> int | None:
        """The passes to the images that it took, where it was measured now."""
        return self.rows.footer.backwards if self.rows is not None and self.fresh else None

    @property
    def score(self) -> Score:
        """The share of right answers with its interval; raises what went wrong where the run failed.

        So it does where the samples have no labels.
        """
        rows = self.result
        return wilson(int(rows.correct.sum()), len(rows))

    @property
    def result(self) -> Rows:
        """The rows; raises what went wrong where the run failed."""
        if self.rows is None:
            raise self.error or HoldfastError(f"{self.model} under {self.scenario} has no rows")
        return self.rows

    def __repr__(self) -> str:
        return f"{self.model} under {self.scenario}: {self._ending()}"

    def _ending(self) -> str:
        if self.rows is None:
            return f"failed: {self.error.problem if self.error is not None else 'no rows'}"
        failed = self.rows.footer.failed
        right = standing_text(standing(self.rows))
        return f"{right} of {len(self.rows):,}" + (f", {failed} failed" if failed else "")

    def _repr_html_(self) -> str:
        return html_table(HEADINGS, [self.cells()])

    def cells(self) -> list[str]:
        """What a table shows of it."""
        if self.rows is None:
            return [self.model, self.scenario, self._ending(), "", "", ""]
        footer = self.rows.footer
        count = f"{len(self.rows):,}" + (f" of {footer.population:,}" if footer.is_partial else "")
        flags = ", ".join(flag.name for flag in footer.flags)
        right = standing_text(standing(self.rows))
        return [self.model, self.scenario, right, count, str(footer.failed or 0), flags]

    def record(self) -> dict[str, object]:
        """Flat and plain, for data frames and JSON; shares are fractions."""
        score = None if self.rows is None else standing(self.rows)
        share, low, high = (None, None, None) if score is None else (score.value, score.low, score.high)
        n, error = (0, str(self.error)) if self.rows is None else (len(self.rows), None)
        names = {"model": self.model, "scenario": self.scenario}
        return names | {"accuracy": share, "low": low, "high": high, "n": n, "error": error}


class OutcomeList(list[Outcome]):
    """Outcomes in the order that was asked for; prints as a table."""

    @property
    def scores(self) -> list[Score]:
        """The accuracy of every run; raises the error of the first that failed."""
        return [outcome.score for outcome in self]

    @property
    def rows(self) -> list[Rows]:
        """The rows of every run; raises the error of the first that failed."""
        return [outcome.result for outcome in self]

    @property
    def failed(self) -> list[Outcome]:
        return [outcome for outcome in self if outcome.rows is None]

    def records(self) -> list[dict[str, object]]:
        """One flat record per run: `pandas.DataFrame(outcomes.records())`."""
        return [outcome.record() for outcome in self]

    def __repr__(self) -> str:
        return text_table(HEADINGS, [outcome.cells() for outcome in self])

    def _repr_html_(self) -> str:
        return html_table(HEADINGS, [outcome.cells() for outcome in self])


def text_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, without those that are empty."""
    lines = [headings, *rows]
    kept = [i for i in range(len(headings)) if any(row[i] not in ("", "0") for row in rows)]
    widths = {i: max(len(line[i]) for line in lines) for i in kept}
    return "\n".join("  ".join(line[i].ljust(widths[i]) for i in kept).rstrip() for line in lines)


def html_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same for a notebook."""
    kept = [i for i in range(len(headings)) if any(row[i] not in ("", "0") for row in rows)]
    head = "".join(f"<th>{html.escape(headings[i])}</th>" for i in kept)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(row[i])}</td>" for i in kept) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
