"""timm, torchvision and transformers at their edges: stand-ins with the interface the real ones have."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.models import load

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.5)
IMAGES = torch.rand(2, 3, 12, 12, generator=torch.Generator().manual_seed(1))


class Net(nn.Module):
    """Mean colours, then a linear layer; all weights are 1."""

    def __init__(self, classes: int = 5, channels: int = 3) -> None:
        super().__init__()
        self.num_classes = classes
        self.fc = nn.Linear(channels, classes)
        nn.init.ones_(self.fc.weight)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.fc(images.mean((2, 3)))
        return logits


def expected(net: nn.Module, images: Tensor) -> Tensor:
    mean, std = (torch.tensor(numbers).reshape(3, 1, 1) for numbers in (MEAN, STD))
    logits: Tensor = net((images - mean) / std)
    return logits


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A stand-in for timm; gives the calls of `create_model`."""
    calls: list[dict[str, Any]] = []
    module, data = ModuleType("timm"), ModuleType("timm.data")

    def create_model(name: str, *, pretrained: bool, in_chans: int = 3, num_classes: int = 5) -> nn.Module:
        calls.append({"name": name, "pretrained": pretrained, "num_classes": num_classes, "in_chans": in_chans})
        if name == "toy.offline":
            raise OSError("cannot reach the hub")
        torch.manual_seed(0)
        net = Net(num_classes, in_chans)
        net.pretrained_cfg = {"license": "apache-2.0"}  # type: ignore[assignment]
        return net

    monkeypatch.setattr(module, "create_model", create_model, raising=False)
    monkeypatch.setattr(module, "is_model", lambda name: name.partition(".")[0] == "toy", raising=False)
    monkeypatch.setattr(module, "list_models", lambda: ["toy", "toyish"], raising=False)
    config = {"input_size": (3, 12, 12), "mean": MEAN, "std": STD, "interpolation": "bicubic", "crop_pct": 0.9}
    monkeypatch.setattr(data, "resolve_model_data_config", lambda net: config, raising=False)
    monkeypatch.setitem(sys.modules, "timm", module)
    monkeypatch.setitem(sys.modules, "timm.data", data)
    return calls


def test_timm_gives_pretrained_networks_with_their_preprocessing_inside(timm: list[dict[str, Any]]) -> None:
    model = load("timm:toy.in1k")
    assert timm == [{"name": "toy.in1k", "pretrained": True, "num_classes": 5, "in_chans": 3}]
    torch.testing.assert_close(model(IMAGES), expected(model.net.get_submodule("net"), IMAGES))
    assert model(torch.rand(1, 3, 40, 30)).shape == (1, 5)
    assert (model.card.name, model.card.size, model.card.licence) == ("toy.in1k", 12, "apache-2.0")
    assert not model.was_training


def test_timm_architectures_take_weights_from_a_file(timm: list[dict[str, Any]], in_folder: Path) -> None:
    torch.save(Net(7).state_dict(), "w.pt")
    model = load("file:w.pt,architecture=timm:toy,classes=7")
    assert timm[-1] == {"name": "toy", "pretrained": False, "num_classes": 7, "in_chans": 3}
    assert (model.card.classes, model.card.channels) == (7, 3)


@pytest.mark.usefixtures("timm")
def test_timm_names_are_checked_and_its_failures_explained() -> None:
    with pytest.raises(Misuse, match="no timm model named `toyo`") as caught:
        load("timm:toyo")
    assert "did you mean `toy`" in str(caught.value.hint)
    with pytest.raises(HoldfastError, match=r"timm cannot make `toy\.offline`: cannot reach the hub"):
        load("timm:toy.offline")


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any, Any]]:
    """A stand-in for torchvision.models; gives the calls of `get_model`."""
    calls: list[tuple[str, Any, Any]] = []
    module, models = ModuleType("torchvision"), ModuleType("torchvision.models")
    transforms = SimpleNamespace(crop_size=[12], resize_size=[14], mean=list(MEAN), std=list(STD))

    class Weights(enum.Enum):
        V1 = "first"
        V2 = "second"
        DEFAULT = "second"  # noqa: PIE796 - an alias, as in torchvision

        def transforms(self) -> SimpleNamespace:
            return transforms

        @property
        def meta(self) -> dict[str, Any]:
            return {"categories": list("abcde"), "recipe": "https://recipe"}

    def get_model(name: str, *, weights: Any, num_classes: int = 5) -> nn.Module:
        calls.append((name, weights, num_classes))
        return Net(num_classes)

    monkeypatch.setattr(models, "get_model", get_model, raising=False)
    monkeypatch.setattr(models, "get_model_weights", lambda name: Weights, raising=False)
    monkeypatch.setattr(models, "list_models", lambda module=None: ["toy18", "toy50"], raising=False)
    monkeypatch.setitem(sys.modules, "torchvision", module)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    return calls


