"""One line per run: what was measured, the scores, and what to know before believing them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from holdfast.core.intervals import wilson
from holdfast.core.types import Flag, Score
from holdfast.metrics.accuracy import TopK, accuracy
from holdfast.store.footer import Footer
from holdfast.store.rows import Rows
from holdfast.store.store import Store


@dataclass(frozen=True, slots=True)
class Line:
    """The scores of one run."""

    footer: Footer
    accuracy: Score
    top5: Score | None
    failed: int

    @property
    def flags(self) -> tuple[Flag, ...]:
        return self.footer.flags

    def record(self) -> dict[str, object]:
        """Flat and plain, for CSV and JSON; shares are fractions."""
        footer = self.footer
        return {
            "model": footer.model,
            "scenario": footer.scenario,
            "accuracy": self.accuracy.value,
            "low": self.accuracy.low,
            "high": self.accuracy.high,
            "n": self.accuracy.n,
            "population": footer.population,
            "selection": footer.selection,
            "top5": None if self.top5 is None else self.top5.value,
            "failed": self.failed,
            "flags": [asdict(flag) for flag in self.flags],
            "forwards": footer.forwards,
            "backwards": footer.backwards,
            "seconds": footer.seconds,
            "device": footer.device,
            "seed": footer.seed,
            "run": footer.key,
            "command": footer.command,
        }


NO_SCORE = "without labels there is no accuracy: `holdfast agree` and `holdfast predict` use the answers alone"


def line(rows: Rows) -> Line:
    """Top-5 only where there are more than five classes to choose from, and ten at least: else it says little."""
    has_ranks = rows.table.column("rank").null_count < len(rows)  # published predictions come without logits
    top5 = TopK(k=5)(rows) if rows.footer.card.classes >= 10 and has_ranks else None
    return Line(rows.footer, accuracy(rows), top5, int(rows.failed.sum()))


def line_of(footer: Footer) -> Line | None:
    """The same from what the footer counts, without a look at the rows; None where it counts nothing."""
    if footer.right is None or footer.failed is None:
        return None
    ranked = footer.in_top5 if footer.card.classes >= 10 else None
    top5 = None if ranked is None else wilson(ranked, footer.n)
    return Line(footer, wilson(footer.right, footer.n), top5, footer.failed)


def lines(
    store: Store, *, models: Sequence[str] = (), scenarios: Sequence[str] = (), best_only: bool = True
) -> list[Line]:
    """The scores of every run in a store, in order of model and scenario; the latest of several last.

    Where one measurement was made on several choices of samples, the largest counts (`best_only`). Rows are read
    only of versions that did not count them; a run whose rows cannot be used is told and left out, and so are runs on
    data without labels, which `unlabelled` gives.
    """
    chosen = [footer for footer in _chosen(store, models, scenarios, best_only=best_only) if footer.has_labels]
    made = (line_of(footer) or _counted(store, footer) for footer in chosen)
    return [each for each in made if each is not None]


def unlabelled(
    store: Store, *, models: Sequence[str] = (), scenarios: Sequence[str] = (), best_only: bool = True
) -> list[Footer]:
    """The runs on data without labels: they have answers and no scores."""
    return [footer for footer in _chosen(store, models, scenarios, best_only=best_only) if not footer.has_labels]


def _chosen(store: Store, models: Sequence[str], scenarios: Sequence[str], *, best_only: bool) -> list[Footer]:
    chosen = [
        footer
        for footer in store.footers().values()
        if (not models or footer.model in models) and (not scenarios or footer.scenario in scenarios)
    ]
    if best_only:
        chosen = largest_selection(chosen)
    chosen.sort(
        key=lambda footer: (
            *(footer.dataset, footer.model, len(footer.changes), footer.scenario),
            *(not footer.is_weak, footer.finished, footer.key),
        )
    )
    return chosen


def _counted(store: Store, footer: Footer) -> Line | None:
    rows = store.read_or_tell(footer.key)
    return None if rows is None else line(rows)


def largest_selection(footers: Iterable[Footer]) -> list[Footer]:
    """Of one measurement on several choices of samples, the largest."""
    best: dict[str, Footer] = {}
    for footer in footers:
        if footer.family not in best or footer.n > best[footer.family].n:
            best[footer.family] = footer
    return list(best.values())
