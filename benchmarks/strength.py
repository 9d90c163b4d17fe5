"""What the default speed costs an attack: robust accuracy, agreement and time against `--speed exact`.

    python benchmarks/strength.py --model MODEL --dataset DATASET --samples 1000 --attack pgd-linf:radius=0.1/255 …

Each attack runs from a cold start, everything included, at each --speed and then exact, each in a process of its own:
kernels that one has loaded and lengths it has met would make the next one quicker. With --together all attacks are one
job, as a suite is: a job is long enough then for a faster version of the model, and times are those of its runs.
With --store rows are kept: what was killed goes on with the same command, and
what is done is shown at once. On a CPU all are float32. `auto` takes float16 only in jobs long enough to gain by it;
`graph` takes it wherever the trial finds it as strong.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import holdfast
from holdfast.engine.device import pick_device

HEAD = "| attack | n | speed | exact | at this speed | agree | exact, s | s | gradients |\n|---|" + "---|" * 8


class Measured(NamedTuple):
    """Which samples an attack left standing, the seconds it took, and what gave it its gradients."""

    correct: NDArray[np.bool_]
    seconds: float
    gradients: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="fashion-at-linf")
    parser.add_argument("--dataset", default="fashion-mnist-2k")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--attack", nargs="+", default=["pgd-linf:radius=8/255"])
    parser.add_argument("--speed", nargs="+", default=["auto"], help="the speeds compared with exact")
    parser.add_argument("--together", action="store_true", help="all attacks as one job")
    parser.add_argument("--store", type=Path, help="a folder in which the rows stay, in a store for each speed")
    chosen = parser.parse_args()
    print(f"{chosen.model} on {chosen.dataset}\n{HEAD}", flush=True)
    jobs = [chosen.attack] if chosen.together else [[attack] for attack in chosen.attack]
    for attacks in jobs:
        scenarios = [f"{chosen.dataset}+{attack}" for attack in attacks]
        speeds = (*chosen.speed, "exact")
        measured = {speed: in_a_process(chosen, scenarios, speed) for speed in speeds}
        exact, whole = measured.pop("exact")
        for speed, (made, seconds) in measured.items():
            for attack, one, other in zip(attacks, exact, made, strict=True):
                print(line(attack, speed, one, other), flush=True)
            if seconds is not None and whole is not None:
                print(f"{speed}: {seconds:.1f} s for the whole job, exact {whole:.1f} s", flush=True)


def line(attack: str, speed: str, exact: Measured, other: Measured) -> str:
    agreement = float(np.mean(exact.correct == other.correct))
    shown = [f"{100 * float(each.correct.mean()):.2f}" for each in (exact, other)]
    return (
        f"| {attack} | {len(other.correct)} | {speed} | {' | '.join(shown)} | {100 * agreement:.1f} "
        f"| {exact.seconds:.1f} | {other.seconds:.1f} | {other.gradients} |"
    )


class Job(NamedTuple):
    """What was measured under each scenario, and the seconds of the whole; None where some of it was done before."""

    measured: list[Measured]
    seconds: float | None


def in_a_process(chosen: argparse.Namespace, scenarios: Sequence[str], speed: str) -> Job:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
        return fresh.submit(warm_job, chosen, scenarios, speed).result()


def warm_job(chosen: argparse.Namespace, scenarios: Sequence[str], speed: str) -> Job:
    pick_device("auto")
    job(chosen.model, [chosen.dataset], chosen.samples, "exact", None)  # what a process does once is not timed
    return job(chosen.model, scenarios, chosen.samples, speed, chosen.store)


def job(model: str, scenarios: Sequence[str], samples: int, speed: str, kept: Path | None) -> Job:
    with folder(None if kept is None else kept / speed) as store:
        begun = time.perf_counter()
        outcomes = holdfast.evaluate(model, list(scenarios), store=store, samples=samples, speed=speed, pictures=0)
        seconds = time.perf_counter() - begun
    made = []
    for outcome in outcomes:
        if outcome.rows is None:
            raise SystemExit(f"{outcome.scenario}: {outcome.error}")
        alone = len(scenarios) == 1 and outcome.fresh
        footer = outcome.rows.footer
        used = str(footer.facts.get("gradients", ""))
        made.append(Measured(outcome.rows.correct, seconds if alone else footer.seconds, used))
    return Job(made, seconds if all(outcome.fresh for outcome in outcomes) else None)


@contextlib.contextmanager
def folder(kept: Path | None) -> Iterator[Path]:
    """The store that is kept, or one for the moment."""
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory() as store:
        yield Path(store)


if __name__ == "__main__":
    main()
