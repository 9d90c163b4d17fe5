"""`all_steps`: every sample takes every step, as in a loop written down; posterior agreement finds what papers do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from holdfast import datasets, evaluate, models
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Classifier
from holdfast.metrics.along_ratios import agreement_of_rows
from holdfast.store import Rows, Store

RADIUS, STEP, STEPS = 8 / 255, 1 / 255, 12
ATTACK = f"radius={RADIUS!r},steps={STEPS},step_size={STEP!r},random_start=false"


@pytest.fixture(scope="module")
def model() -> Classifier:
    return models.load("fashion-standard")


@pytest.fixture(scope="module")
def batch(model: Classifier) -> Batch:
    """Twelve images, three of them with a wrong label."""
    data = datasets.load("fashion-mnist-2k")
    images = data.images(range(0, 2000, 167)).pixels.float() / 255
    labels = model(images).argmax(dim=1)
    labels[:3] = (labels[:3] + 1) % 10
    return Batch(images, labels, tuple(map(str, range(len(images)))))


def written_down(model: Classifier, batch: Batch) -> torch.Tensor:
    images = batch.images.clone()
    for _ in range(STEPS):
        images.requires_grad_(True)
        (gradient,) = torch.autograd.grad(F.cross_entropy(model(images), batch.labels, reduction="sum"), images)
        moved = images.detach() + STEP * gradient.sign()
        images = moved.clamp(batch.images - RADIUS, batch.images + RADIUS).clamp(0, 1)
    return images.detach()


@pytest.mark.parametrize("width", [12, 5])
def test_the_last_point_of_a_plain_loop_is_scored(model: Classifier, batch: Batch, width: int) -> None:
    attack = registry.build(registry.bind("attack", f"pgd-linf:{ATTACK},all_steps=true"))
    result = attack(model, batch, Noise.of(0, batch.ids, batch.images.device), width=width)
    torch.testing.assert_close(result.images, written_down(model, batch), atol=2e-6, rtol=0)
    assert result.forwards.tolist() == [STEPS + 1] * len(batch), "also where a sample was wrong from the start"
    assert result.backwards.tolist() == [STEPS] * len(batch)


def test_a_success_that_is_lost_again_does_not_count(batch: Batch) -> None:
    """A sample that is wrong on the way and right at the last step is not broken there: a union goes on with it."""

    class Wavy(torch.nn.Module):
        """Wrong while the mean has risen by 1 to 2 grey levels, right before and after; the gradient always rises."""

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            rise = (images.mean(dim=(1, 2, 3)) - 0.5) * 255
            wrong = ((rise > 0.9) & (rise < 2.1)).float()
            return torch.stack([-0.01 * rise, 2 * wrong.detach() - 1 + 0.01 * rise], dim=1)

    net = models.wrap(Wavy(), name="wavy", classes=2, channels=1)
    images = torch.full((2, 1, 4, 4), 0.5)
    grey = Batch(images, torch.zeros(2, dtype=torch.long), ("a", "b"))
    for option, broken in (("true", False), ("false", True)):
        attack = registry.build(registry.bind("attack", f"pgd-linf:{ATTACK},all_steps={option}"))
        radius = torch.full((2,), RADIUS)
        result = attack.attempt(net, grey, Noise.of(0, grey.ids, images.device), radius, width=2)
        assert result.broken.tolist() == [broken] * 2, option


def test_a_ref_without_the_option_has_the_key_of_before() -> None:
    plain = registry.bind("attack", "pgd-linf:radius=8/255")
    assert registry.bind("attack", "pgd-linf:radius=8/255,all_steps=false").key == plain.key
    assert registry.bind("attack", "pgd-linf:radius=8/255,all_steps=true").key != plain.key


def confidence_when_broken(rows: Rows) -> float:
    logits = np.asarray(rows.logits, dtype=np.float64)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return float((shares.max(axis=1) / shares.sum(axis=1))[~rows.correct].mean())


def test_an_undefended_model_agrees_less_than_a_defended_one(tmp_path: object) -> None:
    """The paper's finding, most of which stopping at the first success hides: an undefended model is sure and wrong."""
    store = Store(str(tmp_path))
    ends = {}
    for name in ("fashion-standard", "fashion-at-linf"):
        for option in ("true", "false"):
            attacked = f"fashion-mnist-2k+pgd-linf:{ATTACK},all_steps={option}"
            clean, broken = evaluate(name, ["fashion-mnist-2k", attacked], samples=200, store=store)
            ends[name, option] = agreement_of_rows(clean.rows, broken.rows)[0], confidence_when_broken(broken.rows)
    undefended, defended = ends["fashion-standard", "true"], ends["fashion-at-linf", "true"]
    assert undefended[0].score.high < defended[0].score.low
    assert undefended[1] > 0.8
    assert ends["fashion-standard", "false"][1] < 0.6, "at its first success a sample lies on the boundary"
    assert undefended[0].score.value < ends["fashion-standard", "false"][0].score.value - 0.3
