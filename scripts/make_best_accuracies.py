"""Makes acc*: under each attack of a suite, at each strength, the accuracy of models trained on exactly that.

    python scripts/make_best_accuracies.py --suite multirobustbench-fashion --recipes multirobustbench-fashion \\
        --out best --write src/holdfast/store/published/multirobustbench-fashion.csv

The suite's sweeps name the attacks, their strengths and the test images; the file of recipes has a recipe without a
threat, and one for each threat, whose radius is replaced by every strength. Models and rows are kept under `--out`, and
what is there is neither trained nor measured again. Named as the suite's board, `SUITE.csv`, the table is taken into a
store by `holdfast import tidy`.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from holdfast.core.errors import HoldfastError
from holdfast.core.refs import parse_ref
from holdfast.core.suites import Suite, load_suite
from holdfast.core.values import split, value_text
from holdfast.engine.device import pick_device
from holdfast.engine.evaluate import evaluate
from holdfast.metrics.mean_over_radii import SWEEP
from holdfast.metrics.multi_attack import CLEAN, Strength, threat_of
from holdfast.store.store import Store
from holdfast.training.recipes import Recipe, family
from holdfast.training.train import train

BEST, NO_ATTACK = "acc*", "NoAttack"


class StrengthJob(NamedTuple):
    """A cell of the table: what is trained for it, and the scenario it is measured under."""

    setting: str
    strength: Strength
    recipe: Recipe
    scenario: str


def jobs(suite: Suite, recipes: Sequence[Recipe]) -> Iterator[StrengthJob]:
    """A cell for no attack, and for every strength of every sweep that the suite's ratios stand on."""
    column = next(column for column in suite.board if column.score == "cr-ind-avg")
    by_threat = {threat_of(parse_ref(recipe.threats[0]).name): recipe for recipe in recipes if recipe.threats}
    for text, setting in zip(column.every_scenario, column.every_setting, strict=True):
        *before, change = split(text, "+")
        swept = parse_ref(change)
        if swept.name != SWEEP:
            plain = next((recipe for recipe in recipes if not recipe.threats), None)
            if plain is None:
                raise HoldfastError("no recipe without a threat, for the accuracy without an attack")
            yield StrengthJob(setting, CLEAN, plain, text)
            continue
        attack, radii = str(swept.keywords["attack"]), swept.keywords["radii"]
        recipe = by_threat.get(threat_of(parse_ref(attack).name))
        if recipe is None:
            raise HoldfastError(f"no recipe trains on the threat of `{attack}`", hint="add one, or another suite")
        assert isinstance(radii, tuple), "a sweep has several radii"
        for radius in map(float, radii):  # type: ignore[arg-type]
            trained = replace(recipe, threats=(with_radius(recipe.threats[0], radius),))
            named = replace(trained, name=f"{recipe.name}-{radius:g}")
            scenario = "+".join([*before, with_radius(attack, radius)])
            yield StrengthJob(f"{setting}/{radius:g}", Strength(setting, radius), named, scenario)


def with_radius(attack: str, radius: float) -> str:
    """The attack's ref at another radius."""
    parsed = parse_ref(attack)
    words = {**parsed.keywords, "radius": radius}
    return f"{parsed.name}:" + ",".join(f"{name}={value_text(value)}" for name, value in words.items())


def measured(job: StrengthJob, seed: int, out: Path, store: Store, device: str) -> tuple[float, int]:
    """How many of how many test images a model trained for this cell gets right; trains it where it is not there."""
    path = out / f"{job.recipe.name}-seed{seed}.safetensors"
    begun = time.perf_counter()
    if not path.is_file():
        train(replace(job.recipe, seed=seed), out=path, device=pick_device(device))
    (outcome,) = evaluate(f"file:{path}", job.scenario, store=store, device=device)
    score = outcome.score
    spent = time.perf_counter() - begun
    print(f"{job.setting:20} seed {seed}  {score.percent()}  {spent:.0f} s", flush=True)
    return score.value, score.n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--dataset", help="test images, in place of the suite's own")
    parser.add_argument("--recipes", required=True, help="a file of recipes")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each cell, whose mean is taken")
    parser.add_argument("--out", type=Path, required=True, help="folder of models and rows")
    parser.add_argument("--write", type=Path, required=True, help="the table to write")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    suite, store = load_suite(given.suite, dataset=given.dataset), Store(str(given.out / "rows"))
    given.out.mkdir(parents=True, exist_ok=True)
    every = list(jobs(suite, family(given.recipes)))
    found: dict[StrengthJob, list[tuple[float, int]]] = {job: [] for job in every}
    for seed in range(given.seeds):
        for job in every:
            found[job].append(measured(job, seed, given.out, store, given.device))
    write(given.write, found, given.recipes)
    print(given.write)


def write(path: Path, found: dict[StrengthJob, list[tuple[float, int]]], recipes: str) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["model", "setting", "value", "n", "source", "note"])
        for job, cells in found.items():
            value, n = float(np.mean([share for share, _ in cells])), sum(count for _, count in cells)
            threat = f", {job.recipe.threats[0]}" if job.recipe.threats else ""
            source = (
                f"own rows: {job.scenario}; recipe {job.recipe.name} of {recipes}{threat}, seeds 0 to {len(cells) - 1}"
            )
            writer.writerow([BEST, job.setting, f"{100 * value:.6g}", n, source, ""])


if __name__ == "__main__":
    main()
