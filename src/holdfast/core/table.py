"""Scores of many models under many settings, measured here or published: the input of fits, boards and plots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from holdfast.core.errors import Misuse, unknown
from holdfast.core.types import Score

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """One number per model and setting.

    `values` (models, settings) are fractions, NaN where there is none; `counts` how many samples each rests on, 0 where
    that is not known. `facts` says what is known of a model (`type`, `paper`, …), `sources` where the numbers of a
    setting, or of a (model, setting), come from; `source` where all others do.
    """

    models: tuple[str, ...]
    settings: tuple[str, ...]
    values: NDArray[np.float64]
    counts: NDArray[np.int64]
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sources: Mapping[str | tuple[str, str], str] = field(default_factory=dict)
    source: str = ""

    def __post_init__(self) -> None:
        shape = (len(self.models), len(self.settings))
        assert self.values.shape == shape, f"values of shape {self.values.shape} for {shape}"
        assert self.counts.shape == shape, f"counts of shape {self.counts.shape} for {shape}"
        for what, names in (("model", self.models), ("setting", self.settings)):
            if len(set(names)) != len(names):
                twice = next(name for i, name in enumerate(names) if name in names[:i])
                raise Misuse(f"the {what} `{twice}` appears twice in a table")

    def column(self, setting: str) -> NDArray[np.float64]:
        """The scores of every model under a setting."""
        return self.values[:, self._index(setting)]

    def count(self, setting: str) -> NDArray[np.int64]:
        return self.counts[:, self._index(setting)]

    def of(self, models: Iterable[str]) -> Table:
        """The rows of some models, in that order."""
        rows = {name: i for i, name in enumerate(self.models)}
        chosen = tuple(models)
        for name in chosen:
            if name not in rows:
                raise unknown("model", name, rows, otherwise="it must be in the table")
        index = [rows[name] for name in chosen]
        return replace(self, models=chosen, values=self.values[index], counts=self.counts[index])

    def where(self, kept: Sequence[bool] | NDArray[np.bool_]) -> Table:
        """The rows that are kept."""
        return self.of(name for name, keep in zip(self.models, kept, strict=True) if keep)

    def with_columns(self, columns: Mapping[str, NDArray[np.float64]]) -> Table:
        """The table with more settings, whose scores rest on no one count."""
        import numpy as np

        return replace(
            self,
            settings=(*self.settings, *columns),
            values=np.column_stack([self.values, *columns.values()]),
            counts=np.pad(self.counts, ((0, 0), (0, len(columns)))),
        )

    def fact(self, model: str, name: str) -> str:
        return self.facts.get(model, {}).get(name, "")

    def source_of(self, model: str, setting: str) -> str:
        """Where a number comes from."""
        return self.sources.get((model, setting)) or self.sources.get(setting) or self.source

    def _index(self, setting: str) -> int:
        if setting not in self.settings:
            raise unknown("setting", setting, dict.fromkeys(self.settings), otherwise="it must be in the table")
        return self.settings.index(setting)


def score_table(scores: Mapping[str, Sequence[Score | None]], settings: Sequence[str]) -> Table:
    """A table of the scores that each model has under the settings, in their order."""
    import numpy as np

    shape = (len(scores), len(settings))
    values = [math.nan if score is None else score.value for row in scores.values() for score in row]
    counts = [0 if score is None else score.n for row in scores.values() for score in row]
    numbers = np.array(counts, dtype=np.int64).reshape(shape)
    return Table(tuple(scores), tuple(settings), np.array(values, dtype=np.float64).reshape(shape), numbers)


def table(
    cells: Mapping[tuple[str, str], float],
    *,
    counts: Mapping[tuple[str, str], int] | None = None,
    facts: Mapping[str, Mapping[str, str]] | None = None,
    sources: Mapping[str | tuple[str, str], str] | None = None,
    source: str = "",
) -> Table:
    """A table of cells (model, setting) → fraction; models and settings in order of first appearance."""
    import numpy as np

    models, settings = (tuple(dict.fromkeys(key[i] for key in cells)) for i in (0, 1))
    values = np.full((len(models), len(settings)), np.nan)
    numbers = np.zeros(values.shape, dtype=np.int64)
    row, column = ({name: i for i, name in enumerate(names)} for names in (models, settings))
    for (model, setting), value in cells.items():
        values[row[model], column[setting]] = value
        numbers[row[model], column[setting]] = (counts or {}).get((model, setting), 0)
    return Table(models, settings, values, numbers, facts or {}, sources or {}, source)
