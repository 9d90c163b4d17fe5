"""APGD's automatic step: no step size to choose, it halves itself when progress stalls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.shapes import wide
from holdfast.attacks.steps import Point, State
from holdfast.attacks.threat import Scene, Threat

CARRIED = 0.25  # share of the last move that is kept


@dataclass(frozen=True, slots=True)
class Automatic:
    """The step of APGD (Croce & Hein 2020, arXiv:2003.01690, Algorithm 1), per sample.

    A step starts at twice the radius. At checkpoints, which come closer together, it is halved and the search goes back
    to the best point if fewer than `progress` of the moves since the last one raised the objective, or if neither the
    step nor the best value changed.
    """

    strays: ClassVar[bool] = False
    steps: int
    progress: float = 0.75

    def fresh(self, threat: Threat, scene: Scene, variable: Tensor) -> State:  # noqa: ARG002
        n, device = len(variable), variable.device
        nothing = torch.zeros(n, dtype=torch.int64, device=device)
        return {
            "length": 2.0 * scene.radius,
            "before": variable.clone(),
            "best gradient": torch.zeros_like(variable),
            "best at check": torch.full((n,), -torch.inf, device=device),
            "last loss": torch.full((n,), -torch.inf, device=device),
            "highest": torch.full((n,), -torch.inf, device=device),
            "rises": nothing.clone(),
            "since check": nothing.clone(),
            "gap": torch.full_like(nothing, max(int(0.22 * self.steps), 1)),
            "halved": torch.ones(n, dtype=torch.bool, device=device),
        }

    def advance(self, point: Point, state: State) -> Tensor:
        self._note(point, state)
        stalled = self._stalled(point, state)
        here, gradient = point.variable, point.gradient
        if stalled.is_cuda or bool(stalled.any()):
            state["length"] = torch.where(stalled, state["length"] / 2, state["length"])
            back = wide(stalled, here)
            here = torch.where(back, point.best, here)
            gradient = torch.where(back, state["best gradient"], gradient)
        ahead = point.project(here + wide(state["length"], here) * point.ascent(here, gradient))
        carried = CARRIED * wide((point.taken > 0).to(here.dtype), here)
        moved = point.project(here.lerp(ahead, 1 - carried).add_(carried * (here - state["before"])))
        state["before"] = here
        return moved

    def _note(self, point: Point, state: State) -> None:
        """Keeps the best gradient and counts the moves that rose."""
        moved = point.taken > 0
        state["rises"] = state["rises"] + (moved & (point.loss > state["last loss"]))
        state["since check"] = state["since check"] + moved
        state["last loss"] = point.loss
        better = point.loss > state["highest"]
        state["highest"] = torch.maximum(point.loss, state["highest"])
        state["best gradient"] = torch.where(wide(better, point.gradient), point.gradient, state["best gradient"])
        state["best at check"] = torch.where(moved, state["best at check"], state["highest"])

    def _stalled(self, point: Point, state: State) -> Tensor:  # noqa: ARG002
        """Which samples are at a checkpoint and should halve their step; resets the count of all at a checkpoint."""
        due = state["since check"] == state["gap"]
        few = state["rises"] <= self.progress * state["gap"]
        idle = ~state["halved"] & (state["best at check"] >= state["highest"])
        stalled = due & (few | idle)
        state["halved"] = torch.where(due, stalled, state["halved"])
        state["best at check"] = torch.where(due, state["highest"], state["best at check"])
        shorter = (state["gap"] - max(int(0.03 * self.steps), 1)).clamp_min(max(int(0.06 * self.steps), 1))
        state["gap"] = torch.where(due, shorter, state["gap"])
        for count in ("rises", "since check"):
            state[count] = torch.where(due, torch.zeros_like(state[count]), state[count])
        return stalled
