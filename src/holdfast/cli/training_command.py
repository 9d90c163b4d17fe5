"""The command that trains: one recipe, or all of a file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from holdfast.cli.output import INTERRUPTED, DeviceOption, err, out, seconds_text
from holdfast.core.errors import Misuse
from holdfast.core.rounding import percent

if TYPE_CHECKING:
    from holdfast.training.recording import StepSpeed
    from holdfast.training.train import EpochReport

SPEEDS = ("auto", "eager", "graph", "compile")


def train_command(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe, as `holdfast list recipes` shows them, or the path of a .toml file.")
    ] = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", "-o", help="Model file to write; RECIPE.safetensors. With --all a folder.")
    ] = None,
    device: DeviceOption = "auto",
    speed: Annotated[
        str, typer.Option(help="Steps on a GPU: eager, graph (recorded), compile (compiled and recorded); auto: graph.")
    ] = "auto",
    every: Annotated[float, typer.Option("--checkpoint-every", help="Seconds between checkpoints.")] = 30.0,
    everything: Annotated[
        str | None,
        typer.Option("--all", help="All recipes of this file, e.g. cifar10-zoo, those first that come first."),
    ] = None,
    budget: Annotated[float | None, typer.Option("--budget-seconds", help="With --all: stop after this time.")] = None,
    processes: Annotated[int, typer.Option(help="With --all: models trained side by side.")] = 1,
) -> None:
    """Train a model from a recipe. The same command continues one that was interrupted."""
    from holdfast.engine.device import pick_device

    if (recipe is None) == (everything is None):
        raise Misuse("name one recipe, or a file of recipes with --all", hint="holdfast list recipes")
    if speed not in SPEEDS:
        raise Misuse(f"--speed must be one of {', '.join(SPEEDS)}, got `{speed}`")
    if processes < 1 or not every > 0 or (budget is not None and not budget > 0):
        raise Misuse("--processes, --checkpoint-every and --budget-seconds are more than zero")
    if everything is None and (budget is not None or processes > 1):
        raise Misuse("--budget-seconds and --processes are for a file of recipes", hint="name it with --all")
    how = cast("StepSpeed", speed)
    if everything is not None:
        from holdfast.training.family_training import train_family

        folder = out_file or Path(everything).with_suffix("")
        chosen: StepSpeed = "graph" if how == "auto" else how
        made_on = str(pick_device(device))
        with _ending_in_words("models that are finished are kept, and the same command continues the others"):
            paths = train_family(
                everything, out=folder, budget=budget, processes=processes, device=made_on, speed=chosen, every=every
            )
        for path in paths:
            out.print(str(path), soft_wrap=True)
        return
    from holdfast.training.processes import is_first_process
    from holdfast.training.recipes import load_recipe
    from holdfast.training.train import train

    assert recipe is not None, "either a recipe or a file of them is named"
    made = load_recipe(recipe)
    target = out_file or Path(f"{made.name}.safetensors")
    with _ending_in_words("the same command continues from the last checkpoint, where there is one"):
        path = train(made, out=target, device=pick_device(device), speed=how, every=every, on_epoch=_show_epoch)
    if is_first_process():
        out.print(str(path), soft_wrap=True)


@contextlib.contextmanager
def _ending_in_words(words: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        err.print(f"stopped; {words}", soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None


def _show_epoch(report: EpochReport) -> None:
    parts = [f"epoch {report.epoch}/{report.epochs}", f"loss {report.loss:.4f}"]
    parts.append(f"right as trained {percent(report.right)} %")
    if report.validated is not None:
        held = f"held out {percent(report.validated.accuracy)} %"
        if report.validated.robust_accuracy is not None:
            held += f", attacked {percent(report.validated.robust_accuracy)} %"
        if report.validated.agreement is not None:
            held += f", agreement {report.validated.agreement:.3f}"
        parts.append(held)
    parts.append(f"{report.images_per_second:,.0f} images/s")
    if report.epoch < report.epochs:
        parts.append(f"{seconds_text(report.seconds_left)} left")
    err.print("  ".join(parts), markup=False, highlight=False, soft_wrap=True)
