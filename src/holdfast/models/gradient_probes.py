"""What `check` asks about gradients: do they reach the images, are they numbers, are they those of the model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.models.subject import ProbeResult, Subject, error, margin_of, warning

MANY_CALLS = 8  # of one part with weights in one pass; recurrence in feed-forward classifiers stays below
SIZES = (1e-3, 1e-2, 1e-1)  # what a step should change the margin by, in units of the largest logit
LEAST_STEP, MOST_STEP = 2e-4, 0.1  # of a pixel's range, whatever the gradient predicts: what attacks can use
IMAGES, DIRECTIONS = 4, 4
AGREEMENT = 0.75  # correlation over all directions; honest networks were measured at 0.9 and more at their best size
SCALE = (0.2, 5.0)  # how far measured and predicted rise may lie apart; likewise 0.8 to 1.3
STILL, PIXELS = 1e-5, 100  # a change of so many pixels by so little, that no float32 network answers the very same


def optimisation_loop(subject: Subject) -> ProbeResult | None:
    assert subject.output is not None, "the forward pass comes first, and is watched"
    part, calls = max(subject.calls.items(), key=lambda item: item[1], default=("", 0))
    if subject.backwards:
        what = "The forward pass runs backward passes of its own: it optimises while it predicts."
    elif calls >= MANY_CALLS:
        what = f"One forward pass calls `{part}` {calls} times, like an optimisation or sampling loop."
    else:
        return None
    return warning(
        f"{what} Gradient attacks see through that badly and look weaker than they are (arXiv:2202.13711). Add an "
        "adaptive or transfer attack, and count the extra passes in the cost."
    )


def not_differentiable(subject: Subject) -> ProbeResult | None:
    if not subject.classifier.card.differentiable:
        return warning(
            "The model runs forward only. Attacks that follow gradients cannot run; those that look at logits alone "
            "are weaker, so robust accuracy is an upper limit. Measure the original network where you can."
        )
    if subject.gradients.cross_entropy is not None:
        return None
    return error(
        "No gradient reaches the images: no_grad, detach, numpy or an index cuts the forward pass. Gradient attacks "
        "cannot run. Remove the cut, or declare the model forward-only on its card and attack its logits."
    )


def gradient_nan(subject: Subject) -> ProbeResult | None:
    gradient = subject.gradients.cross_entropy
    broken = 0 if gradient is None else int((~torch.isfinite(gradient)).flatten(1).any(1).sum())
    if not broken:
        return None
    return error(
        f"{broken} of {len(subject.images)} images have a NaN or infinite input gradient and finite logits. Attacks "
        "stop there, and the sample would count as robust. Look for a root or norm at zero, or half precision."
    )


def gradient_zero(subject: Subject) -> ProbeResult | None:
    gradient, margin, _ = subject.gradients
    if gradient is None or margin is None:
        return None
    still = (gradient == 0).flatten(1).all(1)
    count = int(still.sum())
    if not count:
        return None
    saturated = bool((margin[still] != 0).any())
    advice = (
        "The cross-entropy is saturated, the margin between logits is not: attack the margin or DLR loss."
        if saturated
        else "Rounding, a threshold or dead units cut it. Replace them for the backward pass (BPDA), or attack logits."
    )
    return ProbeResult(
        "error" if count == len(gradient) and not saturated else "warning",
        f"{count} of {len(gradient)} images have an input gradient of exactly zero, so attacks do not move there and "
        f"the samples look robust. {advice}",
    )


class Compared(NamedTuple):
    """Measured against predicted: correlation over random directions, and the ratio along the gradient itself."""

    correlation: float
    ratio: float

    @property
    def agrees(self) -> bool:
        return self.correlation >= AGREEMENT and SCALE[0] <= self.ratio <= SCALE[1]


def gradient_false(subject: Subject) -> ProbeResult | None:
    gradient = subject.noisy_gradients.margin
    if gradient is None or subject.is_any("random-forward", "batch-dependent", "gradient-mode", "gradient-nan"):
        return None
    moving = (gradient.flatten(1).abs().amax(1) > 0).nonzero().squeeze(1)[:IMAGES]
    if not len(moving):
        return None
    best: Compared | None = None
    for size in SIZES:
        result = _compared(subject, moving, gradient[moving], size)
        if result.agrees:
            return None
        best = result if best is None or result.correlation > best.correlation else best
    assert best is not None, "there are sizes to try"
    return warning(
        f"The gradient is not that of the model: along it the margin rises {best.ratio:.2g} times as much as it says, "
        f"and over random steps the two correlate by {best.correlation:.2f}. Attacks follow it astray, and look weaker "
        "than they are. Give the true gradient, or attack with queries."
    )


PASSES_TO_COMPARE = 2 + 2 * len(SIZES)


def rises_as_gradients_say(model: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor) -> Tensor:
    """For each image: whether the margin rises along its gradient about as much as it says, at one size of step."""
    leaf = images.detach().clone().requires_grad_()
    with torch.enable_grad():
        logits = model(leaf)
        (gradient,) = torch.autograd.grad(margin_of(logits, labels).sum(), leaf)
    gradient = gradient.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    scale = logits.detach().abs().amax(1).clamp_min(1e-30)
    true = torch.zeros_like(labels, dtype=torch.bool)
    for size in SIZES:
        with torch.no_grad():
            ratio = _rise_along(model, leaf.detach(), labels, gradient, size * scale)
        true |= (ratio >= SCALE[0]) & (ratio <= SCALE[1])
    return true


def _rise_along(
    logits_of: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor, gradient: Tensor, rise: Tensor
) -> Tensor:
    """Measured rise of the margin over the predicted one, along the sign of the gradient; `rise`: how much is tried."""
    flat = gradient.flatten(1)
    along = (rise / flat.abs().sum(1)).clamp(LEAST_STEP, MOST_STEP)
    up, down, moved = _rises(logits_of, images, labels, gradient.sign() * along.view(-1, 1, 1, 1))
    expected = (flat * moved.flatten(1)).sum(1)
    return ((up - down) / expected.clamp_min(1e-30)).nan_to_num(0.0)


def input_rounded(subject: Subject) -> ProbeResult | None:
    if _is_coarse(subject) or subject.is_any("random-forward", "gradient-zero"):
        return None
    few = subject.noisy[:IMAGES]
    random = torch.Generator().manual_seed(1)
    drawn = torch.rand(few[0].numel(), generator=random)
    chosen = (drawn.argsort().argsort() < PIXELS).to(few).view(few.shape[1:])
    moved = torch.where(few < 0.5, few + STILL * chosen, few - STILL * chosen)
    before, after = subject.logits_of(few), subject.logits_of(moved)
    still = int((before == after).all(1).sum())
    if still <= len(few) // 2:
        return None
    return warning(
        f"For {still} of {len(few)} images a change of {PIXELS} pixels by {STILL:g} gives the very same logits: the "
        "input or the answer is rounded. Small perturbations vanish, and gradients cannot tell. Attack the model "
        "without the rounding, or with queries."
    )


def _compared(subject: Subject, rows: Tensor, gradient: Tensor, size: float) -> Compared:
    """Both sides of each image at once, along random directions and along the sign of the gradient."""
    images, labels = subject.noisy[rows], subject.labels[rows]
    scale = subject.logits.abs().amax().clamp_min(1e-30)
    rise = functools.partial(_rises, subject.logits_of, images, labels)
    flat = gradient.flatten(1)
    step = (size * scale / flat.square().sum(1).sqrt()).clamp(LEAST_STEP, MOST_STEP)
    random = torch.Generator().manual_seed(2)
    predicted, measured = [], []
    for _ in range(DIRECTIONS):
        way = torch.randn(images.shape, generator=random).to(images)
        change = way * step.view(-1, 1, 1, 1)
        up, down, moved = rise(change)
        predicted.append((flat * moved.flatten(1)).sum(1))
        measured.append(up - down)
    expected, actual = torch.stack(predicted).flatten(), torch.stack(measured).flatten()
    correlation = float((expected * actual).sum() / (expected.norm() * actual.norm()).clamp_min(1e-30))
    ratio = _rise_along(subject.logits_of, images, labels, gradient, size * scale)
    return Compared(correlation, float(ratio.median()))


def _rises(
    logits_of: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor, change: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The margin on either side, inside the box, and what lies between the two sides."""
    over, under = (images + change).clamp(0, 1), (images - change).clamp(0, 1)
    up, down = margin_of(logits_of(torch.cat([over, under])), labels.repeat(2)).chunk(2)
    return up, down, over - under


def _is_coarse(subject: Subject) -> bool:
    """Whether the model computes in 16 bits, where a small change may vanish honestly."""
    net = subject.classifier
    kinds = {part.dtype for part in net.parameters()} if isinstance(net, torch.nn.Module) else set()
    return bool(kinds & {torch.float16, torch.bfloat16}) or subject.output.dtype in (torch.float16, torch.bfloat16)
