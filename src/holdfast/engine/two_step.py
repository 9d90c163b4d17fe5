"""Scoring in two steps on a GPU: a quick pass in TF32, and float32 for every sample whose decision is close.

TF32 rounds the factors of a product to 11 bits: logits move by a hundredth or so, and a prediction changes only where
two classes are closer than that. How far a lead may be off is measured on the model at hand: on the first images of the
run, and in every shard on each sample that is scored twice. A lead below `SAFETY` times the largest error seen is
decided in float32, so predictions are those of float32. A shard depends on nothing but itself and the run's first
images, so a run that was killed and goes on has the rows of an undisturbed one.

Under an attack every sample that comes out wrong is scored in float32 too: a success is never judged in less.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn

from holdfast.attacks.success import is_wrong
from holdfast.core.types import Classifier
from holdfast.engine.device import tf32
from holdfast.models.lengths import Padded, padded

LEAST_SAMPLES = 512  # a run of fewer is over before the quick pass has paid for its trial
TRIED = 128  # images at the beginning of a run that are scored both ways
ALWAYS = 16  # samples of a shard that are scored twice whatever their lead
SAFETY = 4.0  # times the largest error seen so far
MOST_TWICE = 0.5  # of the samples: above, the quick pass only costs time
TOGETHER = 128  # samples scored again at once, at most: batches of one length, since each new one costs time


class TwoStepScorer:
    """Logits of a model by its `quick` version, and by itself wherever that could have decided otherwise.

    `error`: the largest seen of a lead between two classes, on the first images of the run.
    """

    def __init__(self, model: Classifier, quick: Callable[[Tensor], Tensor], images: Tensor) -> None:
        """`images`: the first of the run."""
        self.model, self.quick = model, quick
        with torch.no_grad():
            logits = quick(images).float()
            assert logits.shape == (len(images), model.card.classes), f"no logits: {tuple(logits.shape)}"
            everyone = torch.arange(len(images), device=images.device)
            self.error = self._score_in_float32(images, logits, everyone, 0.0, TOGETHER)
            self.share_close = float(is_close(logits, self.error).float().mean())

    @property
    def words(self) -> str:
        return (
            f"TF32, and float32 where two classes are closer than {SAFETY:g} times its largest error, {self.error:.2g}"
        )

    def __call__(self, images: Tensor, width: int, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits, and which samples were scored twice: with `labels`, of attacked images, all that are wrong."""
        error = self.error
        with torch.no_grad():
            logits = torch.cat([self.quick(images[i : i + width]).float() for i in range(0, len(images), width)])
            twice = torch.zeros(len(images), dtype=torch.bool, device=images.device)
            wrong = twice if labels is None else is_wrong(logits, labels)
            chosen = is_close(logits, error) | wrong
            chosen[:ALWAYS] = True
            while len(rows := (chosen & ~twice).nonzero().squeeze(1)):
                error = self._score_in_float32(images, logits, rows, error, min(TOGETHER, width))
                twice[rows] = True
                chosen = is_close(logits, error)  # a larger error was seen, and others are close by it
        return logits, twice

    def _score_in_float32(self, images: Tensor, logits: Tensor, rows: Tensor, error: float, length: int) -> float:
        """Puts float32's logits in these rows, in batches of one length; gives the largest error seen."""
        for part in rows.split(length):  # type: ignore[no-untyped-call]
            exact = self.model(padded(images[part], length))[: len(part)].float()
            off = logits[part] - exact
            spread = (off.amax(dim=1) - off.amin(dim=1)).nan_to_num(0.0, posinf=0.0, neginf=0.0)
            error = max(error, float(spread.max()))
            logits[part] = exact
        return error


def is_close(logits: Tensor, error: float) -> Tensor:
    """Whether the lead of the first class is within reach of the error; NaN and a single class are always close."""
    if logits.shape[1] < 2:
        return torch.ones(len(logits), dtype=torch.bool, device=logits.device)
    top = logits.topk(2, dim=1).values
    return ~(top[:, 0] - top[:, 1] > SAFETY * error)


def two_step_scorer(model: Classifier, images: Tensor) -> TwoStepScorer | None:
    """The scorer of a model, tried on these images; None where there is no quicker way."""
    if not images.is_cuda or not isinstance(model, nn.Module):
        return None
    try:
        scorer = TwoStepScorer(model, Padded(in_tf32(copied(model))), images)
    except Exception:  # noqa: BLE001 - models are other people's code: some cannot be copied, some answer in other shapes
        return None
    return scorer if scorer.share_close <= MOST_TWICE else None


def copied(model: nn.Module) -> nn.Module:
    """The model in the order of memory that suits the device, without its fast and its exact version."""
    left_out = {id(getattr(model, name, None)): None for name in ("fast", "exact")}
    copy: nn.Module = deepcopy(model, left_out).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return copy


def in_tf32(net: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The network with its products in TF32, on images in the order that suits them."""

    def logits(images: Tensor) -> Tensor:
        with tf32():
            return net(images.contiguous(memory_format=torch.channels_last))

    return logits
