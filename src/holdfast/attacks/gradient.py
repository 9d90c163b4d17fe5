"""The gradient loop: every gradient attack is this loop with a threat, an objective, a step and what to keep."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from holdfast.attacks import aimed
from holdfast.attacks.active_set import ActiveSet, Samples
from holdfast.attacks.asked_model import AskedModel
from holdfast.attacks.attack import Attack, LoopResult, verify_success
from holdfast.attacks.minimal import STRETCHES, SmallestPoints
from holdfast.attacks.objectives import Objective
from holdfast.attacks.replay import steps_per_round
from holdfast.attacks.shapes import largest, mean_tensor
from holdfast.attacks.steps import Point, State, Step
from holdfast.attacks.success import is_within, is_wrong
from holdfast.attacks.threat import Scene, Threat
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.noise import Noise
from holdfast.core.types import AttackResult, Batch, Classifier, Cost, ModelCard

Keep = Literal["strongest", "smallest", "last"]
Start = Literal["identity", "inside", "border", "around"]


@dataclass(frozen=True, slots=True)
class GradientAttack(Attack):
    """Steps along the gradient of the objective, inside the radius; an infinite one asks for the smallest change.

    `start`: the image itself, or a random point inside the set or on its border; "around" is the image itself, and for
    restarts a random point half as far out as the smallest success so far, the radius, or `outset`, whichever is least.
    `targets`: how many other classes are aimed at in turn, likeliest first. `keep`: the strongest point inside the
    radius, the smallest that succeeds, or the last. `draws`: passes a gradient is averaged over, where a model answers
    at random. `penalty`: what a variable costs the objective, given the step's state. `stop_when_broken` is off where
    every sample takes every step: in training, for posterior agreement, and for minimal attacks without a radius.
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
    penalty: Callable[[Scene, Tensor, State], Tensor] | None = None
    stop_when_broken: bool = True
    outset: float = 1.0
    radius: float = field(kw_only=True)

    def __post_init__(self) -> None:
        if not self.radius >= 0:
            raise Misuse(f"a radius is zero or more, got {self.radius}")
        if self.steps < 1 or self.restarts < 1:
            raise Misuse(f"steps and restarts are 1 or more, got {self.steps} and {self.restarts}")
        assert math.isfinite(self.radius) or self.keep == "smallest", "only a minimal attack may go any distance"
        assert self.start != "around" or self.keep == "smallest", "only a minimal attack starts around what it found"

    @property
    def runs(self) -> int:
        return self.restarts * max(1, self.targets)

    @property
    def scores_clean(self) -> bool:
        """Whether the clean images are scored first: to pass over those that are wrong, or to rank the targets."""
        if self.targets > 0 or self.keep == "smallest":
            return True
        # a threat that changes the image at radius 0 can turn a wrong prediction right
        return self.start != "identity" and self.stop_when_broken and not self.threat.change_at_zero

    @property
    def cost(self) -> Cost:
        after = len(STRETCHES) if self.keep == "smallest" else 0
        forwards = self.runs * (self.steps + 1) * self.draws + self.scores_clean + after
        return Cost(forwards, backwards=self.runs * self.steps * self.draws)

    def refuse(self, card: ModelCard) -> None:
        aimed.refuse_many_classes(self.objective, card)

    def attempt(
        self, model: Classifier, batch: Batch, noise: Noise, radius: Tensor, *, width: int, first: Tensor | None = None
    ) -> AttackResult:
        if not model.card.differentiable:
            raise HoldfastError(f"`{model.card.name}` gives no gradients, which this attack needs")
        self.refuse(model.card)
        attack = self if bool(radius.isfinite().all()) else replace(self, stop_when_broken=False)
        best = attack.run(model, batch, noise, radius, width=width, first=first)
        result = verify_success(self.threat, batch.images, radius, best)
        if not self.threat.is_low_dimensional:
            result.tallies = {"gradients": int(best.backwards.sum()), "zero gradients": int(best.zero_gradients.sum())}
            if self.keep != "smallest":
                result.tallies |= {"climbs": int(best.runs.sum()), "flat climbs": int(best.flat.sum())}
        if self.keep == "smallest":
            result.radius = torch.where(best.broken, result.size, torch.inf)
        if model.card.classes < (needed := aimed.NEEDED_CLASSES.get(self.objective, 0)):
            result.facts["objective"] = f"the margin: this one needs {needed} classes, there are {model.card.classes}"
        return result

    def run(
        self, model: Classifier, batch: Batch, noise: Noise, radius: Tensor, *, width: int, first: Tensor | None = None
    ) -> LoopResult:
        """Runs the loop over a batch of any length, at most `width` samples at a time, from `first` where it is given.

        With a fast version of the model, samples that end close to the boundary are attacked again by the model itself:
        there the noise of lower precision decides which samples are found broken.
        """
        asked = AskedModel(model, self)
        round_steps = steps_per_round(self.steps + 1, batch.images.device)
        result = _GradientLoop(self, ActiveSet(asked, batch, noise, radius, width, first, round_steps)).run()
        rows = asked.close_to_boundary(result, batch, radius, width)
        if len(rows):
            exact, given = asked.without_fast(), None if first is None else first[rows]
            some = batch.take(rows), noise.take(rows), radius[rows]
            second = _GradientLoop(self, ActiveSet(exact, *some, width, given, round_steps, all_runs=True)).run()
            result.take_over(rows, second, better=second.broken)
        return result


