"""Networks of the CIFAR literature: sizes as published, keys as in public checkpoints, one way through each block."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from holdfast.core.errors import Misuse
from holdfast.models.weights import architecture

MILLIONS = {  # as printed in the papers and by the public code
    "resnet20-cifar": 0.27,
    "resnet20-cifar:depth=56": 0.85,
    "resnet-cifar:depth=18": 11.17,
    "resnet-cifar:depth=34": 21.28,
    "resnet-cifar:depth=50": 23.52,
    "preact-resnet-cifar": 11.17,
    "wide-resnet:depth=28,width=10": 36.48,
    "wide-resnet:depth=34,width=10": 46.16,
    "wide-resnet-dm:depth=28,width=10": 36.48,
    "wide-resnet-dm:depth=70,width=16": 266.80,
    "wide-resnet:depth=40,width=2": 2.24,
}
KEYS = {
    "resnet-cifar:depth=50": (
        "conv1.weight",
        "layer3.5.conv3.weight",
        "layer1.0.shortcut.1.running_var",
        "linear.bias",
    ),
    "preact-resnet-cifar:final_norm=true": ("layer2.0.shortcut.0.weight", "bn.weight", "layer4.1.bn2.running_mean"),
    "wide-resnet": ("block1.layer.0.convShortcut.weight", "block3.layer.3.bn2.bias", "bn1.weight", "fc.weight"),
    "wide-resnet-dm": (
        "init_conv.weight",
        "layer.1.block.0.shortcut.weight",
        "layer.2.block.3.batchnorm_1.bias",
        "logits.bias",
    ),
    "preact-resnet-dm": (
        "conv_2d.weight",
        "layer_1.0.shortcut.weight",
        "layer_3.1.conv_2d_2.weight",
        "batchnorm.weight",
    ),
}


@pytest.mark.parametrize(("ref", "millions"), MILLIONS.items())
def test_a_network_has_as_many_parameters_as_published(ref: str, millions: float) -> None:
    with torch.device("meta"):
        net = architecture(ref).net
    assert sum(p.numel() for p in net.parameters()) / 1e6 == pytest.approx(millions, abs=0.006)


@pytest.mark.parametrize(("ref", "keys"), KEYS.items())
def test_keys_are_those_of_public_checkpoints(ref: str, keys: tuple[str, ...]) -> None:
    with torch.device("meta"):
        assert set(keys) <= set(architecture(ref).net.state_dict())


def zeroed(net: nn.Module, *names: str) -> nn.Module:
    """The network with these layers' weights at zero."""
    for name in names:
        for parameter in net.get_submodule(name).parameters():
            nn.init.zeros_(parameter)
    return net


@pytest.mark.parametrize(
    ("ref", "last"),
    [
        ("wide-resnet:depth=10,width=1", "conv2"),
        ("wide-resnet-dm:depth=10,width=1", "conv_1"),
        ("preact-resnet-cifar:width=4", "conv2"),
        ("preact-resnet-dm", "conv_2d_2"),
    ],
)
def test_a_block_without_its_branch_is_its_shortcut(ref: str, last: str) -> None:
    """With the last convolution at zero a pre-activation block of equal shape passes its input on."""
    net = architecture(ref).net
    name, block = next((n, b) for n, b in net.named_modules() if hasattr(b, last) and _is_plain(b))
    zeroed(net, f"{name}.{last}")
    features = torch.randn(2, _channels(block), 8, 8)
    assert torch.equal(block(features), features)


def _is_plain(block: nn.Module) -> bool:
    convs = [m for m in block.modules() if isinstance(m, nn.Conv2d)]
    return len(convs) == 2 and all(c.in_channels == c.out_channels and c.stride == (1, 1) for c in convs)


def _channels(block: nn.Module) -> int:
    return next(m.in_channels for m in block.modules() if isinstance(m, nn.Conv2d))


def test_a_thin_shortcut_drops_pixels_and_adds_empty_channels() -> None:
    net = architecture("resnet20-cifar:width=4").net
    block = net.get_submodule("layer2.0")
    zeroed(block, "bn2")
    features = torch.rand(1, 4, 6, 6)
    result = block(features)
    assert torch.equal(result[:, 2:6], features[:, :, ::2, ::2])
    assert not result[:, :2].any()
    assert not result[:, 6:].any()


def test_strides_are_padded_below_and_to_the_right_in_deepminds_layout() -> None:
    """A strided 3x3 convolution of DeepMind's sees pixel (0, 0) first, the common layout the padding above it."""
    image = torch.zeros(1, 16, 4, 4)
    image[..., 0, 0] = 1.0
    for ref, name, row in (
        ("wide-resnet-dm:depth=10,width=1", "layer.1.block.0", 0),
        ("wide-resnet:depth=10,width=1", "block2.layer.0", 1),
    ):
        block = architecture(ref).net.get_submodule(name)
        first = next(m for m in block.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3))
        nn.init.zeros_(first.weight)
        first.weight.data[:, :, row, row] = 1.0
        seen: list[torch.Tensor] = []
        first.register_forward_hook(lambda _, __, out, seen=seen: seen.append(out))
        block.eval()(image)
        assert seen[0][0, 0].argmax() == 0
        assert seen[0][0, 0, 0, 0] > seen[0][0, 0, 1, 1]


@pytest.mark.parametrize(
    "ref", ["resnet-cifar:depth=19", "wide-resnet:depth=30", "resnet20-cifar:depth=21", "preact-resnet-cifar:depth=50"]
)
def test_a_depth_that_does_not_exist_is_refused(ref: str) -> None:
    with pytest.raises(Misuse, match="depth"):
        architecture(ref)
