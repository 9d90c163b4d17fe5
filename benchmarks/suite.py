"""A whole suite as one job: its time, its passes, and how far that is from the bare model loop, in one run.

    python benchmarks/suite.py MODEL SUITE [--part NAME] [--samples N] [--dataset D] [--store FOLDER] [--device auto]

The floor is the passes that the rows count, at the pace of bare passes: a clean pass in float32, an attack's as it asks
them (on a GPU in float16, compiled where that pays), at the engine's own width. Set-up (loading, compiling) is apart.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict

import torch

from holdfast.cli.progress import LogLines
from holdfast.core.registry import registry
from holdfast.core.suites import load_suite
from holdfast.core.types import fast_version_of
from holdfast.engine.device import Width, full_precision, pick_device
from holdfast.engine.evaluate import evaluate
from holdfast.engine.jobs import ModelLoader, RunOptions
from holdfast.engine.plan import expected
from holdfast.engine.shards import on_device
from holdfast.engine.watch import Watcher
from holdfast.store import Store

ROUNDS = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("suite")
    parser.add_argument("--part", action="append", default=[])
    parser.add_argument("--samples", type=int)
    parser.add_argument("--dataset")
    parser.add_argument("--store")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quiet", action="store_true")
    chosen = parser.parse_args()
    suite = load_suite(chosen.suite, dataset=chosen.dataset)
    scenarios = suite.only(chosen.part)
    samples = chosen.samples or suite.samples
    store = Store(chosen.store or tempfile.mkdtemp())
    before = set(store.footers())
    begun = time.perf_counter()
    outcomes = evaluate(
        chosen.model,
        list(scenarios),
        store=store,
        samples=samples,
        device=chosen.device,
        pictures=0,
        watcher=Watcher() if chosen.quiet else LogLines(),
    )
    wall = time.perf_counter() - begun
    footers = [outcome.rows.footer for outcome in outcomes if outcome.rows is not None]
    fresh = [footer for footer in footers if footer.key not in before]
    failed = [outcome for outcome in outcomes if outcome.rows is None]
    print(f"\n{chosen.model} on {suite.name}: {len(fresh)} cells measured, {len(footers) - len(fresh)} were there")
    for outcome in failed:
        print(f"  not run: {outcome.scenario[:80]}: {str(outcome.error).splitlines()[0]}")
    if not fresh:
        return
    paces = bare(chosen.model, [outcome.scenario for outcome in outcomes if outcome.rows is not None], samples, chosen)
    table: dict[str, list[float]] = defaultdict(lambda: [0.0] * 5)
    for footer in fresh:
        clean = footer.n
        pairs = footer.backwards
        alone = max(0, footer.forwards - clean - pairs)
        floor = clean * paces["exact"] + alone * paces["forward"] + pairs * paces["pair"]
        kind = footer.changes[-1].name if footer.changes and pairs + alone else "no attack"
        for line in (kind, "all"):
            for index, value in enumerate((1, footer.seconds, footer.forwards, footer.backwards, floor)):
                table[line][index] += value
    print(f"{'last change':24}{'cells':>6}{'seconds':>10}{'forwards':>14}{'backwards':>14}{'floor, s':>10}{'share':>7}")
    for kind, (cells, seconds, forwards, backwards, floor) in table.items():
        share = 100 * floor / seconds if seconds else float("nan")
        print(f"{kind:24}{cells:6.0f}{seconds:10.1f}{forwards:14,.0f}{backwards:14,.0f}{floor:10.1f}{share:6.0f}%")
    seconds = table["all"][1]
    print(f"whole: {wall:.1f} s from start to end, {seconds:.1f} s in cells, {wall - seconds:.1f} s set-up and between")
    print("bare paces, images/s: " + ", ".join(f"{name} {1 / pace:,.0f}" for name, pace in paces.items()))


def bare(model: str, scenarios: list[str], samples: int | None, chosen: argparse.Namespace) -> dict[str, float]:
    """Seconds per image of a bare pass: float32, and as attacks ask it, forward alone and with a backward one."""
    loader = ModelLoader(pick_device(chosen.device))
    options = RunOptions(samples=samples)
    runs = [registry.scenario(text) for text in scenarios]
    with full_precision():
        loader.ahead = sum(run.samples * run.backwards for run in expected(runs, loader, options, Watcher()))
        attacked = [run for run in runs if any(part.kind == "attack" for part in run.changes)]
        job = loader.job(registry.bind("model", model), (attacked or runs)[-1], options)
        width = Width.for_model(job.model, job.dataset.card, loader.device).value
        loader.make_fast(job, "auto", width, lambda _: None)
        images = on_device(job.dataset.images(job.order[:width].tolist()).pixels, loader.device)
        asked = fast_version_of(job.model) or job.model
        return {
            "exact": timed(lambda: _forward(job.model, images), images),
            "forward": timed(lambda: _forward(asked, images), images),
            "pair": timed(lambda: _pair(asked, images), images),
        }


def _forward(ask: object, images: torch.Tensor) -> None:
    assert callable(ask)
    with torch.no_grad():
        ask(images)


def _pair(ask: object, images: torch.Tensor) -> None:
    assert callable(ask)
    leaf = images.clone().requires_grad_()
    torch.autograd.grad(ask(leaf).sum(), leaf)


def timed(work: object, images: torch.Tensor) -> float:
    assert callable(work)
    seconds = []
    for _ in range(ROUNDS):
        if images.is_cuda:
            torch.cuda.synchronize()
        begun = time.perf_counter()
        work()
        if images.is_cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begun)
    return sorted(seconds)[ROUNDS // 4] / len(images)


if __name__ == "__main__":
    main()
