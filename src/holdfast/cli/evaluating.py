"""The commands that measure: demo, check, plan, evaluate."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from holdfast.cli.completing import model_names, suite_names
from holdfast.cli.output import (
    STORE,
    DeviceOption,
    JsonOption,
    StoreOption,
    err,
    open_store,
    out,
    parse_share,
    print_json,
    print_table,
    seconds_text,
)
from holdfast.core.config import read_config
from holdfast.core.errors import Misuse

if TYPE_CHECKING:
    from holdfast.core.suites import Suite
    from holdfast.engine.evaluate import Engine
    from holdfast.engine.outcomes import Outcome
    from holdfast.models.fast import Speed
    from holdfast.store import Store

Models = Annotated[
    list[str],
    typer.Argument(
        help="Model refs, as `holdfast list models` shows them; NAME=REF gives one a name.",
        autocompletion=model_names,
    ),
]
LogitsOption = Annotated[
    str | None, typer.Option("--logits", help="all: keep every logit above 128 classes too, for posterior agreement.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")]

STATES = ("done", "under way", "to do", "cannot run")


@dataclass(frozen=True)
class Measurement:
    """What is to be measured: scenarios, and how many samples of each."""

    suite: Annotated[
        str | None, typer.Option(help="A suite by name, or the path of a .toml file.", autocompletion=suite_names)
    ] = None
    scenario: Annotated[list[str] | None, typer.Option(help="DATASET+CHANGE+…; may be given several times.")] = None
    part: Annotated[
        list[str] | None, typer.Option("--part", help="Only this part of the suite; may be given several times.")
    ] = None
    stronger: Annotated[
        bool, typer.Option("--stronger", help="Our stronger attacks where the suite has those of the published code.")
    ] = False
    dataset: Annotated[str | None, typer.Option(help="Dataset instead of the suite's own.")] = None
    samples: Annotated[int | None, typer.Option(help="Measure this many samples, each class in proportion.")] = None
    precision: Annotated[str | None, typer.Option(help="Stop once half the interval is this narrow, e.g. 1%.")] = None
    seed: Annotated[int, typer.Option(help="Seed of every random draw.")] = 0

    def chosen(self) -> tuple[Suite | None, list[str]]:
        """What to run: a suite's scenarios, those given, or both; with neither, the clean default dataset."""
        from holdfast.core.patterns import Patterns
        from holdfast.core.suite_parameters import STRONGER
        from holdfast.core.suites import load_suite

        suite = self.suite
        if suite is None and not self.scenario and self.dataset is None:
            suite = read_config().defaults.suite
        for option, is_given in (("--part", bool(self.part)), ("--stronger", self.stronger)):
            if is_given and suite is None:
                raise Misuse(f"{option} is of a suite", hint="name it with --suite")
        parameters = STRONGER if self.stronger else None
        chosen = load_suite(suite, dataset=self.dataset, parameters=parameters) if suite is not None else None
        if chosen is not None and not chosen.scenarios:
            raise Misuse(
                f"`{suite}` is a list of published results: there is nothing to run", hint=f"holdfast board {suite}"
            )
        given = Patterns().texts(self.scenario or [])
        if chosen is None and not given:
            given = [self.dataset or _default_dataset()]
        return chosen, [*(chosen.only(self.part or ()) if chosen else ()), *given]


