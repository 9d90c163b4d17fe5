"""The gradient loop: every gradient attack is this loop with a threat, an objective, a step and what to keep.

Who is in flight, and what becomes of those who land, is a `Course`. With a model's `rough` version gradients come from
that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from holdfast.attacks.course import Course, Keep
from holdfast.attacks.flight import Flight, Found
from holdfast.attacks.objectives import Objective
from holdfast.attacks.shapes import wide
from holdfast.attacks.steps import Point, State, Step
from holdfast.attacks.threats import Scene, Threat
from holdfast.attacks.verdict import CLEAR, is_ahead, is_inside, is_wrong
from holdfast.core.noise import Noise
from holdfast.core.types import Batch, Classifier

Start = Literal["identity", "inside", "border", "around"]
GPU_PATIENCE = (3, 4, 5, 6, 7)  # steps between looks at who is done
LOOK = 0.6  # what a look costs, in steps, beside those that it saves


class Penalty(Protocol):
    """What a variable costs the objective, beside what the model says; `state` is the step's."""

    def __call__(self, scene: Scene, variable: Tensor, state: State) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Climb:
    """An attack's way up, from the image itself or from a random point inside the set or on its border.

    `start`: "around" is the image itself, and for restarts a random point half as far out as the smallest success so
    far, the radius, or `outset`, whichever is least.
    `targets`: how many other classes are aimed at in turn, likeliest first. `keep`: the strongest point inside the
    radius, or the smallest that succeeds. `draws`: passes a gradient is averaged over, where a model answers at random.
    `stop_when_broken` is off for training, which wants the strongest point, and for minimal attacks without a radius.
    """

    threat: Threat
    objective: Objective
    step: Step
    steps: int
    restarts: int = 1
    targets: int = 0
    start: Start = "inside"
    keep: Keep = "strongest"
    draws: int = 1
    penalty: Penalty | None = None
    stop_when_broken: bool = True
    outset: float = 1.0

    @property
    def runs(self) -> int:
        return self.restarts * max(1, self.targets)

    @property
    def looks_first(self) -> bool:
        """Whether the clean images are scored before the climb: to pass over what is wrong, or to rank the targets."""
        if self.targets > 0 or self.keep == "smallest":
            return True
        if getattr(self.threat, "residue", ""):  # what it leaves at rest may set a wrong image right
            return False
        return self.start != "identity" and self.stop_when_broken


def climb(
    model: Classifier,
    batch: Batch,
    noise: Noise,
    radius: Tensor,
    how: Climb,
    *,
    width: int,
    first: Tensor | None = None,
) -> Found:
    """Runs the loop over a batch of any length, at most `width` samples at a time; `first`: where to start instead."""
    return _Ascent(model, batch, noise, radius, how, width, first).climbed()


