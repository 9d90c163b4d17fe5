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
from holdfast.core.intervals import wilson
from holdfast.core.labels import no_labels
from holdfast.core.noise import Noise
from holdfast.core.refs import Ref, parse_ref
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Change, Changed, Classifier, DatasetCard, ModelCard, Score
from holdfast.core.values import shortened
from holdfast.datasets.from_python import as_floats, class_numbers, image_array
from holdfast.datasets.in_memory import Pixels, numbered
from holdfast.engine.behaviour import gives_gradients, refuse_without_gradients
from holdfast.engine.compatible import fits
from holdfast.engine.device import Width, full_precision
from holdfast.engine.inputs import as_classifier
from holdfast.engine.jobs import RunOptions, as_holdfast_error
from holdfast.engine.measure import final_logits
from holdfast.models.classifier import TorchClassifier, borrowed, device_of, prepared

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

    @property
    def accuracy(self) -> Score:
        """The share of images that the attack did not break, with its interval."""
        return wilson(len(self.broken) - int(self.broken.sum()), len(self.broken))

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
    """Attacks images in [0, 1] or uint8: `attack(net, images, labels, "autoattack-linf:radius=8/255")`.

    The model is a module, a classifier or the ref of one; it stays as it was and where it is. Images are NCHW, or NHWC,
    which comes back as it came. Every draw depends on `seed` and the id of an image, by default its position: the
    result does not depend on `batch_size`.
    """
    bound, options = _bound("attack", ref), RunOptions(seed, batch_size=batch_size)
    given, images = image_array(images), _one_array(images)
    made, shape = as_classifier(model, shape=given.pixels.shape[1:]), given.pixels.shape[1:]
    classifier = made if isinstance(made, TorchClassifier) else prepared(made)
    device = device_of(classifier) or torch.device("cpu")
    card = DatasetCard(name="arrays", classes=(), channels=shape[0], size=(shape[1], shape[2]), fingerprint="")
    fits(classifier.card, card, no_labels(1))
    numbers = class_numbers(labels, len(given.pixels))
    if len(numbers) and numbers.max() >= classifier.card.classes:
        raise Misuse(
            f"a label is {numbers.max()}, the model knows the classes 0 to {classifier.card.classes - 1}",
            hint="labels count the model's classes from 0",
        )
    pixels, answers = _tensor(given.pixels, images).to(device), torch.from_numpy(numbers).to(device)
    batch = Batch(pixels, answers, _ids(ids, len(pixels)))
    with full_precision(), borrowed([classifier]):
        change: Change = registry.build(bound)
        if len(pixels):
            refuse_without_gradients(classifier, [(bound, change)], lambda: gives_gradients(classifier, pixels[:1]))
        width = Width(options.batch_size) if options.batch_size else Width.for_model(classifier, card, device)
        try:
            result = width.recovering(
                lambda value: _changed(classifier, bound, batch, options.seed, value), lambda _: None
            )
            logits = final_logits(classifier, result.images, width.value)
        except Exception as error:
            raise as_holdfast_error(error) from error
    reasons = dict(result.reasons)
    for i in (~logits.isfinite().all(dim=1)).nonzero().flatten().tolist():
        reasons.setdefault(i, f"the logits of `{classifier.card.name}` are not finite")
    if reasons:
        position, reason = min(reasons.items())
        raise HoldfastError(f"image {position}: {reason}")
    zero = torch.zeros(len(pixels), device=device)
    passes = [zero if count is None else count for count in (result.forwards, result.backwards)]
    sizes = torch.full_like(zero, torch.nan) if result.size is None else result.size
    values = (is_wrong(logits, answers), sizes, logits, passes[0].long(), passes[1].long())
    shown = _as_given(_laid_out(result.images, given.channels_last, images), images)
    return AttackedImages(shown, *(_as_given(value, images) for value in values))


def corrupt(images: Array, ref: str, *, seed: int = 0, ids: Sequence[str] | None = None) -> Array:
    """Corrupted images: `corrupt(images, "fog:severity=3")`, for images in [0, 1] or uint8, NCHW or NHWC.

    The result is float32 in [0, 1]. Every draw depends on `seed` and the id of an image, by default its position.
    """
    bound, options = _bound("corruption", ref), RunOptions(seed)
    given, images = image_array(images), _one_array(images)
    pixels = _tensor(given.pixels, images)
    names, labels = _ids(ids, len(pixels)), torch.zeros(len(pixels), dtype=torch.long, device=pixels.device)
    parts = [
        _changed(_Unused(), bound, Batch(pixels[some], labels[some], names[some]), options.seed, AT_ONCE).images
        for some in (slice(start, start + AT_ONCE) for start in range(0, len(pixels), AT_ONCE))
    ]
    made = torch.cat(parts) if parts else pixels
    return _as_given(_laid_out(made, given.channels_last, images), images)


def _bound(kind: str, ref: str) -> Ref:
    """The ref of one attack or corruption; says so where it is the other."""
    if not isinstance(ref, str):
        raise Misuse(f"the {kind} is a text such as `pgd-linf:radius=8/255`, got {type(ref).__name__}")
    other = "corruption" if kind == "attack" else "attack"
    if "{" in ref:
        hint = "braces stand for several: call it for each, or holdfast.evaluate(net, (images, labels), changes=…)"
        raise Misuse(f"`{shortened(ref)}` is more than one {kind}", hint=hint)
    name = parse_ref(ref).name
    if name in registry.entries(other):
        call = "holdfast.corrupt(images, …)" if kind == "attack" else "holdfast.attack(net, images, labels, …)"
        raise Misuse(f"`{name}` is no {kind}: it is of the kind {other}", hint=f"use {call}")
    return registry.bind(kind, ref)


class _Unused:
    """Stands for a model where no change asks one."""

    card = ModelCard(name="none", source="", classes=1)

    def __call__(self, images: Tensor) -> Tensor:
        raise AssertionError(f"a corruption asks no model, but gave one {len(images)} images")


def _changed(model: Classifier, ref: Ref, batch: Batch, seed: int, width: int) -> Changed:
    change: Change = registry.build(ref)
    noise = Noise.of(seed, batch.ids, batch.images.device).scope(f"0 {ref.name}")  # as the first change of a scenario
    return change(model, batch, noise, width=width)


def _tensor(pixels: Pixels, images: object) -> Tensor:
    """Images as float32 in [0, 1], on the device where they came from."""
    made = torch.from_numpy(np.ascontiguousarray(as_floats(pixels)))
    return made.to(images.device) if isinstance(images, Tensor) else made


def _laid_out(images: Tensor, channels_last: bool, like: object) -> Tensor:
    """Images in the order of axes that they came in."""
    if not channels_last:
        return images
    return images.squeeze(1) if np.ndim(like) == 3 else images.permute(0, 2, 3, 1)  # type: ignore[arg-type]


def _one_array(images: Array) -> Array:
    """A list of tensors as one, so that tensors come back; anything else as it is."""
    if isinstance(images, list | tuple) and all(isinstance(each, Tensor) for each in images):
        return torch.stack(tuple(images))
    return images


def _ids(ids: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """The ids of images; by default those that the dataset `arrays:` gives them."""
    if ids is None:
        return numbered(range(count), width=len(str(max(0, count - 1))))
    if len(ids) != count or len(set(ids)) != count:
        raise Misuse(f"{count} images need as many different ids, got {len(set(ids))}")
    return tuple(map(str, ids))


def _as_given(value: Tensor, like: Array) -> Array:
    """A tensor where the images were, or a numpy array if they were one."""
    return value.to(like.device) if isinstance(like, Tensor) else value.cpu().numpy()
