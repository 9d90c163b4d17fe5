"""LPIPS: how far apart two images are in the eyes of a network: the model's own, or AlexNet with public weights.

    network = network_for("alexnet-cifar", model, images)
    distance(network, images, changed)

The activations at each place are scaled to length one and the places of each layer averaged, so that the distance of
two images is the Euclidean distance of their feature vectors. It is the square root of the LPIPS of Zhang et al. 2018
(arXiv:1801.03924) without learned weights, as the attacks of Laidlaw et al. 2021 (arXiv:2006.12655) use it.

`alexnet` is torchvision's `alexnet` (keys `features.0.weight`, …), `alexnet-cifar` the network of perceptual-advex (the
same keys behind `model.`, in an entry `model` of the file). The classifier's weights in such files are not needed.
"""

from __future__ import annotations

import functools
import hashlib
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.attacks.perceptual.lpips_stages import Stages, own_stages
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.home import LPIPS, LPIPS_WEIGHTS, ROOT, data_home, weights_file
from holdfast.core.types import Classifier

SELF = "self"
FLOOR = 1e-10  # of an activation's length, as published


Look = Callable[[Tensor], Sequence[Tensor]]  # images in [0, 1] → maps of activations (N, C, H, W), shallow to deep


def network_for(name: str, model: Classifier, images: Tensor) -> Stages | AlexNet:
    """The network that measures: `self`, `alexnet`, `alexnet-cifar` or a weights file; for images such as these."""
    if name == SELF:
        return own_stages(model, images)
    path = _file_of(name)
    return _loaded(path, path.stat().st_mtime_ns, str(images.device))


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


CONVOLUTIONS = (0, 3, 6, 8, 10)  # indices of the convolutions in `features`; an activation follows each
NESTED = ("model", "state_dict")
PREFIXES = ("module.", "model.")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet; the CIFAR AlexNet was trained with them too
CHANNELS = 3


@dataclass(frozen=True, slots=True)
class AlexNetLayout:
    """An AlexNet without its weights: the first two kernels, how it pools, and the smallest image it takes."""

    kernels: tuple[int, int]
    stride: int
    paddings: tuple[int, int]
    pool: tuple[int, int]
    smallest: int


LAYOUTS = (
    AlexNetLayout(kernels=(11, 5), stride=4, paddings=(2, 2), pool=(3, 2), smallest=31),
    AlexNetLayout(kernels=(3, 3), stride=2, paddings=(1, 1), pool=(2, 2), smallest=8),
)


class AlexNet(nn.Module):
    """The activations after each of the five convolutions. Grey images are shown in all three channels."""

    mean: Tensor
    std: Tensor

    def __init__(self, layout: AlexNetLayout, label: str = "alexnet") -> None:
        super().__init__()
        self.layout, self.label = layout, label
        (first, second), (outer, inner) = layout.kernels, layout.paddings
        self.convolutions = nn.ModuleList(
            (
                nn.Conv2d(CHANNELS, 64, first, stride=layout.stride, padding=outer),
                nn.Conv2d(64, 192, second, padding=inner),
                nn.Conv2d(192, 384, 3, padding=1),
                nn.Conv2d(384, 256, 3, padding=1),
                nn.Conv2d(256, 256, 3, padding=1),
            )
        )
        self.register_buffer("mean", torch.tensor(MEAN).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(STD).view(1, -1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> list[Tensor]:
        channels, smallest = images.shape[1], min(images.shape[2:])
        if channels not in (1, CHANNELS):
            raise HoldfastError(
                f"AlexNet takes grey or colour images, got {channels} channels", hint="use network=self"
            )
        if smallest < self.layout.smallest:
            hint = "use network=alexnet-cifar or network=self"
            raise HoldfastError(
                f"{self.label} takes images of {self.layout.smallest} pixels and more, got {smallest}", hint=hint
            )
        at, stages = (images - self.mean) / self.std, []
        kernel, stride = self.layout.pool
        for number, convolution in enumerate(self.convolutions):
            at = F.relu(convolution(F.max_pool2d(at, kernel, stride) if number in (1, 2) else at))
            stages.append(at)
        return stages


def weights_words(name: str) -> str:
    """The file of a network and what it holds, in words."""
    path = _file_of(name)
    return f"{path.name}, sha256 {_digest(path)}"


def _file_of(name: str) -> Path:
    known = LPIPS_WEIGHTS.get(name)
    if known is None:
        path = Path(name).expanduser()
        if not path.is_file():
            hint = f"there are: self, {', '.join(LPIPS_WEIGHTS)}, or the path of a file with AlexNet's weights"
            raise Misuse(f"no network and no weights file `{name}` to measure LPIPS with", hint=hint)
        return path
    file = weights_file(name)
    if file is None:
        raise HoldfastError(
            f"the weights of `{name}` are not on this machine: there is no {data_home() / LPIPS / known.files[0]}",
            hint=f"put {known.source} there, or set {ROOT} to the folder that holds `{LPIPS}/`, "
            "or measure with the model's own features: network=self",
        )
    return file


@functools.lru_cache(maxsize=4)
def _loaded(path: Path, modified: int, device: str) -> AlexNet:  # noqa: ARG001 - a changed file is loaded again
    state = _features_in(_content(path), path)
    for layout in LAYOUTS:
        net = AlexNet(layout, label=weights_words(str(path)))
        if net.convolutions[0].weight.shape == state["convolutions.0.weight"].shape:
            break
    else:
        shape = tuple(state["convolutions.0.weight"].shape)
        raise HoldfastError(f"the weights in `{path}` are of no AlexNet known here: the first kernels are {shape}")
    wrong = [name for name, own in net.state_dict().items() if state[name].shape != own.shape]
    if wrong:
        raise HoldfastError(f"the weights in `{path}` do not fit AlexNet: another shape of {', '.join(wrong)}")
    net.load_state_dict(state)
    return net.to(device).eval().requires_grad_(False)


def _features_in(content: Any, path: Path) -> dict[str, Tensor]:
    """The convolutions' weights under our names, from any of the layouts that files have."""
    insides = [content, *(content[name] for name in NESTED if name in content)] if isinstance(content, Mapping) else []
    for inside in insides:
        for prefix in ("", *PREFIXES):
            names = {
                f"convolutions.{number}.{kind}": f"{prefix}features.{index}.{kind}"
                for number, index in enumerate(CONVOLUTIONS)
                for kind in ("weight", "bias")
            }
            if isinstance(inside, Mapping) and all(isinstance(inside.get(theirs), Tensor) for theirs in names.values()):
                return {ours: inside[theirs].float() for ours, theirs in names.items()}
    raise HoldfastError(
        f"`{path}` holds no AlexNet",
        hint=f"it needs the keys features.N.weight and features.N.bias for N of {CONVOLUTIONS}, "
        f"alone or in an entry {' or '.join(NESTED)}, with or without {' or '.join(PREFIXES)} before them",
    )


def _content(path: Path) -> Any:
    """What the file holds; code in it never runs."""
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(path)
        except SafetensorError as error:
            raise HoldfastError(f"`{path}` is damaged, or no safetensors file: {error}") from error
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError) as error:
        raise HoldfastError(
            f"`{path}` is damaged, or holds more than tensors, and code from a checkpoint never runs here",
            hint="if you trust it, load it in your own code and save its state dict, best as safetensors",
        ) from error


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
