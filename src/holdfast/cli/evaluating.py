"""The commands that measure: demo, check, plan, evaluate, train."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from holdfast.cli.output import (
    STORE,
    JsonOption,
    StoreOption,
    err,
    interval,
    open_store,
    out,
    parse_share,
    print_json,
    print_table,
    seconds_text,
)
from holdfast.core.errors import Absent, Misuse
from holdfast.core.rounding import percent

if TYPE_CHECKING:
    from holdfast.core.suites import Suite
    from holdfast.engine.evaluate import Engine, Outcome
    from holdfast.models.fast import Speed
    from holdfast.store import Store

Models = Annotated[list[str], typer.Argument(help="Model refs, as `holdfast list models` shows them.")]
SuiteOption = Annotated[str | None, typer.Option("--suite", help="A suite by name, or the path of a .toml file.")]
ScenarioOption = Annotated[
    list[str] | None, typer.Option("--scenario", help="DATASET+CHANGE+…; may be given several times.")
]
PartOption = Annotated[
    list[str] | None, typer.Option("--part", help="Only this part of the suite; may be given several times.")
]
DatasetOption = Annotated[str | None, typer.Option("--dataset", help="Dataset instead of the suite's own.")]
SamplesOption = Annotated[
    int | None, typer.Option("--samples", help="Measure this many samples, each class in proportion.")
]
PrecisionOption = Annotated[
    str | None, typer.Option("--precision", help="Stop once half the interval is this narrow, e.g. 1%.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of every random draw.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1 …")]
SpeedOption = Annotated[
    str,
    typer.Option(
        help="Gradients on a GPU: exact (float32), or float16 confirmed by float32: eager, graph, compile; "
        "auto chooses.",
        show_default=True,
    ),
]
BatchOption = Annotated[
    int | None, typer.Option("--batch-size", help="Samples at once; chosen by memory if not given.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")]


def demo(
    out_dir: Annotated[Path, typer.Option("--out", "-o", help="Where rows and reports go.")] = Path("holdfast-demo"),
    samples: Annotated[int | None, typer.Option("--samples", help="Samples per scenario.")] = None,
    device: DeviceOption = "auto",
    quiet: QuietOption = False,
) -> None:
    """The whole job on bundled data: evaluate bundled models, print the scores, write a report for each."""
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
    _print_matrix(outcomes)
    n = samples or suite.samples
    out.print(f"\npercent right of {n:,} samples, with the 95 % interval; attacks are run on the samples still right")
    reports = [write_report(store, model, out_dir / f"{model}.html") for model in suite.models]
    out.print(f"\n{sum(len(o.rows) for o in outcomes if o.rows is not None):,} rows in {store.url}")
    for report in reports:
        out.print(f"report: {report}", soft_wrap=True)
    err.print(f"took {time.perf_counter() - begun:.0f} s")
    _fail_if_any(outcomes)


def check_command(
    model: Annotated[str, typer.Argument(help="A model ref.")],
    dataset: Annotated[str | None, typer.Option("--dataset", help="Images to check it on.")] = None,
    attacks: Annotated[
        bool, typer.Option("--attacks", help="Also try attacks that must succeed where gradients can be trusted.")
    ] = False,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Is the model eligible, and is a number going to mean anything? Exit 1 where a flag is an error."""
    from dataclasses import asdict

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
    models: Models,
    suite: SuiteOption = None,
    scenario: ScenarioOption = None,
    part: PartOption = None,
    dataset: DatasetOption = None,
    samples: SamplesOption = None,
    precision: PrecisionOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    store: StoreOption = STORE,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Open no model: standing and paces as the store has them, in seconds.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """What would run, what is done, and what the rest will cost at most."""
    from dataclasses import asdict

    from holdfast.engine.jobs import RunOptions
    from holdfast.engine.plan import plan, recorded_plan

    chosen, scenarios = _scenarios(suite, scenario, dataset, part or ())
    options = RunOptions(seed, samples or (chosen.samples if chosen else None), parse_share(precision, "--precision"))
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
    counts = {
        state: sum(run.state == state for run in planned) for state in ("done", "under way", "to do", "cannot run")
    }
    summary = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    unknown = sum(run.seconds is None and run.problem is None for run in planned)
    aside = f" beside {unknown} runs without a recorded pace" if unknown else ""
    out.print(f"\n{summary}; at most {seconds_text(rest)} left{aside}. Attacks end early on samples they break.")


