"""What to run next: the first gap or doubt of a report, and the command that closes it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
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
from holdfast.site.stated_radii import Trained, standard_radii
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
    for suggested in _gaps(runs, footer):
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


def _gaps(runs: Sequence[MeasuredRun], footer: Footer) -> Iterator[SuggestedRun]:
    """Doubts about the numbers, then what was not measured, then what makes them firmer."""
    clean, attacked = headline(runs, "undisturbed"), headline(runs, "attacked")
    has_gradients = footer.card.differentiable
    errors = sorted({flag.name for run in runs for flag in run.footer.flags if flag.level == "error"})
    if is_chance(clean):
        yield SuggestedRun("See whether the model is fed and read as it should be.", check=True)
    elif errors:
        yield SuggestedRun(f"See whether the number means anything: {errors[0]} was raised.", check=True)
    if clean is None:
        yield SuggestedRun("Measure the undisturbed images: without them no loss is known.", (footer.dataset,))
    missing = unmeasured_training(runs)
    if missing and has_gradients:
        yield _training(missing[0], footer)
    if attacked is None and has_gradients:
        yield SuggestedRun("Measure attacks: none was.", part="attacks")
    elif attacked is None:
        standard = next(std.radius for std in standard_radii(footer.dataset) if std.threat == "linf")
        scenario = f"{footer.dataset}+square-linf:radius={number_text(standard)}"
        yield SuggestedRun("Measure an attack that needs no gradients: none was.", (scenario,))
    else:
        yield from _half(runs, footer, attacked)
    if headline(runs, "corrupted") is None:
        yield SuggestedRun("Measure corruptions: none was.", part="corruptions")
    if headline(runs, "both") is None and has_gradients:
        yield SuggestedRun("Measure corruption and attack together: that was not.", part="combinations")
    if attacked is not None and attacked.threat in NORMS and has_gradients:
        same = [run for run in runs if run.group == "attacked" and run_threat(run) == attacked.threat]
        if not any(change.name.startswith(STRONG) for run in same for change in run.footer.changes):
            scenario = f"{footer.dataset}+autoattack-{attacked.threat}:radius={number_text(radius_of(attacked.run))}"
            yield SuggestedRun("Try a stronger attack: the number above is an upper limit.", (scenario,))
    chosen = attacked or headline(runs, "corrupted") or clean
    if chosen is not None and chosen.run.footer.is_partial:
        reason = f"Measure all {chosen.run.footer.population:,} samples: these numbers rest on a part of them."
        yield SuggestedRun(reason, (chosen.run.footer.scenario,), whole=True)


def _training(one: Trained, footer: Footer) -> SuggestedRun:
    radius = one.radius or next(
        (std.radius for std in standard_radii(footer.dataset) if std.threat == one.threat), None
    )
    attack = f"pgd-{one.threat}" if one.threat in NORMS else one.attack
    at = f":radius={number_text(radius)}" if radius is not None else ""
    return SuggestedRun(
        f"Measure what it was trained against: {attack}{f' at radius {number_text(radius)}' if radius else ''}.",
        (f"{footer.dataset}+{attack}{at}",),
    )


def _half(runs: Sequence[MeasuredRun], footer: Footer, chosen: Headline) -> Iterator[SuggestedRun]:
    known = half_lost([run for run in runs if run.group == "attacked" and run_threat(run) == chosen.threat])
    if known is None or (known.radius is not None and known.radius.low > 0):
        return
    radii = _grid(known, chosen)
    if len(radii) > 1 or known.radius is not None:
        grid = ",".join(number_text(radius) for radius in radii)
        scenario = f"{footer.dataset}+sweep:attack=({_attack_text(chosen.run)}),radii=[{grid}]"
        yield SuggestedRun("Find the radius where half of what it gets right is lost.", (scenario,))


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
