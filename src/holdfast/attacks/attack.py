"""An attack: tries to break samples, each inside its own radius, and returns the images with what is known of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from holdfast.attacks.shapes import wide
from holdfast.attacks.success import is_within
from holdfast.attacks.tensor_records import TensorRecord, Tensors
from holdfast.attacks.threat import Scene, Threat
from holdfast.core.noise import Noise
from holdfast.core.types import AttackResult, Batch, Classifier, Cost, ModelCard


class Attack(ABC):
    """Breaks samples inside a radius, each in its own, or with the smallest change it can."""

    radius: float

    @property
    @abstractmethod
    def cost(self) -> Cost: ...

    @abstractmethod
    def attempt(
        self, model: Classifier, batch: Batch, noise: Noise, radius: Tensor, *, width: int, first: Tensor | None = None
    ) -> AttackResult:
        """Attacks every sample inside its own radius; `first`: variables to start from, where the attack has one."""

    def refuse(self, card: ModelCard) -> None:  # noqa: B027 - most attacks run on every model
        """Raises where the attack makes no sense on such a model."""

    def __call__(self, model: Classifier, batch: Batch, noise: Noise, *, width: int) -> AttackResult:
        radius = torch.full((len(batch),), self.radius, device=batch.images.device)
        return self.attempt(model, batch, noise, radius, width=width)


@dataclass(slots=True)
class LoopResult(TensorRecord):
    """The best variable of each sample over all runs, its value, and the passes that it took.

    The best variable is the first that broke the sample, else the one of highest value: of the objective, or of minus
    the size where the smallest is kept. `props`: the threat's draws that belong to it. `flat` counts the runs whose
    value never rose above its start.
    """

    variable: Tensor
    props: Tensors
    best_value: Tensor
    broken: Tensor
    forwards: Tensor
    backwards: Tensor
    zero_gradients: Tensor
    runs: Tensor
    flat: Tensor

    @classmethod
    def empty(cls, scene: Scene, variable: Tensor) -> Self:
        """The result before the first run: nothing is broken, and no pass was taken."""
        zero = torch.zeros(len(scene), dtype=torch.int64, device=variable.device)
        low = torch.full((len(scene),), -torch.inf, device=variable.device)
        return cls(variable, dict(scene.props), low, zero.bool(), *(zero.clone() for _ in range(5)))

    def take_over(self, index: Tensor, other: LoopResult, better: Tensor) -> None:
        """Takes over the points of another attack on these samples that are `better`, and adds the passes it took.

        It never asks which they are: on a GPU the answer would have to be waited for.
        """
        points = [(self.variable, other.variable), (self.best_value, other.best_value)]
        for mine, theirs in points + [(prop, other.props[name]) for name, prop in self.props.items()]:
            mine[index] = torch.where(wide(better, mine), theirs, mine[index])
        self.broken[index] |= other.broken
        for name in ("forwards", "backwards", "zero_gradients", "runs", "flat"):
            getattr(self, name)[index] += getattr(other, name)


def verify_success(threat: Threat, images: Tensor, radius: Tensor, best: LoopResult) -> AttackResult:
    """Projects once more, renders and measures. What lies outside its set has failed, and its image is left as it was.

    The images are scored in full precision outside the attack, by whoever called it.
    """
    scene = Scene(images, radius, best.props)
    with torch.no_grad():
        variable = threat.project(scene, best.variable)
        changed = threat.render(scene, variable).clamp(0.0, 1.0)
        size = threat.size(scene, variable)
        outside = ~is_within(size, radius) | ~changed.flatten(1).isfinite().all(dim=1)
        reasons = {int(i): _outside(size[i], radius[i]) for i in outside.nonzero().squeeze(1)}
        changed[outside] = images[outside]
        size = torch.where(outside, torch.zeros_like(size), size)
    return AttackResult(
        changed,
        size=size,
        broken=best.broken,
        forwards=best.forwards,
        backwards=best.backwards,
        variable=best.variable,
        reasons=reasons,
    )


def _outside(size: Tensor, radius: Tensor) -> str:
    return f"the attack left its set: size {float(size):.6g} at radius {float(radius):.6g}; scored unattacked"
