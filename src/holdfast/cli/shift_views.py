"""What `holdfast figure matrix`, `boxes` and `limits` print and draw: scores under each shift, over models."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import numpy as np

from holdfast.cli.figure_views import FigureInputs, settings_named
from holdfast.cli.output import Output, err, warn
from holdfast.cli.trend_views import with_cautions
from holdfast.core.errors import HoldfastError, Misuse, unknown
from holdfast.core.rounding import percent, shown
from holdfast.metrics.catastrophe import FEWEST, catastrophes, loss_boxes
from holdfast.metrics.scopes import written
from holdfast.site.drawings import BarRow, BoxRow, bar_drawing, box_drawing, heat_map
from holdfast.trends.bands import conversion_rate_score, upper_limit_score
from holdfast.trends.derived_axes import UNDISTURBED, is_reference_setting, reference_setting
from holdfast.trends.fits import fit
from holdfast.trends.matrices import ACCURACY, KINDS, ROBUSTNESS, r2_matrix, shifts_of
from holdfast.trends.spaces import Floats

# matrices of R²


def matrix_view(
    inputs: FigureInputs,
    x: Sequence[str],
    y: Sequence[str],
    kinds: Sequence[str],
    levels: Sequence[float],
    how: Output,
) -> ET.Element:
    """A row per kind, or per kind and threshold; a column per shift."""
    if x and len(x) != 2:
        raise Misuse(f"two --x, accuracy first, got {len(x)}", hint="--x id-accuracy --x id-robustness")
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("kind", kind, KINDS)
    accuracy, robustness = x or UNDISTURBED
    shifts = shifts_of(_shifted(inputs, y))
    models = inputs.table.models if levels else inputs.chosen.models
    records: list[dict[str, object]] = []
    rows: list[str] = []
    values: list[Floats] = []
    sweep: Sequence[float | None] = levels or [None]
    for level in sweep:
        made = r2_matrix(
            inputs.table, shifts, accuracy=accuracy, robustness=robustness, space=inputs.space, models=models,
            least=level,
        )  # fmt: skip
        for i, kind in enumerate(made.kinds):
            if (kinds and kind not in kinds) or not (made.n[i] >= 3).any():
                continue
            rows.append(kind if level is None else f"{kind}, ≥ {100 * level:g}" if level else f"{kind}, all")
            values.append(made.values[i])
        start: dict[str, object] = {} if level is None else {"least": level}
        records += [
            start | with_cautions(cell)
            for cell in made.record()
            if (not kinds or cell["kind"] in kinds) and int(str(cell["n"])) >= 3
        ]
    if not values:
        raise HoldfastError(
            "no shift has three models with both scores", hint="evaluate models on the suite, or import their scores"
        )
    stacked = np.stack(values)
    kept = [j for j in range(len(shifts)) if np.isfinite(stacked[:, j]).any()]
    columns = [shifts[j].name for j in kept]
    texts = [[shifts[j].name, *("" if math.isnan(value) else shown(value, 2) for value in stacked[:, j])] for j in kept]
    if how.show(records, ["R² under", *rows], texts, right=rows):
        counts = [int(str(each["n"])) for each in records]
        about = f"over {min(counts)} to {max(counts)} models, in {inputs.space} space; --json has intervals"
        err.print(about, markup=False)
    return heat_map(stacked[:, kept], rows, columns, f"R², {inputs.benchmark}")


def _shifted(inputs: FigureInputs, texts: Sequence[str]) -> list[str]:
    """The settings of shifts: as named, or all that end like a score and are no reference."""
    if texts:
        return settings_named(inputs, texts)
    ends = (ACCURACY, ROBUSTNESS)
    shares = [name for name in inputs.table.settings if name in inputs.shares]
    shifted = [name for name in shares if name.endswith(ends) and not is_reference_setting(name)]
    if not shifted:
        raise Misuse("no setting ends in -accuracy or -robustness", hint="name them: --y PATTERN")
    return shifted


# losses


def boxes_view(inputs: FigureInputs, y: Sequence[str], how: Output) -> ET.Element:
    """A box per shift; models that lose far more than the others are named."""
    table = inputs.table.of(inputs.shown)
    names = _shifted(inputs, y)
    pairs = [(name, reference_setting(name, table.settings)) for name in names]
    made = loss_boxes(table, [pair for pair in pairs if pair[0] != pair[1]])
    if not made:
        raise HoldfastError("no model has a score under a shift and without it", hint="--y names the shifts")
    flags = [each for box in made if box.n > FEWEST for each in catastrophes(table, box.reference, [box.shift])]
    whole = {"boxes": [box.record() for box in made], "flags": [each._asdict() for each in flags]}
    records = [{**box.record(), "outliers": "; ".join(one.model for one in box.outliers)} for box in made]
    columns = ["shift", "mean loss, points", "median", "quartiles", "whiskers", "models", "beyond the whiskers"]
    rows = [
        [
            box.shift,
            *(percent(value) for value in (box.mean, box.median)),
            f"{percent(box.first)} to {percent(box.third)}",
            f"{percent(box.low)} to {percent(box.high)}",
            str(box.n),
            ", ".join(f"{each.model} {percent(each.loss)}" for each in box.outliers[:3])
            + (f" and {len(box.outliers) - 3} more" if len(box.outliers) > 3 else ""),
        ]
        for box in made
    ]
    if how.show(records, columns, rows, right=columns[1:-1], whole=whole):
        for each in flags:
            warn(f"{each.flag.name}: {each.model} {each.flag.explanation}")
    marks = [
        BoxRow(box.shift, (box.low, box.first, box.median, box.third, box.high), [each.loss for each in box.outliers])
        for box in made
    ]
    return box_drawing(marks, f"Loss under each shift, points, {inputs.benchmark}")


# upper limits and slopes


def limits_view(inputs: FigureInputs, y: Sequence[str], how: Output) -> ET.Element:
    """The line of every shift at 100 %, and its slope, with intervals over models."""
    records: list[dict[str, object]] = []
    rows: list[list[str]] = []
    bars: list[BarRow] = []
    for name in _shifted(inputs, y):
        reference = reference_setting(name, inputs.table.settings)
        fitted = inputs.fitted(name, reference)
        if len(fitted) < 3:
            continue
        line = fit(inputs.table, name, reference, space="linear", models=fitted)
        limit, rate = upper_limit_score(line), conversion_rate_score(line)
        ends = {
            f"{part}{end}": value
            for part, score in (("upper_limit", limit), ("slope", rate))
            for end, value in (("", score.value), ("_low", score.low), ("_high", score.high))
        }
        about = {"intercept": line.intercept, "r2": line.r2, "n": line.n, "cautions": list(line.cautions)}
        records.append({"shift": name, "reference": reference, **ends, **about})
        texts = [written(limit, "percent"), written(rate, "number"), percent(line.intercept), shown(line.r2, 3)]
        rows.append([name, *texts, str(line.n), "; ".join(line.cautions)])
        bars.append(BarRow(name, [(one.value, one.low, one.high) for one in (limit, rate)]))
    if not records:
        raise HoldfastError(
            "no shift has three models with both scores", hint="evaluate models on the suite, or import their scores"
        )
    columns = ["shift", "upper limit", "slope", "intercept, points", "R²", "models", "caution"]
    how.show(records, columns, rows, right=columns[1:-1])
    return bar_drawing(bars, ["upper limit", "slope"], inputs.benchmark)
