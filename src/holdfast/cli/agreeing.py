"""agree: the posterior agreement of two sets of logits, also of mixtures of them, and as a function of β."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from holdfast.cli.output import STORE, Output, StoreOption, open_store, out
from holdfast.core.errors import Misuse, unknown
from holdfast.core.rounding import percent

if TYPE_CHECKING:
    from holdfast.core.types import Score
    from holdfast.metrics.agreement import Agreement
    from holdfast.store.logit_files import LogitFile
    from holdfast.store.rows import Rows

BETAS = 41  # points of a curve over β
TITLES = {
    "afr_p": "same prediction (AFR_P), %",
    "accuracy": "right in the first, %",
    "afr_t": "right in the second (AFR_T), %",
}
Line = dict[str, object]
Side = Annotated[str, typer.Argument(help="A .npy, .csv or .parquet file of logits, or a run's key.")]


_Side = tuple["LogitFile", "Rows | None"]  # logits, and the rows that they are of where it is a run of ours


class _Sides(NamedTuple):
    """Both sets, paired, and how many samples were left out for want of an answer."""

    one: LogitFile
    other: LogitFile
    left_out: int


def agree_command(
    *,
    one: Side,
    other: Side,
    labels: Annotated[Path | None, typer.Option(help="A .npy or .csv of labels, for accuracies; not needed.")] = None,
    mode: Annotated[str, typer.Option(help="`exact`, or `adam`: the authors' optimiser.")] = "exact",
    epochs: Annotated[int, typer.Option(help="Of the authors' optimiser.", min=1)] = 500,
    resamples: Annotated[int, typer.Option(help="Bootstrap draws; 0: no intervals.", min=0)] = 1000,
    ratio: Annotated[
        list[str] | None,
        typer.Option(
            help="Mix: this share of the samples from the second set, the rest from the first, e.g. 0.1,0.5,1; `all`: "
            "the paper's ratios. Of an attack those of the smallest size, else the last.",
        ),
    ] = None,
    curve: Annotated[bool, typer.Option("--curve", help="F and PA as functions of β, around the best one.")] = False,
    store: StoreOption = STORE,
    how: Output,
) -> None:
    """Posterior agreement of two sets of logits of the same samples, of any modality; no labels needed."""
    from holdfast.metrics.agreement import posterior_agreement

    if ratio and curve:
        raise Misuse("--ratio and --curve are two tables", hint="ask for one of them")
    if ratio and mode != "exact":
        raise Misuse("--ratio takes the exact β", hint="leave --mode out")
    pair = _read(one, store), _read(other, store)
    sides = _sides(*pair)
    if ratio or curve:
        lines = _along_ratios(pair, sides, ratio, resamples, labels) if ratio else _along_betas(sides)
        names = [name for name in lines[0] if not name.endswith(("_low", "_high"))]
        body = [[_figure(line[name]) for name in names] for line in lines]
        how.show(lines, [name.replace("_", " ") for name in names], body)
        return
    made = posterior_agreement(sides.one.logits, sides.other.logits, mode=mode, epochs=epochs, resamples=resamples)
    accuracies = _accuracies(sides, labels)
    record = {"one": one, "other": other, **made.record(), **_flat(accuracies), "left_out": sides.left_out}
    is_table = how.show([record], ["", "value", "95 % interval"], _lines(made, accuracies), whole=record)
    if how.latex or not is_table:
        return
    left = f", {sides.left_out} without an answer left out" if sides.left_out else ""
    most = f"at most ln {made.classes} = {math.log(made.classes):.4f}, of which {percent(made.share)} %"
    out.print(f"\nn = {made.score.n:,}, {made.classes} classes{left}; {most}")
    if made.score.why:
        out.print(f"posterior agreement and β without an interval: {made.score.why}")
    if len(made.maxima) > 1:
        maxima = ", ".join(f"{beta:.3g} (F = {total:.2f})" for beta, total in made.maxima)
        out.print(f"F has {len(made.maxima)} maxima, at β = {maxima}; the largest counts")


def _flat(scores: dict[str, Score]) -> dict[str, float]:
    """Scores with their bounds, as fields of a record."""
    return {name: number for key, score in scores.items() for name, number in score.flat(key).items()}


def _lines(made: Agreement, accuracies: dict[str, Score]) -> list[list[str]]:
    return [
        ["posterior agreement", f"{made.score.value:.4f}", _interval(made.score, 4)],
        ["β", f"{made.beta.value:.4g}", _interval(made.beta, 3)],
        ["F", f"{made.total:.2f}", ""],
        *[
            [TITLES[name], percent(score.value), f"[{percent(score.low)}, {percent(score.high)}]"]
            for name, score in {"afr_p": made.same, **accuracies}.items()
        ],
    ]


def _interval(score: Score, digits: int) -> str:
    if math.isnan(score.low):
        return ""
    return f"[{score.low:.{digits}f}, {score.high:.{digits}f}]"


def _along_ratios(
    pair: tuple[_Side, _Side], sides: _Sides, ratio: list[str], resamples: int, labels: Path | None
) -> list[Line]:
    """PA, β and failure rates of mixtures; of two runs with labels also accuracy and confidence."""
    from holdfast.metrics.along_ratios import (
        ADVERSARIAL_RATIOS,
        SHIFT_RATIOS,
        over_adversarial_ratio,
        over_shift_ratio,
    )

    (_, clean), (_, changed) = pair
    is_attack = changed is not None and changed.footer.is_attacked
    ratios = _ratios(ratio, ADVERSARIAL_RATIOS if is_attack else SHIFT_RATIOS)
    if clean is None or changed is None or not (clean.has_labels and changed.has_labels):
        return _mixed_files(sides, ratios, resamples, labels)
    if labels is not None:
        raise Misuse("labels come with the rows already", hint="leave --labels out")
    along = over_adversarial_ratio if is_attack else over_shift_ratio
    return [
        {
            "ratio": point.ratio,
            **_numbers(
                pa=point.agreement.score,
                beta=point.agreement.beta,
                afr_t=point.afr_t,
                afr_p=point.afr_p,
                confidence_before=point.confidence.before,
                confidence_when_broken=point.confidence.after,
            ),
            "n": point.agreement.score.n,
            "left_out": point.left_out,
        }
        for point in along(clean, changed, ratios=ratios, resamples=resamples)
    ]


def _mixed_files(sides: _Sides, ratios: Sequence[float], resamples: int, labels: Path | None) -> list[Line]:
    """Mixtures of two files: the last samples come from the second."""
    from holdfast.metrics.agreement import checked, posterior_agreement

    checked(sides.one.logits, sides.other.logits)
    lines: list[Line] = []
    for ratio in ratios:
        kept = len(sides.one.logits) - round(ratio * len(sides.one.logits))
        mixed = sides.other.logits.copy()
        mixed[:kept] = sides.one.logits[:kept]
        made = posterior_agreement(sides.one.logits, mixed, resamples=resamples)
        numbers = _numbers(pa=made.score, beta=made.beta, afr_p=made.same)
        numbers |= _flat(_accuracies(sides._replace(other=replace(sides.other, logits=mixed)), labels))
        lines.append({"ratio": ratio, **numbers, "n": made.score.n, "left_out": sides.left_out})
    return lines


def _along_betas(sides: _Sides) -> list[Line]:
    """F and PA over β, a hundredfold to either side of where PA is largest."""
    import numpy as np

    from holdfast.metrics.agreement import checked, posterior_agreement

    pair = checked(sides.one.logits, sides.other.logits)
    best = posterior_agreement(sides.one.logits, sides.other.logits, resamples=0).beta.value
    middle = best if 0 < best < math.inf else 1.0
    betas = [0.0, *(middle * np.logspace(-2, 2, BETAS)).tolist()]
    totals = pair.terms(betas).sum(axis=0).tolist()
    return [
        {"beta": beta, "f": total, "pa": total / pair.n + math.log(pair.classes)}
        for beta, total in zip(betas, totals, strict=True)
    ]


def _ratios(given: list[str], every: Sequence[float]) -> list[float]:
    made: list[float] = []
    for word in (word.strip() for text in given for word in text.split(",")):
        try:
            made += every if word == "all" else [float(word)]
        except ValueError as error:
            raise Misuse(f"a ratio is a number from 0 to 1, or `all`, got `{word}`") from error
    for ratio in made:
        if not 0 <= ratio <= 1:
            raise Misuse(f"a ratio is a number from 0 to 1, or `all`, got `{ratio:g}`")
    return made


def _numbers(**scores: Score) -> Line:
    """Scores as flat fields; what has no value is none, and an infinite β the text `inf`, as JSON has neither."""
    parts = _flat(scores)
    return {key: None if math.isnan(value) else "inf" if math.isinf(value) else value for key, value in parts.items()}


def _figure(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _sides(one: _Side, other: _Side) -> _Sides:
    import numpy as np

    from holdfast.store.logit_files import paired

    first, second = paired(one[0], other[0])
    ours = [rows is not None for _, rows in (one, other)]
    if not any(ours) or len(first.logits) != len(second.logits):
        return _Sides(first, second, 0)
    # a row of ours without logits is a sample that failed, and says so; NaN in any other file is an error
    known = np.ones(len(first.logits), dtype=bool)
    for file, is_ours in zip((first, second), ours, strict=True):
        if is_ours:
            known &= ~np.isnan(file.logits).any(axis=1)
    kept = [
        replace(
            file,
            logits=file.logits[known],
            ids=None if file.ids is None else tuple(compress(file.ids, known)),
            labels=None if file.labels is None else file.labels[known],
        )
        for file in (first, second)
    ]
    return _Sides(kept[0], kept[1], int((~known).sum()))


def _read(name: str, store: str) -> _Side:
    """A side, and its rows where it is a run of ours."""
    from holdfast.metrics.along_ratios import full_logits
    from holdfast.store.logit_files import FORMATS, LogitFile, read_logits
    from holdfast.store.rows import Rows as OurRows

    is_file = Path(name).suffix.lower() in FORMATS or Path(name).is_file()
    made = read_logits(Path(name)) if is_file else _run(name, store)
    if isinstance(made, OurRows):
        footer = made.footer
        about = f"{footer.model} under {footer.scenario}"
        return LogitFile(about, full_logits(made), tuple(made.ids), made.labels if made.has_labels else None), made
    return made, None


def _run(name: str, store: str) -> Rows:
    kept = open_store(store)
    keys = [key for key in kept.footers() if key.startswith(name)]
    if len(keys) > 1:
        raise Misuse(f"{len(keys)} runs begin with `{name}`", hint="give more of the key")
    if not keys:
        raise unknown("run or file", name, kept.footers(), otherwise="a .npy, .csv or .parquet file, or a key")
    return kept.read(keys[0])


def _accuracies(sides: _Sides, labels: Path | None) -> dict[str, Score]:
    from holdfast.core.intervals import wilson
    from holdfast.store.logit_files import read_labels

    truth = sides.other.labels if sides.one.labels is None else sides.one.labels
    if labels is not None:
        truth = read_labels(labels)
        if len(truth) != len(sides.one.logits) + sides.left_out:
            raise Misuse(f"{labels} has {len(truth)} labels for {len(sides.one.logits) + sides.left_out} samples")
        if sides.left_out:
            raise Misuse("labels come with the rows already", hint="leave --labels out")
    if truth is None:
        return {}
    return {
        name: wilson(int((file.logits.argmax(axis=1) == truth).sum()), len(truth))
        for name, file in (("accuracy", sides.one), ("afr_t", sides.other))
    }
