"""Attacks one after the other, each on what the last ones left standing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attacks.attack import Attack, Attempt
from holdfast.attacks.shapes import parts_of
from holdfast.attacks.success import is_wrong
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Classifier, Cost, ModelCard


@dataclass(frozen=True, slots=True)
class Stage:
    """One attack of a cascade, its ref, and the name it is registered under."""

    ref: str
    attack: Attack
    name: str


@dataclass(frozen=True, slots=True)
class Cascade(Attack):
    """The union of attacks: a sample is broken once any of them breaks it.

    Without a `radius` of its own every attack keeps to its own, and sizes are in the units of the attack that broke the
    sample, or of the first where none did.

    `union_name`: the name the union is registered under, where each attack is to draw what it draws alone, so that it
    breaks what it breaks alone; without one the draws of each are its own in this cascade. Such a union also scores
    what an attack calls unbroken, since alone the run would do so.
    """

    stages: tuple[Stage, ...]
    radius: float = math.nan
    union_name: str | None = None

    @property
    def cost(self) -> Cost:
        costs = [stage.attack.cost for stage in self.stages]
        checks = len(self.stages)  # what an attack made is scored once more
        return Cost(sum(cost.forwards for cost in costs) + checks, sum(cost.backwards for cost in costs))

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
        """`first` is for the first of the attacks, the others begin as they do."""
        standing = torch.arange(len(batch), device=batch.images.device)
        whole: Attempt | None = None
        for stage in self.stages:
            own = torch.where(radius.isnan(), stage.attack.radius, radius)[standing]
            part = Batch(batch.images[standing], batch.labels[standing], tuple(batch.ids[i] for i in standing.tolist()))
            begun = first if first is not None and whole is None else None
            made = stage.attack.attempt(
                model, part, self._noise(noise.take(standing), stage), own, width=width, first=begun
            )
            _verify(model, part, made, width, everyone=self.union_name is not None)
            made.tallies[f"broken by {stage.ref}"] = int(made.broken.sum())
            if not stage.attack.cost.backwards:
                made.tallies["tried without gradients"] = len(part)
                made.tallies["broken without gradients alone"] = int(made.broken.sum()) if whole is not None else 0
            whole = made if whole is None else _joined(whole, made, standing)
            standing = (~whole.broken).nonzero().squeeze(1)
            if not len(standing):
                break
        assert whole is not None, "a cascade has at least one attack"
        return whole

    def refuse(self, card: ModelCard) -> None:
        for stage in self.stages:
            stage.attack.refuse(card)

    def _noise(self, noise: Noise, stage: Stage) -> Noise:
        return noise.scope(stage.ref) if self.union_name is None else noise.renamed(self.union_name, stage.name)


def cascade_of(attacks: Sequence[str], radius: float | None = None, *, union_name: str | None = None) -> Cascade:
    """The cascade of attacks given as refs, with one radius for all or each with its own."""
    stages = []
    for text in attacks:
        ref = registry.bind("attack", text)
        attack = registry.build(ref)
        if not isinstance(attack, Attack):
            raise Misuse(f"`{text}` cannot be combined", hint="plug-ins: derive from holdfast.attacks.attack.Attack")
        stages.append(Stage(text, attack, ref.name))
    return Cascade(tuple(stages), math.nan if radius is None else radius, union_name)


def _verify(model: Classifier, batch: Batch, made: Attempt, width: int, *, everyone: bool) -> None:
    """Asks the model about the images that are called broken, or about all, as they are after settling."""
    asked = torch.arange(len(batch), device=made.broken.device) if everyone else made.broken.nonzero().squeeze(1)
    with torch.no_grad():
        for rows in parts_of(asked, width):
            made.broken[rows] = is_wrong(model(made.images[rows]), batch.labels[rows])
    made.forwards[asked] += 1


def _joined(whole: Attempt, made: Attempt, rows: Tensor) -> Attempt:
    """The results so far with those of a later attack on some of the samples."""
    whole.forwards[rows] += made.forwards
    whole.backwards[rows] += made.backwards
    won = made.broken.nonzero().squeeze(1)
    taken = rows[won]
    whole.images[taken], whole.size[taken], whole.broken[taken] = made.images[won], made.size[won], True
    places = rows.tolist()
    for i, why in made.reasons.items():
        whole.reasons.setdefault(places[i], why)
    for place in taken.tolist():
        whole.reasons.pop(place, None)
    whole.facts |= made.facts
    for name, count in made.tallies.items():
        whole.tallies[name] = whole.tallies.get(name, 0) + count
    whole.variable = whole.radius = None
    return whole
