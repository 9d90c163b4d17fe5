"""Losses of training: each a number for a batch, from logits that have gradients to the weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attacks.objectives import Objective

LEAST_CHANCE = 1e-12


def label_loss(
    logits: Tensor, labels: Tensor, *, smoothing: float = 0.0, other: Tensor | None = None, own: Tensor | None = None
) -> Tensor:
    """Cross-entropy per sample; with `other` labels, the share `own` of the loss is that of the first label."""
    loss = F.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing)
    if other is None or own is None:
        return loss
    second = F.cross_entropy(logits, other, reduction="none", label_smoothing=smoothing)
    return own * loss + (1.0 - own) * second


def divergence(logits: Tensor, target: Tensor) -> Tensor:
    """Kullback-Leibler divergence of softmax(logits) from the probabilities `target`, per sample."""
    return F.kl_div(F.log_softmax(logits, dim=1), target, reduction="none").sum(dim=1)


def far_from(target: Tensor, distance: Callable[[Tensor, Tensor], Tensor]) -> Objective:
    """As far as possible from these probabilities, as in TRADES, or logits, as in variation regularisation."""

    def objective(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:  # noqa: ARG001
        return distance(logits, target)

    return objective


def logit_distance(one: Tensor, other: Tensor) -> Tensor:
    """Euclidean distance of logits, per sample; its gradient is zero where they are the same."""
    distance: Tensor = torch.linalg.vector_norm(one - other, dim=1)
    return distance


def mart_loss(clean: Tensor, attacked: Tensor, labels: Tensor, *, beta: float) -> Tensor:
    """MART (Wang et al. 2020), per sample: boosted cross-entropy and a divergence weighted by doubt.

    The boosted cross-entropy adds the chance of the likeliest other class; the divergence of clean from attacked
    predictions counts more where the clean image is not sure of its label.
    """
    chances = attacked.softmax(dim=1)
    other = chances.scatter(1, labels[:, None], 0.0).amax(dim=1)
    boosted = F.cross_entropy(attacked, labels, reduction="none") - torch.log(1.0001 - other)
    clean_chances = clean.softmax(dim=1)
    doubt = 1.0 - clean_chances.gather(1, labels[:, None]).squeeze(1)
    apart = F.kl_div(torch.log(chances + LEAST_CHANCE), clean_chances, reduction="none").sum(dim=1)
    return boosted + beta * apart * doubt


def invariance_penalty(logits: Tensor, labels: Tensor, environment: Tensor, environments: int) -> Tensor:
    """IRMv1's penalty (Arjovsky et al. 2019, arXiv:1907.02893), a mean over the environments.

    The squared slope of an environment's mean loss in a common factor on the logits, at factor one. In closed form the
    slope of a sample is Σ softmax · logits - logit of its label.
    """
    expected = (logits.softmax(dim=1) * logits).sum(dim=1)
    slope = expected - logits.gather(1, labels[:, None]).squeeze(1)
    return environment_means(slope, environment, environments).square().mean()


def environment_means(values: Tensor, environment: Tensor, environments: int) -> Tensor:
    """Mean of each environment's samples; zero where a batch has none."""
    member = F.one_hot(environment, environments).to(values.dtype)
    return (member * values[:, None]).sum(dim=0) / member.sum(dim=0).clamp_min(1.0)
