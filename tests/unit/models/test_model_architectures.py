"""Architectures, over the registry where nothing is special about one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from holdfast.core.registry import registry
from holdfast.models.architectures import small_cnn
from holdfast.models.cifar_networks import resnet18_cifar
from holdfast.models.weights import architecture

OWN = [
    name for name, entry in registry.entries("architecture").items() if not any(p.required for p in entry.parameters)
]


def small(name: str, **options: int) -> nn.Module:
    """The network narrowed; a transformer has heads, which share its width, and one size of images."""
    parameters = {parameter.name for parameter in registry.entries("architecture")[name].parameters}
    if "width" in parameters:
        options |= {"width": 24 if "heads" in parameters else 4}
    if "depth" in parameters and "heads" in parameters:
        options |= {"depth": 2}
    if {"patch", "size"} <= parameters:
        options |= {"patch": 1 if options["size"] % 4 else 4}
    else:
        options.pop("size", None)
    return architecture(f"{name}:{','.join(f'{key}={value}' for key, value in options.items())}").net


@pytest.mark.parametrize("name", OWN)
def test_any_size_from_16_channels_and_classes_work(name: str) -> None:
    sizes = (32, 48) if name == "convnext" else (16, 32, 28, 45)  # it halves images five times
    for channels, size in zip((1, 3, 1, 3), sizes, strict=False):
        net = small(name, channels=channels, classes=7, size=size)
        assert net(torch.rand(2, channels, size, size)).shape == (2, 7)


@pytest.mark.parametrize("name", OWN)
def test_in_evaluation_a_picture_does_not_see_its_neighbours(name: str) -> None:
    net = small(name, channels=3, size=32).double()
    images = torch.rand(4, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(net(images[:1]), net(images)[:1])


def test_classes_fill_in_only_what_the_text_leaves_open() -> None:
    assert architecture("small-cnn", classes=3).number("classes") == 3
    assert architecture("small-cnn:width=2", classes=3).number("classes") == 3
    assert architecture("small-cnn:classes=4", classes=3).number("classes") == 4


def test_small_cnn_is_small_and_has_no_normalisation_layer() -> None:
    net = small_cnn()
    assert 100_000 < sum(parameter.numel() for parameter in net.parameters()) < 200_000
    assert not [part for part in net.modules() if "Norm" in type(part).__name__]


def test_small_cnn_learns_where_the_light_is(images: torch.Tensor, labels: torch.Tensor) -> None:
    torch.manual_seed(0)
    net = small_cnn(classes=4, width=4)
    large = nn.functional.interpolate(images, scale_factor=2)
    steps = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(30):
        steps.zero_grad()
        nn.functional.cross_entropy(net(large), labels).backward()
        steps.step()
    assert torch.equal(net(large).argmax(1), labels)


def test_resnet18_has_the_published_count_and_the_common_names() -> None:
    net = resnet18_cifar()
    assert sum(parameter.numel() for parameter in net.parameters()) == 11_173_962  # kuangliu/pytorch-cifar ResNet18
    names = "\n".join(net.state_dict())
    assert "layer4.1.bn2.num_batches_tracked" in names
    assert "layer2.0.shortcut.0.weight" in names
    assert "layer1.0.shortcut" not in names
    assert list(net.state_dict())[:2] == ["conv1.weight", "bn1.weight"]
    assert list(net.state_dict())[-2:] == ["linear.weight", "linear.bias"]
    assert len(names.split()) == 122
