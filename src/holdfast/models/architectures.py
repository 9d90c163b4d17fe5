"""Small architectures whose every line can be read: a CNN for a CPU, and the ResNet-18 of the CIFAR literature."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.core.registry import register


@register("architecture", "small-cnn", source="SkipInit blocks: De & Smith 2020, arXiv:2002.10444")
def small_cnn(*, channels: int = 1, classes: int = 10, width: int = 16) -> nn.Module:
    """A residual CNN of about 120 k parameters without normalisation layers, for images of 16 pixels and more."""
    return SmallCNN(channels, classes, width)


@register("architecture", "resnet18-cifar", source="He et al. 2016, arXiv:1512.03385; layout of kuangliu/pytorch-cifar")
def resnet18_cifar(*, channels: int = 3, classes: int = 10, width: int = 64) -> nn.Module:
    """ResNet-18 for small images: a 3x3 stem without pooling, names as in the common CIFAR checkpoints."""
    return ResNet18(channels, classes, width)


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


class ResNet18(nn.Module):
    """Post-activation ResNet-18 with BatchNorm; four stages of two blocks."""

    def __init__(self, channels: int, classes: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = _stage(width, width, stride=1)
        self.layer2 = _stage(width, 2 * width, stride=2)
        self.layer3 = _stage(2 * width, 4 * width, stride=2)
        self.layer4 = _stage(4 * width, 8 * width, stride=2)
        self.linear = nn.Linear(8 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        features = F.relu(self.bn1(self.conv1(images)))
        features = self.layer4(self.layer3(self.layer2(self.layer1(features))))
        logits: Tensor = self.linear(F.adaptive_avg_pool2d(features, 1).flatten(1))
        return logits


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            projection = nn.Conv2d(inside, outside, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(outside))

    def forward(self, features: Tensor) -> Tensor:
        branch: Tensor = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(features)))))
        return F.relu(branch + self.shortcut(features))


def _stage(inside: int, outside: int, *, stride: int) -> nn.Sequential:
    return nn.Sequential(BasicBlock(inside, outside, stride), BasicBlock(outside, outside, 1))


def _conv(inside: int, outside: int, stride: int = 1) -> nn.Conv2d:
    conv = nn.Conv2d(inside, outside, 3, stride=stride, padding=1)
    nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
    assert conv.bias is not None, "these convolutions have a bias"
    nn.init.zeros_(conv.bias)
    return conv
