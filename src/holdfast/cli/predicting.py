"""The command that predicts accuracy under a shift without its labels."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.output import STORE, ModelsOption, Output, StoreOption, err, interval, open_store, out
from holdfast.core.errors import Misuse, unknown
from holdfast.core.rounding import percent

if TYPE_CHECKING:
    from holdfast.store import Rows, Store
    from holdfast.trends.agreement_line import Method, Prediction
    from holdfast.trends.confidence_estimates import ByConfidence

SURE = {"thresholded": "ATC", "difference": "DoC", "average": "mean confidence"}


def predict_command(
    *,
    reference: Annotated[str, typer.Option("--x", help="The scenario without the shift, whose labels are used.")],
    shifted: Annotated[str, typer.Option("--y", help="The scenario to predict; its labels are not used.")],
    model: ModelsOption = None,
    method: Annotated[
        str, typer.Option(help="aline-d (solves all pairs together) or aline-s (one line for all).")
    ] = "aline-d",
    check: Annotated[bool, typer.Option("--check", help="Also show what the labels say, where there are any.")] = False,
    draws: Annotated[int, typer.Option(help="How often samples are drawn again for the intervals.")] = 500,
    store: StoreOption = STORE,
    how: Output,
) -> None:
    """Accuracy under a shift without its labels, from how often models agree and how sure they are.

    Robust accuracy if both scenarios are attacked.
    """
    from holdfast.store.stored_names import stored_model, stored_scenarios
    from holdfast.trends.agreement_line import predict_accuracy
    from holdfast.trends.confidence_estimates import by_confidence
    from holdfast.trends.shared_predictions import side_by_side

    if draws < 1:
        raise Misuse(f"--draws is 1 or more, got {draws}")
    kept = open_store(store)
    names = stored_scenarios(kept, [reference, shifted])
    reference, shifted = names[reference], names[shifted]
    models = [stored_model(kept, text) for text in model or ()]
    before, after = _measured(kept, reference, models), _measured(kept, shifted, models)
    both = [name for name in before if name in after]
    if not both:
        raise Misuse(f"no model was measured under both `{reference}` and `{shifted}`", hint="see `holdfast scores`")
    one, other = (side_by_side({name: rows[name] for name in both}) for rows in (before, after))
    made = predict_accuracy(
        both,
        one.predictions,
        one.labels,
        other.predictions,
        method=_method(method),
        same_samples=one.ids == other.ids,
        draws=draws,
    )
    sure = {name: by_confidence(before[name].confidence, before[name].correct, after[name].confidence) for name in both}
    actual = dict(zip(both, other.correct.mean(axis=1).tolist(), strict=True)) if check else {}
    left_out = one.left_out + other.left_out
    if left_out:
        err.print(f"{left_out} samples left out: not every model saw them")
    numbers = [*SURE.values(), *(["measured"] if check else [])]
    columns, right = ["model", "without the shift", "by agreement", *numbers], ["without the shift", *numbers]
    records = _models(made, sure, actual)
    whole = _about(made, reference, shifted) | {"models": records, "left_out": left_out}
    rows = [
        [each.model, _percent(each.reference), interval(each.accuracy), *map(_percent, sure[each.model])]
        + ([_percent(actual[each.model])] if actual else [])
        for each in made.models
    ]
    if how.show(records, columns, rows, right=right, whole=whole) and not how.latex:
        _print_line(made, sure, actual)
    if made.refused:
        err.print(f"predictions by agreement without an interval: {made.refused}; do not rely on them")


def _percent(share: float) -> str:
    return "" if share != share else f"{percent(share)} %"


def _print_line(made: Prediction, sure: dict[str, ByConfidence], actual: dict[str, float]) -> None:
    from holdfast.trends.confidence_estimates import WHY

    line, depends = made.line, made.dependence
    assumed = "the interval takes them to go together so under the shift, by one measure or another"
    out.print(
        f"\nagreement of {line.pairs} pairs: R² {line.r2:.3f}, slope {line.slope:.3f}, intercept {line.intercept:.3f} "
        "(probit)" + (f"; {line.at_edge} pairs agree always or never" if line.at_edge else "")
    )
    out.print(
        f"errors without the shift: κ {depends.kappa:.2f} over {depends.pairs} pairs (0 as by chance, 1 on the same "
        f"samples), {_percent(depends.same) or 'none'} of common errors with the same answer"
        + ("" if made.refused else f"; {assumed}")
    )
    out.print(f"ATC, DoC and mean confidence without an interval: {WHY}")
    if actual:
        predicted = {"agreement": {each.model: each.accuracy.value for each in made.models}}
        predicted |= {title: {name: getattr(each, way) for name, each in sure.items()} for way, title in SURE.items()}
        apart = {way: [abs(some[name] - actual[name]) for name in actual] for way, some in predicted.items()}
        errors = [f"{way} {percent(sum(each) / len(each))}" for way, each in apart.items() if sum(each) == sum(each)]
        out.print(f"mean absolute error, points: {', '.join(errors)}")


def _method(name: str) -> Method:
    methods: dict[str, Method] = {"aline-d": "aline-d", "aline-s": "aline-s"}
    if name not in methods:
        raise unknown("method", name, methods)
    return methods[name]


def _measured(store: Store, scenario: str, models: list[str]) -> dict[str, Rows]:
    """The largest run of each model under a scenario."""
    from holdfast.metrics.summary import largest_selection

    footers = list(store.footers().values())
    if scenario not in {footer.scenario for footer in footers}:
        raise unknown("measured scenario", scenario, {footer.scenario for footer in footers})
    rows_of_model: dict[str, Rows] = {}
    for footer in sorted(largest_selection(footers), key=lambda footer: (footer.model, footer.n)):
        if footer.scenario == scenario and (not models or footer.model in models):
            rows = store.read_or_tell(footer.key)
            if rows is not None:
                rows_of_model[footer.model] = rows
    for name in models:
        if name not in rows_of_model:
            raise unknown("model measured under it", name, rows_of_model)
    return rows_of_model


def _about(made: Prediction, reference: str, shifted: str) -> dict[str, object]:
    return {
        "x": reference,
        "y": shifted,
        "method": made.method,
        "line": asdict(made.line) | {"holds": made.line.holds},
        "dependence": made.dependence._asdict(),
        "refused": made.refused,
    }


def _models(made: Prediction, sure: dict[str, ByConfidence], actual: dict[str, float]) -> list[dict[str, object]]:
    return [
        {
            "model": each.model,
            "reference": each.reference,
            "predicted": each.accuracy.value,
            "low": each.accuracy.low,
            "high": each.accuracy.high,
            "n": each.accuracy.n,
            "atc": sure[each.model].thresholded,
            "doc": sure[each.model].difference,
            "average_confidence": sure[each.model].average,
        }
        | ({"measured": actual[each.model]} if actual else {})
        for each in made.models
    ]
