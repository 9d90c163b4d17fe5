"""What the default speed costs an attack: robust accuracy, agreement and wall time against `--speed exact`.

    python benchmarks/strength.py --model MODEL --dataset DATASET --samples 1000 --attack pgd-linf:radius=0.1/255 …

Each attack runs twice from a cold start, everything included: exact, then default. On a CPU both are float32.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import numpy as np

import holdfast
from holdfast.engine.device import pick_device
from holdfast.store import Rows

HEAD = "| attack | n | exact | default | agree | exact, s | default, s | gradients |\n|---|---|---|---|---|---|---|---|"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="fashion-at-linf")
    parser.add_argument("--dataset", default="fashion-mnist-2k")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--attack", nargs="+", default=["pgd-linf:radius=8/255"])
    parser.add_argument("--speed", default="auto", help="the speed compared with exact")
    chosen = parser.parse_args()
    pick_device("auto")
    measured(chosen.model, chosen.dataset, chosen.samples, "exact")  # what a process does once is not timed
    print(f"{chosen.model} on {chosen.dataset}\n{HEAD}", flush=True)
    for attack in chosen.attack:
        print(line(attack, f"{chosen.dataset}+{attack}", chosen.model, chosen.samples, chosen.speed), flush=True)


def line(attack: str, scenario: str, model: str, samples: int, speed: str) -> str:
    exact, slow = measured(model, scenario, samples, "exact")
    default, quick = measured(model, scenario, samples, speed)
    agreement = float(np.mean(exact.correct == default.correct))
    shown = [f"{100 * float(rows.correct.mean()):.2f}" for rows in (exact, default)]
    used = default.footer.facts.get("gradients", "")
    return (
        f"| {attack} | {len(exact)} | {' | '.join(shown)} | {100 * agreement:.1f} | {slow:.1f} | {quick:.1f} | {used} |"
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
