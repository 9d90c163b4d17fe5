"""Two models of one architecture as one: their weights averaged."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.models.classifier import TorchClassifier, load


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
