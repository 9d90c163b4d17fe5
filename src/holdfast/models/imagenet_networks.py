"""ResNet and ConvNeXt for ImageNet, with the names of keys that torchvision's and timm's checkpoints have."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.core.errors import Misuse
from holdfast.core.registry import register
from holdfast.models.cifar_networks import BottleneckBlock, PlainBlock, plain_conv, pooled, stage_under, stages_of

COUNTS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
CONVNEXTS = {
    "tiny": ((3, 3, 9, 3), 96),
    "small": ((3, 3, 27, 3), 96),
    "base": ((3, 3, 27, 3), 128),
    "large": ((3, 3, 27, 3), 192),
}
Stem = Literal["patch", "two", "three"]
EPSILON = 1e-6  # of ConvNeXt's layer norms


@register("architecture", "resnet-imagenet", source="He et al. 2016, arXiv:1512.03385; layout of torchvision")
class ImageNetResNet(nn.Module):
    """ResNet of depth 18, 34, 50, 101 or 152 with a 7x7 stem; `width=2` is the wide one (`wide_resnet50_2`)."""

    def __init__(self, *, depth: int = 50, width: int = 1, channels: int = 3, classes: int = 1000) -> None:
        super().__init__()
        if depth not in COUNTS:
            raise Misuse(f"a ResNet for ImageNet has depth {', '.join(map(str, COUNTS))}, got {depth}")
        if depth < 50 and width != 1:
            problem = f"only bottleneck blocks (depth 50 and more) have another width, got depth={depth},width={width}"
            raise Misuse(problem)
        kind, growth = (partial(BottleneckBlock, width=width), 4) if depth >= 50 else (PlainBlock, 1)
        block, sides = partial(kind, shortcut="downsample"), [side * growth for side in (64, 128, 256, 512)]
        self.conv1, self.bn1 = plain_conv(channels, 64, 7, 2), nn.BatchNorm2d(64)
        self.layer1, self.layer2, self.layer3, self.layer4 = stages_of(block, [64, *sides], COUNTS[depth])
        self.fc = nn.Linear(sides[-1], classes)

    def forward(self, images: Tensor) -> Tensor:
        features = F.max_pool2d(F.relu(self.bn1(self.conv1(images))), 3, 2, 1)
        logits: Tensor = self.fc(pooled(self.layer4(self.layer3(self.layer2(self.layer1(features))))))
        return logits


@register("architecture", "convnext", source="Liu et al. 2022, arXiv:2201.03545; layout of timm")
class ConvNeXt(nn.Module):
    """ConvNeXt. `stem`: patches of 4x4, or the `two` or `three` convolutions of arXiv:2303.01870 (ConvStem)."""

    def __init__(
        self,
        *,
        variant: Literal["tiny", "small", "base", "large"] = "tiny",
        stem: Stem = "patch",
        channels: int = 3,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        counts, width = CONVNEXTS[variant]
        sides = [width * 2**i for i in range(4)]
        self.stem = _stem(stem, channels, width)
        self.stages = nn.Sequential(
            *(ConvNeXtStage(sides[max(i - 1, 0)], side, counts[i], is_first=i == 0) for i, side in enumerate(sides))
        )
        self.head = nn.ModuleDict({"norm": ChannelNorm(sides[-1]), "fc": nn.Linear(sides[-1], classes)})

    def forward(self, images: Tensor) -> Tensor:
        features = self.stages(self.stem(images)).mean((2, 3), keepdim=True)
        logits: Tensor = self.head["fc"](self.head["norm"](features).flatten(1))
        return logits


def _stem(kind: Stem, channels: int, width: int) -> nn.Module:
    """Quarters height and width; the ConvStems lie one name deeper, as their public keys have it."""
    if kind == "patch":
        return nn.Sequential(nn.Conv2d(channels, width, 4, 4), ChannelNorm(width))
    sides = (width // 2, width) if kind == "two" else (width // 2, width // 4 * 3, width)
    layers: list[nn.Module] = []
    for inside, outside, stride in zip((channels, *sides), sides, (2, 2, 1), strict=False):
        layers += [nn.Conv2d(inside, outside, 3, stride, 1), ChannelNorm(outside), nn.GELU()]
    return stage_under("stem", nn.Sequential(*layers))


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of every pixel of (images, channels, height, width)."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, eps=EPSILON)

    def forward(self, features: Tensor) -> Tensor:
        return super().forward(features.movedim(1, -1)).movedim(-1, 1)


class ConvNeXtStage(nn.Module):
    """Half the height and width, but in the first stage; then blocks."""

    def __init__(self, inside: int, outside: int, count: int, *, is_first: bool) -> None:
        super().__init__()
        halving = () if is_first else (ChannelNorm(inside), nn.Conv2d(inside, outside, 2, 2))
        self.downsample = nn.Sequential(*halving)
        self.blocks = nn.Sequential(*(ConvNeXtBlock(outside) for _ in range(count)))

    def forward(self, features: Tensor) -> Tensor:
        result: Tensor = self.blocks(self.downsample(features))
        return result


class ConvNeXtBlock(nn.Module):
    """features + gamma * perceptron(norm(7x7 convolution per channel))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((width,), EPSILON))
        self.conv_dw = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        self.mlp = Perceptron(width)

    def forward(self, features: Tensor) -> Tensor:
        branch: Tensor = self.mlp(self.norm(self.conv_dw(features).movedim(1, -1)))
        return features + (self.gamma * branch).movedim(-1, 1)


class Perceptron(nn.Module):
    """Two linear layers with four times the channels between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, features: Tensor) -> Tensor:
        result: Tensor = self.fc2(F.gelu(self.fc1(features)))
        return result
