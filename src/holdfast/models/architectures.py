"""A small architecture whose every line can be read: a residual CNN for a CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.core.registry import register


@register("architecture", "small-cnn", source="SkipInit blocks: De & Smith 2020, arXiv:2002.10444")
def small_cnn(*, channels: int = 1, classes: int = 10, width: int = 16) -> nn.Module:
    """A residual CNN of about 120 k parameters without normalisation layers, for images of 16 pixels and more."""
    return SmallCNN(channels, classes, width)


class SmallCNN(nn.Module):
    """A stem that halves the image, then three stages, each half the size and twice the width of the one before.

    No BatchNorm: a training step on clean and attacked images sees one function, and so does the evaluation.
    """

    def __init__(self, channels: int, classes: int, width: int) -> None:
        super().__init__()
        self.stem = _conv(channels, width, stride=2)
        self.stages = nn.Sequential(
            SkipBlock(width),
            Halving(width, 2 * width),
            SkipBlock(2 * width),
            Halving(2 * width, 4 * width),
            SkipBlock(4 * width),
        )
        self.head = nn.Linear(4 * 4 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        features = F.relu(self.stages(self.stem(images)))
        logits: Tensor = self.head(F.adaptive_avg_pool2d(features, 2).flatten(1))
        return logits


class SkipBlock(nn.Module):
    """features + scale * branch, which a small scale lets train without a normalisation layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = _conv(width, width)
        self.conv2 = _conv(width, width)
        self.scale = nn.Parameter(torch.full((1,), 3**-0.5))  # 1/√blocks, the largest that 2002.10444 finds to train

    def forward(self, features: Tensor) -> Tensor:
        branch: Tensor = self.conv2(F.relu(self.conv1(F.relu(features))))
        return features + self.scale * branch


class Halving(nn.Module):
    """Half the height and width, other channels."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.conv = _conv(inside, outside, stride=2)

    def forward(self, features: Tensor) -> Tensor:
        result: Tensor = self.conv(F.relu(features))
        return result


def _conv(inside: int, outside: int, stride: int = 1) -> nn.Conv2d:
    conv = nn.Conv2d(inside, outside, 3, stride=stride, padding=1)
    nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
    assert conv.bias is not None, "these convolutions have a bias"
    nn.init.zeros_(conv.bias)
    return conv