def test_torchvision_gives_chosen_weights_with_their_transforms_inside(torchvision: list[Any]) -> None:
    model = load("torchvision:toy18")
    torch.testing.assert_close(model(IMAGES), expected(model.net.get_submodule("net"), IMAGES))
    assert (model.card.classes, model.card.size, model.card.notes) == (5, 12, "weights V2")
    assert load("torchvision:toy18,weights=V1").card.notes == "weights V1"
    assert not model.was_training


def test_torchvision_architectures_take_weights_from_a_file(torchvision: list[Any], in_folder: Path) -> None:
    torch.save({"state_dict": Net(7).state_dict()}, "w.pth")
    assert load("file:w.pth,architecture=torchvision:toy50,classes=7").card.classes == 7
    assert torchvision == [("toy50", None, 7)]
    torch.save(Net().state_dict(), "w.pth")
    assert load("file:w.pth,architecture=torchvision:toy50").card.classes == 5


@pytest.mark.usefixtures("torchvision")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("torchvision:toy19", "no torchvision classifier named `toy19`"),
        ("torchvision:toy18,weights=V3", "no weights of `toy18` named `V3`"),
    ],
)
def test_torchvision_names_are_checked(text: str, problem: str) -> None:
    with pytest.raises(Misuse) as caught:
        load(text)
    assert caught.value.problem == problem
    assert "did you mean" in str(caught.value.hint)


class HubNet(nn.Module):
    """A network as transformers makes them: keyword in, record out."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Net()
        self.config = SimpleNamespace(num_labels=5, num_channels=3)

    def forward(self, *, pixel_values: Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=self.inner(pixel_values))


def processor(**changes: Any) -> SimpleNamespace:
    usual = {
        "image_mean": list(MEAN),
        "image_std": list(STD),
        "do_normalize": True,
        "size": {"height": 12, "width": 12},
    }
    return SimpleNamespace(**{**usual, **changes})


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, SimpleNamespace]:
    """A stand-in for transformers; the processors by name can be changed."""
    processors = {"org/toy": processor()}
    module = ModuleType("transformers")

    def from_pretrained(name: str) -> SimpleNamespace:
        if name not in processors:
            raise OSError(f"{name} is not a model identifier")
        return processors[name]

    networks = SimpleNamespace(from_pretrained=lambda name: HubNet())
    monkeypatch.setattr(module, "AutoImageProcessor", SimpleNamespace(from_pretrained=from_pretrained), raising=False)
    monkeypatch.setattr(module, "AutoModelForImageClassification", networks, raising=False)
    monkeypatch.setitem(sys.modules, "transformers", module)
    return processors


def test_transformers_gives_logits_with_the_processor_inside(hub: dict[str, SimpleNamespace]) -> None:
    model = load("transformers:org/toy")
    torch.testing.assert_close(model(IMAGES), expected(model.net.get_submodule("net.net.inner"), IMAGES))
    assert (model.card.name, model.card.classes, model.card.size) == ("org/toy", 5, 12)
    assert not model.was_training
    images = IMAGES.clone().requires_grad_(True)
    model(images).sum().backward()
    assert images.grad is not None


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        ({"size": {"shortest_edge": 10}}, 10),
        ({"size": {"shortest_edge": 16}, "do_center_crop": True, "crop_size": {"height": 12, "width": 12}}, 12),
        ({"size": SimpleNamespace(height=None, shortest_edge=11)}, 11),
        ({"size": 9}, 9),
        ({"size": None}, None),
        ({"do_normalize": False}, 12),
    ],
)
def test_transformers_sizes_are_read_as_they_are_written(
    hub: dict[str, SimpleNamespace], changes: dict[str, Any], size: int | None
) -> None:
    hub["org/toy"] = processor(**changes)
    assert load("transformers:org/toy").card.size == size


def test_transformers_failures_are_explained(hub: dict[str, SimpleNamespace]) -> None:
    with pytest.raises(HoldfastError, match="transformers cannot load `org/toi`: org/toi is not a model identifier"):
        load("transformers:org/toi")
    hub["org/toy"] = processor(rescale_offset=True)
    with pytest.raises(HoldfastError, match="offset"):
        load("transformers:org/toy")


PACKAGES = [("timm", "timm:resnet18"), ("torchvision", "torchvision:resnet18"), ("transformers", "transformers:a/b")]


@pytest.mark.parametrize(("package", "text"), [*PACKAGES, ("onnxruntime", "onnx:m.onnx")])
@pytest.mark.parametrize("broken", [None, RuntimeError("operator nms does not exist"), ImportError("libcudart")])
def test_a_package_that_cannot_be_imported_says_how_to_get_it(
    package: str, text: str, broken: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:

    class Finder:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> None:
            if name.partition(".")[0] == package:
                raise broken or ModuleNotFoundError(f"No module named {package!r}", name=package)

    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    with pytest.raises(HoldfastError) as caught:
        load(text)
    extra = text.partition(":")[0]
    assert caught.value.problem.startswith(
        f"`{package}` is not installed" if broken is None else f"`{package}` is installed but cannot be imported"
    )
    assert str(caught.value.hint).startswith(f"pip install holdfast[{extra}]")
