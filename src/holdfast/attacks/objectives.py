"""Objectives: what an attack drives up, one number per sample. Those that aim at a class are in `aimed.py`."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

# logits, labels, targets (the labels again where nothing is aimed at) → one number per sample, or one per class
Objective = Callable[[Tensor, Tensor, Tensor], Tensor]
DLR_CLASSES = 3


def cross_entropy(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:  # noqa: ARG001
    """Surprise at the label."""
    return F.cross_entropy(logits, labels, reduction="none")


def margin(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:  # noqa: ARG001
    """Largest other logit minus the label's: positive once the sample is broken (Carlini & Wagner 2017)."""
    own = logits.gather(1, labels[:, None]).squeeze(1)
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return others.amax(dim=1) - own


def dlr(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """Difference of logits ratio (arXiv:2003.01690): the margin over the gap of first and third, blind to their scale.

    With fewer than three classes there is no third: then it is the margin.
    """
    if logits.shape[1] < DLR_CLASSES:
        return margin(logits, labels, targets)
    top = logits.topk(DLR_CLASSES, dim=1).values
    return margin(logits, labels, targets) / (top[:, 0] - top[:, 2] + 1e-12)


OBJECTIVES: dict[str, Objective] = {"ce": cross_entropy, "margin": margin, "dlr": dlr}
