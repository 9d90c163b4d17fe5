"""Randomised smoothing as a wrapper around any model."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from holdfast import conformance
from holdfast.core.errors import Misuse
from holdfast.models import load
from holdfast.models.smoothed import Smoothed


class Step(nn.Module):
    """Certain of class 1 where the first pixel is above 0, else of class 0."""

    def forward(self, images: Tensor) -> Tensor:
        first = images[:, 0, 0, 0]
        return torch.stack([-1e3 * first, 1e3 * first], dim=1)


def test_a_step_becomes_the_normal_distribution() -> None:
    smooth = Smoothed(Step().eval(), 0.5, 4000, 0)
    for at in (-0.5, 0.0, 0.3):
        images = torch.full((1, 1, 1, 1), at)
        share = float(smooth(images).exp()[0, 1])
        expected = 0.5 * (1 + math.erf(at / 0.5 / math.sqrt(2)))
        assert share == pytest.approx(expected, abs=0.03)  # 4,000 draws: a deviation of 0.008


def test_a_smoothed_model_is_a_model_like_any_other() -> None:
    conformance.check_model("smoothed:fashion-standard,sigma=0.1,draws=3")


def test_the_wrapper_and_its_model_have_other_weights_digests_and_names() -> None:
    inner, outer = load("fashion-standard"), load("smoothed:fashion-standard,draws=2")
    assert outer.card.name == f"{inner.card.name}, smoothed 0.25"
    assert (outer.card.classes, outer.card.channels) == (inner.card.classes, inner.card.channels)
    assert outer.card.weights != inner.card.weights


@pytest.mark.parametrize("text", ["sigma=0", "sigma=-1", "draws=0"])
def test_wrong_arguments_are_told(text: str) -> None:
    with pytest.raises(Misuse, match=r"sigma|draws"):
        load(f"smoothed:fashion-standard,{text}")
