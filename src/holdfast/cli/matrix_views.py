"""What `holdfast trend --matrix` and `--table` show: how well scores explain each other, and the testbed's tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.cli.output import err, parse_share, print_records, show_table
from holdfast.cli.trend_views import Output, number, words
from holdfast.core.errors import Misuse, unknown
from holdfast.core.rounding import percent, shown
from holdfast.core.table import Table
from holdfast.trends.fits import cautions
from holdfast.trends.matrices import MEASURES, Matrix, matrix, r2_by_threshold, shifts_of
from holdfast.trends.selecting import FitSet
from holdfast.trends.testbed import table_1, table_2


def show_matrix(
    table: Table,
    x: Sequence[str],
    y: Sequence[str],
    measure: str,
    *,
    space: str,
    chosen: FitSet,
    levels: Sequence[str],
    how: Output,
) -> None:
    """r2 or pearson of every pair, with bounds and counts."""
    if measure not in MEASURES:
        raise unknown("matrix", measure, MEASURES)
    if levels:
        _show_thresholds(table, x, y, measure, space=space, chosen=chosen, levels=levels, how=how)
        return
    made = matrix(table, x, y, measure=measure, space=space, models=chosen.models)
    if print_records(made.record(), json=how.json, csv=how.csv):
        return
    rows = [[name, *(_cell_text(made, i, j) for j in range(len(made.y)))] for i, name in enumerate(made.x)]
    show_table(["x", *made.y], rows, right=list(made.y), latex=how.latex)
    for each in made.record():
        for text in words(each):
            err.print(f"! {each['y']} on {each['x']}: {text}", markup=False)
    err.print(f"{measure} in {space} space, interval over models, number of models", markup=False)


def _cell_text(made: Matrix, i: int, j: int) -> str:
    bounds = f"[{shown(made.low[i, j], 2)}, {shown(made.high[i, j], 2)}]"
    return f"{shown(made.values[i, j], 3)} {bounds}, {made.n[i, j]}" + ("!" if made.cautions(i, j) else "")


def _show_thresholds(
    table: Table,
    x: Sequence[str],
    y: Sequence[str],
    measure: str,
    *,
    space: str,
    chosen: FitSet,
    levels: Sequence[str],
    how: Output,
) -> None:
    if measure != "r2" or len(x) != 2:
        raise Misuse(
            "--threshold takes --matrix r2 and two --x, accuracy first", hint="--x id-accuracy --x id-robustness"
        )
    least = [parse_share(text, "--threshold") or None for text in levels]
    by_level = r2_by_threshold(
        table, shifts_of(y), least, accuracy=x[0], robustness=x[1], space=space, models=chosen.models
    )
    records: list[dict[str, object]] = []
    for level, made in by_level.items():
        for cell in made.record():
            if cell["n"]:
                n, r2 = int(str(cell["n"])), float(str(cell["r2"]))
                records.append({"least": level or 0.0} | cell | {"cautions": list(cautions(n, r2))})
    if print_records(records, json=how.json, csv=how.csv):
        return
    rows = [
        [
            f"{100 * number(each, 'least'):g} %",
            *(str(each[name]) for name in ("kind", "shift")),
            shown(number(each, "r2"), 3),
            str(each["n"]),
            "; ".join(words(each)),
        ]
        for each in records
    ]
    columns = [f"{x[0]} + {x[1]} at least", "kind", "shift", "R²", "models", "caution"]
    show_table(columns, rows, right=["R²", "models"], latex=how.latex)


def show_testbed_table(table: Table, which: int, how: Output) -> None:
    """Table 1 or 2 of arXiv:2007.00644, computed from the public results."""
    if which == 1:
        rows = table_1(table)
        if print_records([row._asdict() for row in rows], json=how.json, csv=how.csv):
            return
        names = ["accuracy", "effective robustness, points", "average corruption", "average PGD"]
        texts = [[row.model, *("" if np.isnan(v) else percent(v, 2) for v in row[1:])] for row in rows]
        show_table(["model", *names], texts, right=names, latex=how.latex)
        return
    made = table_2(table)
    cells = [(i, j) for i in range(len(made.synthetic)) for j in range(len(made.natural))]
    records = [
        {
            "synthetic": made.synthetic[i],
            "natural": made.natural[j],
            "pearson": float(made.values[i, j]),
            "low": float(made.low[i, j]),
            "high": float(made.high[i, j]),
            "n": int(made.n[i, j]),
        }
        for i, j in cells
    ]
    if print_records(records, json=how.json, csv=how.csv):
        return
    texts = [[name, *(shown(value, 2) for value in made.values[i])] for i, name in enumerate(made.synthetic)]
    show_table(["effective robustness to", *made.natural], texts, right=list(made.natural), latex=how.latex)
