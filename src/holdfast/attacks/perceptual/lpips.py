"""LPIPS: how far apart two images are in the eyes of a network.

    network = network_for("alexnet-cifar", model, images)
    distance(network, images, changed)

The activations at each place are scaled to length one and the places of each layer averaged, so that the distance of
two images is the Euclidean distance of their feature vectors. It is the square root of the LPIPS of Zhang et al. 2018
(arXiv:1801.03924) without learned weights, as the attacks of Laidlaw et al. 2021 (arXiv:2006.12655) use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from holdfast.attacks.perceptual.lpips_networks import alexnet_from
from holdfast.attacks.perceptual.lpips_stages import own_stages
from holdfast.core.types import Classifier

SELF = "self"
FLOOR = 1e-10  # of an activation's length, as published


Look = Callable[[Tensor], Sequence[Tensor]]  # images in [0, 1] → maps of activations (N, C, H, W), shallow to deep


class Network(Protocol):
    """A look at images that can say in words what it is."""

    @property
    def label(self) -> str: ...

    def __call__(self, images: Tensor) -> Sequence[Tensor]: ...


def network_for(name: str, model: Classifier, images: Tensor) -> Network:
    """The network that measures: `self`, `alexnet`, `alexnet-cifar` or a weights file; for images such as these."""
    return own_stages(model, images) if name == SELF else alexnet_from(name, images)


def features(network: Look, images: Tensor) -> Tensor:
    """One vector per image, whose differences are LPIPS distances."""
    return torch.cat([_flat(activations) for activations in network(images)], dim=1)


def distance(network: Look, one: Tensor, other: Tensor) -> Tensor:
    """LPIPS distance of each pair of images; gradients flow to both."""
    return apart(features(network, one), features(network, other))


def apart(one: Tensor, other: Tensor) -> Tensor:
    """The distance of feature vectors; its gradient is zero where they are the same."""
    far: Tensor = torch.linalg.vector_norm(one - other, dim=1)
    return far


def _flat(activations: Tensor) -> Tensor:
    # unlike that of a square root of a sum, the gradient of this is zero at zero, not NaN
    lengths: Tensor = torch.linalg.vector_norm(activations, dim=1, keepdim=True)
    pixels = math.prod(activations.shape[2:])
    return (activations / ((lengths + FLOOR) * math.sqrt(pixels))).flatten(1)
