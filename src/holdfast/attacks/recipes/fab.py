"""Fast adaptive boundary attack: walks along the decision boundary towards the image, by tangent planes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.aimed import lead, leads
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import Objective
from holdfast.attacks.recipes.hyperplane import dual_norm, onto_plane
from holdfast.attacks.shapes import TINY, wide
from holdfast.attacks.steps import Point, State, Step
from holdfast.attacks.threat import Scene, Threat
from holdfast.attacks.threats.balls import L1, L2, Ball, Linf
from holdfast.core.errors import Misuse
from holdfast.core.registry import register

CROCE = "Croce & Hein 2020, arXiv:1907.02044"
POLISH = 3  # last steps, spent on the line from the image to the best point; the paper's final search
SHORT = 0.02  # of the way to where that line should meet the boundary is left: on it, rounding would decide


@dataclass(frozen=True, slots=True)
class AlongBoundary(Step):
    """The step of FAB (Croce & Hein 2020, arXiv:1907.02044, Algorithm 1), per sample.

    The boundary to the class that seems nearest is taken for a plane, and the point and the image are projected onto
    plane ∩ box. The next point lies between the two, a little beyond (`overshoot`); the nearer the point is to the
    plane, the nearer to the image's projection, up to a share of `bias`. From an adversarial point the search first
    goes back towards the image, to `back` of its distance.
    """

    strays: ClassVar[bool] = True
    steps: int
    bias: float = 0.1
    overshoot: float = 1.05
    back: float = 0.9

    def fresh(self, threat: Threat, scene: Scene, variable: Tensor) -> State:  # noqa: ARG002
        none = torch.zeros(len(variable), device=variable.device)
        return {"smallest": none - torch.inf, "root": none + 1, "tried": none + 1, "under": none.clone()}

    def advance(self, point: Point, state: State) -> Tensor:
        moved = self._walked(point)
        scale = self._polished(point, state)
        last = (point.taken >= self.steps - POLISH) & (point.best_loss > -torch.inf)
        return torch.where(wide(last, moved), wide(scale, moved) * point.best, moved)

    def _walked(self, point: Point) -> Tensor:
        """The next point of the walk."""
        threat, images, here = point.threat, point.scene.images, point.variable
        assert isinstance(threat, Ball), "planes are met in a norm"
        rise, weight = _nearest_plane(point)
        slope = (weight * here.flatten(1)).sum(dim=1)
        scale = torch.where(point.wrong, self.back, 1.0)
        base = here * wide(scale, here)
        # from each of the two points: how far the plane is, in units of the objective, and how far the box
        gaps = torch.stack([(1 - scale) * slope - rise, slope - rise], dim=1)
        points = torch.stack([images + base, images], dim=1).flatten(2)
        moves = onto_plane(threat.name, weight[:, None], gaps, -points, 1.0 - points)
        near, far = moves.view(len(images), 2, *images.shape[1:]).unbind(dim=1)
        to_near, to_far = threat.norm(near), threat.norm(far)
        share = (to_near / (to_near + to_far).clamp_min(TINY)).clamp_max(self.bias)
        ahead = base + self.overshoot * near
        return ahead.lerp(self.overshoot * far, wide(share, ahead)).clamp(-images, 1.0 - images)

    def _polished(self, point: Point, state: State) -> Tensor:
        """The share of the best point to try next: where it should meet the boundary, else halfway to what failed."""
        better = point.best_loss > state["smallest"]
        began = point.taken > self.steps - POLISH
        state["smallest"] = point.best_loss
        state["root"] = torch.where(better, _root(point), state["root"])
        under = torch.where(better, state["under"] / state["tried"], state["tried"])
        state["under"] = torch.where(began, under, state["under"])
        guess = state["root"]
        state["tried"] = torch.where((guess > state["under"]) & (guess < 1), guess, (state["under"] + 1) / 2)
        return state["tried"]


def _nearest_plane(point: Point) -> tuple[Tensor, Tensor]:
    """How far the objective is above zero, and its gradient, for the class whose boundary seems nearest."""
    if point.loss.dim() == 1:
        return point.loss, point.gradient.flatten(1)
    gradient = point.gradient.flatten(2)
    away = point.loss.abs() / dual_norm(point.threat.name, gradient).clamp_min(TINY)
    return _of_class(away.argmin(dim=1), point.loss, gradient)


def _root(point: Point) -> Tensor:
    """Where on the line from the image (0) to the point (1) the objective should be zero, nearly."""
    rise, weight = point.loss, point.gradient.flatten(1)
    if rise.dim() > 1:
        rise, weight = _of_class(rise.argmax(dim=1), rise, point.gradient.flatten(2))
    slope = (weight * point.variable.flatten(1)).sum(dim=1)
    return 1 - (1 - SHORT) * rise / slope.clamp_min(TINY)


def _of_class(chosen: Tensor, rise: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    rows = torch.arange(len(rise), device=rise.device)
    return rise[rows, chosen], weight[rows, chosen]


DOC = """Fast adaptive boundary attack {aim}: the smallest {norm} change that is misclassified.