def evaluate_command(
    models: Models,
    suite: SuiteOption = None,
    scenario: ScenarioOption = None,
    part: PartOption = None,
    dataset: DatasetOption = None,
    samples: SamplesOption = None,
    precision: PrecisionOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    batch_size: BatchOption = None,
    speed: SpeedOption = "auto",
    store: StoreOption = STORE,
    pictures: Annotated[
        int, typer.Option(min=0, max=1000, help="Samples per run to keep as pictures for the report.")
    ] = 6,
    engine: Annotated[str, typer.Option(help="local, or ray: one actor per device.", show_default=True)] = "local",
    address: Annotated[str | None, typer.Option(help="Ray cluster to join; a local one is started if none.")] = None,
    actors: Annotated[int | None, typer.Option(help="Ray actors; one per GPU, or per CPU core, if not given.")] = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Measure models under scenarios. What is done is not done again; Ctrl-C is safe and the same command resumes."""
    from holdfast.cli.progress import watching
    from holdfast.engine.evaluate import evaluate
    from holdfast.metrics.summary import line

    chosen, scenarios = _scenarios(suite, scenario, dataset, part or ())
    kept = open_store(store)
    with watching(quiet=quiet) as watcher:
        outcomes = evaluate(
            models,
            scenarios,
            store=kept,
            seed=seed,
            samples=samples or (chosen.samples if chosen else None),
            precision=parse_share(precision, "--precision"),
            device=device,
            batch_size=batch_size,
            speed=cast("Speed", speed),
            pictures=pictures,
            watcher=watcher,
            engine=cast("Engine", engine),
            address=address,
            actors=actors,
        )
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
        _lines(outcomes)
        if chosen is not None and chosen.board:
            _stand(chosen, kept, list(dict.fromkeys(outcome.model for outcome in outcomes)))
    _fail_if_any(outcomes, may_lack_data=chosen is not None)


def train_command(
    recipe: Annotated[str, typer.Argument(help="A recipe, as `holdfast list recipes` shows them.")],
    out_file: Annotated[
        Path | None, typer.Option("--out", "-o", help="Model file to write; RECIPE.safetensors.")
    ] = None,
    device: DeviceOption = "auto",
) -> None:
    """Train a reference model from a recipe."""
    from holdfast.core.registry import registry
    from holdfast.engine.device import pick_device
    from holdfast.training.train import train

    made = registry.build(registry.bind("recipe", recipe))
    path = train(
        made,
        out=out_file or Path(f"{made.name}.safetensors"),
        device=pick_device(device),
        on_epoch=lambda epoch, loss, right: err.print(
            f"epoch {epoch + 1}/{made.epochs}  loss {loss:.4f}  right as trained {percent(right)} %"
        ),
    )
    out.print(str(path))


def _default_dataset() -> str:
    from holdfast.datasets import DEFAULT

    return DEFAULT


def _scenarios(
    suite: str | None, scenario: list[str] | None, dataset: str | None, parts: Sequence[str]
) -> tuple[Suite | None, list[str]]:
    """What to run: a suite's scenarios, those given, or both; with neither, the clean default dataset."""
    from holdfast.core.patterns import Patterns
    from holdfast.core.suites import load_suite

    if parts and suite is None:
        raise Misuse("--part is of a suite", hint="name it with --suite")
    chosen = load_suite(suite, dataset=dataset) if suite is not None else None
    if chosen is not None and not chosen.scenarios:
        raise Misuse(
            f"`{suite}` is a list of published results: there is nothing to run", hint=f"holdfast board {suite}"
        )
    given = Patterns().texts(scenario or [])
    if chosen is None and not given:
        given = [dataset or _default_dataset()]
    return chosen, [*(chosen.only(parts) if chosen else ()), *given]


def _lines(outcomes: list[Outcome]) -> None:
    from holdfast.metrics.summary import line

    rows = []
    for outcome in outcomes:
        if outcome.rows is None:
            rows.append([outcome.model, outcome.scenario, "failed", "", "", "", ""])
            continue
        made = line(outcome.rows)
        footer = made.footer
        flags = ", ".join(flag.name for flag in made.flags)
        of = f"{made.accuracy.n:,}" + (f" of {footer.population:,}" if footer.is_partial else "")
        rows.append(
            [footer.model, footer.scenario, interval(made.accuracy), of, str(made.failed), flags, footer.key[:10]]
        )
    print_table(["model", "scenario", "right", "n", "failed", "flags", "run"], rows, right=["n", "failed"])


def _stand(suite: Suite, store: Store, models: list[str]) -> None:
    """The rows of the suite's board for these models, and where they rank."""
    from holdfast.boards.benchmark_tables import store_board
    from holdfast.boards.board_text import cell_text
    from holdfast.boards.ranking import rank_interval

    made = store_board(suite, store)
    own = [entry for entry in made.entries if set(entry.names) & set(models) and entry.is_measured]
    titles = [column.title or column.name for column in made.columns]
    rows = [[entry.model, *(cell_text(entry.cells[c.name], c.unit) for c in made.columns)] for entry in own]
    out.print(f"\n[bold]{made.title}[/]")
    print_table(["model", *titles], rows, right=titles)
    by = next(column.title or column.name for column in made.columns if column.name == made.sort)
    for entry in own:
        rank = rank_interval(made, entry.model)
        if rank is None:
            out.print(f"{entry.model} is not ranked by {by}: it lacks {entry.missing}", markup=False)
            continue
        between = "" if rank.low == rank.high else f" (its interval allows {rank.low} to {rank.high})"
        others = f"; {rank.published} of the others are published" if rank.published else ""
        out.print(f"{entry.model} is {rank.rank} of {rank.of} by {by}{between}{others}", markup=False)
    company = [model for model in suite.models if model not in {entry.model for entry in made.entries}]
    if company and not suite.is_moved:
        out.print(f"to compare with: holdfast evaluate {' '.join(company)} --suite {suite.name}", markup=False)
    out.print(
        f"`holdfast board {suite.name}{suite.options}` shows all, `holdfast site -o DIR` makes pages of it",
        markup=False,
    )


def _fail_if_any(outcomes: list[Outcome], *, may_lack_data: bool = False) -> None:
    """Exit 1 where a run failed. What a suite lacks for want of data is said; only if nothing ran is it a failure."""
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if may_lack_data and len(failed) < len(outcomes):
        lacking = [outcome for outcome in failed if isinstance(outcome.error, Absent)]
        failed = [outcome for outcome in failed if outcome not in lacking]
        if lacking:
            err.print(f"{len(lacking)} of {len(outcomes)} runs wait for data that is not here:")
            for hint in dict.fromkeys(str(outcome.error) for outcome in lacking):
                err.print(f"  {hint}", markup=False, soft_wrap=True)
    if failed:
        err.print(f"{len(failed)} of {len(outcomes)} runs failed:")
        for outcome in failed:
            err.print(f"  {outcome.model} under {outcome.scenario}: {outcome.error}", markup=False, soft_wrap=True)
        nothing_could_run = len(failed) == len(outcomes) and all(isinstance(each.error, Misuse) for each in failed)
        raise typer.Exit(2 if nothing_could_run else 1)


def _print_matrix(outcomes: list[Outcome]) -> None:
    """Scenarios down, models across."""
    from holdfast.cli.output import print_table
    from holdfast.core.rounding import percent
    from holdfast.metrics.summary import line

    models = list(dict.fromkeys(outcome.model for outcome in outcomes))
    cells = {}
    for outcome in outcomes:
        if outcome.rows is None:
            cells[outcome.scenario, outcome.model] = "failed"
            continue
        scored = line(outcome.rows)
        low, high = percent(scored.accuracy.low), percent(scored.accuracy.high)
        failed = f" ({scored.failed} failed)" if scored.failed else ""
        cells[outcome.scenario, outcome.model] = f"{percent(scored.accuracy.value)} [{low}, {high}]{failed}"
    scenarios = list(dict.fromkeys(outcome.scenario for outcome in outcomes))
    print_table(
        ["scenario", *models],
        [[name, *[cells.get((name, model), "") for model in models]] for name in scenarios],
        right=models,
    )
