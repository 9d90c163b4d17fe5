"""ResNet and ConvNeXt for ImageNet, and XCiT: sizes as published, keys as in public checkpoints, laws of parts."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from holdfast.core.errors import Misuse
from holdfast.models.weights import architecture
from holdfast.models.xcit import ChannelAttention, ClassTokenBlock, PositionCode

MILLIONS = {  # as torchvision's and timm's tables print them
    "resnet-imagenet:depth=18": 11.69,
    "resnet-imagenet:depth=34": 21.80,
    "resnet-imagenet:depth=50": 25.56,
    "resnet-imagenet:depth=50,width=2": 68.88,
    "resnet-imagenet:depth=101": 44.55,
    "resnet-imagenet:depth=152": 60.19,
    "convnext:variant=tiny": 28.59,
    "convnext:variant=small": 50.22,
    "convnext:variant=base": 88.59,
    "convnext:variant=large": 197.77,
    "xcit:width=384": 26.25,
    "xcit:width=512,depth=24": 84.40,
    "xcit:width=768,depth=24,heads=16": 189.10,
}
KEYS = {
    "resnet-imagenet:depth=50": (
        "bn1.running_mean",
        "layer1.0.downsample.1.weight",
        "layer4.2.conv3.weight",
        "fc.bias",
    ),
    "convnext": ("stem.1.bias", "stages.1.downsample.1.weight", "stages.2.blocks.8.mlp.fc2.bias", "head.norm.weight"),
    "convnext:stem=two": ("stem.stem.0.weight", "stem.stem.4.weight", "stages.0.blocks.0.gamma"),
    "convnext:variant=base,stem=three": ("stem.stem.7.weight", "stages.3.blocks.2.conv_dw.weight", "head.fc.weight"),
    "xcit": (
        *("cls_token", "patch_embed.proj.6.1.running_var", "pos_embed.token_projection.bias"),
        *("blocks.11.attn.temperature", "blocks.0.local_mp.bn.bias", "cls_attn_blocks.1.attn.q.weight", "head.weight"),
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


@pytest.mark.parametrize(
    ("ref", "size", "side"),
    [
        ("resnet-imagenet:depth=18", 224, 7),
        ("convnext", 224, 7),
        ("convnext:stem=two", 224, 7),
        ("convnext:variant=base,stem=three", 224, 7),
        ("xcit", 224, 14),
        ("xcit:patch=8", 224, 28),
        ("xcit:patch=4", 32, 8),
    ],
)
def test_the_last_features_have_the_side_that_strides_say(ref: str, size: int, side: int) -> None:
    last = {"resnet": "layer4", "convne": "stages", "xcit": "patch_embed.proj", "xcit:p": "patch_embed.proj"}[ref[:6]]
    shapes: list[tuple[int, ...]] = []
    with torch.device("meta"):
        net = architecture(ref).net
        net.get_submodule(last).register_forward_hook(lambda _module, _given, answer: shapes.append(answer.shape))
        net(torch.zeros(1, 3, size, size))
    assert shapes[0][-2:] == (side, side)


def test_the_stride_of_a_bottleneck_lies_in_its_3x3_convolution() -> None:
    with torch.device("meta"):
        block = architecture("resnet-imagenet:depth=50").net.get_submodule("layer2.0")
    strides = {name: part.stride[0] for name, part in block.named_modules() if isinstance(part, nn.Conv2d)}
    assert strides == {"conv1": 1, "conv2": 2, "conv3": 1, "downsample.0": 2}


def test_a_convnext_block_with_gamma_zero_passes_its_input_on() -> None:
    block = architecture("convnext").net.get_submodule("stages.0.blocks.0")
    features = torch.rand(2, 96, 5, 5)
    assert not torch.equal(block(features), features)
    nn.init.zeros_(block.gamma)  # type: ignore[arg-type]
    assert torch.equal(block(features), features)


def test_channel_attention_does_not_see_the_order_of_patches() -> None:
    """Its weights are between channels, so patches that change places take their answers with them."""
    torch.manual_seed(0)
    attention, tokens, order = ChannelAttention(16, 4), torch.rand(2, 9, 16), torch.randperm(9)
    torch.testing.assert_close(attention(tokens[:, order]), attention(tokens)[:, order])
    assert not torch.allclose(attention(tokens), attention(tokens.flip(2)).flip(2))


def test_the_class_token_alone_reads_the_others() -> None:
    torch.manual_seed(0)
    block, tokens = ClassTokenBlock(8, 2).double(), torch.rand(1, 5, 8, dtype=torch.float64)
    block_of_first = torch.func.jacrev(lambda given: block(given)[0, :, 0])
    jacobian: Tensor = block_of_first(tokens)[:, 0].abs().sum(-1)
    reads = jacobian > 1e-12
    assert reads[0].all()
    assert torch.equal(reads[1:], torch.eye(5, dtype=torch.bool)[1:])


def test_the_position_code_is_sines_and_cosines_of_row_then_column() -> None:
    code = PositionCode(64)
    nn.init.zeros_(code.token_projection.bias)  # type: ignore[arg-type]
    code.token_projection.weight.data = torch.eye(64)[:, :, None, None]
    waves = code(3, 4)[0].detach()
    row, column, frequency = 2, 3, 5
    angle = 2 * math.pi * row / (3 + 1e-6) / 10_000 ** (2 * frequency / 32)
    assert float(waves[2 * frequency, row - 1, column]) == pytest.approx(math.sin(angle), abs=1e-6)
    angle = 2 * math.pi * (column + 1) / (4 + 1e-6) / 10_000 ** (2 * frequency / 32)
    assert float(waves[32 + 2 * frequency + 1, row, column]) == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize(
    "ref", ["resnet-imagenet:depth=20", "resnet-imagenet:depth=18,width=2", "xcit:patch=5", "xcit:width=100,heads=8"]
)
def test_sizes_that_do_not_exist_are_refused(ref: str) -> None:
    with pytest.raises(Misuse):
        architecture(ref)
