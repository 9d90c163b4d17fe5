"""XCiT, a transformer whose attention is between channels, with the names of keys that timm's checkpoints have."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.core.errors import Misuse
from holdfast.core.registry import register
from holdfast.models.cifar_networks import plain_conv
from holdfast.models.imagenet_networks import Perceptron

EPSILON = 1e-6  # of its layer norms
WAVES = 32  # frequencies of the position code, per direction
TEMPERATURE = 10_000


@register("architecture", "xcit", source="El-Nouby et al. 2021, arXiv:2106.09681; layout of timm")
class XCiT(nn.Module):
    """XCiT of `depth` blocks: width 384 is XCiT-S, 512 is -M, 768 with 16 heads is -L.

    Four 3x3 convolutions cut the image into patches. `patch=4` gives the first two of them stride 1, as the CIFAR
    models of arXiv:2209.07399 have it.
    """

    def __init__(
        self,
        *,
        width: int = 384,
        depth: int = 12,
        heads: int = 8,
        patch: int = 16,
        channels: int = 3,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        strides = {16: (2, 2, 2, 2), 8: (1, 2, 2, 2), 4: (1, 1, 2, 2)}
        if patch not in strides:
            raise Misuse(f"patches of XCiT are 4, 8 or 16 pixels wide, got {patch}")
        if width % heads or width % 8:
            raise Misuse(f"the width of XCiT is a multiple of 8 and of its heads, got width={width},heads={heads}")
        self.patch_embed = PatchConvolutions(width, strides[patch], channels)
        self.pos_embed = PositionCode(width)
        self.cls_token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.blocks = nn.ModuleList([ChannelAttentionBlock(width, heads) for _ in range(depth)])
        self.cls_attn_blocks = nn.ModuleList([ClassTokenBlock(width, heads) for _ in range(2)])
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        features = self.patch_embed.proj(images)
        height, width = features.shape[-2:]
        tokens = (features + self.pos_embed(height, width)).flatten(2).transpose(1, 2)
        for block in self.blocks:
            tokens = block(tokens, height, width)
        tokens = torch.cat((self.cls_token.expand(len(tokens), -1, -1), tokens), dim=1)
        for block in self.cls_attn_blocks:
            tokens = block(tokens)
        logits: Tensor = self.head(self.norm(tokens)[:, 0])
        return logits


class PatchConvolutions(nn.Module):
    """Four 3x3 convolutions with BatchNorm from the image to the width of the network."""

    def __init__(self, width: int, strides: tuple[int, ...], channels: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for (inside, outside), stride in zip(
            pairwise((channels, width // 8, width // 4, width // 2, width)), strides, strict=True
        ):
            convolution = nn.Sequential(plain_conv(inside, outside, stride=stride), nn.BatchNorm2d(outside))
            layers += [nn.GELU(), convolution] if layers else [convolution]
        self.proj = nn.Sequential(*layers)


class PositionCode(nn.Module):
    """Sines and cosines of row and column, projected to the width of the network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.token_projection = nn.Conv2d(2 * WAVES, width, 1)

    def forward(self, height: int, width: int) -> Tensor:
        weight = self.token_projection.weight
        wavelengths = TEMPERATURE ** (torch.arange(WAVES // 2, device=weight.device, dtype=torch.float32) * 2 / WAVES)

        def waves(count: int) -> Tensor:
            share = torch.arange(1, count + 1, device=weight.device, dtype=torch.float32) / (count + EPSILON)
            angles = 2 * math.pi * share[:, None] / wavelengths
            return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).T  # sine and cosine in turn

        rows, columns = waves(height)[:, :, None], waves(width)[:, None, :]
        code = torch.cat((rows.expand(-1, -1, width), columns.expand(-1, height, -1)))
        projected: Tensor = self.token_projection(code[None].to(weight.dtype))
        return projected


class ChannelAttentionBlock(nn.Module):
    """Attention between channels, a depthwise mixing of neighbours, a perceptron; each scaled by its gamma."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width, eps=EPSILON), ChannelAttention(width, heads)
        self.norm3, self.local_mp = nn.LayerNorm(width, eps=EPSILON), NeighbourMixing(width)
        self.norm2, self.mlp = nn.LayerNorm(width, eps=EPSILON), Perceptron(width)
        self.gamma1, self.gamma3, self.gamma2 = (nn.Parameter(torch.ones(width)) for _ in range(3))

    def forward(self, tokens: Tensor, height: int, width: int) -> Tensor:
        tokens = tokens + self.gamma1 * self.attn(self.norm1(tokens))
        tokens = tokens + self.gamma3 * self.local_mp(self.norm3(tokens), height, width)
        mixed: Tensor = self.mlp(self.norm2(tokens))
        return tokens + self.gamma2 * mixed


class ChannelAttention(nn.Module):
    """Softmax over the cosines between channels of one head, times a learnt temperature."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        parts = self.qkv(tokens).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 4, 1)  # part, image, head, channel
        queries, keys, values = F.normalize(parts[0], dim=-1), F.normalize(parts[1], dim=-1), parts[2]
        weights = (queries @ keys.transpose(-2, -1) * self.temperature).softmax(dim=-1)
        mixed: Tensor = self.proj((weights @ values).flatten(1, 2).transpose(1, 2))
        return mixed


class NeighbourMixing(nn.Module):
    """Two depthwise 3x3 convolutions over the patches."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn = nn.Conv2d(width, width, 3, padding=1, groups=width), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, groups=width)

    def forward(self, tokens: Tensor, height: int, width: int) -> Tensor:
        features = tokens.transpose(1, 2).reshape(len(tokens), -1, height, width)
        mixed: Tensor = self.conv2(self.bn(F.gelu(self.conv1(features))))
        return mixed.flatten(2).transpose(1, 2)


class ClassTokenBlock(nn.Module):
    """The class token attends to all tokens. All are normalised a second time (`tokens_norm` of the public code)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width, eps=EPSILON), ClassTokenAttention(width, heads)
        self.norm2, self.mlp = nn.LayerNorm(width, eps=EPSILON), Perceptron(width)
        self.gamma1, self.gamma2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))

    def forward(self, tokens: Tensor) -> Tensor:
        normed = self.norm1(tokens)
        read = torch.cat((self.attn(normed), normed[:, 1:]), dim=1)
        tokens = self.norm2(tokens + self.gamma1 * read)
        token = self.gamma2 * self.mlp(tokens[:, :1])
        return tokens + torch.cat((token, tokens[:, 1:]), dim=1)


class ClassTokenAttention(nn.Module):
    """Attention with one query, the class token."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.proj = (nn.Linear(width, width) for _ in range(4))

    def forward(self, tokens: Tensor) -> Tensor:
        query, keys, values = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.q(tokens[:, :1]), self.k(tokens), self.v(tokens))
        )
        read = F.scaled_dot_product_attention(query, keys, values)
        result: Tensor = self.proj(read.transpose(1, 2).flatten(2))
        return result
