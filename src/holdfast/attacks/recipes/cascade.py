"""Attacks one after the other, each on the samples that the ones before it did not break."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.attacks.shapes import parts_of
from holdfast.attacks.success import is_wrong
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import register, registry
from holdfast.core.types import AttackResult, Batch, Classifier, Cost, ModelCard, added


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
    def source_in_key(self) -> str:
        named = dict.fromkeys(str(getattr(stage.attack, "source_in_key", "")) for stage in self.stages)
        return "; ".join(filter(None, named))

    @property
    def cost(self) -> Cost:
        costs = [stage.attack.cost for stage in self.stages]
        checks = len(self.stages)  # the images of an attack are scored once more
        return Cost(sum(cost.forwards for cost in costs) + checks, sum(cost.backwards for cost in costs))

    def attempt(
        self, model: Classifier, batch: Batch, noise: Noise, radius: Tensor, *, width: int, first: Tensor | None = None
    ) -> AttackResult:
        """`first` is for the first of the attacks, the others begin as they do."""
        left = torch.arange(len(batch), device=batch.images.device)
        whole: AttackResult | None = None
        for stage in self.stages:
            own = torch.where(radius.isnan(), stage.attack.radius, radius)[left]
            part = batch.take(left)
            begun = first if first is not None and whole is None else None
            result = stage.attack.attempt(
                model, part, self._noise(noise.take(left), stage), own, width=width, first=begun
            )
            confirm(model, part, result, width, everyone=self.union_name is not None)
            result.tallies[f"broken by {stage.ref}"] = int(result.broken.sum())
            if not stage.attack.cost.backwards:
                result.tallies["tried without gradients"] = len(part)
                result.tallies["broken without gradients alone"] = int(result.broken.sum()) if whole is not None else 0
            whole = result if whole is None else _joined(whole, result, left)
            left = (~whole.broken).nonzero().squeeze(1)
            if not len(left):
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


def confirm(model: Classifier, batch: Batch, result: AttackResult, width: int, *, everyone: bool = False) -> None:
    """Asks the model about the images that are called broken, or about all."""
    asked = torch.arange(len(batch), device=result.broken.device) if everyone else result.broken.nonzero().squeeze(1)
    with torch.no_grad():
        for rows in parts_of(asked, width):
            result.broken[rows] = is_wrong(model(result.images[rows]), batch.labels[rows])
    result.forwards[asked] += 1


def _joined(whole: AttackResult, result: AttackResult, rows: Tensor) -> AttackResult:
    """The results so far with those of a later attack on some of the samples."""
    whole.forwards[rows] += result.forwards
    whole.backwards[rows] += result.backwards
    won = result.broken.nonzero().squeeze(1)
    taken = rows[won]
    whole.images[taken], whole.size[taken], whole.broken[taken] = result.images[won], result.size[won], True
    positions = rows.tolist()
    for i, why in result.reasons.items():
        whole.reasons.setdefault(positions[i], why)
    for position in taken.tolist():
        whole.reasons.pop(position, None)
    whole.facts |= result.facts
    whole.tallies = added(whole.tallies, result.tallies)
    whole.variable = whole.radius = None
    return whole


NAME = "worst-of"


@register("attack", NAME, version=2, tags=("combination",))
def worst_of(*, attacks: tuple[str, ...], radius: float | None = None) -> Cascade:
    """The union of attacks: a sample is broken once any of them breaks it, and later ones see only what stands.

    `attacks` are refs in parentheses: `worst-of:attacks=[(pgd-linf:radius=8/255),(pgd-l2:radius=0.5)]`. Each keeps to
    its own radius, unless `radius` gives one for all. Sizes are in the units of the attack that broke the sample. Each
    attack draws what it draws alone, so a union breaks whatever one of its attacks breaks alone.
    """
    if not attacks:
        raise Misuse("`worst-of` needs attacks", hint="give refs: attacks=[(pgd-linf),(stadv)]")
    return cascade_of(attacks, radius, union_name=NAME)
