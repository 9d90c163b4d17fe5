"""Objectives that look at chosen classes: the target's lead, and every class's lead at once, as in FAB.

The latter gives one number per class, and takes a gradient and a backward pass for each.
"""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.attacks.objectives import DLR_CLASSES, Objective, dlr
from holdfast.core.errors import Misuse
from holdfast.core.types import ModelCard

MOST_CLASSES = 100  # of `leads`: a step costs that many backward passes
TARGETED_DLR_CLASSES = 4


def lead(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """The target's logit minus the label's (minimum-margin attack, arXiv:2206.07576)."""
    return (logits.gather(1, targets[:, None]) - logits.gather(1, labels[:, None])).squeeze(1)


def targeted_dlr(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """The target's lead over the gap between the first and the mean of third and fourth (arXiv:2003.01690).

    With fewer than four classes there is no fourth: then it is the lead.
    """
    if logits.shape[1] < TARGETED_DLR_CLASSES:
        return lead(logits, labels, targets)
    top = logits.topk(TARGETED_DLR_CLASSES, dim=1).values
    return lead(logits, labels, targets) / (top[:, 0] - 0.5 * (top[:, 2] + top[:, 3]) + 1e-12)


def leads(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:  # noqa: ARG001
    """Every class's logit minus the label's, one number per class; the label's own is minus infinity."""
    gaps = logits - logits.gather(1, labels[:, None])
    return gaps.scatter(1, labels[:, None], -torch.inf)


def refuse_many_classes(objective: Objective, card: ModelCard) -> None:
    """Raises where a step would cost too many backward passes."""
    if objective is leads and card.classes > MOST_CLASSES:
        raise Misuse(
            f"FAB on all classes at once takes a backward pass per class and step, and `{card.name}` has "
            f"{card.classes} classes; {MOST_CLASSES} is the most",
            hint="use `fab-t-…`, which aims at the likeliest classes in turn; for autoattack-plus: `autoattack-…`",
        )


def ranked_targets(logits: Tensor, labels: Tensor) -> Tensor:
    """The other classes of each sample, likeliest first."""
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return others.argsort(dim=1, descending=True, stable=True)[:, :-1]


def passes_per_gradient(loss: Tensor) -> int:
    """Backward passes that the gradient of an objective takes: one for each number per sample."""
    return loss.shape[1] if loss.dim() == 2 else 1


def highest(loss: Tensor) -> Tensor:
    """One number per sample: the highest, where the objective gives one per class."""
    return loss.amax(dim=1) if loss.dim() == 2 else loss


def gradient_of(loss: Tensor, variable: Tensor) -> Tensor:
    """The gradient of each sample's objective, one per number where there are several."""
    if loss.dim() == 1:
        return torch.autograd.grad(loss.sum(), variable)[0]
    finite = loss.masked_fill(loss == -torch.inf, 0.0)
    classes = loss.shape[1]
    parts = [torch.autograd.grad(finite[:, c].sum(), variable, retain_graph=c + 1 < classes)[0] for c in range(classes)]
    return torch.stack(parts, dim=1)


SEVERAL: frozenset[Objective] = frozenset({leads})  # whose gradient takes several passes back through one forward
NEEDED_CLASSES: dict[Objective, int] = {dlr: DLR_CLASSES, targeted_dlr: TARGETED_DLR_CLASSES}
