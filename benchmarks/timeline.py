"""Where the time of a job goes: what `evaluate` does, when, and for how long, as it happens.

    python benchmarks/timeline.py --model MODEL --dataset DATASET --samples 1000 --speed auto --attack pgd-linf …

A line is written when something ends that took a twentieth of a second or more: making and trying a faster version of
the model, compiling, recording steps, an attack, a shard, the look at survivors, the first pass of a batch length. What
happens inside something else stands before it, further to the right. Steps on a GPU are not waited for, so an attack
takes the time until its results are asked for.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
from collections.abc import Callable
from typing import Any

import holdfast
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.replay import Replay
from holdfast.attacks.search import RandomSearch
from holdfast.engine import evaluate as evaluating
from holdfast.engine.evaluate import Evaluation
from holdfast.engine.fast_versions import FastVersions
from holdfast.engine.jobs import ModelLoader
from holdfast.models.compiling import Compilation
from holdfast.models.fast import FastModel
from holdfast.models.lengths import Lengths

LEAST = 0.05  # seconds
BEGUN = time.perf_counter()
Words = Callable[..., str]


class Timeline:
    """Writes what took long, with its depth inside other things."""

    def __init__(self) -> None:
        self.depth = 0

    def watch(self, owner: Any, name: str, words: Words = lambda *_, **__: "") -> None:
        """Has a function or method of the owner timed from now on."""
        function = getattr(owner, name)

        @functools.wraps(function)
        def timed(*args: Any, **options: Any) -> Any:
            begun, about = time.perf_counter(), words(*args, **options)
            self.depth += 1
            try:
                return function(*args, **options)
            finally:
                self.depth -= 1
                self.told(f"{getattr(owner, '__name__', owner)}.{name} {about}", time.perf_counter() - begun)

        setattr(owner, name, timed)

    def told(self, what: str, seconds: float) -> None:
        if seconds >= LEAST:
            print(
                f"{time.perf_counter() - BEGUN:8.2f} s {'  ' * self.depth}{what.strip()}: {seconds:.2f} s", flush=True
            )


def watch_everything(timeline: Timeline) -> None:
    for name in ("_seconds", "_reference", "_made", "_pace", "_ratio", "_waits", "_trials"):
        timeline.watch(FastVersions, name)
    timeline.watch(ModelLoader, "model")
    timeline.watch(ModelLoader, "flags")
    timeline.watch(Evaluation, "of")
    timeline.watch(Evaluation, "_measured", lambda _, __, shard: f"{len(shard.index)} samples")
    timeline.watch(evaluating, "probed")
    timeline.watch(Compilation, "start", lambda self: f"{tuple(self.images.shape)}")
    timeline.watch(Compilation, "compiled_here", lambda self: f"{tuple(self.images.shape)}")
    timeline.watch(FastModel, "_take_over")
    timeline.watch(Replay, "_record", lambda _, samples, *__: f"{len(samples)} samples")
    for attack in (GradientAttack, RandomSearch):
        timeline.watch(
            attack, "attempt", lambda self, _, batch, *__, **___: f"{len(batch)} samples, {self.steps} steps"
        )
    first_passes(timeline)


def first_passes(timeline: Timeline) -> None:
    plain = Lengths.timed

    def timed(self: Lengths, length: int, work: Callable[[], Any]) -> Any:
        begun, is_new = time.perf_counter(), self.passes[length] == 0
        result = plain(self, length, work)
        if is_new:
            timeline.told(f"first pass of {length} samples", time.perf_counter() - begun)
        return result

    Lengths.timed = timed  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="fashion-at-linf")
    parser.add_argument("--dataset", default="fashion-mnist-2k")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--speed", default="auto")
    parser.add_argument("--attack", nargs="+", default=["pgd-linf:radius=8/255"])
    chosen = parser.parse_args()
    timeline = Timeline()
    watch_everything(timeline)
    scenarios = [f"{chosen.dataset}+{attack}" for attack in chosen.attack]
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as store:
        outcomes = holdfast.evaluate(
            chosen.model, scenarios, store=store, samples=chosen.samples, speed=chosen.speed, pictures=0
        )
    timeline.told("the whole job", time.perf_counter() - begun)
    print(outcomes)


if __name__ == "__main__":
    main()
