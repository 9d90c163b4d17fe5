"""Models made of others: answers averaged over Gaussian noise on the image, weights averaged over two models."""

from __future__ import annotations

import copy
import functools
from dataclasses import replace

import torch
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
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


@register("model", "wise-ft", source="Wortsman et al. 2022, arXiv:2109.01903")
def wise_ft(first: str, second: str, *, alpha: float = 0.5) -> TorchClassifier:
    """A weight-space ensemble: (1 - alpha) x the weights of one model + alpha x those of another.

    `wise-ft:(file:zero-shot.safetensors),(file:fine-tuned.safetensors),alpha=0.5`; the second is the one that was
    fine-tuned from the first. Both have the same architecture, classes and normalisation. Whole-numbered buffers, such
    as how many batches a BatchNorm has seen, are those of the second.
    """
    if not 0 <= alpha <= 1:
        raise Misuse(f"`alpha` must lie in [0, 1], got {alpha}")
    models = [load(ref) for ref in (first, second)]
    one, other = (model.net.state_dict() for model in models)
    strange = [name for name in {**one, **other} if name not in one or name not in other]
    strange += [name for name in one if name in other and one[name].shape != other[name].shape]
    if strange or models[0].card.classes != models[1].card.classes:
        where = f"`{strange[0]}` is not the same in both" if strange else "they have other numbers of classes"
        raise HoldfastError(
            f"the weights of `{first}` and `{second}` cannot be averaged: {where}",
            hint="a weight-space ensemble is of two models of one architecture, one fine-tuned from the other",
        )
    net = copy.deepcopy(models[1].net)
    with torch.no_grad():
        for name, tensor in net.state_dict().items():
            if tensor.is_floating_point():
                tensor.copy_((1 - alpha) * one[name] + alpha * other[name])
    cards = [model.card for model in models]
    data = dict.fromkeys(card.trained_on for card in cards if card.trained_on)
    card = replace(
        cards[1],
        name=f"wise-ft of {cards[0].name} and {cards[1].name}, {alpha:g}",
        weights="",
        trained_on=", then ".join(data),
        threats=tuple(dict.fromkeys(threat for each in cards for threat in each.threats)),
        kind="weight-space ensemble",
        notes=f"weights: {1 - alpha:g} of `{first}`, {alpha:g} of `{second}`",
    )
    return TorchClassifier(net, card)
