"""Attacks inside a radius: climb, then settle what was found outside the attack, in full precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attacks.loop import Climb, climb
from holdfast.attacks.objectives import DLR_CLASSES, dlr
from holdfast.attacks.threats import Threat
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.noise import Noise
from holdfast.core.types import Batch, Changed, Classifier, Cost

SLACK = 1e-4  # of the radius, plus float32 rounding of pixels near 1: what re-measuring may differ by
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Budget:
    """An attack that may use its radius in full and looks for the strongest point inside."""

    climb: Climb
    radius: float

    def __post_init__(self) -> None:
        if not self.radius >= 0:
            raise Misuse(f"a radius is zero or more, got {self.radius}")
        if self.climb.steps < 1 or self.climb.restarts < 1:
            raise Misuse(f"steps and restarts are 1 or more, got {self.climb.steps} and {self.climb.restarts}")

    @property
    def cost(self) -> Cost:
        runs, steps = self.climb.restarts, self.climb.steps
        return Cost(forwards=runs * (steps + 1) + (self.climb.start != "identity"), backwards=runs * steps)

    def __call__(self, model: Classifier, batch: Batch, noise: Noise, *, width: int) -> Changed:
        if not model.card.differentiable:
            raise HoldfastError(f"`{model.card.name}` gives no gradients, which this attack needs")
        radius = torch.full((len(batch),), self.radius, device=batch.images.device)
        found = climb(model, batch, noise, radius, self.climb, width=width)
        images, size, reasons = settled(self.climb.threat, batch.images, found.variable, radius)
        facts = {}
        if self.climb.objective is dlr and model.card.classes < DLR_CLASSES:
            facts["objective"] = f"the margin: the DLR needs {DLR_CLASSES} classes, there are {model.card.classes}"
        tallies = {"gradients": int(found.backwards.sum()), "zero gradients": int(found.idle.sum())}
        counts = {"forwards": found.forwards, "backwards": found.backwards}
        return Changed(images, size=size, reasons=reasons, facts=facts, tallies=tallies, **counts)


def settled(threat: Threat, images: Tensor, variable: Tensor, radius: Tensor) -> tuple[Tensor, Tensor, dict[int, str]]:
    """Projects again, renders, and measures the result. Outside its set means failed, and left unattacked."""
    with torch.no_grad():
        changed = threat.render(images, threat.project(images, variable, radius)).clamp(0.0, 1.0)
        size = threat.size(images, changed)
        outside = ~(size <= radius * (1 + SLACK) + ROUNDING)
        reasons = {
            int(
                i
            ): f"the attack left its set: size {float(size[i]):.6g} at radius {float(radius[i]):.6g}; scored unattacked"
            for i in outside.nonzero().squeeze(1)
        }
        changed[outside] = images[outside]
        size = torch.where(outside, torch.zeros_like(size), size)
    return changed, size, reasons
