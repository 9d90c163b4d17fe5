"""The images that a model learns from, whole on the device, with what is held out, and the order of batches."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.core.errors import HoldfastError, Misuse, NoLabels
from holdfast.core.types import Dataset
from holdfast.datasets import load
from holdfast.datasets.subsample import keyed_choice
from holdfast.training.recipes import Recipe

LEVELS = 255.0
HELD_OUT = 1_000_003  # seed of the choice of images that are held out: the same for every recipe of one dataset


@dataclass(frozen=True, slots=True)
class TrainingData:
    """All images on the device. `used`: positions to learn from; `held`: those held out; `environment`: of each image.

    `partners`: for every class and environment, positions of other images of the class from other environments, as
    many as fit, and `partner_counts`: how many these are.
    """

    pixels: Tensor
    labels: Tensor
    environment: Tensor
    used: Tensor
    held: Tensor
    classes: int
    environments: int
    partners: Tensor | None = None
    partner_counts: Tensor | None = None

    @property
    def channels(self) -> int:
        return int(self.pixels.shape[1])

    def digest(self) -> str:
        """Of all that is learned from and held out: pixels, labels, environments, and which is which."""
        hashed = hashlib.blake2b(digest_size=16)
        for tensor in (self.pixels, self.labels, self.environment, self.used, self.held):
            hashed.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            hashed.update(tensor.cpu().contiguous().numpy().data)
        return hashed.hexdigest()

    def images(self, index: Tensor) -> Tensor:
        """Images in [0, 1], float32."""
        return unit_floats(self.pixels[index])

    def steps(self, batch: int) -> int:
        """Batches of an epoch; what does not fill one is left to the next epoch's order."""
        return max(1, len(self.used) // batch)

    def order(self, recipe: Recipe, epoch: int) -> Tensor:
        """The positions to learn from in the order of an epoch, a function of seed and epoch alone."""
        generator = torch.Generator().manual_seed(1000 * recipe.seed + epoch)
        shuffled = torch.randperm(len(self.used), generator=generator)
        if len(shuffled) < recipe.batch:
            shuffled = shuffled.repeat(-(-recipe.batch // len(shuffled)))[: recipe.batch]
        return self.used[shuffled.to(self.used.device)]


def unit_floats(pixels: Tensor) -> Tensor:
    """Pixels as read, whole numbers up to 255 or floats, in [0, 1]."""
    return pixels.float() / LEVELS if pixels.dtype == torch.uint8 else pixels.float()


def training_data(recipe: Recipe, device: torch.device) -> TrainingData:
    """Reads what the recipe names. A share, and what is held out, are chosen by ids: the order does not matter."""
    sets = [load(text) for text in recipe.texts_of_data]
    _must_be_labelled(sets, recipe)
    chosen, held = zip(*(_chosen(dataset, recipe, len(sets)) for dataset in sets), strict=True)
    starts = np.cumsum([0, *(len(dataset.ids) for dataset in sets)])
    used = np.concatenate([start + part for start, part in zip(starts, chosen, strict=False)])
    held_out = np.concatenate([start + part for start, part in zip(starts, held, strict=False)])
    if recipe.extra is not None:
        sets.append(load(recipe.extra))
        used = np.concatenate([used, starts[-1] + np.arange(len(sets[-1].ids))])
        _must_be_labelled(sets[-1:], recipe)
    if not len(used):
        raise HoldfastError("no image is left to learn from", hint="hold fewer out, or use a larger share")
    _must_match(sets)
    pixels = torch.cat([_pixels(dataset) for dataset in sets])
    labels = torch.from_numpy(np.concatenate([dataset.labels for dataset in sets]))
    environment = torch.from_numpy(np.repeat(np.arange(len(sets)), [len(dataset.ids) for dataset in sets]))
    classes, count = max(len(dataset.card.classes) for dataset in sets), len(recipe.environments) or 1
    tensors = {"pixels": pixels, "labels": labels, "environment": environment}
    tensors |= {"used": torch.from_numpy(used), "held": torch.from_numpy(held_out)}
    if recipe.method == "lisa":
        table, lengths = _partners(used, labels.numpy(), environment.numpy(), classes, count)
        tensors |= {"partners": table, "partner_counts": lengths}
    on_device = {name: tensor.to(device) for name, tensor in tensors.items()}
    return TrainingData(classes=classes, environments=count, **on_device)


def _chosen(dataset: Dataset, recipe: Recipe, sets: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    everything = np.arange(len(dataset.ids))
    count = -(-recipe.validation // sets)
    if count >= len(everything):
        raise HoldfastError(
            f"`{dataset.card.name}` has {len(everything):,} images, and {count:,} are to be held out",
            hint="make `validation` smaller",
        )
    held = keyed_choice(dataset.ids, count, HELD_OUT)
    rest = np.setdiff1d(everything, held)
    if recipe.labels:
        rest = rest[np.isin(dataset.labels[rest], recipe.labels)]
        if not len(rest):
            raise HoldfastError(f"`{dataset.card.name}` has no image of the labels {list(recipe.labels)}")
    some = max(1, round(recipe.share * len(rest)))
    used = rest if some == len(rest) else keyed_choice(dataset.ids, some, recipe.seed, among=rest)
    return used, held


def _pixels(dataset: Dataset) -> Tensor:
    read = dataset.images(range(len(dataset.ids)))
    if read.failed:
        raise HoldfastError(f"{len(read.failed)} training images cannot be read", hint=next(iter(read.failed.values())))
    return read.pixels


def _must_match(sets: list[Dataset]) -> None:
    first = sets[0].card
    for dataset in sets[1:]:
        card = dataset.card
        if (card.channels, card.size, card.classes) != (first.channels, first.size, first.classes):
            raise HoldfastError(
                f"`{first.name}` and `{card.name}` differ in their classes or in the shape of their images",
                hint='a mixture brings them together: dataset = "mix:[(…),(…)],classes=union,size=32"',
            )


def _must_be_labelled(sets: list[Dataset], recipe: Recipe) -> None:
    for dataset in sets:
        count, named = len(dataset.card.classes), f"`{dataset.card.name}`"
        if not count:
            raise NoLabels(f"{named} has no labels to learn from", hint="name a dataset with labels")
        unknown = [label for label in recipe.labels if not 0 <= label < count]
        if unknown:
            raise Misuse(f"{named} has the labels 0 to {count - 1}, and `labels` names {unknown[0]}")
        outside = (dataset.labels < 0) | (dataset.labels >= count)
        if outside.any():
            problem = f"{int(outside.sum()):,} images of {named} have labels outside its {count} classes"
            raise HoldfastError(problem, hint="leave them out of the dataset")


def _partners(
    used: NDArray[np.int64], labels: NDArray[np.int64], environment: NDArray[np.int64], classes: int, environments: int
) -> tuple[Tensor, Tensor]:
    """Positions of the same class in other environments; where there are none, of the class in its own."""
    lists = []
    for label in range(classes):
        own = used[labels[used] == label]
        for number in range(environments):
            other = own[environment[own] != number]
            lists.append(other if len(other) else own)
    most = max(1, *(len(one) for one in lists))
    table = torch.zeros((classes * environments, most), dtype=torch.int64)
    for row, one in enumerate(lists):
        table[row, : len(one)] = torch.from_numpy(one)
    return table, torch.tensor([max(1, len(one)) for one in lists])
