"""A suite on one model in one call: the row of the board, its rank, the rows behind it and a page about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from holdfast.boards.benchmark_tables import measured_score, store_board
from holdfast.boards.board_text import cell_text
from holdfast.boards.entries import BoardEntry
from holdfast.boards.ranking import RankInterval, rank_interval
from holdfast.core.config import STORE, read_config
from holdfast.core.errors import Absent, HoldfastError, Misuse
from holdfast.core.suites import Suite, load_suite
from holdfast.core.types import Score
from holdfast.engine.evaluate import evaluate
from holdfast.engine.outcomes import OutcomeList, html_table, text_table
from holdfast.engine.watch import Watcher
from holdfast.models.fast import Speed
from holdfast.site.report import write_report
from holdfast.store import Rows, Store, as_store

DATA = "data"  # how a scenario names images that were given in memory


@dataclass(frozen=True, repr=False)
class BenchmarkResult:
    """A model under a suite. Prints as a table: a line per score of the suite, or per scenario where it has no board.

    `scores` by their names on the board, `rows` by scenario; both raise the error where nothing was measured.
    """

    model: str
    suite: Suite
    outcomes: OutcomeList
    store: Store

    @property
    def scores(self) -> dict[str, Score]:
        """What was measured of each score of the suite; those that lack results are left out."""
        entry = self._entry()
        if entry is None:
            return {outcome.scenario: outcome.score for outcome in self._measured()}
        cells = {**entry.cells, **entry.details}
        return {name: score for name, cell in cells.items() if (score := measured_score(cell)) is not None}

    @property
    def rows(self) -> dict[str, Rows]:
        """One row per sample, by scenario."""
        return {outcome.scenario: outcome.result for outcome in self._measured()}

    @property
    def rank(self) -> RankInterval | None:
        """Where the model stands on the suite's board; None where it has none, or lacks the score to sort by."""
        return rank_interval(store_board(self.suite, self.store), self.model) if self.suite.board else None

    def report(self, path: str | Path) -> Path:
        """Writes a page about the model and returns its path."""
        return write_report(self.store, self.model, Path(path))

    def __repr__(self) -> str:
        headings, rows = self._table()
        return "\n".join([self.suite.title, text_table(headings, rows), *self._remarks()])

    def _repr_html_(self) -> str:
        headings, rows = self._table()
        remarks = "".join(f"<p>{escape(remark)}</p>" for remark in self._remarks())
        return f"<p><b>{escape(self.suite.title)}</b></p>{html_table(headings, rows)}{remarks}"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        entry = self._entry()
        if entry is None:
            return ["scenario", self.model], [
                [each.scenario, "failed" if each.rows is None else each.score.percent()] for each in self.outcomes
            ]
        columns = store_board(self.suite, self.store).every_column
        rows = [[column.title or column.name, cell_text(entry.cell(column.name), column.unit)] for column in columns]
        return ["score", self.model], rows

    def _remarks(self) -> list[str]:
        """The rank, and what could not be measured, in sentences."""
        remarks = []
        rank = self.rank
        if rank is not None:
            between = "" if rank.low == rank.high else f" (its interval allows {rank.low} to {rank.high})"
            remarks.append(f"{self.model} is {rank.rank} of {rank.of}{between}")
        for why, count in Counter(str(each.error) for each in self.outcomes.failed).items():
            remarks.append(f"{count} of {len(self.outcomes)} runs could not be made: {why}")
        return remarks

    def _measured(self) -> OutcomeList:
        made = [outcome for outcome in self.outcomes if outcome.rows is not None]
        if not made and self.outcomes:
            raise self.outcomes[0].error or HoldfastError(f"nothing of `{self.suite.name}` could be measured")
        return type(self.outcomes)(made)

    def _entry(self) -> BoardEntry | None:
        if not self.suite.board:
            return None
        self._measured()
        entries = store_board(self.suite, self.store).entries
        return next((each for each in entries if self.model in each.names and each.is_measured), None)


def benchmark(
    model: object,
    suite: str,
    *,
    dataset: object = None,
    parts: Sequence[str] = (),
    name: str | None = None,
    samples: int | None = None,
    store: Store | str | Path | None = None,
    seed: int = 0,
    device: str | None = None,
    batch_size: int | None = None,
    speed: Speed = "auto",
    watcher: Watcher | None = None,
) -> BenchmarkResult:
    """Runs a suite on one model: `benchmark(net, "robustbench-linf", samples=1000)`.

    `model`: a torch module, a classifier or a ref. `dataset`: images other than the suite's own, as a ref such as
    `folder:/data/birds,size=32`, or in memory: `(images, labels)`, a torch Dataset or a DataLoader. What the store
    holds already is not measured again; scenarios whose data is not on this machine are left out and named.
    """

    if isinstance(model, list | tuple | dict):
        raise Misuse("a benchmark is of one model", hint="call it for each, or holdfast.evaluate")
    if not isinstance(suite, str):
        raise Misuse(f"a suite is a name such as `quick`, got {type(suite).__name__}", hint="holdfast list suites")
    in_memory = dataset is not None and not isinstance(dataset, str)
    chosen = load_suite(suite, dataset=DATA if in_memory else dataset if isinstance(dataset, str) else None)
    if not chosen.scenarios:
        hint = f"holdfast board {suite}"
        raise Misuse(f"`{suite}` is a list of published results: there is nothing to run", hint=hint)
    texts = chosen.only(parts)
    changes = None
    if in_memory:
        others = [text for text in texts if text.split("+")[0] != DATA]
        if others:
            problem = f"`{suite}` measures `{others[0]}` too, which other images cannot stand for"
            raise Misuse(problem, hint="give the dataset as a ref, or leave it out")
        changes = [text.removeprefix(DATA).removeprefix("+") for text in texts]
    kept = as_store(store or read_config().defaults.store or STORE)
    outcomes = evaluate(
        model,
        dataset if in_memory else list(texts),
        changes=changes,
        data_name=DATA,
        name=name,
        store=kept,
        seed=seed,
        samples=samples or chosen.samples,
        device=device,
        batch_size=batch_size,
        speed=speed,
        watcher=watcher,
    )
    made = BenchmarkResult(outcomes[0].model, chosen, outcomes, kept)
    broken = [outcome.error for outcome in outcomes.failed if not isinstance(outcome.error, Absent)]
    if len(broken) == len(outcomes) and broken[0] is not None:
        raise broken[0]
    return made
