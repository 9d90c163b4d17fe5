"""What to run next: the first gap or doubt of a report, and the command that closes it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.core.refs import parse_ref
from holdfast.core.suites import load_suite
from holdfast.core.values import number_text, value_text
from holdfast.metrics.multi_attack import NORMS
from holdfast.site.conditions import SEARCHED
from holdfast.site.half_lost import HalfLost, half_lost, radius_of
from holdfast.site.headline import Headline, headline, run_threat, unmeasured_training
from holdfast.site.model_results import MeasuredRun, ModelResults
from holdfast.site.report_verdict import is_chance
from holdfast.site.stated_radii import standard_radii
from holdfast.store.footer import Footer

DEFAULT_STORE = "holdfast-store"
GENERAL = "quick"  # the suite with a part for every kind of change, on any dataset
STRONG = ("autoattack", "mm", "apgd-fab")
AROUND, BEYOND = (1 / 4, 1 / 2, 1, 2, 4), (1, 2, 4)
WIDEST = {"linf": 1.0}  # images lie in [0, 1]


@dataclass(frozen=True, slots=True)
class NextStep:
    """A command, and in a sentence what it is for."""

    reason: str
    command: str


def next_step(results: ModelResults) -> NextStep:
    """The first that applies: doubts about the numbers, then what was not measured, then what makes them firmer."""
    if results.unreadable:
        return NextStep("Some rows cannot be read: see which, and why.", _line(["holdfast", "verify"], results))
    dataset, runs = max(results.datasets.items(), key=lambda item: len(item[1]))
    footer = max((run.footer for run in runs), key=lambda one: (one.finished, one.key))
    if all(run.footer.command.startswith("holdfast import") for run in results.files):
        return NextStep("These are imported predictions: see every score.", _line(["holdfast", "scores"], results))
    for gap in GAPS:
        suggested = gap(runs, footer)
        if suggested is not None:
            return NextStep(suggested.reason, _command(suggested, results, footer))
    return _compare(results, dataset)


@dataclass(frozen=True, slots=True)
class SuggestedRun:
    """What should be measured, and why: scenarios, or a part of the general suite; `check` looks at the model."""

    reason: str
    scenarios: tuple[str, ...] = ()
    part: str = ""
    check: bool = False
    whole: bool = False


Gap = Callable[[Sequence[MeasuredRun], Footer], SuggestedRun | None]


def _doubt(runs: Sequence[MeasuredRun], footer: Footer) -> SuggestedRun | None:  # noqa: ARG001
    errors = sorted({flag.name for run in runs for flag in run.footer.flags if flag.level == "error"})
    if is_chance(headline(runs, "undisturbed")):
        return SuggestedRun("See whether the model is fed and read as it should be.", check=True)
    return (
        SuggestedRun(f"See whether the number means anything: {errors[0]} was raised.", check=True) if errors else None
    )


def _clean(runs: Sequence[MeasuredRun], footer: Footer) -> SuggestedRun | None:
    if headline(runs, "undisturbed") is not None:
        return None
    return SuggestedRun("Measure the undisturbed images: without them no loss is known.", (footer.dataset,))


def _trained(runs: Sequence[MeasuredRun], footer: Footer) -> SuggestedRun | None:
    missing = unmeasured_training(runs)
    if not missing or not footer.card.differentiable:
        return None
    one = missing[0]
    radius = one.radius or next(
        (std.radius for std in standard_radii(footer.dataset) if std.threat == one.threat), None
    )
    attack = f"pgd-{one.threat}" if one.threat in NORMS else one.attack
    at = f":radius={number_text(radius)}" if radius is not None else ""
    return SuggestedRun(
        f"Measure what it was trained against: {attack}{f' at radius {number_text(radius)}' if radius else ''}.",
        (f"{footer.dataset}+{attack}{at}",),
    )


def _attacked(runs: Sequence[MeasuredRun], footer: Footer) -> SuggestedRun | None:
    if headline(runs, "attacked") is not None:
        return None
    if footer.card.differentiable:
        return SuggestedRun("Measure attacks: none was.", part="attacks")
    standard = next(std.radius for std in standard_radii(footer.dataset) if std.threat == "linf")
    attack = f"square-linf:radius={number_text(standard)}"
    return SuggestedRun("Measure an attack that needs no gradients: none was.", (f"{footer.dataset}+{attack}",))


def _half(runs: Sequence[MeasuredRun], footer: Footer) -> SuggestedRun | None:
    chosen = headline(runs, "attacked")
    if chosen is None:
        return None
    known = half_lost([run for run in runs if run.group == "attacked" and run_threat(run) == chosen.threat])
    if known is None or (known.radius is not None and known.radius.low > 0):
        return None
    radii = _grid(known, chosen)
    if len(radii) < 2 and known.radius is None:
        return None
    grid = ",".join(number_text(radius) for radius in radii)
    return SuggestedRun(
        "Find the radius where half of what it gets right is lost.",
        (f"{footer.dataset}+sweep:attack=({_attack_text(chosen.run)}),radii=[{grid}]",),
    )


def _corrupted(runs: Sequence[MeasuredRun], footer: Footer) -> SuggestedRun | None:  # noqa: ARG001
    some = headline(runs, "corrupted") is not None
    return None if some else SuggestedRun("Measure corruptions: none was.", part="corruptions")


def _together(runs: Sequence[MeasuredRun], footer: Footer) -> SuggestedRun | None:
    if headline(runs, "both") is not None or not footer.card.differentiable:
        return None
    return SuggestedRun("Measure corruption and attack together: that was not.", part="combinations")


def _stronger(runs: Sequence[MeasuredRun], footer: Footer) -> SuggestedRun | None:
    chosen = headline(runs, "attacked")
    if chosen is None or chosen.threat not in NORMS or not footer.card.differentiable:
        return None
    radius = radius_of(chosen.run)
    strong = any(_is_strong(run) and run_threat(run) == chosen.threat for run in runs if run.group == "attacked")
    if strong:
        return None
    return SuggestedRun(
        "Try a stronger attack: the number above is an upper limit.",
        (f"{footer.dataset}+autoattack-{chosen.threat}:radius={number_text(radius)}",),
    )


def _whole(runs: Sequence[MeasuredRun], footer: Footer) -> SuggestedRun | None:  # noqa: ARG001
    chosen = headline(runs, "attacked") or headline(runs, "corrupted") or headline(runs, "undisturbed")
    if chosen is None or not chosen.run.footer.is_partial:
        return None
    return SuggestedRun(
        f"Measure all {chosen.run.footer.population:,} samples: these numbers rest on a part of them.",
        (chosen.run.footer.scenario,),
        whole=True,
    )


GAPS: tuple[Gap, ...] = (_doubt, _clean, _trained, _attacked, _half, _corrupted, _together, _stronger, _whole)


def _command(suggested: SuggestedRun, results: ModelResults, footer: Footer) -> str:
    if footer.card.source == "live":
        return _in_python(suggested, results, footer)
    if suggested.check:
        return shlex.join(["holdfast", "check", results.model, "--dataset", footer.dataset, "--attacks"])
    words = ["holdfast", "evaluate", results.model]
    if suggested.part:
        words += ["--suite", GENERAL, "--part", suggested.part, "--dataset", footer.dataset]
    for scenario in suggested.scenarios:
        words += ["--scenario", scenario]
    if footer.samples is not None and not suggested.whole:
        words += ["--samples", str(footer.samples)]
    if footer.seed:
        words += ["--seed", str(footer.seed)]
    return _line(words, results)


def _in_python(suggested: SuggestedRun, results: ModelResults, footer: Footer) -> str:
    """A live module has no name on the command line, so the command is Python."""
    part = load_suite(GENERAL, dataset=footer.dataset).only([suggested.part]) if suggested.part else ()
    scenarios = [*suggested.scenarios, *part] or [footer.dataset]
    given = "" if results.store in ("", DEFAULT_STORE) else f", store={json.dumps(results.store)}"
    if footer.samples is not None and not suggested.whole:
        given += f", samples={footer.samples}"
    return f"holdfast.evaluate(model, {json.dumps(scenarios)}{given})"


def _compare(results: ModelResults, dataset: str) -> NextStep:
    if results.others:
        words = ["holdfast", "compare", results.model, results.others[0]]
        return NextStep(f"Compare it with {results.others[0]}, scenario by scenario.", _line(words, results))
    words = ["holdfast", "board", GENERAL]
    return NextStep(f"Nothing is missing on {dataset}: see it beside other models.", _line(words, results))


def _line(words: Sequence[str], results: ModelResults) -> str:
    kept = ["--store", results.store] if results.store not in ("", DEFAULT_STORE) else []
    return shlex.join([*words, *kept])


def _grid(known: HalfLost, chosen: Headline) -> list[float]:
    """Radii around the smallest measured where half is gone by then, beyond the largest where it is not."""
    start, steps = (known.radii[0], AROUND) if known.radius is not None else (known.radii[-1], BEYOND)
    return [step * start for step in steps if step * start < WIDEST.get(chosen.threat, float("inf"))]


def _attack_text(run: MeasuredRun) -> str:
    """The attack without its radius: what a sweep takes."""
    given = parse_ref(run.footer.changes[-1].text)
    args = [f"{name}={value_text(value)}" for name, value in given.keywords.items() if name not in ("radius", SEARCHED)]
    return f"{run.footer.changes[-1].name}:{','.join(args)}" if args else run.footer.changes[-1].name


def _is_strong(run: MeasuredRun) -> bool:
    return any(change.name.startswith(STRONG) for change in run.footer.changes)
