"""The networks of the CIFAR literature, with the names of keys that their public checkpoints have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.core.errors import Misuse
from holdfast.core.registry import register

HE_PREACT = "He et al. 2016, arXiv:1603.05027; layout of kuangliu/pytorch-cifar"
HE = "He et al. 2016, arXiv:1512.03385; layout of kuangliu/pytorch-cifar"
Activation = Literal["relu", "silu"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "silu": F.silu}
Block = Callable[[int, int, int], nn.Module]  # channels in, channels out, stride
COUNTS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}


@register("architecture", "resnet18-cifar", source=HE)
def resnet18_cifar(*, channels: int = 3, classes: int = 10, width: int = 64) -> nn.Module:
    """ResNet-18 for small images: a 3x3 stem without pooling, names as in the common CIFAR checkpoints."""
    return CifarResNet(depth=18, channels=channels, classes=classes, width=width)


def block_counts(depth: int) -> tuple[int, ...]:
    if depth not in COUNTS:
        raise Misuse(f"a ResNet for small images has depth {', '.join(map(str, COUNTS))}, got {depth}")
    return COUNTS[depth]


def plain_conv(inside: int, outside: int, size: int = 3, stride: int = 1, padding: int | None = None) -> nn.Conv2d:
    return nn.Conv2d(inside, outside, size, stride, size // 2 if padding is None else padding, bias=False)


def stages_of(block: Block, sides: Sequence[int], counts: Sequence[int]) -> list[nn.Sequential]:
    """Stages from each number of channels to the next; all but the first halve height and width."""
    stages = []
    for number, ((inside, outside), count) in enumerate(zip(pairwise(sides), counts, strict=True)):
        first = block(inside, outside, 2 if number else 1)
        stages.append(nn.Sequential(first, *(block(outside, outside, 1) for _ in range(count - 1))))
    return stages


def wide_stages(block: Block, depth: int, width: int) -> list[nn.Sequential]:
    """The three stages of a WideResNet."""
    if depth < 10 or (depth - 4) % 6:
        raise Misuse(f"the depth of a WideResNet is 6 n + 4, such as 28, 34 or 70, got {depth}")
    return stages_of(block, (16, 16 * width, 32 * width, 64 * width), ((depth - 4) // 6,) * 3)


def stage_under(name: str, stage: nn.Module) -> nn.Sequential:
    """The stage one name deeper, as the public keys have it."""
    deeper = nn.Sequential()
    deeper.add_module(name, stage)
    return deeper


def pooled(features: Tensor) -> Tensor:
    return F.adaptive_avg_pool2d(features, 1).flatten(1)


@register("architecture", "resnet-cifar", source=HE)
class CifarResNet(nn.Module):
    """ResNet of depth 18, 34 or 50 for small images: a 3x3 stem without pooling; 50 has bottleneck blocks."""

    def __init__(self, *, depth: int = 50, channels: int = 3, classes: int = 10, width: int = 64) -> None:
        super().__init__()
        block, growth = (BottleneckBlock, 4) if depth == 50 else (PlainBlock, 1)
        sides = [width * growth * number for number in (1, 2, 4, 8)]
        self.conv1, self.bn1 = plain_conv(channels, width), nn.BatchNorm2d(width)
        self.layer1, self.layer2, self.layer3, self.layer4 = stages_of(block, [width, *sides], block_counts(depth))
        self.linear = nn.Linear(sides[-1], classes)

    def forward(self, images: Tensor) -> Tensor:
        features = F.relu(self.bn1(self.conv1(images)))
        logits: Tensor = self.linear(pooled(self.layer4(self.layer3(self.layer2(self.layer1(features))))))
        return logits


class PlainBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a 1x1 convolution with BatchNorm where the shape changes."""

    def __init__(self, inside: int, outside: int, stride: int, *, shortcut: str = "shortcut") -> None:
        super().__init__()
        self.conv1, self.bn1 = plain_conv(inside, outside, stride=stride), nn.BatchNorm2d(outside)
        self.conv2, self.bn2 = plain_conv(outside, outside), nn.BatchNorm2d(outside)
        self.shortcut_name = shortcut
        self.add_module(shortcut, _projection(inside, outside, stride))

    def forward(self, features: Tensor) -> Tensor:
        branch: Tensor = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(features)))))
        return F.relu(branch + getattr(self, self.shortcut_name)(features))


class BottleneckBlock(nn.Module):
    """A 3x3 convolution between two 1x1 ones, at a quarter of the channels times `width`; it has the stride."""

    def __init__(self, inside: int, outside: int, stride: int, *, width: int = 1, shortcut: str = "shortcut") -> None:
        super().__init__()
        narrow = outside // 4 * width
        self.conv1, self.bn1 = plain_conv(inside, narrow, 1), nn.BatchNorm2d(narrow)
        self.conv2, self.bn2 = plain_conv(narrow, narrow, stride=stride), nn.BatchNorm2d(narrow)
        self.conv3, self.bn3 = plain_conv(narrow, outside, 1), nn.BatchNorm2d(outside)
        self.shortcut_name = shortcut
        self.add_module(shortcut, _projection(inside, outside, stride))

    def forward(self, features: Tensor) -> Tensor:
        branch = F.relu(self.bn1(self.conv1(features)))
        branch = self.bn3(self.conv3(F.relu(self.bn2(self.conv2(branch)))))
        return F.relu(branch + getattr(self, self.shortcut_name)(features))


def _projection(inside: int, outside: int, stride: int) -> nn.Sequential:
    if stride == 1 and inside == outside:
        return nn.Sequential()
    return nn.Sequential(plain_conv(inside, outside, 1, stride), nn.BatchNorm2d(outside))