def demo(
    out_dir: Annotated[Path, typer.Option("--out", "-o", help="Where rows and reports go.")] = Path("holdfast-demo"),
    samples: Annotated[int | None, typer.Option(help="Samples per scenario.")] = None,
    device: DeviceOption = "auto",
    quiet: QuietOption = False,
) -> None:
    """The whole job on bundled data: evaluate bundled models, print the scores, write a report for each."""
    from holdfast.cli.outcome_views import exit_if_failed, print_matrix
    from holdfast.cli.progress import watching
    from holdfast.core.suites import load_suite
    from holdfast.engine.evaluate import evaluate
    from holdfast.site.report import write_report

    suite = load_suite("demo")
    store = open_store(str(out_dir / "store"))
    begun = time.perf_counter()
    err.print(f"{len(suite.models)} bundled models under {len(suite.scenarios)} scenarios of {suite.dataset}")
    with watching(quiet=quiet) as watcher:
        outcomes = evaluate(
            suite.models, suite.scenarios, store=store, samples=samples or suite.samples, device=device, watcher=watcher
        )
    print_matrix(outcomes)
    n = samples or suite.samples
    out.print(f"\npercent right of {n:,} samples, with the 95 % interval; attacks are run on the samples still right")
    reports = [write_report(store, model, out_dir / f"{model}.html") for model in suite.models]
    out.print(f"\n{sum(len(o.rows) for o in outcomes if o.rows is not None):,} rows in {store.url}")
    for report in reports:
        out.print(f"report: {report}", soft_wrap=True)
    err.print(f"took {time.perf_counter() - begun:.0f} s")
    exit_if_failed(outcomes)


