"""What `holdfast trend --matrix` and `--table` show: how well scores explain each other, and the testbed's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from holdfast.boards.benchmark_tables import benchmark_scores
from holdfast.cli.output import Output, err, parse_share
from holdfast.cli.trend_views import TESTBED, record_number, with_cautions, words
from holdfast.core.errors import Misuse, unknown
from holdfast.core.rounding import percent, shown
from holdfast.core.table import Table
from holdfast.store import Store
from holdfast.trends.matrices import MEASURES, Matrix, matrix, r2_by_threshold, shifts_of
from holdfast.trends.selecting import FitSet
from holdfast.trends.testbed import table_1, table_2


class MatrixRequest(NamedTuple):
    """Scores to relate: every y with every x over chosen models, or those above each level of the sum of two x."""

    table: Table
    x: Sequence[str]
    y: Sequence[str]
    measure: str
    space: str
    chosen: FitSet
    levels: Sequence[str]


def show_matrix(request: MatrixRequest, how: Output) -> None:
    """r2 or pearson of every pair, with bounds and counts."""
    table, x, y, measure, space, chosen, levels = request
    if measure not in MEASURES:
        raise unknown("matrix", measure, MEASURES)
    if levels:
        _show_thresholds(request, how)
        return
    made = matrix(table, x, y, measure=measure, space=space, models=chosen.models)
    rows = [[name, *(_cell_text(made, i, j) for j in range(len(made.y)))] for i, name in enumerate(made.x)]
    if how.show(made.record(), ["x", *made.y], rows, right=list(made.y)):
        for each in made.record():
            for text in words(each):
                err.print(f"! {each['y']} on {each['x']}: {text}", markup=False)
        err.print(f"{measure} in {space} space, interval over models, number of models", markup=False)


def _cell_text(made: Matrix, i: int, j: int) -> str:
    bounds = f"[{shown(made.low[i, j], 2)}, {shown(made.high[i, j], 2)}]"
    return f"{shown(made.values[i, j], 3)} {bounds}, {made.n[i, j]}" + ("!" if made.cautions(i, j) else "")


def _show_thresholds(request: MatrixRequest, how: Output) -> None:
    table, x, y, measure, space, chosen, levels = request
    if measure != "r2" or len(x) != 2:
        raise Misuse(
            "--threshold takes --matrix r2 and two --x, accuracy first", hint="--x id-accuracy --x id-robustness"
        )
    least = [parse_share(text, "--threshold") or None for text in levels]
    by_level = r2_by_threshold(
        table, shifts_of(y), least, accuracy=x[0], robustness=x[1], space=space, models=chosen.models
    )
    records: list[dict[str, object]] = [
        {"least": level or 0.0, **with_cautions(cell)}
        for level, made in by_level.items()
        for cell in made.record()
        if cell["n"]
    ]
    rows = [
        [
            f"{100 * record_number(each, 'least'):g} %",
            *(str(each[name]) for name in ("kind", "shift")),
            *(shown(record_number(each, "r2"), 3), str(each["n"]), "; ".join(words(each))),
        ]
        for each in records
    ]
    columns = [f"{x[0]} + {x[1]} at least", "kind", "shift", "R²", "models", "caution"]
    how.show(records, columns, rows, right=["R²", "models"])


def show_testbed_table(store: Store, which: int, how: Output) -> None:
    """Table 1 or 2 of arXiv:2007.00644, computed from the public results."""
    if which not in (1, 2):
        raise Misuse(f"--table is 1 or 2, got {which}")
    table = benchmark_scores(TESTBED, store, needs=["val"]).table
    if "val" not in table.settings:
        raise Misuse(
            "the tables of the ImageNet testbed are made from its public results, which are not in this store",
            hint=f"`holdfast import {TESTBED} FOLDER` brings them; `holdfast board {TESTBED}` shows what is printed",
        )
    if which == 1:
        rows = table_1(table)
        names = ["accuracy", "effective robustness, points", "average corruption", "average PGD"]
        texts = [[row.model, *("" if np.isnan(v) else percent(v, 2) for v in row[1:])] for row in rows]
        how.show([row._asdict() for row in rows], ["model", *names], texts, right=names)
        return
    made = table_2(table)
    records = [
        {
            "synthetic": made.synthetic[i],
            "natural": made.natural[j],
            "pearson": float(made.values[i, j]),
            "low": float(made.low[i, j]),
            "high": float(made.high[i, j]),
            "n": int(made.n[i, j]),
        }
        for i, j in np.ndindex(made.values.shape)
    ]
    texts = [[name, *(shown(value, 2) for value in made.values[i])] for i, name in enumerate(made.synthetic)]
    how.show(records, ["effective robustness to", *made.natural], texts, right=list(made.natural))
