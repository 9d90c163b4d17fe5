"""From texts and live modules to classifiers that are ready."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register, registry
from holdfast.core.types import ModelCard
from holdfast.models import TorchClassifier, load, prepared, weights_digest, wrap


@pytest.fixture
def sources() -> Iterator[Any]:
    """Registers model sources that are forgotten afterwards."""
    registry.entries("model")
    before = dict(registry.components["model"])
    yield lambda name, make: register("model", name)(make)
    registry.components["model"] = before


def dropout_net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(12, 5), nn.BatchNorm1d(5))


def test_a_loaded_model_is_in_evaluation_mode_frozen_and_described(sources: Any) -> None:
    sources("test-source", lambda: TorchClassifier(dropout_net(), ModelCard("mine", "", 5, trained_on="toys")))
    model = load("test-source")
    assert not any(part.training for part in model.modules())
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert model.was_training
    assert model.card.source == "test-source"
    assert model.card.weights == weights_digest(model.net)
    assert model.card.parameters == 12 * 5 + 5 + 5 + 5
    assert model.card.trained_on == "toys"


def test_a_ref_loads_like_its_text(sources: Any) -> None:
    net = dropout_net()
    sources("test-source", lambda: TorchClassifier(net, ModelCard("mine", "", 5)))
    assert load(registry.bind("model", "test-source"), device="cpu").card == load("test-source").card


def test_a_source_that_makes_no_classifier_is_named(sources: Any) -> None:
    sources("test-source", nn.Flatten)
    with pytest.raises(HoldfastError, match="`test-source` made a Flatten, which is no classifier"):
        load("test-source")


def test_a_callable_with_a_card_is_enough() -> None:
    class Plain:
        card = ModelCard("plain", "", 3, weights="told")

        def __call__(self, images: Tensor) -> Tensor:
            return images.flatten(1)[:, :3]

    model = prepared(Plain(), source="here")
    assert model(torch.rand(2, 1, 4, 4)).shape == (2, 3)
    assert model.card == ModelCard("plain", "here", 3, weights="told")
    assert not model.was_training


def test_a_live_module_is_asked_what_it_is_not_told() -> None:
    model = wrap(nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 7)), name="mine")
    assert (model.card.classes, model.card.channels, model.card.source) == (7, 1, "live")
    coloured = wrap(nn.Sequential(nn.Conv2d(3, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()), name="mine")
    assert (coloured.card.classes, coloured.card.channels) == (2, 3)


def test_a_live_module_is_believed_and_gets_its_preprocessing() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(75, 6, bias=False))
    model = wrap(
        net, name="mine", classes=6, size=5, mean=[0.5] * 3, std=[0.5] * 3, threats=("pgd-linf",), trained_on="toys"
    )
    images = torch.rand(2, 3, 5, 5)
    torch.testing.assert_close(model(images), net(2 * images - 1))
    assert model.card.channels == 3
    assert model.card.threats == ("pgd-linf",)


def test_normalisation_is_part_of_the_digest() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
    one, other = (wrap(net, name="mine", classes=5, mean=[m] * 3, std=[0.5] * 3) for m in (0.4, 0.5))
    assert one.card.weights != other.card.weights


def test_asking_leaves_batch_statistics_and_modes_alone() -> None:
    net = nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    before = weights_digest(net)
    model = wrap(net, name="mine")
    assert model.card.weights == before
    assert model.was_training


def test_a_network_that_takes_no_usual_image_asks_for_its_shape() -> None:
    with pytest.raises(Misuse, match="took none of the images") as caught:
        wrap(nn.Sequential(nn.Flatten(), nn.Linear(11, 2)), name="mine")
    assert "classes=10,channels=3,size=32" in str(caught.value.hint)


@pytest.mark.parametrize(("net", "got"), [(nn.Conv2d(3, 2, 3), r"shape \(2, 2, 30, 30\)"), (nn.LSTM(32, 5), "tuple")])
def test_outputs_that_are_no_logits_are_refused(net: nn.Module, got: str) -> None:
    if isinstance(net, nn.LSTM):
        net = nn.Sequential(nn.Flatten(1, 2), net)
    with pytest.raises(HoldfastError, match=rf"must return logits of shape \(images, classes\), got {got}"):
        wrap(net, name="mine")