def check_command(
    model: Annotated[str, typer.Argument(help="A model ref.")],
    dataset: Annotated[str | None, typer.Option(help="Images to check it on.")] = None,
    attacks: Annotated[
        bool, typer.Option("--attacks", help="Also try attacks that must succeed where gradients can be trusted.")
    ] = False,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Is the model eligible, and is a number going to mean anything? Exit 1 where a flag is an error."""
    from holdfast.core.registry import registry
    from holdfast.engine.device import pick_device
    from holdfast.engine.jobs import ModelLoader, as_holdfast_error
    from holdfast.engine.trials import flags_on, trials_on

    loader = ModelLoader(pick_device(device))
    _, classifier = loader.model(registry.bind("model", model))
    images = loader.dataset(registry.bind("dataset", dataset or _default_dataset()))
    answerer = loader.answering(classifier, images)
    try:
        flags = flags_on(answerer, images, loader.device)
        if attacks and not any(flag.level == "error" for flag in flags):
            flags += trials_on(answerer, images, loader.device, lambda what: err.print(f"trying {what}"))
    except SystemExit as error:
        raise as_holdfast_error(error) from error
    if json:
        print_json({"model": model, "card": asdict(classifier.card), "flags": [asdict(flag) for flag in flags]})
    else:
        card = classifier.card
        out.print(
            f"[bold]{card.name}[/]  {card.parameters:,} parameters, {card.classes} classes, weights {card.weights[:12]}"
        )
        if not flags:
            out.print("nothing to flag: the numbers will mean what they say")
        for flag in flags:
            out.print(f"[bold]{flag.level}[/] {flag.name}: {flag.explanation}")
    if any(flag.level == "error" for flag in flags):
        raise typer.Exit(1)


def plan_command(
    *,
    models: Models,
    what: Measurement,
    logits: LogitsOption = None,
    device: DeviceOption = "auto",
    store: StoreOption = STORE,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Open no model: standing and paces as the store has them, in seconds.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """What would run, what is done, and what the rest will cost at most."""
    from holdfast.engine.jobs import RunOptions
    from holdfast.engine.plan import plan, recorded_plan

    chosen, scenarios = what.chosen()
    options = RunOptions(
        *(what.seed, what.samples or (chosen.samples if chosen else None), parse_share(what.precision, "--precision")),
        logits=_logits(logits, chosen),
    )
    if recorded:
        planned = recorded_plan(models, scenarios, store=open_store(store), options=options, device=device)
    else:
        with err.status("measuring the pace of each model"):
            planned = plan(models, scenarios, store=open_store(store), options=options, device=device)
    rest = sum(run.seconds or 0.0 for run in planned)
    if json:
        print_json({"runs": [asdict(run) | {"state": run.state} for run in planned], "seconds": rest})
        return
    print_table(
        ["model", "scenario", "state", "samples", "done", "passes each", "at most"],
        [
            [
                run.model,
                run.scenario,
                run.state if run.problem is None else f"{run.state}: {run.problem}",
                "all" if run.samples is None else f"{run.samples:,}",
                f"{run.done:,}",
                f"{run.cost.forwards}+{run.cost.backwards}",
                "" if run.seconds is None else seconds_text(run.seconds),
            ]
            for run in planned
        ],
        right=["samples", "done", "passes each", "at most"],
    )
    counts = Counter(run.state for run in planned)
    summary = ", ".join(f"{counts[name]} {name}" for name in STATES if counts[name])
    unknown = sum(run.seconds is None and run.problem is None for run in planned)
    aside = f" beside {unknown} runs without a recorded pace" if unknown else ""
    out.print(f"\n{summary}; at most {seconds_text(rest)} left{aside}. Attacks end early on samples they break.")


def evaluate_command(
    *,
    models: Models,
    what: Measurement,
    device: DeviceOption = "auto",
    batch_size: Annotated[int | None, typer.Option(help="Samples at once; chosen by memory if not given.")] = None,
    speed: Annotated[
        str,
        typer.Option(
            help="Gradients on a GPU: exact (float32), or float16 confirmed by float32: eager, graph, compile; "
            "auto chooses.",
            show_default=True,
        ),
    ] = "auto",
    logits: LogitsOption = None,
    store: StoreOption = STORE,
    pictures: Annotated[
        int, typer.Option(min=0, max=1000, help="Samples per run to keep as pictures for the report.")
    ] = 6,
    keep_images: Annotated[
        Path | None, typer.Option(help="Write the images of every run here, as float32; they are made once more.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or ray: one actor per device.", show_default=True)] = "local",
    address: Annotated[str | None, typer.Option(help="Ray cluster to join; a local one is started if none.")] = None,
    actors: Annotated[int | None, typer.Option(help="Ray actors; one per GPU, or per CPU core, if not given.")] = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Measure models under scenarios. What is done is not done again; Ctrl-C is safe and the same command resumes."""
    from holdfast.cli.outcome_views import SuiteWords, exit_if_failed, print_outcomes, print_standing
    from holdfast.cli.progress import watching
    from holdfast.engine.evaluate import evaluate
    from holdfast.metrics.summary import line

    chosen, scenarios = what.chosen()
    kept = open_store(store)
    with watching(quiet=quiet) as watcher:
        outcomes = evaluate(
            models,
            scenarios,
            store=kept,
            seed=what.seed,
            samples=what.samples or (chosen.samples if chosen else None),
            precision=parse_share(what.precision, "--precision"),
            device=device,
            batch_size=batch_size,
            speed=cast("Speed", speed),
            logits=_logits(logits, chosen),
            pictures=pictures,
            watcher=watcher,
            engine=cast("Engine", engine),
            address=address,
            actors=actors,
        )
    if keep_images is not None:
        _keep_images(kept, outcomes, keep_images, device)
    if json:
        print_json(
            [
                line(outcome.rows).record()
                if outcome.rows is not None
                else {"model": outcome.model, "scenario": outcome.scenario, "error": str(outcome.error)}
                for outcome in outcomes
            ]
        )
    else:
        print_outcomes(outcomes)
        if chosen is not None and chosen.board:
            words = SuiteWords(what.suite or read_config().defaults.suite or chosen.name, store)
            print_standing(chosen, kept, list(dict.fromkeys(outcome.model for outcome in outcomes)), words)
    exit_if_failed(outcomes, may_lack_data=chosen is not None)


def _keep_images(store: Store, outcomes: Sequence[Outcome], folder: Path, device: str) -> None:
    """The images of every run in a folder of its own, named by its key."""
    from holdfast.engine.image_export import run_images

    for outcome in outcomes:
        if outcome.rows is not None:
            key = outcome.rows.footer.key
            made = run_images(store, key, failures=False, device=device, trust=True)  # the user named the model here
            path = made.write(folder / key, pictures=False)
            same = f"{made.as_stored:,} of {len(made.ids):,} with the prediction of their row"
            err.print(f"{outcome.model} under {outcome.scenario}: {path}, {same}", markup=False, soft_wrap=True)


def _logits(given: str | None, suite: Suite | None) -> str:
    """Which logits rows keep: as asked, else as the suite says."""
    of_suite = suite.logits if suite is not None else ""
    return of_suite if given is None else given


def _default_dataset() -> str:
    from holdfast.datasets import DEFAULT

    return DEFAULT
