"""mCE and relative mCE: what two publications print, again from the errors they print or publish."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

from holdfast.core.rounding import rounded
from holdfast.core.types import Score
from holdfast.metrics.corruption_error import ALEXNET, ALEXNET_CLEAN, CorruptionErrors, corruption_errors

PUBLISHED = Path(os.environ.get("HOLDFAST_PUBLISHED", Path(__file__).parents[3] / "shared" / "published"))
ENTRIES = PUBLISHED / "robustbench" / "model_info" / "imagenet" / "corruptions"

# arXiv:1903.12261, Table 1: clean error, mCE, relative mCE, and CE by corruption, all in percent. Relative mCE is from
# section 5.2 for ResNet-50 and from arXiv:2004.11362, Figure 3, for ResNet-18.
PRINTED = {
    "VGG-11": (31.0, 93.5, None, (97, 97, 100, 92, 99, 93, 91, 92, 91, 84, 75, 86, 97, 107, 100)),
    "VGG-19": (27.6, 88.9, None, (89, 91, 95, 89, 98, 90, 90, 89, 86, 75, 68, 80, 97, 102, 94)),
    "VGG-19+BN": (25.8, 81.6, None, (82, 83, 88, 82, 94, 84, 86, 80, 78, 69, 61, 74, 94, 85, 83)),
    "ResNet-18": (30.2, 84.7, 103.9, (87, 88, 91, 84, 91, 87, 89, 86, 84, 78, 69, 78, 90, 80, 85)),
    "ResNet-50": (23.9, 76.7, 105.0, (80, 82, 83, 75, 89, 78, 80, 78, 75, 66, 57, 71, 85, 77, 77)),
}


def of_errors(clean: float, errors: dict[str, list[float]], **baseline: object) -> CorruptionErrors:
    accuracies = {name: [Score(1 - error, 0, 1, 0) for error in levels] for name, levels in errors.items()}
    return corruption_errors(Score(1 - clean, 0, 1, 0), accuracies, **baseline)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PRINTED)
def test_the_mean_is_as_printed_up_to_the_rounding_of_its_fifteen_parts(name: str) -> None:
    clean, mean, relative, parts = PRINTED[name]
    errors = {one: [ce / 100 * alexnet] for (one, alexnet), ce in zip(ALEXNET.items(), parts, strict=True)}
    made = of_errors(clean / 100, errors)
    # each part is a whole percent: half a percent of AlexNet's error to either side
    assert 100 * made.mean.value == pytest.approx(mean, abs=0.55)
    if relative is not None:
        slack = np.mean([0.5 * alexnet / (alexnet - ALEXNET_CLEAN) for alexnet in ALEXNET.values()])
        assert 100 * made.relative.value == pytest.approx(relative, abs=slack)


@pytest.mark.skipif(not ENTRIES.is_dir(), reason="the entries of RobustBench are not here")
def test_every_entry_of_robustbench_is_as_published() -> None:
    corruptions, _, *lines = csv.reader((ENTRIES / "unaggregated_results.csv").open(newline=""))
    errors: dict[str, dict[str, list[float]]] = {}
    for model, *values in lines:
        for corruption, value in zip(corruptions[1:], values, strict=True):
            errors.setdefault(model, {}).setdefault(corruption.replace("_", "-"), []).append(1 - float(value))
    clean = {name: json.loads((ENTRIES / f"{name}.json").read_text()) for name in errors}
    baseline = {name: float(np.mean(levels)) for name, levels in errors["AlexNet"].items()}
    first = {"baseline": baseline, "baseline_clean": 1 - float(clean["AlexNet"]["clean_acc"]) / 100}
    for name, entry in clean.items():
        start, printed = 1 - float(entry["clean_acc"]) / 100, float(entry["corruptions_mce"])
        assert rounded(100 * of_errors(start, errors[name], **first).mean.value) == printed
        # 5,000 of the images: AlexNet's errors on all of them, which are built in, move an mCE by 0.03 at most
        assert 100 * of_errors(start, errors[name]).mean.value == pytest.approx(
            float(entry["corruptions_mce"]), abs=0.03
        )
    assert len(clean) == 12
    assert of_errors(first["baseline_clean"], errors["AlexNet"], **first).relative.value == pytest.approx(1)
