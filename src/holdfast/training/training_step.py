"""One step of training: augment, attack, loss, gradients, update. Nothing in it waits for the device.

Its inputs and its state are tensors that keep their memory, so that a GPU can replay it as one recorded graph.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.core.types import Batch
from holdfast.training.adversaries import Adversary, adversaries_of
from holdfast.training.augmentation import cut_and_mixed, randomly_changed, shifted_and_flipped, with_hole
from holdfast.training.learning_model import LearningModel
from holdfast.training.optimisers import AveragedWeights, Optimiser
from holdfast.training.recipes import Recipe
from holdfast.training.training_data import TrainingData
from holdfast.training.training_losses import (
    divergence,
    environment_means,
    far_from,
    invariance_penalty,
    label_loss,
    logit_distance,
    mart_loss,
)

SEEDS, EPOCHS = 1_000_003, 65_537  # factors that keep the draws of images, seeds and epochs apart
TINY = 1e-12
Reduce = Callable[[Sequence[Tensor]], None]


@dataclass(frozen=True, slots=True)
class LearnedBatch:
    """Images as augmented. The share `own` of the loss is that of `labels`, the rest that of `other`."""

    images: Tensor
    labels: Tensor
    environment: Tensor
    other: Tensor | None = None
    own: Tensor | None = None

    @property
    def batch(self) -> Batch:
        return Batch(self.images, self.labels, ("",) * len(self.labels))


class Hardened(NamedTuple):
    """Images as an adversary made them, and a second version that its predictions should not differ from."""

    images: Tensor
    second: Tensor | None = None


class TrainingStep:
    """One step. `index`: positions of the batch; `epoch` and the optimiser's rate are set before a call.

    `losses` and `right` add up over steps. A call names one of `kinds` adversaries, which differ for random unions.
    """

    def __init__(
        self,
        recipe: Recipe,
        model: LearningModel,
        data: TrainingData,
        optimiser: Optimiser,
        averaged: AveragedWeights | None,
        *,
        batch: int,
        reduce: Reduce | None = None,
    ) -> None:
        self.recipe, self.model, self.data, self.optimiser, self.averaged = recipe, model, data, optimiser, averaged
        self.adversaries = adversaries_of(recipe)
        self.reduce = reduce
        device = data.labels.device
        self.index = torch.zeros(batch, dtype=torch.int64, device=device)
        self.epoch = torch.zeros((), dtype=torch.int64, device=device)
        self.losses, self.right = torch.zeros((), device=device), torch.zeros((), device=device)
        self.matrices = [weight for weight in model.weights if weight.dim() > 1]

    @property
    def kinds(self) -> int:
        return len(self.adversaries) if self.adversaries and self.recipe.union == "random" else 1

    @property
    def reads_values(self) -> bool:
        return any(each.reads_values for each in self.adversaries)

    def state(self) -> list[Tensor]:
        """Every tensor that a step changes."""
        net = list(self.model.net.state_dict().values())
        averaged = [] if self.averaged is None else self.averaged.tensors
        return [*net, *averaged, *self.optimiser.state, self.losses, self.right]

    def __call__(self, kind: int = 0) -> None:
        recipe, model = self.recipe, self.model
        noise = Noise(self.index * SEEDS + (self.epoch + recipe.seed * EPOCHS))
        learned = self._augmented(noise)
        chosen = self.adversaries if recipe.union == "avg" else self.adversaries[kind : kind + 1]
        with model.attacked():
            hardened = [self._hardened(each, learned, noise.scope(f"threat {i}")) for i, each in enumerate(chosen)]
        hardened = hardened or [Hardened(learned.images)]
        change = self._weight_change(learned, hardened) if recipe.awp else None
        loss, logits = self._loss(learned, hardened)
        gradients = torch.autograd.grad(loss, model.weights, materialize_grads=True)
        with torch.no_grad():
            if change is not None:
                torch._foreach_sub_(self.matrices, change)
            if self.reduce is not None:
                self.reduce(gradients)
            self.optimiser.step(gradients)
            if self.averaged is not None:
                self.averaged.follow()
            self.losses += loss.detach()
            self.right += (logits.detach().argmax(1) == learned.labels).float().mean()

    def _augmented(self, noise: Noise) -> LearnedBatch:
        data, names = self.data, self.recipe.augment
        images, labels, environment = data.images(self.index), data.labels[self.index], data.environment[self.index]
        if self.recipe.method == "lisa":
            images = self._mixed_within_class(images, labels, environment, noise)
        if "crop" in names or "flip" in names:
            shift = self.recipe.shift if "crop" in names else 0
            images = shifted_and_flipped(images, noise, shift=shift, flip="flip" in names)
        if "randaugment" in names:
            images = randomly_changed(images, noise)
        if "cutout" in names:
            images = with_hole(images, noise)
        learned = LearnedBatch(images, labels, environment)
        if "cutmix" in names:
            images, partner, own = cut_and_mixed(images, noise)
            learned = replace(learned, images=images, other=labels[partner], own=own)
        return learned

    def _mixed_within_class(self, images: Tensor, labels: Tensor, environment: Tensor, noise: Noise) -> Tensor:
        """LISA (Yao et al. 2022, arXiv:2201.00299), within labels: mixed with an image of the class from elsewhere."""
        partners, counts = self.data.partners, self.data.partner_counts
        assert partners is not None, "LISA's data have partners"
        assert counts is not None, "partners are counted"
        row = labels * self.data.environments + environment
        turn = (noise.uniform("partner", ()) * counts[row]).long().minimum(counts[row] - 1)
        share = noise.uniform("mixing", ())[:, None, None, None]  # Beta(1, 1)
        return share * images + (1.0 - share) * self.data.images(partners[row, turn])

    def _hardened(self, adversary: Adversary, learned: LearnedBatch, noise: Noise) -> Hardened:
        model, batch, objective = self.model, learned.batch, None
        if self.recipe.loss == "trades":
            with torch.no_grad():
                objective = far_from(model(learned.images).softmax(dim=1), divergence)
        images = adversary(model, batch, noise, objective).detach()
        if not self.recipe.variation:
            return Hardened(images)
        with torch.no_grad():
            apart = far_from(model(images), logit_distance)
        return Hardened(images, adversary(model, batch, noise.scope("second"), apart).detach())

    def _loss(self, learned: LearnedBatch, hardened: Sequence[Hardened]) -> tuple[Tensor, Tensor]:
        """The loss of the batch, and logits of the images that were learned from last."""
        recipe, model = self.recipe, self.model
        clean = model.learning(learned.images) if recipe.loss in ("trades", "mart") else None
        total, logits = learned.images.new_zeros(()), learned.images
        for hard in hardened:
            logits = model.learning(hard.images)
            total = total + self._loss_of(learned, clean, logits)
            if hard.second is not None:
                total = total + recipe.variation * logit_distance(logits, model.learning(hard.second)).mean()
        return total / len(hardened), logits

    def _loss_of(self, learned: LearnedBatch, clean: Tensor | None, logits: Tensor) -> Tensor:
        recipe, labels = self.recipe, learned.labels
        if clean is not None and recipe.loss == "mart":
            return mart_loss(clean, logits, labels, beta=recipe.beta).mean()
        learned_from = logits if clean is None else clean
        loss = label_loss(learned_from, labels, smoothing=recipe.smoothing, other=learned.other, own=learned.own)
        if clean is not None:
            loss = loss + recipe.beta * divergence(logits, clean.softmax(dim=1))
        if not recipe.environments:
            return loss.mean()
        count = self.data.environments
        mean = environment_means(loss, learned.environment, count).mean()
        if recipe.method != "irm":
            return mean
        return mean + recipe.penalty * invariance_penalty(logits, labels, learned.environment, count)

    def _weight_change(self, learned: LearnedBatch, hardened: Sequence[Hardened]) -> list[Tensor]:
        """AWP (Wu et al. 2020, arXiv:2004.05884): moves weights uphill by a share of their length, layer by layer.

        Statistics of norms come from the pass that is learned from alone: this one leaves them as they were.
        """
        with kept(list(self.model.net.buffers())):
            loss, _ = self._loss(learned, hardened)
            slopes = torch.autograd.grad(loss, self.matrices)
        with torch.no_grad():
            lengths = torch._foreach_norm(self.matrices)
            steepness = torch._foreach_norm(list(slopes))
            change = [
                slope * (self.recipe.awp * length / (steep + TINY))
                for slope, length, steep in zip(slopes, lengths, steepness, strict=True)
            ]
            torch._foreach_add_(self.matrices, change)
        return change


@contextlib.contextmanager
def kept(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Puts the tensors back as they were."""
    before = [tensor.clone() for tensor in tensors]
    yield
    for tensor, value in zip(tensors, before, strict=True):
        tensor.copy_(value)
