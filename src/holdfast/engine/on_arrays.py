"""Attacks and corruptions on images in memory, without a store: numpy arrays or torch tensors in, the same out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.attacks.success import is_wrong
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.noise import Noise
from holdfast.core.refs import Ref
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Change, Changed, Classifier, DatasetCard, ModelCard
from holdfast.datasets.in_memory import numbered
from holdfast.engine.device import Width
from holdfast.engine.measure import final_logits
from holdfast.engine.shards import out_of_range
from holdfast.models.classifier import (
    TorchClassifier,
    borrowed,
    device_of,
    is_classifier,
    load,
    modes_kept,
    prepared,
    wrap,
)

Array = TypeVar("Array", Tensor, NDArray[np.float32])
AT_ONCE = 256  # images that are corrupted together


@dataclass(frozen=True, slots=True, repr=False)
class AttackedImages(Generic[Array]):
    """What an attack made of images, per image, in the kind of array that they came in.

    `broken`: whether the model is wrong on the attacked image, as it answers in float32 and without gradients. `sizes`
    are in the units of the attack's radius; `forwards` and `backwards` are passes through the model.
    """

    images: Array
    broken: Array
    sizes: Array
    logits: Array
    forwards: Array
    backwards: Array

    def __repr__(self) -> str:
        count = int(self.broken.sum())
        return f"AttackedImages({count:,} of {len(self.broken):,} broken)"


def attack(
    model: nn.Module | Classifier | str,
    images: Array,
    labels: Array | Sequence[int],
    ref: str,
    *,
    seed: int = 0,
    ids: Sequence[str] | None = None,
    batch_size: int | None = None,
) -> AttackedImages[Array]:
    """Attacks images in [0, 1] (NCHW, or uint8): `attack(net, images, labels, "autoattack-linf:radius=8/255")`.

    The model is a module, a classifier or the ref of one; it stays as it was and where it is. Every draw depends on
    `seed` and the id of an image, by default its position: the result does not depend on `batch_size`.
    """
    pixels = _pixels(images)
    classifier = _classifier(model, pixels)
    device = device_of(classifier) or torch.device("cpu")
    pixels, answers = pixels.to(device), torch.as_tensor(np.asarray(_host(labels))).to(device).long()
    if answers.shape != pixels.shape[:1]:
        raise Misuse(f"{len(pixels)} images need as many labels, got an array of shape {tuple(answers.shape)}")
    bound = registry.bind("attack", ref)
    batch = Batch(pixels, answers, _ids(ids, len(pixels)))
    with borrowed([classifier]):
        width = Width(batch_size) if batch_size else Width.for_model(classifier, _card(pixels), device)
        result = width.recovering(lambda value: _changed(classifier, bound, batch, seed, value), lambda _: None)
        logits = final_logits(classifier, result.images, width.value)
    if result.reasons:
        position, reason = next(iter(result.reasons.items()))
        raise HoldfastError(f"image {position}: {reason}")
    zero = torch.zeros(len(pixels), device=device)
    passes = [zero if count is None else count for count in (result.forwards, result.backwards)]
    sizes = torch.full_like(zero, torch.nan) if result.size is None else result.size
    values = (result.images, is_wrong(logits, answers), sizes, logits, passes[0].long(), passes[1].long())
    return AttackedImages(*(_as_given(value, images) for value in values))


def corrupt(images: Array, ref: str, *, seed: int = 0, ids: Sequence[str] | None = None) -> Array:
    """Corrupted images: `corrupt(images, "fog:severity=3")`, for images in [0, 1] (NCHW, or uint8).

    Every draw depends on `seed` and the id of an image, by default its position.
    """
    bound, pixels = registry.bind("corruption", ref), _pixels(images)
    names, labels = _ids(ids, len(pixels)), torch.zeros(len(pixels), dtype=torch.long, device=pixels.device)
    parts = [
        _changed(_Unused(), bound, Batch(pixels[some], labels[some], names[some]), seed, AT_ONCE).images
        for some in (slice(start, start + AT_ONCE) for start in range(0, len(pixels), AT_ONCE))
    ]
    return _as_given(torch.cat(parts) if parts else pixels, images)


class _Unused:
    """Stands for a model where no change asks one."""

    card = ModelCard(name="none", source="", classes=1)

    def __call__(self, images: Tensor) -> Tensor:
        raise AssertionError(f"a corruption asks no model, but gave one {len(images)} images")


def _changed(model: Classifier, ref: Ref, batch: Batch, seed: int, width: int) -> Changed:
    change: Change = registry.build(ref)
    noise = Noise.of(seed, batch.ids, batch.images.device).scope(f"0 {ref.name}")  # as the first change of a scenario
    return change(model, batch, noise, width=width)


def _classifier(model: nn.Module | Classifier | str, pixels: Tensor) -> TorchClassifier:
    if isinstance(model, str):
        return load(model)
    if isinstance(model, TorchClassifier):
        return model
    if is_classifier(model):
        return prepared(model)
    if isinstance(model, nn.Module):
        device = device_of(model)
        with modes_kept(model), torch.no_grad():
            logits = model.eval()(torch.full((2, *pixels.shape[1:]), 0.5, device=device))
        return wrap(model, name=type(model).__name__, classes=logits.shape[1], channels=pixels.shape[1])
    raise Misuse(f"a model is a module, a classifier or the ref of one, got {type(model).__name__}")


def _pixels(images: object) -> Tensor:
    """Images as float32 in [0, 1]; a batch that is not is refused, with what to do."""
    pixels = torch.as_tensor(images if isinstance(images, Tensor) else np.asarray(images)).detach()
    if pixels.ndim != 4 or pixels.shape[1] not in (1, 3):
        raise Misuse(
            f"images have the shape (count, channels, height, width) with 1 or 3 channels, got {tuple(pixels.shape)}",
            hint="images.transpose(0, 3, 1, 2) turns the channels of a numpy array to the front",
        )
    if pixels.dtype == torch.uint8:
        return pixels.float() / 255
    pixels = pixels.float()
    for position, problem in out_of_range(pixels).items():
        hint = "put the normalisation inside the model: holdfast.wrap(net, mean=…, std=…)"
        raise HoldfastError(f"image {position}: {problem}", hint=hint)
    return pixels


def _card(pixels: Tensor) -> DatasetCard:
    return DatasetCard(
        name="arrays", classes=(), channels=pixels.shape[1], size=(pixels.shape[2], pixels.shape[3]), fingerprint=""
    )


def _ids(ids: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """The ids of images; by default those that the dataset `arrays:` gives them."""
    if ids is None:
        return numbered(range(count), width=len(str(max(0, count - 1))))
    if len(ids) != count or len(set(ids)) != count:
        raise Misuse(f"{count} images need as many different ids, got {len(set(ids))}")
    return tuple(map(str, ids))


def _host(values: object) -> object:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values


def _as_given(value: Tensor, like: Array) -> Array:
    """A tensor where the images were, or a numpy array if they were one."""
    return value.to(like.device) if isinstance(like, Tensor) else value.cpu().numpy()
