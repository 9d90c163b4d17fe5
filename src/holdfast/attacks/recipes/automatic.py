"""APGD's steps, which choose their own length: the automatic one, and in the l1 ball the sparse one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.one_pass import Moves, moved_in_linf
from holdfast.attacks.shapes import wide
from holdfast.attacks.steps import Point, State, Step
from holdfast.attacks.threat import Scene, Threat
from holdfast.attacks.threats.balls import sparse_ascent

CARRIED = 0.25  # share of the last move that is kept


@dataclass(frozen=True, slots=True)
class Automatic(Step):
    """The step of APGD (Croce & Hein 2020, arXiv:2003.01690, Algorithm 1), per sample.

    A step starts at twice the radius. At checkpoints, which come closer together, it is halved and the search goes back
    to the best point if fewer than `progress` of the moves since the last one raised the objective, or if neither the
    step nor the best value changed.
    """

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
        better = self._note(point, state)
        stalled = self._stalled(point, state)
        state["length"] = torch.where(stalled, state["length"] / 2, state["length"])
        carried = CARRIED * (point.taken > 0).to(point.variable.dtype)
        moves = moved_in_linf(
            point, state, better, stalled, carried, lambda: _moved(point, state, better, stalled, carried)
        )
        moved, state["before"], state["best gradient"] = moves
        return moved

    def _note(self, point: Point, state: State) -> Tensor:
        """Counts the moves that rose; which samples are at the highest point so far."""
        moved = point.taken > 0
        state["rises"] = state["rises"] + (moved & (point.loss > state["last loss"]))
        state["since check"] = state["since check"] + moved
        state["last loss"] = point.loss
        better = point.loss > state["highest"]
        state["highest"] = torch.maximum(point.loss, state["highest"])
        state["best at check"] = torch.where(moved, state["best at check"], state["highest"])
        return better

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


def _moved(point: Point, state: State, better: Tensor, stalled: Tensor, carried: Tensor) -> Moves:
    """Where the step leads, where it began, and the gradient at the best point: operation by operation."""
    here, gradient = point.variable, point.gradient
    best_gradient = torch.where(wide(better, gradient), gradient, state["best gradient"])
    if stalled.is_cuda or bool(stalled.any()):
        back = wide(stalled, here)
        here, gradient = torch.where(back, point.best, here), torch.where(back, best_gradient, gradient)
    ahead = point.project(here + wide(state["length"], here) * point.ascent(here, gradient))
    share = wide(carried, here)
    moved = point.project(here.lerp(ahead, 1 - share).add_(share * (here - state["before"])))
    return moved, here, best_gradient


SPARSER, FEWER, SHORTER, SHORTEST = 0.95, 1.5, 1.5, 10.0
STAGES = ((3.0, 0.3), (2.0, 0.3), (1.0, 0.4))  # radius as a multiple, share of the steps


@dataclass(frozen=True, slots=True)
class Sparse(Step):
    """The step of APGD for l1 (Croce & Hein 2021, arXiv:2103.01208, Algorithm 1), per sample.

    A step spreads its length over the largest gradients. At checkpoints their number follows the number of entries that
    the best point changes; where that fell, the step is long again and the search goes back to the best point, else the
    step gets shorter. With `inwards`, the search runs at three and two times the radius before it runs at the radius
    itself; each stage begins with the best point of the last, which takes one step more than the stage has.
    """

    strays: ClassVar[bool] = True
    steps: int
    inwards: bool = True

    @property
    def stages(self) -> tuple[tuple[float, int], ...]:
        """Radius as a multiple, and steps."""
        if not self.inwards or self.steps < len(STAGES):
            return ((1.0, self.steps),)
        counts = [math.ceil(share * self.steps) for _, share in STAGES[:-1]]
        return tuple(zip((m for m, _ in STAGES), (*counts, self.steps - sum(counts)), strict=True))

    @property
    def moves(self) -> int:
        """Steps of the loop: those of the stages and the changes between them."""
        return self.steps + len(self.stages) - 1

    def fresh(self, threat: Threat, scene: Scene, variable: Tensor) -> State:  # noqa: ARG002
        n, device = len(variable), variable.device
        entries = variable[0].numel()
        multiple = self.stages[0][0]
        used = _entries(variable)
        share = used / entries / FEWER if self.inwards else torch.full((n,), 0.2, device=device)
        return {
            "share": share,
            "used": used if self.inwards else torch.full((n,), float(entries), device=device),
            "length": multiple * scene.radius,
            "stage best": variable.clone(),
            "stage gradient": torch.zeros_like(variable),
            "stage loss": torch.full((n,), -torch.inf, device=device),
        }

    def advance(self, point: Point, state: State) -> Tensor:
        multiple, following, turn, checking = self._stage(point.taken)
        radius = multiple * point.scene.radius
        better = point.loss > state["stage loss"]
        state["stage loss"] = torch.where(better, point.loss, state["stage loss"])
        state["stage best"] = torch.where(wide(better, point.variable), point.variable, state["stage best"])
        state["stage gradient"] = torch.where(wide(better, point.gradient), point.gradient, state["stage gradient"])
        back = self._checked(state, radius, checking)
        here = torch.where(wide(back, point.variable), state["stage best"], point.variable)
        gradient = torch.where(wide(back, point.gradient), state["stage gradient"], point.gradient)
        way = sparse_ascent(gradient, state["share"])
        moved = torch.where(wide(turn, here), state["stage best"], here + wide(state["length"], here) * way)
        moved = point.project(moved, torch.where(turn, following * point.scene.radius, radius))
        self._turned(state, point.scene.radius, following, turn, moved)
        return moved

    def _stage(self, taken: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Multiples of the radius here and in the next stage; which samples change stage now or are at a checkpoint."""
        multiple, following = torch.ones_like(taken, dtype=torch.float32), torch.ones_like(taken, dtype=torch.float32)
        turn, checking = torch.zeros_like(taken, dtype=torch.bool), torch.zeros_like(taken, dtype=torch.bool)
        first = 0
        for i, (times, count) in enumerate(self.stages):
            after = self.stages[i + 1][0] if i + 1 < len(self.stages) else times
            here = (taken >= first) & (taken <= first + count)
            multiple = torch.where(here, times, multiple)
            following = torch.where(here, after, following)
            turn = turn | (here & (taken == first + count) & (i + 1 < len(self.stages)))
            every = max(int(0.04 * count), 1)
            checking = checking | (here & (taken > first) & ((taken - first) % every == 0))
            first += count + 1
        return multiple, following, turn, checking

    def _checked(self, state: State, radius: Tensor, checking: Tensor) -> Tensor:
        """Adapts number of entries and length at a checkpoint; returns who goes back to the best point."""
        used = _entries(state["stage best"])
        sparser = used / state["used"].clamp_min(1.0) < SPARSER
        length = torch.where(sparser, radius, (state["length"] / SHORTER).clamp(radius / SHORTEST, radius))
        entries = state["stage best"][0].numel()
        state["share"] = torch.where(checking, used / entries / FEWER, state["share"])
        state["length"] = torch.where(checking, length, state["length"])
        state["used"] = torch.where(checking, used, state["used"])
        return checking & sparser

    def _turned(self, state: State, radius: Tensor, following: Tensor, turn: Tensor, moved: Tensor) -> None:
        """Begins a stage: nothing is the best of it yet."""
        used = _entries(moved)
        state["used"] = torch.where(turn, used, state["used"])
        state["share"] = torch.where(turn, used / moved[0].numel() / FEWER, state["share"])
        state["length"] = torch.where(turn, following * radius, state["length"])
        state["stage loss"] = torch.where(turn, -torch.inf, state["stage loss"])


def _entries(change: Tensor) -> Tensor:
    """How many entries are changed."""
    return (change != 0).flatten(1).sum(dim=1).to(torch.float32)
