"""The gradient loop: every gradient attack is this loop with a threat, an objective, a step and what to keep.

Who is in flight, and what becomes of those who land, is a `Course`. With a model's `rough` version gradients come from
that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from holdfast.attacks.course import Course, Keep, Queue
from holdfast.attacks.flight import Flight, Found
from holdfast.attacks.objectives import Objective
from holdfast.attacks.shapes import parts_of, wide
from holdfast.attacks.steps import Point, State, Step
from holdfast.attacks.success import CLEAR, is_ahead, is_inside, is_wrong
from holdfast.attacks.threat import Scene, Threat
from holdfast.core.noise import Noise
from holdfast.core.types import Batch, Classifier

HARDLY, HARDLY_AT = "hardly wrong", "hardly wrong at"  # beside a step's own state: minus the size, and where
Start = Literal["identity", "inside", "border", "around"]
GPU_PATIENCE = (3, 4, 5, 6, 7)  # steps between looks at who is done
# factors that a point which leads by less than rounding is taken further out by, in turn; the lead grows in proportion,
# so the first few are nearly always enough
STRETCHES = tuple(1 + 1e-5 * 4.0**k for k in range(9))
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
    def stretches(self) -> int:
        """Most passes that a minimal attack takes after its runs, to take a point that is hardly wrong further out."""
        return len(STRETCHES) if self.keep == "smallest" else 0

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
    """Runs the loop over a batch of any length, at most `width` samples at a time; `first`: where to start instead.

    With a fast version of the model, samples that end close to the border are attacked again by the model itself: there
    the noise of lower precision decides who is found broken.
    """
    ascent = _Ascent(model, batch, noise, radius, how, width, first)
    found = ascent.climbed()
    if ascent.rough is model or how.keep != "strongest":
        return found
    rows = _close(ascent, found)
    if not len(rows):
        return found
    part = Batch(batch.images[rows], batch.labels[rows], tuple(batch.ids[i] for i in rows.tolist()))
    begun = None if first is None else first[rows]
    alone = _Ascent(Exactly(model, ascent.judge), part, noise.take(rows), radius[rows], how, width, begun)
    alone.at_once = True
    return found.improved(rows, alone.climbed())


class Exactly:
    """A model without its fast version, asked through a `judge` that knows good lengths, where there is one."""

    def __init__(self, model: Classifier, judge: Callable[[Tensor], Tensor] | None = None) -> None:
        self.card, self.judge = model.card, judge or model
        self.lengths = getattr(judge, "lengths", None)

    def __call__(self, images: Tensor) -> Tensor:
        return self.judge(images)


def _close(ascent: _Ascent, found: Found) -> Tensor:
    """Unbroken samples whose best point is close to the border, as the model itself has it."""
    batch, threat = ascent.batch, ascent.how.threat
    rows, close = (~found.broken).nonzero().squeeze(1), []
    scene = Scene(batch.images, ascent.radius, found.props)
    with torch.no_grad():
        for some in rows.split(ascent.width):  # type: ignore[no-untyped-call]
            logits = ascent.judge(threat.render(scene.take(some), found.variable[some]))
            close.append(some[ascent.is_close(logits, batch.labels[some])])
    found.forwards[rows] += 1
    return torch.cat(close) if close else rows


class _Ascent(Course):
    """One climb under way."""

    carried = ("ranked", "clearance", "hardly", "hardly_at")

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
        self.patience = self.round = patience(how.steps + 1) if batch.images.is_cuda else 1
        self.ranked = batch.labels[:, None]
        self.clearance = torch.zeros_like(radius)
        self.hardly = torch.full_like(radius, -torch.inf)  # height of the smallest point that is wrong but not clear
        self.hardly_at = self.found.variable.clone() if how.keep == "smallest" else self.found.variable

    def climbed(self) -> Found:
        if self.how.looks_first and not self.goes_on:
            logits = self.look()
            self.clearance = CLEAR * logits.abs().amax(dim=1)
            if self.how.targets:
                others = logits.scatter(1, self.batch.labels[:, None], -torch.inf)
                self.ranked = others.argsort(dim=1, descending=True, stable=True)[:, :-1]
                self.runs = self.how.restarts * min(self.how.targets, self.ranked.shape[1])
        if self.at_once and not self.goes_on:
            index, runs = self.queue.index, torch.arange(self.runs, device=self.batch.images.device)
            self.queue = Queue(index.repeat(self.runs), runs.repeat_interleave(len(index)))
        return self.done()

    def complete(self) -> None:
        if self.how.keep == "smallest":
            self._stretch()

    def land(self, flight: Flight) -> None:
        if self.how.keep == "smallest":
            ended = flight.done & ~flight.gone
            better = ended & (flight.state[HARDLY] > self.hardly[flight.index])
            rows = better.nonzero().squeeze(1)
            self.hardly[flight.index[rows]] = flight.state[HARDLY][rows]
            self.hardly_at[flight.index[rows]] = flight.state[HARDLY_AT][rows]
        super().land(flight)

    def _stretch(self) -> None:
        """Takes points that are wrong by less than rounding away from their images until they are clear.

        One counts where it is then smaller than what was found clear, and inside its radius.
        """
        found, how = self.found, self.how
        left = (self.hardly > found.best).nonzero().squeeze(1)
        for factor in STRETCHES:
            if not len(left):
                break
            images, radius = self.batch.images[left], self.radius[left]
            scene = Scene(images, radius, {name: prop[left] for name, prop in found.props.items()})
            most = (radius / -self.hardly[left]).clamp(1.0, factor)  # no further than the radius
            further = (wide(most, images) * self.hardly_at[left]).clamp(-images, 1.0 - images)
            size = how.threat.size(scene, further)
            fits = (is_inside(size, radius) & (-size > found.best[left])).nonzero().squeeze(1)
            left, further, size = left[fits], further[fits], size[fits]
            clear = torch.zeros_like(left, dtype=torch.bool)
            with torch.no_grad():
                for part in parts_of(torch.arange(len(left), device=left.device), self.width):
                    logits = self.judge(how.threat.render(scene.take(fits[part]), further[part]))
                    labels, ahead = self.batch.labels[left[part]], self.clearance[left[part]]
                    clear[part] = is_wrong(logits, labels) & is_ahead(logits, labels, by=ahead)
            found.forwards[left] += 1
            won = left[clear]
            found.variable[won], found.best[won], found.broken[won] = further[clear], -size[clear], True
            left = left[~clear]
        left = left[self.radius[left].isfinite() & ~found.broken[left]]  # wrong is enough there, as for other attacks
        found.variable[left], found.best[left], found.broken[left] = self.hardly_at[left], self.hardly[left], True

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
        if how.keep == "smallest":
            flight.state[HARDLY] = torch.full_like(flight.radius, -torch.inf)
            flight.state[HARDLY_AT] = flight.variable.clone()
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
        # an objective may end where the sample is broken, as a capped margin does: only before that is zero a sign
        flight.idle = flight.idle + ((gradient.flatten(1).abs().amax(dim=1) == 0) & passing & ~wrong)
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
        if how.keep == "smallest":  # what counts at once; what is wrong by less is kept apart, to be taken further out
            clear = is_ahead(logits, flight.labels, by=flight.clearance)
            self._keep_hardly(flight, wrong & ~clear)
            wrong = wrong & clear
        success, height = wrong, loss.amax(dim=1) if loss.dim() == 2 else loss
        height = height.nan_to_num(nan=-torch.inf)
        if how.keep == "smallest" or how.step.strays:
            size = how.threat.size(flight.scene, flight.variable)
            inside = is_inside(size, flight.radius)
            success = wrong & inside
            height = _where(wrong, -size) if how.keep == "smallest" else _where(inside, height)
        self.note(flight, height, success, logits)

    def _keep_hardly(self, flight: Flight, wrong: Tensor) -> None:
        """Keeps the smallest point of the run that is wrong by less than rounding."""
        size = self.how.threat.size(flight.scene, flight.variable)
        better = wrong & is_inside(size, flight.radius) & (-size > flight.state[HARDLY])
        flight.state[HARDLY] = torch.where(better, -size, flight.state[HARDLY])
        at = flight.state[HARDLY_AT]
        flight.state[HARDLY_AT] = torch.where(wide(better, at), flight.variable, at)


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