@register("architecture", "resnet20-cifar", source="He et al. 2016, arXiv:1512.03385, section 4.2")
class ThinResNet(nn.Module):
    """The thin ResNet of depth 6 n + 2 with three stages and shortcuts without parameters; 0.27 M parameters at 20."""

    def __init__(self, *, depth: int = 20, channels: int = 3, classes: int = 10, width: int = 16) -> None:
        super().__init__()
        if depth < 8 or (depth - 2) % 6:
            raise Misuse(f"the depth of a thin ResNet is 6 n + 2, such as 20, 32 or 56, got {depth}")
        self.conv1, self.bn1 = plain_conv(channels, width), nn.BatchNorm2d(width)
        sides = (width, width, 2 * width, 4 * width)
        self.layer1, self.layer2, self.layer3 = stages_of(ThinBlock, sides, ((depth - 2) // 6,) * 3)
        self.linear = nn.Linear(4 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        features = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(images))))))
        logits: Tensor = self.linear(pooled(features))
        return logits


class ThinBlock(nn.Module):
    """Two 3x3 convolutions; where the shape changes, the shortcut takes every second pixel and pads channels with 0."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = plain_conv(inside, outside, stride=stride), nn.BatchNorm2d(outside)
        self.conv2, self.bn2 = plain_conv(outside, outside), nn.BatchNorm2d(outside)
        self.stride, self.padding = stride, (outside - inside) // 2

    def forward(self, features: Tensor) -> Tensor:
        branch: Tensor = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(features)))))
        smaller = features[:, :, :: self.stride, :: self.stride]
        return F.relu(branch + F.pad(smaller, (0, 0, 0, 0, self.padding, self.padding)))


@register("architecture", "preact-resnet-cifar", source=HE_PREACT)
class PreActResNet(nn.Module):
    """Pre-activation ResNet of depth 18 or 34 for small images.

    Public versions differ: `final_norm` has BatchNorm and ReLU before the last layer, and `activated_shortcut` takes
    shortcuts after the first BatchNorm and ReLU of a block, not before.
    """

    def __init__(
        self,
        *,
        depth: int = 18,
        channels: int = 3,
        classes: int = 10,
        width: int = 64,
        final_norm: bool = False,
        activated_shortcut: bool = True,
    ) -> None:
        super().__init__()
        if depth == 50:
            raise Misuse("a pre-activation ResNet is built of depth 18 or 34")
        block = partial(PreActBlock, activated_shortcut=activated_shortcut)
        sides = (width, width, 2 * width, 4 * width, 8 * width)
        self.conv1 = plain_conv(channels, width)
        self.layer1, self.layer2, self.layer3, self.layer4 = stages_of(block, sides, block_counts(depth))
        self.bn = nn.BatchNorm2d(8 * width) if final_norm else None
        self.linear = nn.Linear(8 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        features = self.layer4(self.layer3(self.layer2(self.layer1(self.conv1(images)))))
        if self.bn is not None:
            features = F.relu(self.bn(features))
        logits: Tensor = self.linear(pooled(features))
        return logits


class PreActBlock(nn.Module):
    """BatchNorm and ReLU before each of two 3x3 convolutions; a 1x1 shortcut where the shape changes."""

    def __init__(self, inside: int, outside: int, stride: int, activated_shortcut: bool) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inside), plain_conv(inside, outside, stride=stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outside), plain_conv(outside, outside)
        self.activated_shortcut, self.shortcut = activated_shortcut, nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut.append(plain_conv(inside, outside, 1, stride))

    def forward(self, features: Tensor) -> Tensor:
        active = F.relu(self.bn1(features))
        branch: Tensor = self.conv2(F.relu(self.bn2(self.conv1(active))))
        shortcut: Tensor = self.shortcut(active if self.activated_shortcut and len(self.shortcut) else features)
        return branch + shortcut


@register("architecture", "wide-resnet", source="Zagoruyko & Komodakis 2016, arXiv:1605.07146; layout of TRADES")
class WideResNet(nn.Module):
    """WideResNet-depth-width for small images, with the names of keys of TRADES' and most public checkpoints."""

    def __init__(
        self, *, depth: int = 28, width: int = 10, channels: int = 3, classes: int = 10, activation: Activation = "relu"
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        block = partial(WideBlock, activation=self.activation)
        self.conv1 = plain_conv(channels, 16)
        stages = wide_stages(block, depth, width)
        self.block1, self.block2, self.block3 = (stage_under("layer", stage) for stage in stages)
        self.bn1 = nn.BatchNorm2d(64 * width)
        self.fc = nn.Linear(64 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        features = self.block3(self.block2(self.block1(self.conv1(images))))
        logits: Tensor = self.fc(pooled(self.activation(self.bn1(features))))
        return logits


class WideBlock(nn.Module):
    """BatchNorm and activation before each of two 3x3 convolutions; the shortcut starts after the first activation."""

    def __init__(self, inside: int, outside: int, stride: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.activation = activation
        self.bn1, self.conv1 = nn.BatchNorm2d(inside), plain_conv(inside, outside, stride=stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outside), plain_conv(outside, outside)
        self.convShortcut = plain_conv(inside, outside, 1, stride) if inside != outside else None

    def forward(self, features: Tensor) -> Tensor:
        active = self.activation(self.bn1(features))
        branch: Tensor = self.conv2(self.activation(self.bn2(self.conv1(active))))
        shortcut: Tensor = features if self.convShortcut is None else self.convShortcut(active)
        return branch + shortcut
