"""What `check` asks about gradients: do they reach the images, are they numbers, can an attack follow them.

Zero gradients and optimisation loops are two of three things RobustBench excludes (arXiv:2010.09670).
"""

from __future__ import annotations

import torch

from holdfast.models.subject import Finding, Subject

MANY_CALLS = 8  # of one part with weights in one pass; recurrence in feed-forward classifiers stays below


def optimisation_loop(subject: Subject) -> Finding | None:
    assert subject.output is not None, "the forward pass comes first, and is watched"
    part, calls = max(subject.watch.calls.items(), key=lambda item: item[1], default=("", 0))
    if subject.watch.backwards:
        what = "The forward pass runs backward passes of its own: it optimises while it predicts."
    elif calls >= MANY_CALLS:
        what = f"One forward pass calls `{part}` {calls} times, like an optimisation or sampling loop."
    else:
        return None
    return Finding(
        "warning",
        f"{what} Gradient attacks see through that badly and look weaker than they are (arXiv:2202.13711). Add an "
        "adaptive or transfer attack, and count the extra passes in the cost.",
    )


def not_differentiable(subject: Subject) -> Finding | None:
    if not subject.classifier.card.differentiable:
        return Finding(
            "warning",
            "The model runs forward only. Attacks that follow gradients cannot run; those that look at logits alone "
            "are weaker, so robust accuracy is an upper limit. Measure the original network where you can.",
        )
    if subject.gradients.cross_entropy is not None:
        return None
    return Finding(
        "error",
        "No gradient reaches the images: no_grad, detach, numpy or an index cuts the forward pass. Gradient attacks "
        "cannot run. Remove the cut, or declare the model forward-only on its card and attack its logits.",
    )


def gradient_nan(subject: Subject) -> Finding | None:
    gradient = subject.gradients.cross_entropy
    broken = 0 if gradient is None else int((~torch.isfinite(gradient)).flatten(1).any(1).sum())
    if not broken:
        return None
    return Finding(
        "error",
        f"{broken} of {len(subject.images)} images have a NaN or infinite input gradient and finite logits. Attacks "
        "stop there, and the sample would count as robust. Look for a root or norm at zero, or half precision.",
    )


def gradient_zero(subject: Subject) -> Finding | None:
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
    return Finding(
        "error" if count == len(gradient) and not saturated else "warning",
        f"{count} of {len(gradient)} images have an input gradient of exactly zero, so attacks stand still there and "
        f"the samples look robust. {advice}",
    )
