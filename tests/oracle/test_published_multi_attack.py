"""MultiRobustBench: what is printed, again from the published results."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.core.rounding import rounded
from holdfast.metrics.multi_attack import (
    CLEAN,
    Battery,
    Strength,
    battery,
    competitiveness,
    knowledge,
    single_competitiveness,
)
from holdfast.metrics.stability import conditioned_stability, stability

PUBLISHED = Path(os.environ.get("HOLDFAST_PUBLISHED", Path(__file__).parents[3] / "shared" / "published"))
NINE = (
    "AutoLinfAttack",
    "AutoL2Attack",
    "AutoL1Attack",
    "StAdvAttack",
    "ReColorAdvAttack",
    "JPEGLinfAttack",
    "JPEGL1Attack",
    "ElasticAttack",
    "LPIPSAttack",
)
# arXiv:2302.10980, Table 1
CONSTANTS = {
    "Dai2022Formulating_Linf": 1801.00,
    "Rebuffi2021Fixing_Linf": 2056.50,
    "Zhang2019Theoretically_Linf": 2164.00,
    "Madry2017Towards_Linf": 2309.50,
    "Rebuffi2021Fixing_L2": 457.71,
    "Dai2022Formulating_L2": 904.71,
    "Zhang2019Theoretically_L2": 940.29,
    "Madry2017Towards_L2": 1110.00,
    "Dai2022Formulating_LPIPS": 4947.00,
    "LaidLaw2021Perceptual": 5823.00,
    "Madaan2021Learning_MNG-AC": 1494.00,
    "Maini2020Adversarial": 1803.00,
    "Madaan2021Learning_MNG-AC-RST": 1901.25,
    "Tramer2019Adversarial_MAX": 2145.00,
    "Tramer2019Adversarial_AVG": 2502.00,
}

multi = pytest.mark.skipif(
    not (PUBLISHED / "multirobustbench").is_dir(), reason="the published results of MultiRobustBench are not here"
)


def cells(record: dict[str, object]) -> dict[Strength, float]:
    made = {CLEAN: float(record["NoAttack"]) / 100}  # type: ignore[arg-type]
    for attack in NINE:
        for strength, value in dict(record.get(attack, {})).items():  # type: ignore[call-overload]
            made[Strength(attack, float(strength))] = value / 100
    return made


@pytest.fixture(scope="module")
def entries() -> dict[str, tuple[Battery, dict[str, float]]]:
    """Every defence of the leaderboard: its battery of 181, and what it was trained on."""
    folder = PUBLISHED / "multirobustbench"
    best = cells(json.loads((folder / "ata_accs.json").read_text()))
    made = {}
    for name, record in json.loads((folder / "def_accs.json").read_text()).items():
        cell = battery(cells(record["Accuracies"]), best, n=10_000, best_n=30_000)
        made[name] = (cell, record["Details"]["Attacks Used"])
    return made


@multi
@pytest.mark.parametrize("name", CONSTANTS)
def test_the_stability_constant_is_as_printed(name: str, entries: dict) -> None:
    made = stability(*entries[name])
    assert rounded(made.constant.value) == CONSTANTS[name]
    assert made.gap < 0.00025, "each published constant comes from a near-tie"


@multi
def test_conditioning_drops_every_near_tie(entries: dict) -> None:
    for name in CONSTANTS:
        made = conditioned_stability(*entries[name])
        assert made.gap >= made.least_gap > 0.003
        assert made.constant.value < 100


@multi
def test_the_best_ratios_are_as_printed(entries: dict) -> None:
    made = {name: competitiveness(entries[name][0]) for name in (*CONSTANTS, "Jin2020Manifold")}
    average = max(made, key=lambda name: made[name].average.value)
    worst = max(made, key=lambda name: made[name].individual_worst.value)
    assert (average, rounded(100 * made[average].average.value)) == ("Madaan2021Learning_MNG-AC-RST", 67.76)
    assert (worst, rounded(100 * made[worst].individual_worst.value)) == ("Dai2022Formulating_LPIPS", 3.30)
    # 10,000 images: about a point to either side
    assert 0.005 < made[average].average.high - made[average].average.value < 0.02


@multi
def test_the_best_single_ratios_are_as_printed(entries: dict) -> None:
    made = {name: single_competitiveness(entries[name][0], resamples=1) for name in (*CONSTANTS, "Jin2020Manifold")}
    for attack, printed, whose in (
        ("ElasticAttack", 38.48, "Rebuffi2021Fixing_Linf"),
        ("StAdvAttack", 50.35, "LaidLaw2021Perceptual"),
    ):
        best = max(made, key=lambda name: made[name][attack].average.value)
        assert (best, rounded(100 * made[best][attack].average.value)) == (whose, printed)
        assert made[best][attack].entries == 21


@multi
def test_the_share_of_attacks_seen_is_as_printed(entries: dict) -> None:
    for name, share in (("Rebuffi2021Fixing_L2", 2.76), ("LaidLaw2021Perceptual", 11.60), ("Jin2020Manifold", 0.55)):
        cell, trained = entries[name]
        assert rounded(100 * knowledge(cell.entries, trained).share) == share


@multi
def test_an_incomplete_entry_is_refused_or_counted(entries: dict) -> None:
    cell, trained = entries["Croce2022Adversarial_Linf"]
    with pytest.raises(HoldfastError, match="80 of 181 accuracies are missing"):
        competitiveness(cell)
    with pytest.raises(HoldfastError, match="80 of 181"):
        stability(cell, trained)
    made = competitiveness(cell, missing="count")
    assert (made.measured, made.entries, made.is_complete) == (101, 181, False)
