"""Whether a sample is broken, nearly broken, and inside its radius: decided here for every loop and every attack."""

from __future__ import annotations

from torch import Tensor

from holdfast.attacks.objectives import margin

NEAR = 0.03  # of the largest logit; bfloat16 keeps two to three digits
SLACK, ROUNDING = 1e-4, 1e-6  # of the radius, and of pixels near 1: what re-measuring a size may differ by
# of the largest logit: a smallest change lies on the boundary, where the batch around a sample would decide by rounding
CLEAR = 1e-5


def is_within(size: Tensor, radius: Tensor) -> Tensor:
    """Whether a size as measured keeps to its radius, up to rounding."""
    return size <= radius * (1 + SLACK) + ROUNDING


def is_wrong(logits: Tensor, labels: Tensor) -> Tensor:
    """Whether the top prediction is not the label; an answer that is not finite is wrong."""
    return (logits.argmax(dim=1) != labels) | ~logits.isfinite().all(dim=1)


def is_ahead(logits: Tensor, labels: Tensor, *, by: Tensor) -> Tensor:
    """Whether another class leads the label by more than that, or the answer is not finite."""
    lead = (logits - logits.gather(1, labels[:, None])).amax(dim=1)
    return (lead > by) | ~logits.isfinite().all(dim=1)


def may_be_wrong(logits: Tensor, labels: Tensor, *, error: float) -> Tensor:
    """Whether the top prediction is not the label, or would not be if its lead were off by so much."""
    return is_wrong(logits, labels) | (margin(logits, labels, labels) > -error)


def is_near(logits: Tensor, labels: Tensor) -> Tensor:
    """Whether another logit comes so close to the label's that lower precision cannot tell which is ahead."""
    return margin(logits, labels, labels) > -NEAR * logits.abs().amax(dim=1)
