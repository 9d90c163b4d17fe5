"""Gradient attacks as whole attacks: climb, then settle what was found outside the loop, in full precision."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast.attacks.attack import Attack, Attempt, settle
from holdfast.attacks.loop import Climb, climb
from holdfast.attacks.objectives import NEEDED_CLASSES, leads
from holdfast.attacks.threat import Scene
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.noise import Noise
from holdfast.core.types import Batch, Classifier, Cost, ModelCard

NOTHING = Cost()
MOST_CLASSES = 100  # for objectives of one number per class: a step costs that many backward passes


@dataclass(frozen=True, slots=True)
class Budget(Attack):
    """An attack that may use its radius in full; an infinite one means: as little as it takes.

    `extra`: passes beside those of the loop, such as a step's own.
    """

    climb: Climb
    radius: float
    extra: Cost = NOTHING

    def __post_init__(self) -> None:
        if not self.radius >= 0:
            raise Misuse(f"a radius is zero or more, got {self.radius}")
        if self.climb.steps < 1 or self.climb.restarts < 1:
            raise Misuse(f"steps and restarts are 1 or more, got {self.climb.steps} and {self.climb.restarts}")
        assert math.isfinite(self.radius) or self.climb.keep == "smallest", "only a minimal attack may go any distance"

    @property
    def cost(self) -> Cost:
        runs, steps, draws = self.climb.runs, self.climb.steps, self.climb.draws
        return Cost(
            forwards=runs * (steps + 1) * draws + self.climb.looks_first + self.climb.stretches + self.extra.forwards,
            backwards=runs * steps * draws + self.extra.backwards,
        )

    def refuse(self, card: ModelCard) -> None:
        if self.climb.objective is leads and card.classes > MOST_CLASSES:
            raise Misuse(
                f"FAB on all classes at once takes a backward pass per class and step, and `{card.name}` has "
                f"{card.classes} classes; {MOST_CLASSES} is the most",
                hint="use `fab-t-…`, which aims at the likeliest classes in turn; for autoattack-plus: `autoattack-…`",
            )

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
        if not model.card.differentiable:
            raise HoldfastError(f"`{model.card.name}` gives no gradients, which this attack needs")
        self.refuse(model.card)
        how = self.climb if bool(radius.isfinite().all()) else replace(self.climb, stop_when_broken=False)
        found = climb(model, batch, noise, radius, how, width=width, first=first)
        scene = Scene(batch.images, radius, found.props)
        images, size, reasons = settle(how.threat, scene, found.variable)
        needed = NEEDED_CLASSES.get(how.objective, 0)
        facts, tallies = {}, {"gradients": int(found.backwards.sum()), "zero gradients": int(found.idle.sum())}
        if model.card.classes < needed:
            facts["objective"] = f"the margin: this one needs {needed} classes, there are {model.card.classes}"
        if how.keep == "strongest":
            tallies |= {"climbs": int(found.runs.sum()), "flat climbs": int(found.flat.sum())}
        return Attempt(
            images,
            size,
            found.broken,
            found.forwards,
            found.backwards,
            variable=found.variable,
            radius=torch.where(found.broken, size, torch.inf) if how.keep == "smallest" else None,
            reasons=reasons,
            facts=facts,
            tallies=tallies,
        )
