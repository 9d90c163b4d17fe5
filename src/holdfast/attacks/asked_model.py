"""Which version of a model an attack asks: the model itself, or its fast version with every success confirmed.

A fast version gives gradients and a first opinion. A success counts once the model itself confirms it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from holdfast.attacks.aimed import SEVERAL
from holdfast.attacks.attack import LoopResult
from holdfast.attacks.replay import Replays, replays_of
from holdfast.attacks.shapes import parts_of
from holdfast.attacks.success import is_near, is_wrong, may_be_wrong
from holdfast.attacks.threat import Scene
from holdfast.core.types import Batch, BatchLengths, Classifier, exact_version_of, fast_version_of

if TYPE_CHECKING:
    from holdfast.attacks.active_set import Samples
    from holdfast.attacks.gradient import GradientAttack
    from holdfast.attacks.search import RandomSearch

MANY = 128  # images: fewer are scored by the model itself as soon as by its quick scores and again in doubt
CLOSE = 3.0  # errors of a fast version, each twice the largest seen: over the steps to the boundary they add up


class ExactModel:
    """A `model` without its fast version; `exact` knows good batch lengths, where there is one."""

    def __init__(self, model: Classifier) -> None:
        self.model: Classifier = model.model if isinstance(model, ExactModel) else model
        self.card, self.exact = model.card, exact_version_of(model)

    def __call__(self, images: Tensor) -> Tensor:
        return self.model(images) if self.exact is None else self.exact(images)


def kind_of(attack: GradientAttack | RandomSearch) -> Hashable:
    """What decides how much precision an attack needs, beside its radius."""
    return attack.threat, attack.objective, attack.keep


class AskedModel:
    """The model under attack. `fast` is its fast version where this attack may use it, `exact` the model itself.

    An attack that does not stop at a success confirms nothing, so it asks only the model; so does one of a kind that
    the fast version was found too weak for.
    """

    def __init__(self, model: Classifier, attack: GradientAttack | RandomSearch) -> None:
        fast = fast_version_of(model)
        self.model, self.attack = model, attack
        self.fast = fast if fast is not None and attack.stop_when_broken and kind_of(attack) not in fast.weak else None
        exact = exact_version_of(model)
        self.exact: Callable[[Tensor], Tensor] = exact or model
        self.lengths: BatchLengths | None = None if exact is None else exact.lengths
        if self.fast is not None:
            self.lengths = self.fast.lengths
            self.fast.several = attack.objective in SEVERAL

    def __call__(self, images: Tensor) -> Tensor:
        return self.exact(images) if self.fast is None else self.fast(images)

    def without_fast(self) -> AskedModel:
        """The same model, asked itself throughout."""
        return AskedModel(ExactModel(self.model), self.attack)

    @property
    def replays(self) -> Replays | None:
        """The recorded steps of the fast version; None where steps are not recorded."""
        return None if self.fast is None else replays_of(self.fast)

    def is_broken(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Whether these logits may be of a broken sample; what a fast version cannot tell, the model is asked later."""
        error = 0.0 if self.fast is None else self.fast.error
        return may_be_wrong(logits, labels, error=error) if error else is_wrong(logits, labels)

    def clean_logits(self, batch: Batch, *, width: int) -> tuple[Tensor, Tensor]:
        """Logits of the clean images, with the passes that each sample took.

        The fast version is asked first, and the model itself about what that calls wrong or nearly so. Logits that are
        known already are taken, and counted as one pass all the same: rows do not depend on what ran before.
        """
        passes = torch.ones(len(batch), dtype=torch.int64, device=batch.images.device)
        if batch.logits is not None:
            return batch.logits, passes
        logits = self._in_parts(self, batch.images, width)
        if self.fast is not None:
            doubtful = (is_wrong(logits, batch.labels) | is_near(logits, batch.labels)).nonzero().squeeze(1)
            if len(doubtful):
                logits[doubtful] = self._in_parts(self.exact, batch.images[doubtful], width)
                passes[doubtful] += 1
        return logits, passes

    def _in_parts(self, model: Callable[[Tensor], Tensor], images: Tensor, width: int) -> Tensor:
        with torch.no_grad():
            parts = [model(images[i : i + width]) for i in range(0, len(images), width)]
        return torch.cat(parts) if parts else images.new_empty((0, self.model.card.classes))

    def confirm(self, samples: Samples) -> None:
        """Asks the model about samples that its fast version calls broken, and about the finished that came near."""
        if self.fast is None:
            return
        near = samples.done & samples.near & ~samples.broken & (self.attack.keep == "strongest")
        near = self._without_the_sure(samples, near & ~samples.free)
        rows = ((samples.broken & ~samples.free) | near).nonzero().squeeze(1)
        if not len(rows):
            return
        with torch.no_grad():
            logits = self.exact(self.attack.threat.render(samples.scene.take(rows), samples.best[rows]))
        wrong = is_wrong(logits, samples.labels[rows])
        samples.forwards[rows] += 1
        done = wrong | (samples.taken[rows] > self.attack.steps)
        samples.broken[rows], samples.done[rows] = wrong, done
        samples.best_value[rows] = torch.where(done, samples.best_value[rows], -torch.inf)

    def _without_the_sure(self, samples: Samples, chosen: Tensor) -> Tensor:
        """Those of the chosen samples that are not right for certain by the model's quick scores, where it has them."""
        assert self.fast is not None, "the model itself leaves nothing to confirm"
        if self.fast.scores is None or len(rows := chosen.nonzero().squeeze(1)) < MANY:
            return chosen
        with torch.no_grad():
            logits = self.fast.scores(self.attack.threat.render(samples.scene.take(rows), samples.best[rows]))
        samples.forwards[rows] += 1
        doubtful = may_be_wrong(logits, samples.labels[rows], error=self.fast.score_error)
        return torch.zeros_like(chosen).index_fill_(0, rows[doubtful], value=True)

    def close_to_boundary(self, result: LoopResult, batch: Batch, radius: Tensor, width: int) -> Tensor:
        """The samples that ended so close to the boundary that the fast version's error may have decided.

        None without a fast version, nor where the smallest change is looked for, which lies on the boundary.
        """
        if self.fast is None or self.attack.keep == "smallest":
            return torch.empty(0, dtype=torch.int64, device=radius.device)
        scene, rows = Scene(batch.images, radius, result.props), (~result.broken).nonzero().squeeze(1)
        result.forwards[rows] += 1
        close, error = [rows[:0]], CLOSE * self.fast.error
        for part in parts_of(rows, width):
            quick = None if len(part) < MANY else self.fast.scores
            with torch.no_grad():
                logits = (quick or self.exact)(self.attack.threat.render(scene.take(part), result.variable[part]))
            labels, off = batch.labels[part], 0.0 if quick is None else self.fast.score_error
            close.append(part[may_be_wrong(logits, labels, error=error + off) if error else is_near(logits, labels)])
        return torch.cat(close)

    def length(self, count: int, round_steps: int) -> int:
        """As many rows as the version of the model that is asked has a use for."""
        return count if self.lengths is None or not count else self.lengths.fit(count, round_steps)

    def padded(self, samples: Samples, round_steps: int) -> Samples:
        """As long as the batch should be, with free rows at the end."""
        count = len(samples)
        spare = self.length(count, round_steps) - count
        if spare <= 0:
            return samples
        padded = samples.take(torch.arange(count + spare, device=samples.index.device).clamp_max(count - 1))
        padded.free[count:] = padded.done[count:] = True
        return padded

    def advanced(
        self,
        samples: Samples,
        steps: Callable[[Samples], None],
        unrecorded: Callable[[Samples], None] | None = None,
        *,
        gradients: bool,
    ) -> Samples:
        """The samples a round of steps further, from a CUDA graph where the model has its steps recorded.

        `unrecorded`: what is done in place of the steps where they are not recorded.
        """
        plain = unrecorded or steps
        if self.fast is not None:
            self.fast.improve(len(samples), gradients=gradients)
        replays = None if self.attack.threat.reads_values else self.replays
        if replays is not None:
            return replays.advanced(samples, replace(self.attack, radius=0.0), steps, plain)
        plain(samples)
        return samples
