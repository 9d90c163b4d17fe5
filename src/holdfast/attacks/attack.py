"""An attack: tries to break samples inside radii of their own, and says what came of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from torch import Tensor

from holdfast.attacks.success import is_inside
from holdfast.attacks.threat import Scene, Threat
from holdfast.core.noise import Noise
from holdfast.core.types import Batch, Changed, Classifier, Cost, ModelCard


@dataclass(slots=True)
class Attempt:
    """What an attack made of a batch, per sample. `broken` is its own view: success is decided outside.

    `variable` is where a threat stood at the end, to go on from; `radius` the smallest radius known to break it.
    """

    images: Tensor
    size: Tensor
    broken: Tensor
    forwards: Tensor
    backwards: Tensor
    variable: Tensor | None = None
    radius: Tensor | None = None
    reasons: dict[int, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    tallies: dict[str, int] = field(default_factory=dict)


class Attack(ABC):
    """Breaks samples inside a radius, each in its own, or with the smallest change it can."""

    radius: float

    @property
    @abstractmethod
    def cost(self) -> Cost: ...

    @abstractmethod
    def attempt(
        self,
        model: Classifier,
        batch: Batch,
        noise: Noise,
        radius: Tensor,
        *,
        width: int,
        first: Tensor | None = None,
    ) -> Attempt:
        """Attacks every sample inside its own radius; `first`: variables to start from, where the attack has one."""

    def refuse(self, card: ModelCard) -> None:  # noqa: B027 - most attacks run on every model
        """Raises where the attack makes no sense on such a model."""

    def __call__(self, model: Classifier, batch: Batch, noise: Noise, *, width: int) -> Changed:
        radius = torch.full((len(batch),), self.radius, device=batch.images.device)
        made = self.attempt(model, batch, noise, radius, width=width)
        return Changed(
            made.images,
            size=made.size,
            radius=made.radius,
            reasons=made.reasons,
            forwards=made.forwards,
            backwards=made.backwards,
            facts=made.facts,
            tallies=made.tallies,
        )


def settle(threat: Threat, scene: Scene, variable: Tensor) -> tuple[Tensor, Tensor, dict[int, str]]:
    """Projects again, renders, and measures the result. Outside its set means failed, and left unattacked."""
    with torch.no_grad():
        variable = threat.project(scene, variable)
        changed = threat.render(scene, variable).clamp(0.0, 1.0)
        size = threat.size(scene, variable)
        outside = ~is_inside(size, scene.radius) | ~changed.flatten(1).isfinite().all(dim=1)
        reasons = {int(i): _outside(size[i], scene.radius[i]) for i in outside.nonzero().squeeze(1)}
        changed[outside] = scene.images[outside]
        size = torch.where(outside, torch.zeros_like(size), size)
    return changed, size, reasons


def _outside(size: Tensor, radius: Tensor) -> str:
    return f"the attack left its set: size {float(size):.6g} at radius {float(radius):.6g}; scored unattacked"
