"""agree: the posterior agreement of two sets of logits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from holdfast.cli.output import (
    STORE,
    CsvOption,
    JsonOption,
    LatexOption,
    StoreOption,
    open_store,
    out,
    print_csv,
    print_json,
    show_table,
)
from holdfast.core.rounding import percent

if TYPE_CHECKING:
    from holdfast.core.types import Score
    from holdfast.metrics.agreement import Agreement
    from holdfast.store.logit_files import LogitFile
    from holdfast.store.rows import Rows

Side = Annotated[str, typer.Argument(help="A .npy, .csv or .parquet file of logits, or a run's key.")]


class _Sides(NamedTuple):
    """Both sets, paired, and how many samples were left out for want of an answer."""

    one: LogitFile
    other: LogitFile
    left_out: int


def agree_command(
    one: Side,
    other: Side,
    labels: Annotated[
        Path | None, typer.Option("--labels", help="A .npy or .csv of labels, for accuracies; not needed.")
    ] = None,
    mode: Annotated[str, typer.Option("--mode", help="`exact`, or `adam`: the authors' optimiser.")] = "exact",
    epochs: Annotated[int, typer.Option("--epochs", help="Of the authors' optimiser.", min=1)] = 500,
    resamples: Annotated[int, typer.Option("--resamples", help="Bootstrap draws; 0: no intervals.", min=0)] = 1000,
    store: StoreOption = STORE,
    csv: CsvOption = False,
    latex: LatexOption = False,
    json: JsonOption = False,
) -> None:
    """Posterior agreement of two sets of logits of the same samples, of any modality; no labels needed."""
    from holdfast.metrics.agreement import posterior_agreement

    sides = _sides(one, other, store)
    made = posterior_agreement(sides.one.logits, sides.other.logits, mode=mode, epochs=epochs, resamples=resamples)
    accuracies = _accuracies(sides, labels)
    if json or csv:
        record = {"one": one, "other": other, **made.record(), **_flat(accuracies), "left_out": sides.left_out}
        print_json(record) if json else print_csv([record])
        return
    show_table(["", "value", "95 % interval"], _lines(made, accuracies), latex=latex)
    if latex:
        return
    left = f", {sides.left_out} without an answer left out" if sides.left_out else ""
    out.print(f"\nn = {made.score.n:,}, {made.classes} classes{left}; at most ln {made.classes} = {_text(made)}")
    if len(made.maxima) > 1:
        maxima = ", ".join(f"{beta:.3g} (F = {total:.2f})" for beta, total in made.maxima)
        out.print(f"F has {len(made.maxima)} maxima, at β = {maxima}; the largest counts")


def _flat(accuracies: dict[str, Score]) -> dict[str, float]:
    return {
        f"{key}{part}": getattr(score, field)
        for key, score in zip(("accuracy", "afr_t"), accuracies.values(), strict=False)
        for part, field in (("", "value"), ("_low", "low"), ("_high", "high"))
    }


def _text(made: Agreement) -> str:
    return f"{math.log(made.classes):.4f}, of which {percent(made.share)} %"


def _lines(made: Agreement, accuracies: dict[str, Score]) -> list[list[str]]:
    same = made.same
    return [
        ["posterior agreement", f"{made.score.value:.4f}", _interval(made.score, 4)],
        ["β", f"{made.beta.value:.4g}", _interval(made.beta, 3)],
        ["F", f"{made.total:.2f}", ""],
        ["same prediction (AFR_P), %", percent(same.value), f"[{percent(same.low)}, {percent(same.high)}]"],
        *[
            [name, percent(score.value), f"[{percent(score.low)}, {percent(score.high)}]"]
            for name, score in accuracies.items()
        ],
    ]


def _interval(score: Score, digits: int) -> str:
    if math.isnan(score.low):
        return ""
    return f"[{score.low:.{digits}f}, {score.high:.{digits}f}]"


def _sides(one: str, other: str, store: str) -> _Sides:
    import numpy as np

    from holdfast.store.logit_files import LogitFile, paired

    read = [_read(name, store) for name in (one, other)]
    first, second = paired(*(file for file, _ in read))
    if not any(is_ours for _, is_ours in read) or len(first.logits) != len(second.logits):
        return _Sides(first, second, 0)
    # a row of ours without logits is a sample that failed, and says so; NaN in any other file is an error
    known = np.ones(len(first.logits), dtype=bool)
    for file, is_ours in zip((first, second), (is_ours for _, is_ours in read), strict=True):
        if is_ours:
            known &= ~np.isnan(file.logits).any(axis=1)
    kept = [
        LogitFile(
            file.name,
            file.logits[known],
            None if file.ids is None else tuple(name for name, keep in zip(file.ids, known, strict=True) if keep),
            None if file.labels is None else file.labels[known],
            file.classes,
        )
        for file in (first, second)
    ]
    return _Sides(kept[0], kept[1], int((~known).sum()))


def _read(name: str, store: str) -> tuple[LogitFile, bool]:
    """A side, and whether it is rows of ours."""
    from holdfast.metrics.along_ratios import full_logits
    from holdfast.store.logit_files import FORMATS, LogitFile, read_logits
    from holdfast.store.rows import Rows as OurRows

    is_file = Path(name).suffix.lower() in FORMATS or Path(name).is_file()
    made = read_logits(Path(name)) if is_file else _run(name, store)
    if isinstance(made, OurRows):
        footer = made.footer
        about = f"{footer.model} under {footer.scenario}"
        return LogitFile(about, full_logits(made), tuple(made.ids), made.labels), True
    return made, False


def _run(name: str, store: str) -> Rows:
    from holdfast.core.errors import Misuse, unknown

    kept = open_store(store)
    keys = [key for key in kept.footers() if key.startswith(name)]
    if len(keys) > 1:
        raise Misuse(f"{len(keys)} runs begin with `{name}`", hint="give more of the key")
    if not keys:
        raise unknown("run or file", name, kept.footers(), otherwise="a .npy, .csv or .parquet file, or a key")
    return kept.read(keys[0])


def _accuracies(sides: _Sides, labels: Path | None) -> dict[str, Score]:
    from holdfast.core.errors import Misuse
    from holdfast.core.intervals import wilson
    from holdfast.store.logit_files import read_labels

    if labels is not None:
        truth = read_labels(labels)
        if len(truth) != len(sides.one.logits) + sides.left_out:
            raise Misuse(f"{labels} has {len(truth)} labels for {len(sides.one.logits) + sides.left_out} samples")
        if sides.left_out:
            raise Misuse("labels come with the rows already", hint="leave --labels out")
    elif sides.one.labels is not None:
        truth = sides.one.labels
    elif sides.other.labels is not None:
        truth = sides.other.labels
    else:
        return {}
    names = ("right in the first, %", "right in the second (AFR_T), %")
    return {
        name: wilson(int((file.logits.argmax(axis=1) == truth).sum()), len(truth))
        for name, file in zip(names, (sides.one, sides.other), strict=True)
    }
