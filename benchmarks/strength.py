"""What the default speed costs an attack: robust accuracy, agreement and wall time against `--speed exact`.

    python benchmarks/strength.py --model MODEL --dataset DATASET --samples 1000 --attack pgd-linf:radius=0.1/255 …

Each attack runs from a cold start, everything included: exact, then at each --speed. On a CPU all are float32.
`auto` takes float16 only in jobs long enough to gain by it; `graph` takes it wherever the trial on the model finds it
as strong.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import numpy as np

import holdfast
from holdfast.engine.device import pick_device
from holdfast.store import Rows

HEAD = "| attack | n | speed | exact | at this speed | agree | exact, s | s | gradients |\n|---|" + "---|" * 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="fashion-at-linf")
    parser.add_argument("--dataset", default="fashion-mnist-2k")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--attack", nargs="+", default=["pgd-linf:radius=8/255"])
    parser.add_argument("--speed", nargs="+", default=["auto"], help="the speeds compared with exact")
    chosen = parser.parse_args()
    pick_device("auto")
    measured(chosen.model, chosen.dataset, chosen.samples, "exact")  # what a process does once is not timed
    print(f"{chosen.model} on {chosen.dataset}\n{HEAD}", flush=True)
    for attack in chosen.attack:
        scenario = f"{chosen.dataset}+{attack}"
        exact, slow = measured(chosen.model, scenario, chosen.samples, "exact")
        for speed in chosen.speed:
            rows, seconds = measured(chosen.model, scenario, chosen.samples, speed)
            print(line(attack, speed, (exact, slow), (rows, seconds)), flush=True)


def line(attack: str, speed: str, exact: tuple[Rows, float], other: tuple[Rows, float]) -> str:
    (reference, slow), (rows, seconds) = exact, other
    agreement = float(np.mean(reference.correct == rows.correct))
    shown = [f"{100 * float(each.correct.mean()):.2f}" for each in (reference, rows)]
    used = rows.footer.facts.get("gradients", "")
    return (
        f"| {attack} | {len(rows)} | {speed} | {' | '.join(shown)} | {100 * agreement:.1f} "
        f"| {slow:.1f} | {seconds:.1f} | {used} |"
    )


def measured(model: str, scenario: str, samples: int, speed: str) -> tuple[Rows, float]:
    with tempfile.TemporaryDirectory() as store:
        begun = time.perf_counter()
        outcome = holdfast.evaluate(model, scenario, store=store, samples=samples, speed=speed, pictures=0)[0]
        seconds = time.perf_counter() - begun
    if outcome.rows is None:
        raise SystemExit(f"{scenario}: {outcome.error}")
    return outcome.rows, seconds


if __name__ == "__main__":
    main()
