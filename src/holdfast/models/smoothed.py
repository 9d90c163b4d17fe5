"""Randomised smoothing: a model's answers averaged over Gaussian noise on the image."""

from __future__ import annotations

import functools
from dataclasses import replace

import torch
from torch import Tensor, nn

from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.classifier import TorchClassifier, load

LEAST = 1e-12  # a probability, so that its logarithm is finite


class Smoothed(nn.Module):
    """The logarithm of the mean probability of each class over images with noise of deviation `sigma`.

    The noise of a draw is the same for every image, a function of seed, draw and image shape alone, so that answers
    neither change from call to call nor depend on the batch. One pass per draw.
    """

    def __init__(self, net: nn.Module, sigma: float, draws: int, seed: int) -> None:
        super().__init__()
        self.net, self.sigma, self.draws, self.seed = net, sigma, draws, seed
        self.known: dict[tuple[int, ...], Tensor] = {}
        self.training = net.training

    def forward(self, images: Tensor) -> Tensor:
        answers = (torch.softmax(self.net(images + self.sigma * noise), dim=1) for noise in self._noise(images))
        total = functools.reduce(torch.add, answers)
        return torch.log((total / self.draws).clamp_min(LEAST))

    def _noise(self, images: Tensor) -> Tensor:
        """(draws, channels, height, width), on the device of the images."""
        shape = tuple(images.shape[1:])
        if shape not in self.known:
            keys = [f"draw-{i}" for i in range(self.draws)]
            self.known = {shape: Noise.of(self.seed, keys).normal("smoothing", shape)}
        if self.known[shape].device != images.device:
            self.known[shape] = self.known[shape].to(images.device)
        return self.known[shape]


@register("model", "smoothed", source="Cohen et al. 2019, arXiv:1902.02918")
def smoothed_model(model: str, *, sigma: float = 0.25, draws: int = 100, seed: int = 0) -> Classifier:
    """Another model smoothed by Gaussian noise of deviation `sigma`: `smoothed:(torchvision:resnet50),sigma=0.5`.

    Images lie in [0, 1]. Differs from the published code: probabilities are averaged where that counts votes, so that
    gradients flow and ties have an answer; and the draws are fixed, so that the forward pass is deterministic.
    """
    if not sigma > 0 or draws < 1:
        raise Misuse(f"`sigma` is above 0 and `draws` at least 1, got {sigma} and {draws}")
    inner = load(model)
    card = replace(
        inner.card,
        name=f"{inner.card.name}, smoothed {sigma:g}",
        notes="; ".join(filter(None, [inner.card.notes, f"mean over {draws} draws of noise of deviation {sigma:g}"])),
    )
    return TorchClassifier(Smoothed(inner.net, sigma, draws, seed), card)
