"""Convolutional networks without shortcuts, and vision transformers for small and usual images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.core.errors import Misuse
from holdfast.core.registry import register
from holdfast.models.cifar_networks import plain_conv, pooled
from holdfast.models.imagenet_networks import Perceptron

DOSOVITSKIY = "Dosovitskiy et al. 2021, arXiv:2010.11929; names of keys as in timm"
PATCHES = {28: 4, 32: 4, 224: 16}  # pixels of a patch's side, by the image's


@register("architecture", "convnet", source="Simonyan & Zisserman 2015, arXiv:1409.1556, with BatchNorm")
class ConvNet(nn.Module):
    """`depth` 3x3 convolutions with BatchNorm and ReLU; three times the image halves and the width doubles."""

    def __init__(self, *, depth: int = 6, width: int = 32, channels: int = 3, classes: int = 10) -> None:
        super().__init__()
        if depth < 4:
            raise Misuse(f"a convnet has 4 convolutions or more, got {depth}")
        halvings = {round(depth * share / 4) for share in (1, 2, 3)}
        layers: list[nn.Module] = []
        for number in range(depth):
            outside = width * 2 ** sum(halving <= number for halving in halvings)
            stride = 2 if number in halvings else 1
            layers += [plain_conv(channels, outside, stride=stride), nn.BatchNorm2d(outside), nn.ReLU()]
            channels = outside
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.classifier(pooled(self.features(images)))
        return logits


@register("architecture", "vit-tiny", source=DOSOVITSKIY)
class VisionTransformer(nn.Module):
    """ViT-tiny: patches of 4 pixels for images of 28 or 32, of 16 for 224; `width`, `depth` and `heads` as you like."""

    def __init__(
        self,
        *,
        size: int = 32,
        patch: int | None = None,
        width: int = 192,
        depth: int = 12,
        heads: int = 3,
        channels: int = 3,
        classes: int = 10,
    ) -> None:
        super().__init__()
        side = patch or PATCHES.get(size)
        if side is None or size % side:
            known = ", ".join(map(str, PATCHES))
            hint = f"without it: {known} pixels"
            raise Misuse(f"images of {size} pixels need `patch`, a divisor of {size}", hint=hint)
        if width % heads:
            raise Misuse(f"the width {width} cannot be shared by {heads} heads")
        self.patch_embed = PatchEmbedding(side, width, channels)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.empty(1, (size // side) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)
        nn.init.normal_(self.pos_embed, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patch_embed(images)
        tokens = torch.cat([self.cls_token.expand(len(tokens), -1, -1), tokens], dim=1) + self.pos_embed
        logits: Tensor = self.head(self.norm(self.blocks(tokens))[:, 0])
        return logits


class PatchEmbedding(nn.Module):
    """Patches as tokens."""

    def __init__(self, patch: int, width: int, channels: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(channels, width, patch, patch)

    def forward(self, images: Tensor) -> Tensor:
        tokens: Tensor = self.proj(images).flatten(2).transpose(1, 2)
        return tokens


class TransformerBlock(nn.Module):
    """Attention, then a perceptron, each behind a LayerNorm and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width, eps=1e-6), SelfAttention(width, heads)
        self.norm2, self.mlp = nn.LayerNorm(width, eps=1e-6), Perceptron(width)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attn(self.norm1(tokens))
        result: Tensor = tokens + self.mlp(self.norm2(tokens))
        return result


class SelfAttention(nn.Module):
    """Scaled dot-product attention of all tokens to all."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        n, length, width = tokens.shape
        parts = self.qkv(tokens).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        result: Tensor = self.proj(mixed.transpose(1, 2).reshape(n, length, width))
        return result