class _Ascent(Course):
    """One climb under way."""

    carried = ("ranked", "clearance")

    def __init__(
        self,
        model: Classifier,
        batch: Batch,
        noise: Noise,
        radius: Tensor,
        how: Climb,
        width: int,
        first: Tensor | None,
    ) -> None:
        super().__init__(model, batch, noise, radius, how, width, first)
        self.how = how
        # a look at who is done costs nothing on a CPU; on a GPU it stops the queue
        self.patience = patience(how.steps + 1) if batch.images.is_cuda else 1
        self.ranked = batch.labels[:, None]
        self.clearance = torch.zeros_like(radius)

    def climbed(self) -> Found:
        if self.how.looks_first and not self.goes_on:
            logits = self.look()
            self.clearance = CLEAR * logits.abs().amax(dim=1)
            if self.how.targets:
                others = logits.scatter(1, self.batch.labels[:, None], -torch.inf)
                self.ranked = others.argsort(dim=1, descending=True, stable=True)[:, :-1]
                self.runs = self.how.restarts * min(self.how.targets, self.ranked.shape[1])
        return self.done()

    def steps(self, flight: Flight) -> None:
        for _ in range(self.patience):
            self._advance(flight)

    def start(self, scene: Scene, noise: Noise, run: Tensor) -> Tensor:
        how = self.how
        if how.start in ("identity", "around"):
            return how.threat.identity(scene)
        return how.threat.start(scene, noise, run, border=how.start == "border")

    def started(self, index: Tensor, run: Tensor) -> Flight:
        how, flight = self.how, super().started(index, run)
        if how.start == "around" and how.restarts > 1:
            out = flight.radius.minimum(-self.found.best[index]).clamp_max(how.outset) / 2
            random = how.threat.start(flight.scene.within(out), self.noise.take(index), run, border=True)
            again = wide(run % how.restarts > 0, random)
            flight.variable = torch.where(again, random, flight.variable)
        flight.state = how.step.fresh(how.threat, flight.scene, flight.variable)
        flight.clearance = self.clearance[index]
        if how.targets:
            flight.targets = self.ranked[index, run // how.restarts]
        return flight

    def _advance(self, flight: Flight) -> None:
        """One pass through the model for all in flight: keep what is best, mark who is done, move on."""
        how = self.how
        last = flight.taken >= how.steps
        moving = self.patience > 1 or not bool((last | flight.done).all())
        loss, gradient, wrong, logits = self._passed(flight, moving)
        passing = ~flight.gone & (flight.taken <= how.steps)
        flight.forwards = flight.forwards + how.draws * passing
        broken = wrong if how.keep == "smallest" else self.breaks(logits, flight.labels)
        self._keep(flight, loss, broken & ~flight.done, logits)
        flight.done = flight.done | last
        flight.taken = flight.taken + 1
        if not moving:
            return
        flight.backwards = flight.backwards + (how.draws * (loss.shape[1] if loss.dim() == 2 else 1)) * passing
        gradient = gradient.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        flight.idle = flight.idle + ((gradient.flatten(1).abs().amax(dim=1) == 0) & passing)
        point = Point(
            how.threat,
            flight.scene,
            flight.variable,
            gradient,
            loss,
            wrong,
            flight.taken - 1,
            flight.best,
            flight.height,
        )
        flight.variable = how.step.advance(point, flight.state).detach()

    def _passed(self, flight: Flight, moving: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Objective, its gradient, who is misclassified, and the last logits; means over the draws where several."""
        how, scene = self.how, flight.scene
        losses, gradients = [], []
        for _ in range(how.draws):
            variable = flight.variable.detach().requires_grad_(moving)
            with torch.set_grad_enabled(moving):
                logits = self.rough(how.threat.render(scene, variable))
                loss = how.objective(logits, flight.labels, flight.targets)
                if how.penalty is not None:
                    loss = loss - how.penalty(scene, variable, flight.state)
            assert len(loss) == len(flight), f"an objective is per sample, got {tuple(loss.shape)}"
            losses.append(loss.detach())
            gradients.append(_gradient(loss, variable) if moving else torch.empty_like(variable))
        return _mean(losses), _mean(gradients), is_wrong(logits.detach(), flight.labels), logits.detach()

    def _keep(self, flight: Flight, loss: Tensor, wrong: Tensor, logits: Tensor) -> None:
        """Notes the best variable of the run so far and who is broken by it."""
        how = self.how
        if how.keep == "smallest":  # what counts, unlike what the step is told
            wrong = wrong & is_ahead(logits, flight.labels, by=flight.clearance)
        success, height = wrong, loss.amax(dim=1) if loss.dim() == 2 else loss
        height = height.nan_to_num(nan=-torch.inf)
        if how.keep == "smallest" or how.step.strays:
            size = how.threat.size(flight.scene, flight.variable)
            inside = is_inside(size, flight.radius)
            success = wrong & inside
            height = _where(wrong, -size) if how.keep == "smallest" else _where(inside, height)
        self.note(flight, height, success, logits)


def patience(evaluations: int) -> int:
    """Steps between looks on a GPU: few looks, and few steps beyond the last."""
    return min(GPU_PATIENCE, key=lambda steps: -(-evaluations // steps) * (steps + LOOK))


def _gradient(loss: Tensor, variable: Tensor) -> Tensor:
    """The gradient of each sample's objective, one per number where there are several."""
    if loss.dim() == 1:
        return torch.autograd.grad(loss.sum(), variable)[0]
    finite = loss.masked_fill(loss == -torch.inf, 0.0)
    classes = loss.shape[1]
    parts = [torch.autograd.grad(finite[:, c].sum(), variable, retain_graph=c + 1 < classes)[0] for c in range(classes)]
    return torch.stack(parts, dim=1)


def _mean(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.stack(parts).mean(dim=0)


def _where(counts: Tensor, height: Tensor) -> Tensor:
    return torch.where(counts, height, -torch.inf)
