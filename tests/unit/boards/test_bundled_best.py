"""acc* of the bundled data: whole, with its source, and what the board of its suite stands on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from holdfast.boards.suite_board import suite_board
from holdfast.core.registry import registry
from holdfast.core.suites import load_suite
from holdfast.core.types import ModelCard
from holdfast.metrics.multi_attack import CLEAN, Strength, battery, competitiveness
from holdfast.store import Footer, Rows, Store
from holdfast.store.footer import ChangeRecord
from holdfast.store.published import published
from holdfast.training.recipes import family

NAME = "multirobustbench-fashion"
SAMPLES = 200


def sweeps() -> dict[str, tuple[float, ...]]:
    """The strengths of every attack of the suite, by its name in the table."""
    (part,) = load_suite(NAME).parts
    swept = zip(part.settings[1:], part.scenarios[1:], strict=True)
    return {name: registry.scenario(text).changes[0].arg("radii") for name, text in swept}


def best() -> dict[str, float]:
    table = published(NAME).table
    return dict(zip(table.settings, table.values[0].tolist(), strict=True))


def test_each_attack_and_strength_of_the_suite_has_its_best_accuracy() -> None:
    cells = {f"{name}/{radius:g}" for name, radii in sweeps().items() for radius in radii}
    assert len(cells) == 24
    assert set(best()) == cells | {"NoAttack"}
    table = published(NAME).table
    for setting in table.settings:
        source = table.source_of("acc*", setting)
        assert source.startswith("own rows: fashion-mnist-2k")
        assert "seeds 0 to" in source
    trained = {recipe.threats[0].split(":")[0] for recipe in family(NAME) if recipe.threats}
    assert len(trained) == len(sweeps()) == 8


def test_a_stronger_attack_leaves_less() -> None:
    """Each strength has a network of its own, and still no accuracy lies above that under a weaker attack."""
    known = best()
    for name, radii in sweeps().items():
        values = [known["NoAttack"], *(known[f"{name}/{radius:g}"] for radius in radii)]
        for weaker, stronger in pairwise(values):
            assert 0 < stronger < weaker, name


def test_the_board_stands_on_them_without_a_flag(
    tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    random, store, (part,) = np.random.default_rng(0), Store(str(tmp_path / "rows")), load_suite(NAME).parts
    right = random.random(SAMPLES) < 0.8
    accuracies = {"NoAttack": float(right.mean())}
    card = ModelCard("m", "m", 10, threats=("pgd-l2:radius=1.0",))
    store.add_rows(rows_for(right.tolist(), footer=footer_for("m", "fashion-mnist-2k", card=card, population=SAMPLES)))
    for text, name in list(zip(part.scenarios, part.settings, strict=True))[1:]:
        (change,) = registry.scenario(text).changes
        radii = [float(radius) for radius in change.arg("radii")]
        index = np.where(right, random.integers(1, len(radii) + 2, SAMPLES), 0)  # of the radius that breaks a sample
        smallest = np.array([0.0, *radii, math.inf], dtype=np.float32)[index]
        footer = footer_for("m", text, card=card, population=SAMPLES, changes=(ChangeRecord.of(change),))
        store.add_rows(rows_for((index > len(radii)).tolist(), footer=footer, radii=smallest))
        for i, radius in enumerate(radii, start=1):
            accuracies[f"{name}/{radius:g}"] = int((index > i).sum()) / SAMPLES
    known = best()
    ratios = [accuracies[setting] / known[setting] for setting in known]
    seen = ["NoAttack", "l2/0.5", "l2/1"]
    slopes = [
        abs(accuracies[one] - accuracies[other]) / abs(known[one] - known[other])
        for one in seen
        for other in known
        if 1e-12 < abs(known[one] - known[other]) < 0.03
    ]
    entry = next(entry for entry in suite_board(load_suite(NAME), store).entries if entry.model == "m")
    cells = {name: cell.score.value for name, cell in entry.cells.items() if cell.score is not None}
    assert cells["cr-ind-avg"] == pytest.approx(sum(ratios) / 25)
    assert cells["cr-ind-worst"] == pytest.approx(min(ratios))
    assert cells["stability-constant"] == pytest.approx(max(slopes))
    assert cells["attacks-seen"] == pytest.approx(3 / 25)
    assert entry.cells["cr-ind-avg"].source.startswith("measured here; acc*: own rows: fashion-mnist-2k")
    assert entry.is_complete
    strengths = {CLEAN if s == "NoAttack" else Strength(s.split("/")[0], float(s.split("/")[1])): s for s in known}
    exact = battery(
        {each: accuracies[s] for each, s in strengths.items()},
        {each: known[s] for each, s in strengths.items()},
        n=SAMPLES,
    )
    counted = competitiveness(replace(exact, best_n=2000)).individual_worst
    worst = entry.cells["cr-ind-worst"].score
    assert worst is not None
    assert worst.low == counted.low, "acc* is measured too, on 2,000 images"
    assert counted.low < competitiveness(exact).individual_worst.low
