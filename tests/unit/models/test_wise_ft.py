"""Weight-space ensembles: averages of two models' weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.types import ModelCard
from holdfast.models import load
from holdfast.models.file import save_model
from holdfast.models.weights import architecture


def test_weights_lie_between_those_of_two_models() -> None:
    one, other = load("fashion-standard"), load("fashion-at-linf")
    images = torch.rand(4, 1, 28, 28)
    for alpha in (0.0, 0.25, 1.0):
        made = load(f"wise-ft:fashion-standard,fashion-at-linf,alpha={alpha}")
        for name, tensor in made.net.state_dict().items():
            expected = (1 - alpha) * one.net.state_dict()[name] + alpha * other.net.state_dict()[name]
            assert torch.allclose(tensor, expected)
        assert made.card.kind == "weight-space ensemble"
        if alpha in (0.0, 1.0):
            assert torch.allclose(made(images), (one if alpha == 0 else other)(images), atol=1e-5)
    half = load("wise-ft:(fashion-standard),(fashion-at-linf)")
    assert half.card.weights not in (one.card.weights, other.card.weights)
    assert not torch.allclose(half(images), (one(images) + other(images)) / 2, atol=1e-2)  # of weights, not of answers


def test_models_of_other_shapes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="alpha"):
        load("wise-ft:fashion-standard,fashion-at-linf,alpha=2")
    text = "small-cnn:channels=1,classes=10,width=4"
    save_model(tmp_path / "m.safetensors", architecture(text).net, ModelCard("m", "", 10, 1), architecture=text)
    with pytest.raises(HoldfastError, match="cannot be averaged"):
        load(f"wise-ft:fashion-standard,(file:{tmp_path}/m.safetensors)")
