"""CIFAR-10.1: the answers of 30 published models, their line, and the same line without labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from holdfast.core.table import Table
from holdfast.trends.agreement_line import predict_accuracy
from holdfast.trends.fits import fit
from holdfast.trends.ranks import rank_intervals

ANSWERS = Path(__file__).parents[3] / "shared" / "published" / "cifar10.1-predictions"

pytestmark = pytest.mark.skipif(not ANSWERS.exists(), reason="the published CIFAR-10.1 predictions are not here")


class Published(NamedTuple):
    models: tuple[str, ...]
    before: np.ndarray
    labels: np.ndarray
    after: np.ndarray
    labels_after: np.ndarray

    @property
    def accuracies(self) -> np.ndarray:
        return np.column_stack(
            [(self.before == self.labels).mean(axis=1), (self.after == self.labels_after).mean(axis=1)]
        )


@pytest.fixture(scope="module")
def published() -> Published:
    folder = ANSWERS / "model_predictions"
    files = sorted(path.name for path in (folder / "original_predictions").glob("*.json"))
    before, after = (
        np.array([json.loads((folder / f"{kind}_predictions" / name).read_text()) for name in files], dtype=float)
        for kind in ("original", "v6")
    )
    models = tuple(name.removesuffix("_predictions.json") for name in files)
    return Published(
        models, before, np.load(ANSWERS / "Y_cifar10.npy"), after, np.load(ANSWERS / "cifar10.1_v6_labels.npy")
    )


def test_the_accuracies_of_30_models(published: Published) -> None:
    assert (published.before.shape, published.after.shape) == ((30, 10_000), (30, 2000))
    found = {name: tuple(100 * row) for name, row in zip(published.models, published.accuracies, strict=True)}
    assert found["shake_shake_26_2x64d_SSI_cutout16"] == pytest.approx((97.11, 93.10))
    assert found["vgg16_keras"] == pytest.approx((93.59, 85.60))
    assert found["random_features_256k_aug"] == pytest.approx((85.63, 73.60))
    # arXiv:1902.10811: "accuracy drops of 3% – 15% on CIFAR-10"
    drops = np.array([one - other for one, other in found.values()])
    assert 3 < drops.min() < drops.max() < 15


def test_the_line_through_them(published: Published) -> None:
    table = Table(published.models, ("cifar10", "cifar10.1"), published.accuracies, np.tile([10_000, 2000], (30, 1)))
    straight = fit(table, "cifar10.1", "cifar10", space="linear")
    assert (straight.n, round(straight.slope, 3), round(straight.intercept, 3)) == (30, 1.595, -0.632)
    probit = fit(table, "cifar10.1", "cifar10", space="probit")
    assert probit.r2 > 0.98
    assert probit.mae < 0.0065
    assert probit.kendall > 0.85


@pytest.mark.parametrize("method", ["aline-d", "aline-s"])
def test_agreement_alone_predicts_them_within_12_tenths_of_a_point_on_average(published: Published, method) -> None:
    made = predict_accuracy(published.models, published.before, published.labels, published.after, method=method)
    # arXiv:2310.12793 has R² .99 for pairs of robust models on this shift
    assert made.line.r2 > 0.98
    truth = published.accuracies[:, 1]
    assert np.abs(np.array([each.accuracy.value for each in made.models]) - truth).mean() < 0.012
    held = sum(each.accuracy.low <= value <= each.accuracy.high for each, value in zip(made.models, truth, strict=True))
    assert held == 30
    assert 0.35 < made.dependence.kappa < 0.45, "their errors are far from independent"


def test_only_the_ends_of_the_ranking_are_decided_by_2000_samples(published: Published) -> None:
    ranks = rank_intervals(published.models, published.after == published.labels_after)
    assert ranks[0].model == "shake_shake_26_2x64d_SSI_cutout16"
    assert (ranks[0].low, ranks[0].high <= 5) == (1, True)
    assert ranks[-1].low >= 28
    assert np.mean([each.high - each.low for each in ranks]) > 2
