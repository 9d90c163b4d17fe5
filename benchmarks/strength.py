"""What the default speed costs an attack: robust accuracy, agreement and time against `--speed exact`.

    python benchmarks/strength.py --model MODEL --dataset DATASET --samples 1000 --attack pgd-linf:radius=0.1/255 …

Each attack runs from a cold start, everything included, at each --speed and then exact, which so has the warmer
libraries. With --together all attacks are
one job, as a suite is: a job is long enough then for a faster version of the model, and times are those of its runs. On
a CPU all are float32. `auto` takes float16 only in jobs long enough to gain by it; `graph` takes it wherever the trial
finds it as strong.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import holdfast
from holdfast.engine.device import pick_device
from holdfast.store import Rows

HEAD = "| attack | n | speed | exact | at this speed | agree | exact, s | s | gradients |\n|---|" + "---|" * 8


class Measured(NamedTuple):
    """The rows of an attack and the seconds they took."""

    rows: Rows
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="fashion-at-linf")
    parser.add_argument("--dataset", default="fashion-mnist-2k")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--attack", nargs="+", default=["pgd-linf:radius=8/255"])
    parser.add_argument("--speed", nargs="+", default=["auto"], help="the speeds compared with exact")
    parser.add_argument("--together", action="store_true", help="all attacks as one job")
    chosen = parser.parse_args()
    pick_device("auto")
    job(chosen.model, [chosen.dataset], chosen.samples, "exact")  # what a process does once is not timed
    print(f"{chosen.model} on {chosen.dataset}\n{HEAD}", flush=True)
    jobs = [chosen.attack] if chosen.together else [[attack] for attack in chosen.attack]
    for attacks in jobs:
        scenarios = [f"{chosen.dataset}+{attack}" for attack in attacks]
        measured = {speed: job(chosen.model, scenarios, chosen.samples, speed) for speed in (*chosen.speed, "exact")}
        exact, whole = measured.pop("exact")
        for speed, (made, seconds) in measured.items():
            for attack, one, other in zip(attacks, exact, made, strict=True):
                print(line(attack, speed, one, other), flush=True)
            print(f"{speed}: {seconds:.1f} s for the whole job, exact {whole:.1f} s", flush=True)


def line(attack: str, speed: str, exact: Measured, other: Measured) -> str:
    agreement = float(np.mean(exact.rows.correct == other.rows.correct))
    shown = [f"{100 * float(each.rows.correct.mean()):.2f}" for each in (exact, other)]
    used = other.rows.footer.facts.get("gradients", "")
    return (
        f"| {attack} | {len(other.rows)} | {speed} | {' | '.join(shown)} | {100 * agreement:.1f} "
        f"| {exact.seconds:.1f} | {other.seconds:.1f} | {used} |"
    )


def job(model: str, scenarios: Sequence[str], samples: int, speed: str) -> tuple[list[Measured], float]:
    """What was measured under each scenario, and the seconds of the whole job."""
    with tempfile.TemporaryDirectory() as store:
        begun = time.perf_counter()
        outcomes = holdfast.evaluate(model, list(scenarios), store=store, samples=samples, speed=speed, pictures=0)
        seconds = time.perf_counter() - begun
    made = []
    for outcome in outcomes:
        if outcome.rows is None:
            raise SystemExit(f"{outcome.scenario}: {outcome.error}")
        made.append(Measured(outcome.rows, outcome.rows.footer.seconds if len(scenarios) > 1 else seconds))
    return made, seconds


if __name__ == "__main__":
    main()
