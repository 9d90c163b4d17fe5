"""Threats in training: what makes the images that a model learns from, from any registered attack or corruption.

No attack is written a second time: attacks of a fixed number of steps run the gradient loop (`attacks/every_step.py`),
all others are called as an evaluation calls them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.attacks.every_step import last_images, takes_every_step
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import Objective, cross_entropy
from holdfast.attacks.perceptual.lpips import network_for
from holdfast.attacks.perceptual.lpips_attack import LpipsAttack
from holdfast.attacks.perceptual.lpips_ball import LpipsBall
from holdfast.attacks.shapes import wide
from holdfast.attacks.steps import Point, Steepest
from holdfast.attacks.threat import Scene, scene_of
from holdfast.attacks.threats.balls import Ball
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.refs import Ref, parse_ref
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Change, Classifier
from holdfast.training.recipes import Recipe

USUAL_SEVERITIES = 5
FAST_STEP = 1.25  # of the radius: the one step of fast adversarial training (Wong et al. 2020, arXiv:2001.03994)


class Adversary(Protocol):
    """Images to learn from in the place of a batch's own. `objective` replaces the attack's where it is given.

    `reads_values`: whether it looks at values on the host, so that a step with it cannot be recorded.
    """

    @property
    def reads_values(self) -> bool:
        return False

    def __call__(self, model: Classifier, batch: Batch, noise: Noise, objective: Objective | None = None) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class AttackAdversary(Adversary):
    """Any attack; one along gradients that takes a fixed number of steps gives its last point, as in published recipes.

    Inside an LPIPS ball it is perceptual adversarial training (Laidlaw et al. 2021, arXiv:2006.12655).
    """

    attack: Attack

    @property
    def reads_values(self) -> bool:
        return not (isinstance(self.attack, GradientAttack) and takes_every_step(self.attack))

    def __call__(self, model: Classifier, batch: Batch, noise: Noise, objective: Objective | None = None) -> Tensor:
        attack = self.attack
        if isinstance(attack, LpipsAttack):  # its penalty belongs to the ball, not to the objective
            attack = attack.inside(LpipsBall(network_for(attack.network, model, batch.images)))
        elif isinstance(attack, GradientAttack) and objective is not None:
            attack = replace(attack, penalty=None)
        if not isinstance(attack, GradientAttack):
            if objective is not None:
                hint = "train with an attack such as `pgd-linf`"
                raise Misuse("this loss needs an attack along gradients", hint=hint)
            return attack(model, batch, noise, width=len(batch)).images.detach()
        if objective is not None:
            attack = replace(attack, objective=objective)
        if takes_every_step(attack):
            return last_images(attack, model, batch, noise)
        radius = torch.full((len(batch),), attack.radius, device=batch.images.device)
        result = replace(attack, stop_when_broken=False).run(model, batch, noise, radius, width=len(batch))
        with torch.no_grad():
            return attack.threat.render(Scene(batch.images, radius, result.props), result.variable).clamp(0.0, 1.0)


@dataclass(frozen=True, slots=True)
class CorruptionAdversary(Adversary):
    """A corruption. Unless `always`, half of the images stay as they are; the others take a random one of its rungs."""

    rungs: tuple[Change, ...]
    always: bool = False

    def __call__(self, model: Classifier, batch: Batch, noise: Noise, objective: Objective | None = None) -> Tensor:  # noqa: ARG002
        if self.always:
            return self.rungs[0](model, batch, noise, width=len(batch)).images
        drawn = noise.integers("severity", (), low=0, high=2 * len(self.rungs))
        images = batch.images
        for rung, change in enumerate(self.rungs):
            images = torch.where(
                wide(drawn == rung, images), change(model, batch, noise, width=len(batch)).images, images
            )
        return images


@dataclass(frozen=True, slots=True)
class WorstAdversary(Adversary):
    """MAX (Tramèr & Boneh 2019, arXiv:1904.13000): for each image the threat under which the loss is largest."""

    parts: tuple[Adversary, ...]

    @property
    def reads_values(self) -> bool:
        return any(part.reads_values for part in self.parts)

    def __call__(self, model: Classifier, batch: Batch, noise: Noise, objective: Objective | None = None) -> Tensor:
        judge = objective or cross_entropy
        best, images = torch.full((len(batch),), -torch.inf, device=batch.images.device), batch.images
        for number, part in enumerate(self.parts):
            changed = part(model, batch, noise.scope(f"threat {number}"), objective)
            with torch.no_grad():
                loss = judge(model(changed), batch.labels, batch.labels)
            images, best = torch.where(wide(loss > best, images), changed, images), torch.maximum(loss, best)
        return images


@dataclass(frozen=True, slots=True)
class SteepestOfBalls(Adversary):
    """MSD (Maini et al. 2020, arXiv:1909.04068): at every step the norm whose own step raises the loss most.

    All norms share one perturbation and its gradient, so it is no union of finished attacks.
    """

    attacks: tuple[GradientAttack, ...]

    def __call__(self, model: Classifier, batch: Batch, noise: Noise, objective: Objective | None = None) -> Tensor:
        judge = objective or cross_entropy
        images, labels = batch.images, batch.labels
        zero = torch.zeros_like(labels)
        scenes = [
            scene_of(attack.threat, images, torch.full_like(images[:, 0, 0, 0], attack.radius), noise, zero)
            for attack in self.attacks
        ]
        first = self.attacks[0]
        change = first.threat.start(scenes[0], noise, zero) if objective is not None else torch.zeros_like(images)
        for _ in range(max(attack.steps for attack in self.attacks)):
            here = change.detach().requires_grad_(True)
            with torch.enable_grad():
                loss = judge(model(images + here), labels, labels)
                (gradient,) = torch.autograd.grad(loss.sum(), here)
            change, loss = here.detach(), loss.detach()
            here, best = change, torch.full_like(loss, -torch.inf)
            with torch.no_grad():
                for attack, scene in zip(self.attacks, scenes, strict=True):
                    point = Point(attack.threat, scene, here, gradient, loss, loss > 0, zero, here, loss)
                    moved = attack.step.advance(point, attack.step.fresh(attack.threat, scene, here))
                    value = judge(model(images + moved), labels, labels)
                    change, best = torch.where(wide(value > best, here), moved, change), torch.maximum(value, best)
        return images + change


def adversaries_of(recipe: Recipe) -> list[Adversary]:
    """One adversary for each kind of step: several for `random` and `avg` unions, else one; none without threats."""
    parts = [adversary(text, fast=recipe.loss == "fast-at") for text in recipe.threats]
    if len(parts) > 1 and recipe.union == "msd":
        attacks = [part.attack for part in parts if isinstance(part, AttackAdversary) and not part.reads_values]
        balls = [attack for attack in attacks if isinstance(attack, GradientAttack) and isinstance(attack.threat, Ball)]
        if len(balls) < len(parts) or not all(isinstance(attack.step, Steepest) for attack in balls):
            raise Misuse("`msd` is a union of norm balls", hint='union = "max", or threats such as pgd-linf and pgd-l1')
        return [SteepestOfBalls(tuple(balls))]
    if len(parts) > 1 and recipe.union == "max":
        return [WorstAdversary(tuple(parts))]
    return parts


def adversary(text: str, *, fast: bool = False) -> Adversary:
    """What a threat's ref stands for in training; `fast`: an attack takes one long step instead of its own."""
    ref = registry.bind_change(text)
    made = registry.build(ref)
    if ref.kind == "corruption":
        if "severity" not in dict(ref.args) or "severity" in parse_ref(text).keywords:
            return CorruptionAdversary((made,), always="severity" in dict(ref.args))
        return CorruptionAdversary(tuple(registry.build(rung) for rung in _severities(ref, made)))
    if not isinstance(made, Attack):
        raise Misuse(f"`{text}` cannot be trained on", hint="use an attack inside a radius, as `pgd-linf`")
    if isinstance(made, GradientAttack) and made.keep == "smallest":
        raise Misuse(f"`{text}` looks for the smallest change", hint="use an attack inside a radius, as `pgd-linf`")
    if fast:
        if not (isinstance(made, GradientAttack) and takes_every_step(made) and isinstance(made.step, Steepest)):
            hint = "use pgd-linf or pgd-l2, without restarts"
            raise Misuse(f"`fast-at` takes one steepest step, and `{text}` has none", hint=hint)
        made = replace(made, steps=1, step=Steepest(FAST_STEP))
    return AttackAdversary(made)


def _severities(ref: Ref, made: object) -> list[Ref]:
    """The corruption at every severity that it has."""
    ladders: dict[str, Sequence[object]] = getattr(made, "ladders", {})
    count = max((len(ladder) for ladder in ladders.values()), default=USUAL_SEVERITIES)
    return [
        replace(ref, args=tuple((name, rung if name == "severity" else value) for name, value in ref.args))
        for rung in range(1, count + 1)
    ]
