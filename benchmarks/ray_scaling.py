"""One actor against two on the same work, with and without the start of Ray and its actors.

    python benchmarks/ray_scaling.py [--repeat 3] [--samples 2000]

Runs alternate, so that whatever else the machine does falls on both. The load is that of the last minute before each.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.refs import Run, Scenario
from holdfast.core.types import Score
from holdfast.engine.evaluate import Outcome, evaluate
from holdfast.engine.ray import driver
from holdfast.engine.watch import Expected, Watcher

MODEL = "fashion-at-linf"
SCENARIOS = ("fashion-mnist-2k+pgd-linf:radius=8/255,steps=20", "fashion-mnist-2k+fog:severity=3+pgd-l2:steps=20")


class Gathered(driver.Driver):
    """Waits for every actor before the first task, so that none starts up while others work."""

    def outcomes(self, scenarios: Sequence[Scenario], models: int) -> dict[int, Outcome]:
        while len(self._idle()) < len(self.workers):
            self._receive()
        return super().outcomes(scenarios, models)


class Clock(Watcher):
    """When all actors were ready, and when the last run ended."""

    ready = ended_at = 0.0

    def planned(self, runs: Sequence[Expected]) -> None:  # noqa: ARG002
        self.ready = time.perf_counter()

    def ended(self, run: Run, words: str, standing: Score | None) -> None:  # noqa: ARG002
        self.ended_at = time.perf_counter()


class Took(NamedTuple):
    """Seconds of a job, whole and from all actors ready to the last run's end; the digests of its rows."""

    whole: float
    work: float
    digests: tuple[str, ...]


def timed(actors: int, samples: int) -> Took:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        outcomes = evaluate(
            MODEL,
            SCENARIOS,
            store=folder,
            samples=samples,
            pictures=0,
            watcher=clock,
            device="cpu",
            engine="ray",
            actors=actors,
        )
        whole = time.perf_counter() - begun
    digests = tuple(each.rows.footer.digest for each in outcomes if each.rows is not None)
    assert len(digests) == len(SCENARIOS), [str(each.error) for each in outcomes]
    return Took(whole, clock.ended_at - clock.ready, digests)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--samples", type=int, default=2000)
    chosen = parser.parse_args()

    driver.Driver = Gathered  # type: ignore[misc]
    print(f"{os.cpu_count()} cores, {MODEL}, {len(SCENARIOS)} runs of {chosen.samples:,} samples")
    took: dict[int, list[Took]] = {1: [], 2: []}
    for _ in range(chosen.repeat):
        for actors, found in took.items():
            load = os.getloadavg()[0]
            found.append(timed(actors, chosen.samples))
            print(f"{actors} actors: {found[-1].work:6.1f} s of work, {found[-1].whole:6.1f} s in all, load {load:.1f}")
    assert len({each.digests for found in took.values() for each in found}) == 1, "the rows are the same every time"
    for what in ("work", "whole"):
        ratios = [getattr(one, what) / getattr(two, what) for one, two in zip(took[1], took[2], strict=True)]
        words = "without start-up" if what == "work" else "with start-up"
        print(
            f"{words}: 2 actors are {statistics.median(ratios):.2f}x as fast as 1 "
            f"(median of {len(ratios)}, {min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