An infinite `radius` asks for the smallest change; a finite one for any inside it, and the search ends there. `bias`,
`overshoot` and `back` are the paper's alpha_max, eta and beta.
Differs from the published code: a step costs one forward pass, not two, since the boundary is taken as seen from the
adversarial point itself, not from the one a tenth nearer; the last three steps are the paper's final search, which the
code leaves out; weights under 1e-8 count; a restart begins half as far out as the smallest change so far or the radius,
in l1 at a sparse point; a change counts once it is wrong by more than rounding, and one that is wrong by less is taken
further out, up to two thirds of its size, until it is.
"""
OUTSET = {"linf": 0.3, "l2": 1.0, "l1": 5.0}  # how far out restarts of the published code are at most, twice


def register_fab(threat: Ball) -> None:
    """Registers `fab-NORM` and `fab-t-NORM`."""

    def attack(
        objective: Objective, step: AlongBoundary, restarts: int, radius: float, targets: int = 0
    ) -> GradientAttack:
        if not (0 <= step.bias <= 1 and 0 < step.back <= 1 and step.overshoot >= 1):
            got = f"{step.bias}, {step.back} and {step.overshoot}"
            raise Misuse(f"bias and back are shares and overshoot is 1 or more, got {got}")
        return GradientAttack(
            *(threat, objective, step, step.steps, restarts, targets),
            start="around",
            keep="smallest",
            outset=OUTSET[threat.name],
            radius=radius,
        )

    def fab(
        *,
        radius: float = math.inf,
        steps: int = 100,
        restarts: int = 1,
        bias: float = 0.1,
        overshoot: float = 1.05,
        back: float = 0.9,
    ) -> GradientAttack:
        return attack(leads, AlongBoundary(steps, bias, overshoot, back), restarts, radius)

    def fab_t(
        *,
        radius: float = math.inf,
        steps: int = 100,
        restarts: int = 1,
        targets: int = 9,
        bias: float = 0.1,
        overshoot: float = 1.05,
        back: float = 0.9,
    ) -> GradientAttack:
        if targets < 1:
            raise Misuse(f"targets are 1 or more, got {targets}")
        return attack(lead, AlongBoundary(steps, bias, overshoot, back), restarts, radius, targets)

    fab.__doc__ = DOC.format(aim="on all classes at once", norm=threat.name)
    fab_t.__doc__ = DOC.format(aim="on the likeliest classes in turn", norm=threat.name)
    for name, recipe in {"fab": fab, "fab-t": fab_t}.items():
        register("attack", f"{name}-{threat.name}", version=2, source=CROCE, tags=("white box", threat.name))(recipe)


for norm in (Linf(), L2(), L1()):
    register_fab(norm)
