"""The gradient loop: every gradient attack is this loop with a threat, an objective, a step and what to keep.

`ActiveSet` holds the samples under attack. With a fast version of the model, gradients come from that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from holdfast.attacks.active_set import ActiveSet, Samples
from holdfast.attacks.asked_model import AskedModel
from holdfast.attacks.attack import Attack, LoopResult, verify_success
from holdfast.attacks.minimal import STRETCHES, SmallestPoints
from holdfast.attacks.objectives import NEEDED_CLASSES, Objective, leads
from holdfast.attacks.shapes import gradient_of, mean_tensor, parts_of, wide
from holdfast.attacks.steps import Point, State, Step
from holdfast.attacks.success import is_within, is_wrong
from holdfast.attacks.threat import Scene, Threat
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.noise import Noise
from holdfast.core.types import AttackResult, Batch, Classifier, Cost, ModelCard

Keep = Literal["strongest", "smallest", "last"]
Start = Literal["identity", "inside", "border", "around"]
MOST_CLASSES = 100  # for objectives of one number per class: a step costs that many backward passes
GPU_ROUNDS = (3, 4, 5, 6, 7)  # steps between two checks which samples are done
CHECK = 0.6  # what such a check costs, in steps, beside those that it saves


class Penalty(Protocol):
    """What a variable costs the objective, beside what the model says; `state` is the step's."""

    def __call__(self, scene: Scene, variable: Tensor, state: State) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class GradientAttack(Attack):
    """Steps along the gradient of the objective, inside the radius; an infinite one asks for the smallest change.

    `start`: the image itself, or a random point inside the set or on its border; "around" is the image itself, and for
    restarts a random point half as far out as the smallest success so far, the radius, or `outset`, whichever is least.
    `targets`: how many other classes are aimed at in turn, likeliest first. `keep`: the strongest point inside the
    radius, the smallest that succeeds, or the last. `draws`: passes a gradient is averaged over, where a model answers
    at random. `stop_when_broken` is off where every sample takes every step: in training, which wants the strongest
    point, for posterior agreement, and for minimal attacks without a radius.
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
    radius: float = field(kw_only=True)

    def __post_init__(self) -> None:
        if not self.radius >= 0:
            raise Misuse(f"a radius is zero or more, got {self.radius}")
        if self.steps < 1 or self.restarts < 1:
            raise Misuse(f"steps and restarts are 1 or more, got {self.steps} and {self.restarts}")
        assert math.isfinite(self.radius) or self.keep == "smallest", "only a minimal attack may go any distance"

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
        if self.objective is leads and card.classes > MOST_CLASSES:
            raise Misuse(
                f"FAB on all classes at once takes a backward pass per class and step, and `{card.name}` has "
                f"{card.classes} classes; {MOST_CLASSES} is the most",
                hint="use `fab-t-…`, which aims at the likeliest classes in turn; for autoattack-plus: `autoattack-…`",
            )

    def attempt(
        self, model: Classifier, batch: Batch, noise: Noise, radius: Tensor, *, width: int, first: Tensor | None = None
    ) -> AttackResult:
        if not model.card.differentiable:
            raise HoldfastError(f"`{model.card.name}` gives no gradients, which this attack needs")
        self.refuse(model.card)
        attack = self if bool(radius.isfinite().all()) else replace(self, stop_when_broken=False)
        best = attack.run(model, batch, noise, radius, width=width, first=first)
        result = verify_success(self.threat, batch.images, radius, best)
        result.tallies = {"gradients": int(best.backwards.sum()), "zero gradients": int(best.zero_gradients.sum())}
        if self.keep == "smallest":
            result.radius = torch.where(best.broken, result.size, torch.inf)
        else:
            result.tallies |= {"climbs": int(best.runs.sum()), "flat climbs": int(best.flat.sum())}
        if model.card.classes < (needed := NEEDED_CLASSES.get(self.objective, 0)):
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
        # which samples are done costs nothing to ask on a CPU; on a GPU the host has to wait for the device
        round_steps = steps_per_round(self.steps + 1) if batch.images.is_cuda else 1
        result = _GradientLoop(self, ActiveSet(self, asked, batch, noise, radius, width, first, round_steps)).run()
        if asked.fast is None or self.keep == "smallest":
            return result
        scene, rows = Scene(batch.images, radius, result.props), (~result.broken).nonzero().squeeze(1)
        result.forwards[rows] += 1
        close = []
        for part in parts_of(rows, width):
            images = self.threat.render(scene.take(part), result.variable[part])
            close.append(part[asked.close_to_boundary(images, batch.labels[part])])
        if close and len(rows := torch.cat(close)):
            some, given = batch.take(rows), None if first is None else first[rows]
            exact, draws = asked.without_fast(), noise.take(rows)
            active = ActiveSet(self, exact, some, draws, radius[rows], width, given, round_steps, all_runs=True)
            result.improve(rows, _GradientLoop(self, active).run())
        return result


class _GradientLoop:
    """One run of the loop over a batch."""

    def __init__(self, attack: GradientAttack, active: ActiveSet) -> None:
        self.attack, self.active, self.model = attack, active, active.model
        self.smallest = SmallestPoints(attack, active) if attack.keep == "smallest" else None

    def run(self) -> LoopResult:
        active = self.active
        if active.is_finished:
            return active.result
        if not active.is_resumed:
            self._begin()
        while active.refill(self._started) is not None:
            samples = active.step(self._steps, gradients=True)
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
                others = logits.scatter(1, active.batch.labels[:, None], -torch.inf)
                ranked = others.argsort(dim=1, descending=True, stable=True)[:, :-1]
                active.extra["ranked"], active.runs = ranked, attack.restarts * min(attack.targets, ranked.shape[1])
        if active.all_runs:
            active.queue_all_runs()

    def _started(self, index: Tensor, run: Tensor) -> Samples:
        """Samples at the beginning of a run."""
        attack, active = self.attack, self.active
        samples = active.new_samples(index, run, self._start)
        if attack.start == "around" and attack.restarts > 1:
            out = samples.radius.minimum(-active.result.best_value[index]).clamp_max(attack.outset) / 2
            random = attack.threat.start(samples.scene.within(out), active.noise.take(index), run, border=True)
            samples.variable = torch.where(wide(run % attack.restarts > 0, random), random, samples.variable)
        samples.state = attack.step.fresh(attack.threat, samples.scene, samples.variable)
        if self.smallest is not None:
            self.smallest.begin_run(samples)
        if attack.targets:
            samples.targets = active.extra["ranked"][index, run // attack.restarts]
        return samples

    def _start(self, scene: Scene, noise: Noise, run: Tensor) -> Tensor:
        if self.attack.start in ("identity", "around"):
            return self.attack.threat.identity(scene)
        return self.attack.threat.start(scene, noise, run, border=self.attack.start == "border")

    def _steps(self, samples: Samples) -> None:
        for _ in range(self.active.round_steps):
            self._step(samples)

    def _step(self, samples: Samples) -> None:
        """One pass through the model for all samples: keep the best, mark those that are done, move on."""
        attack = self.attack
        last = samples.taken >= attack.steps
        moving = self.active.round_steps > 1 or not bool((last | samples.done).all())
        loss, gradient, logits = self._pass(samples, moving)
        wrong = is_wrong(logits, samples.labels)
        counted = ~samples.free & (samples.taken <= attack.steps)
        samples.forwards = samples.forwards + attack.draws * counted
        self._keep(samples, loss, wrong, logits)
        samples.done = samples.done | last
        samples.taken = samples.taken + 1
        if not moving:
            return
        samples.backwards = samples.backwards + (attack.draws * (loss.shape[1] if loss.dim() == 2 else 1)) * counted
        gradient = gradient.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        # an objective may end where the sample is broken, as a capped margin does: only before that is zero a sign
        is_zero = (gradient.flatten(1).abs().amax(dim=1) == 0) & counted & ~wrong
        samples.zero_gradients = samples.zero_gradients + is_zero
        here, taken, best = samples.variable, samples.taken - 1, samples.best
        point = Point(attack.threat, samples.scene, here, gradient, loss, wrong, taken, best, samples.best_value)
        samples.variable = attack.step.advance(point, samples.state).detach()

    def _pass(self, samples: Samples, moving: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Objective, its gradient, and the last logits; means over the draws where there are several."""
        attack, scene = self.attack, samples.scene
        losses, gradients = [], []
        for _ in range(attack.draws):
            variable = samples.variable.detach().requires_grad_(moving)
            with torch.set_grad_enabled(moving):
                logits = self.model(attack.threat.render(scene, variable))
                loss = attack.objective(logits, samples.labels, samples.targets)
                if attack.penalty is not None:
                    loss = loss - attack.penalty(scene, variable, samples.state)
            assert len(loss) == len(samples), f"an objective is per sample, got {tuple(loss.shape)}"
            losses.append(loss.detach())
            gradients.append(gradient_of(loss, variable) if moving else torch.empty_like(variable))
        return mean_tensor(losses), mean_tensor(gradients), logits.detach()

    def _keep(self, samples: Samples, loss: Tensor, wrong: Tensor, logits: Tensor) -> None:
        """Keeps the best variable of the run so far, and marks which samples it breaks."""
        attack = self.attack
        value = (loss.amax(dim=1) if loss.dim() == 2 else loss).nan_to_num(nan=-torch.inf)
        if self.smallest is not None:
            value, success = self.smallest.value(samples, wrong & ~samples.done, logits)
        else:
            success = self.model.is_broken(logits, samples.labels) & ~samples.done
            if attack.step.strays:
                inside = is_within(attack.threat.size(samples.scene, samples.variable), samples.radius)
                value, success = torch.where(inside, value, -torch.inf), success & inside
        self.active.keep_best(samples, value, success, logits)


def steps_per_round(evaluations: int) -> int:
    """Steps between two checks on a GPU: few checks, and few steps beyond the last."""
    return min(GPU_ROUNDS, key=lambda steps: -(-evaluations // steps) * (steps + CHECK))
