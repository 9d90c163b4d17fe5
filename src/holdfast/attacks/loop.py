"""The gradient loop: every gradient attack inside a radius is this loop with a threat, an objective and a step.

It keeps an active set. At most `width` samples are in flight; one that is broken or out of steps leaves at once and
the next takes its place, so the model always sees full batches. All state is per sample: samples of different age,
restart and radius share a batch, and no sample's result depends on its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from holdfast.attacks.objectives import Objective
from holdfast.attacks.steps import Point, State, Step
from holdfast.attacks.threats import Threat
from holdfast.core.noise import Noise
from holdfast.core.types import Batch, Classifier

Start = Literal["identity", "inside", "border"]


@dataclass(frozen=True, slots=True)
class Climb:
    """An attack's way up, from the image itself or from a random point inside the set or on its border.

    `stop_when_broken` is off for training, which wants the strongest point, not the first that breaks.
    """

    threat: Threat
    objective: Objective
    step: Step
    steps: int
    restarts: int = 1
    start: Start = "inside"
    stop_when_broken: bool = True


@dataclass(slots=True)
class Climbed:
    """The best variable found for each sample: the first that broke it, else the one of highest objective."""

    variable: Tensor
    best: Tensor
    broken: Tensor
    forwards: Tensor
    backwards: Tensor
    idle: Tensor

    @classmethod
    def at_rest(cls, variable: Tensor) -> Climbed:
        n, device = len(variable), variable.device
        counts = [torch.zeros(n, dtype=torch.int64, device=device) for _ in range(3)]
        best = torch.full((n,), -torch.inf, device=device)
        return cls(variable, best, torch.zeros(n, dtype=torch.bool, device=device), *counts)


@dataclass(slots=True)
class Flight:
    """The samples in flight: which they are, where they stand, how many steps and restarts they have behind them."""

    index: Tensor
    variable: Tensor
    state: State
    taken: Tensor
    restart: Tensor

    def __len__(self) -> int:
        return len(self.index)

    def keep(self, kept: Tensor) -> None:
        self.index, self.variable = self.index[kept], self.variable[kept]
        self.taken, self.restart = self.taken[kept], self.restart[kept]
        self.state = {name: value[kept] for name, value in self.state.items()}

    def join(self, other: Flight) -> None:
        self.index = torch.cat([self.index, other.index])
        self.variable = torch.cat([self.variable, other.variable])
        self.taken = torch.cat([self.taken, other.taken])
        self.restart = torch.cat([self.restart, other.restart])
        self.state = {name: torch.cat([value, other.state[name]]) for name, value in self.state.items()}


def climb(model: Classifier, batch: Batch, noise: Noise, radius: Tensor, how: Climb, *, width: int) -> Climbed:
    """Runs the loop over a batch of any length, at most `width` samples at a time."""
    found = Climbed.at_rest(how.threat.identity(batch.images))
    waiting = torch.arange(len(batch), device=batch.images.device)
    if how.start != "identity" and how.stop_when_broken:
        waiting = _still_right(model, batch, found, width)
    restart = torch.zeros_like(waiting)
    flight: Flight | None = None
    while True:
        free = width - (len(flight) if flight is not None else 0)
        if free > 0 and len(waiting):
            joining = _started(batch, noise, radius, how, waiting[:free], restart[:free])
            waiting, restart = waiting[free:], restart[free:]
            if flight is None:
                flight = joining
            else:
                flight.join(joining)
        if flight is None or not len(flight):
            return found
        again = _advance(model, batch, radius, how, flight, found)
        waiting = torch.cat([waiting, again.index])
        restart = torch.cat([restart, again.restart])


@dataclass(frozen=True, slots=True)
class Again:
    """Samples that survived one run and have restarts left."""

    index: Tensor
    restart: Tensor


def _still_right(model: Classifier, batch: Batch, found: Climbed, width: int) -> Tensor:
    """Indices of the samples that are right before the attack; the others are broken at size zero already."""
    with torch.no_grad():
        for i in range(0, len(batch), width):
            part = slice(i, i + width)
            found.broken[part] = is_wrong(model(batch.images[part]), batch.labels[part])
    found.forwards += 1
    return (~found.broken).nonzero().squeeze(1)


def _started(batch: Batch, noise: Noise, radius: Tensor, how: Climb, index: Tensor, restart: Tensor) -> Flight:
    images, reach = batch.images[index], radius[index]
    if how.start == "identity":
        variable = how.threat.identity(images)
    else:
        variable = how.threat.start(images, reach, noise.take(index), restart, border=how.start == "border")
    return Flight(index, variable, how.step.fresh(variable, reach), torch.zeros_like(index), restart)


def _advance(model: Classifier, batch: Batch, radius: Tensor, how: Climb, flight: Flight, found: Climbed) -> Again:
    """One pass through the model for all in flight: keep what is best, let go who is done, move the rest."""
    index = flight.index
    images, labels, reach = batch.images[index], batch.labels[index], radius[index]
    last = flight.taken >= how.steps
    moving = not bool(last.all())
    variable = flight.variable.detach().requires_grad_(moving)
    with torch.set_grad_enabled(moving):
        logits = model(how.threat.render(images, variable))
        loss = how.objective(logits, labels)
    assert loss.shape == labels.shape, f"an objective is per sample, got {tuple(loss.shape)}"
    found.forwards[index] += 1

    height = loss.detach().nan_to_num(nan=-torch.inf)
    wrong = is_wrong(logits.detach(), labels)
    leaving = wrong & how.stop_when_broken
    better = (height > found.best[index]) | leaving
    found.variable[index[better]] = flight.variable[better]
    found.best[index[better]] = height[better]
    found.broken[index[wrong]] = True

    staying = ~(leaving | last)
    rest = last & ~leaving & (flight.restart + 1 < how.restarts)
    again = Again(index[rest], flight.restart[rest] + 1)
    if bool(staying.any()):
        (gradient,) = torch.autograd.grad(loss.sum(), variable)
        found.backwards[index] += 1
        gradient = gradient.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        found.idle[index] += (gradient.flatten(1) == 0).all(dim=1)
        if not bool(staying.all()):
            flight.keep(staying)
            gradient, height = gradient[staying], height[staying]
            images, reach = images[staying], reach[staying]
        point = Point(
            variable=flight.variable,
            gradient=gradient,
            loss=height,
            taken=flight.taken,
            radius=reach,
            project=lambda moved: how.threat.project(images, moved, reach),
            ascent=how.threat.ascent,
        )
        flight.variable = how.step.advance(point, flight.state).detach()
        flight.taken = flight.taken + 1
    else:
        flight.keep(staying)
    return again


def is_wrong(logits: Tensor, labels: Tensor) -> Tensor:
    """Whether the top prediction is not the label; an answer that is not finite is wrong."""
    return (logits.argmax(dim=1) != labels) | ~logits.isfinite().all(dim=1)