class _GradientLoop:
    """One run of the loop over a batch."""

    def __init__(self, attack: GradientAttack, active: ActiveSet) -> None:
        self.attack, self.active, self.model = attack, active, active.model
        self.left = 0  # passes of the sample that has most before it
        self.smallest = SmallestPoints(attack, active) if attack.keep == "smallest" else None

    def run(self) -> LoopResult:
        active = self.active
        if not active.is_resumed:
            self._begin()
        while (samples := active.refill(self._started)) is not None:
            self.left = active.round_steps if active.round_steps == 1 else int(self._passes_left(samples).max())
            samples = active.samples = self.model.advanced(samples, self._steps, self._last_steps, gradients=True)
            if self.smallest is not None:
                self.smallest.record(samples)
            active.retire(samples)
        if self.smallest is not None:
            self.smallest.stretch()
        return active.finish()

    def _begin(self) -> None:
        attack, active = self.attack, self.active
        if attack.scores_clean:
            logits = active.score_clean()
            if self.smallest is not None:
                self.smallest.begin(logits)
            if attack.targets:
                ranked = aimed.ranked_targets(logits, active.batch.labels)
                active.extra["ranked"], active.runs = ranked, attack.restarts * min(attack.targets, ranked.shape[1])
        if active.all_runs:
            index, runs = active.queue[0], torch.arange(active.runs, device=active.radius.device)
            active.queue = index.repeat(active.runs), runs.repeat_interleave(len(index))

    def _started(self, index: Tensor, run: Tensor) -> Samples:
        """Samples at the beginning of a run."""
        attack, active = self.attack, self.active
        scene, noise = active.scene(index, run), active.noise.take(index)
        variable = attack.threat.identity(scene)
        if attack.start in ("inside", "border"):
            variable = attack.threat.start(scene, noise, run, border=attack.start == "border")
        elif attack.start == "around" and self.smallest is not None:
            variable = self.smallest.around(variable, scene, noise, index, run)
        samples = active.new_samples(index, run, scene, variable)
        samples.state = attack.step.fresh(attack.threat, scene, samples.variable)
        if self.smallest is not None:
            self.smallest.begin_run(samples)
        if attack.targets:
            samples.targets = active.extra["ranked"][index, run // attack.restarts]
        return samples

    def _passes_left(self, samples: Samples) -> Tensor:
        return (self.attack.steps + 1 - samples.taken).masked_fill(samples.free, 0)

    def _steps(self, samples: Samples) -> None:
        for _ in range(self.active.round_steps):
            self._step(samples)

    def _last_steps(self, samples: Samples) -> None:
        """The round without the steps that no sample has left; only the last of all needs no gradient."""
        for number in range(min(self.active.round_steps, self.left)):
            self._step(samples, ends=number + 1 == self.left)

    def _step(self, samples: Samples, *, ends: bool = False) -> None:
        """One pass through the model for all samples: keep the best, mark those that are done, move on."""
        attack = self.attack
        last = samples.taken >= attack.steps
        if self.active.round_steps == 1:
            ends = bool((last | samples.done).all())
        moving = not ends
        loss, alone, gradient, logits = self._pass(samples, moving)
        wrong = is_wrong(logits, samples.labels)
        counted = ~samples.free & (samples.taken <= attack.steps)
        samples.forwards = samples.forwards + attack.draws * counted
        self._keep(samples, loss, alone, wrong, logits)
        samples.done = samples.done | last
        if moving:
            samples.backwards = samples.backwards + attack.draws * aimed.passes_per_gradient(loss) * counted
            gradient = gradient.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
            # an objective may end where the sample is broken, as a capped margin does: only before that is zero a sign
            is_zero = (largest(gradient) == 0) & counted & ~wrong
            samples.zero_gradients = samples.zero_gradients + is_zero
            here, taken, best = samples.variable, samples.taken, samples.best
            point = Point(attack.threat, samples.scene, here, gradient, loss, wrong, taken, best, samples.best_value)
            samples.variable = attack.step.advance(point, samples.state).detach()
        samples.taken = samples.taken + 1

    def _pass(self, samples: Samples, moving: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What is climbed, the objective alone, the gradient, and the last logits; means over the draws, if several."""
        attack, scene = self.attack, samples.scene
        losses, objectives, gradients = [], [], []
        for _ in range(attack.draws):
            variable = samples.variable.detach().requires_grad_(moving)
            with torch.set_grad_enabled(moving):
                logits = self.model(attack.threat.render(scene, variable))
                loss = objective = attack.objective(logits, samples.labels, samples.targets)
                if attack.penalty is not None:
                    loss = loss - attack.penalty(scene, variable, samples.state)
            assert len(loss) == len(samples), f"an objective is per sample, got {tuple(loss.shape)}"
            losses.append(loss.detach())
            objectives.append(objective.detach())
            gradients.append(aimed.gradient_of(loss, variable) if moving else torch.empty_like(variable))
        return mean_tensor(losses), mean_tensor(objectives), mean_tensor(gradients), logits.detach()

    def _keep(self, samples: Samples, loss: Tensor, alone: Tensor, wrong: Tensor, logits: Tensor) -> None:
        """Keeps the best variable of the run so far, and marks which samples it breaks. `alone`: without a penalty."""
        attack = self.attack
        value = aimed.highest(loss).nan_to_num(nan=-torch.inf)
        if self.smallest is not None:
            value, success = self.smallest.value(samples, wrong & ~samples.done, logits)
        else:
            broken = wrong if self.model.fast is None else self.model.is_broken(logits, samples.labels)
            success = broken & ~samples.done
            if attack.step.strays:
                inside = is_within(attack.threat.size(samples.scene, samples.variable), samples.radius)
                value, success = torch.where(inside, value, -torch.inf), success & inside
        self.active.keep_best(samples, value, success, logits, aimed.highest(alone))
