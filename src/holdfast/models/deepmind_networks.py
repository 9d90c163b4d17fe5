"""The networks of RobustBench's DeepMind entries, with the names of keys that their public checkpoints have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.core.errors import Misuse
from holdfast.core.registry import register
from holdfast.models.cifar_networks import (
    ACTIVATIONS,
    Activation,
    block_counts,
    plain_conv,
    pooled,
    stage_under,
    stages_of,
    wide_stages,
)

REBUFFI = "Rebuffi et al. 2021, arXiv:2103.01946; layout of deepmind-research"


@register("architecture", "wide-resnet-dm", source="Gowal et al. 2020, arXiv:2010.03593; layout of deepmind-research")
class DmWideResNet(nn.Module):
    """WideResNet-depth-width as DeepMind trains it: SiLU, and strided convolutions padded below and to the right."""

    def __init__(
        self, *, depth: int = 28, width: int = 10, channels: int = 3, classes: int = 10, activation: Activation = "silu"
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        block = partial(DmWideBlock, activation=self.activation)
        self.init_conv = plain_conv(channels, 16)
        stages = wide_stages(block, depth, width)
        self.layer = nn.Sequential(*(stage_under("block", stage) for stage in stages))
        self.batchnorm = nn.BatchNorm2d(64 * width)
        self.logits = nn.Linear(64 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        features = self.activation(self.batchnorm(self.layer(self.init_conv(images))))
        logits: Tensor = self.logits(pooled(features))
        return logits


class DmWideBlock(nn.Module):
    """`WideBlock` in DeepMind's layout."""

    def __init__(self, inside: int, outside: int, stride: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.activation = activation
        self.batchnorm_0, self.conv_0 = nn.BatchNorm2d(inside), plain_conv(inside, outside, 3, stride, padding=0)
        self.batchnorm_1, self.conv_1 = nn.BatchNorm2d(outside), plain_conv(outside, outside)
        self.shortcut = plain_conv(inside, outside, 1, stride) if inside != outside else None

    def forward(self, features: Tensor) -> Tensor:
        active = self.activation(self.batchnorm_0(features))
        branch = self.activation(self.batchnorm_1(self.conv_0(_padded(active, self.conv_0))))
        shortcut: Tensor = features if self.shortcut is None else self.shortcut(active)
        result: Tensor = shortcut + self.conv_1(branch)
        return result


@register("architecture", "preact-resnet-dm", source=REBUFFI)
class DmPreActResNet(nn.Module):
    """Pre-activation ResNet 18 or 34 as DeepMind trains it: SiLU, 3x3 shortcuts, padding of `wide-resnet-dm`."""

    def __init__(
        self, *, depth: int = 18, channels: int = 3, classes: int = 10, width: int = 64, activation: Activation = "silu"
    ) -> None:
        super().__init__()
        if depth == 50:
            raise Misuse("a pre-activation ResNet is built of depth 18 or 34")
        sides = (width, width, 2 * width, 4 * width, 8 * width)
        self.activation = ACTIVATIONS[activation]
        block = partial(DmPreActBlock, activation=self.activation)
        self.conv_2d = plain_conv(channels, width)
        self.layer_0, self.layer_1, self.layer_2, self.layer_3 = stages_of(block, sides, block_counts(depth))
        self.batchnorm = nn.BatchNorm2d(8 * width)
        self.logits = nn.Linear(8 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        features = self.layer_3(self.layer_2(self.layer_1(self.layer_0(self.conv_2d(images)))))
        logits: Tensor = self.logits(pooled(self.activation(self.batchnorm(features))))
        return logits


class DmPreActBlock(nn.Module):
    """`PreActBlock` in DeepMind's layout: the shortcut is a 3x3 convolution of the block's input."""

    def __init__(self, inside: int, outside: int, stride: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.activation = activation
        self.batchnorm_0, self.conv_2d_1 = nn.BatchNorm2d(inside), plain_conv(inside, outside, 3, stride, padding=0)
        self.batchnorm_1, self.conv_2d_2 = nn.BatchNorm2d(outside), plain_conv(outside, outside)
        changes = stride != 1 or inside != outside
        self.shortcut = plain_conv(inside, outside, 3, stride, padding=0) if changes else None

    def forward(self, features: Tensor) -> Tensor:
        active = self.activation(self.batchnorm_0(features))
        branch = self.activation(self.batchnorm_1(self.conv_2d_1(_padded(active, self.conv_2d_1))))
        shortcut: Tensor = features if self.shortcut is None else self.shortcut(_padded(features, self.shortcut))
        result: Tensor = shortcut + self.conv_2d_2(branch)
        return result


def _padded(features: Tensor, conv: nn.Conv2d) -> Tensor:
    """Padded for a 3x3 convolution as SAME of TensorFlow: with stride 2, even sides below and to the right alone."""
    height, width = ((0 if conv.stride[0] == 2 and side % 2 == 0 else 1) for side in features.shape[-2:])
    return F.pad(features, (width, 1, height, 1))
