"""Datasets built of others: several as one in given shares, a random part, and the size that a model is used with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse, NoLabels
from holdfast.core.labels import is_labelled
from holdfast.core.refs import Ref, digest
from holdfast.core.registry import register, registry
from holdfast.core.types import Dataset, DatasetCard, Images, ModelCard, bytes_of_file
from holdfast.datasets import load

if TYPE_CHECKING:
    from torch import Tensor

SOURCE = "Shi et al. 2023, arXiv:2302.01381"
OWN_SIZE = "own-size"
USUAL_CROP = 0.875  # of the shorter side, where a model's card does not say


@dataclass(slots=True, eq=False)
class Mixed:
    """The samples of several datasets, one dataset after the other, at one size."""

    card: DatasetCard
    ids: Sequence[str]
    labels: NDArray[np.int64]
    parts: tuple[Dataset, ...]
    starts: NDArray[np.int64]

    def images(self, index: Sequence[int]) -> Images:
        import torch

        positions = np.asarray(index, dtype=np.int64)
        owners = np.searchsorted(self.starts, positions, side="right") - 1
        pixels = torch.zeros((len(positions), self.card.channels, *self.card.size), dtype=torch.uint8)
        failed: dict[int, str] = {}
        for number, part in enumerate(self.parts):
            mine = np.flatnonzero(owners == number)
            if not len(mine):
                continue
            read = part.images((positions[mine] - self.starts[number]).tolist())
            pixels[torch.from_numpy(mine)] = _conformed(read.pixels, self.card)
            failed |= {int(mine[i]): reason for i, reason in read.failed.items()}
        return Images(pixels, failed)

    def file_bytes(self, position: int) -> bytes:
        owner = int(np.searchsorted(self.starts, position, side="right")) - 1
        return bytes_of_file(self.parts[owner], position - int(self.starts[owner]))


@register("dataset", "mix", source=SOURCE, tags=("built",))
def mix(
    datasets: tuple[str, ...],
    *,
    shares: tuple[float, ...] = (),
    n: int | None = None,
    classes: Literal["same", "union"] = "same",
    size: int | None = None,
    seed: int = 0,
) -> Mixed:
    """Several datasets as one: a share of each, or `n` samples of which each gives its share.

    `mix:[(cifar10:split=train),(folder:/data/imagenet32)],shares=[0.1,0.9]` takes a tenth of the first and nine tenths
    of the second, the λ and 1 - λ of multi-ID effective robustness; with `n` the shares are of the mixture and sum to
    1. Without shares: all of each, or equal parts of `n`. Samples are chosen by seed and id, ids are `dataset/id`.
    Labels are those of the datasets when their classes are the `same`; `union` joins classes by name. `size` resizes
    images of other sizes (bilinear, antialiased); grey images beside colour ones become colour.
    """
    if len(datasets) < 2:
        raise Misuse("`mix` needs two datasets or more", hint="give refs: mix:[(cifar10),(folder:/data/cinic)]")
    wholes = [load(text) for text in datasets]
    counts = _counts([len(whole.ids) for whole in wholes], shares, n)
    for whole, count in zip(wholes, counts, strict=True):
        if count > len(whole.ids):
            raise HoldfastError(f"`{whole.card.name}` has {len(whole.ids)} samples, the mixture needs {count}")
    parts = tuple(
        subset_of(whole, keyed_choice(whole.ids, count, seed))
        for whole, count in zip(wholes, counts, strict=True)
        if count
    )
    if not parts:
        raise HoldfastError("nothing is left of the mixture", hint="ask for larger shares, or more samples")
    names = _names([part.card.name for part in parts])
    joined, labels = _labels(parts, classes)
    card = DatasetCard(
        name="mix",
        classes=joined,
        channels=max(part.card.channels for part in parts),
        size=_size(parts, size),
        fingerprint=digest(["mix", [part.card.fingerprint for part in parts], names, list(joined), size]),
        licence="; ".join(dict.fromkeys(part.card.licence for part in parts if part.card.licence)),
        source=" + ".join(names),
        answers=parts[0].card.answers if classes == "same" else None,
    )
    ids = tuple(f"{name}/{sample}" for name, part in zip(names, parts, strict=True) for sample in part.ids)
    starts = np.cumsum([0, *(len(part.ids) for part in parts[:-1])])
    return Mixed(card, ids, labels, parts, starts)


def _counts(sizes: list[int], shares: tuple[float, ...], n: int | None) -> list[int]:
    """How many samples each dataset gives: rounded shares of its own, or parts of n that sum to n exactly."""
    if shares and len(shares) != len(sizes):
        raise Misuse(f"`mix` has {len(sizes)} datasets and {len(shares)} shares", hint="give one share per dataset")
    if any(not 0 <= share <= 1 for share in shares):
        raise Misuse(f"shares must lie in [0, 1], got {list(shares)}")
    if n is None:
        return [round(share * size) for share, size in zip(shares or [1.0] * len(sizes), sizes, strict=True)]
    if n < 1:
        raise Misuse(f"`n` must be at least 1, got {n}")
    exact = [share * n for share in shares or [1 / len(sizes)] * len(sizes)]
    if not math.isclose(sum(exact), n, rel_tol=1e-6):
        raise Misuse(f"with `n` the shares sum to 1, got {sum(shares):g}")
    counts = [math.floor(part + 1e-9) for part in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: counts[i] - exact[i])
    for i in by_remainder[: n - sum(counts)]:
        counts[i] += 1
    return counts


def _names(names: list[str]) -> list[str]:
    """The names of the parts, numbered where one appears twice."""
    return [name if names.index(name) == i else f"{name}-{names[: i + 1].count(name)}" for i, name in enumerate(names)]


def _labels(parts: Sequence[Dataset], how: str) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    listed = [part.card.classes for part in parts]
    if how == "same":
        for other in parts[1:]:
            if (other.card.classes, other.card.answers) != (listed[0], parts[0].card.answers):
                raise HoldfastError(
                    f"`{parts[0].card.name}` and `{other.card.name}` have other classes, in another order, or another "
                    "label map",
                    hint="classes=union joins them by name",
                )
    joined = tuple(dict.fromkeys(name for names in listed for name in names))
    number = {name: i for i, name in enumerate(joined)}
    if how == "same":
        return listed[0], np.concatenate([part.labels for part in parts])
    if not all(is_labelled(part.labels) for part in parts):
        raise NoLabels("`classes=union` joins classes by name, and some of these datasets have no labels")
    labels = [np.array([number[name] for name in part.card.classes])[part.labels] for part in parts]
    return joined, np.concatenate(labels)


def _size(parts: Sequence[Dataset], size: int | None) -> tuple[int, int]:
    if size is not None:
        if size < 1:
            raise Misuse(f"`size` must be at least 1, got {size}")
        return size, size
    sizes = {part.card.size for part in parts}
    if len(sizes) > 1:
        sizes_text = ", ".join(f"`{part.card.name}` {part.card.size[1]}x{part.card.size[0]}" for part in parts)
        raise HoldfastError(
            f"the images of the mixture differ in size: {sizes_text}", hint="say the size you want: size=224"
        )
    return parts[0].card.size


def _conformed(pixels: Tensor, card: DatasetCard) -> Tensor:
    """Bytes of the mixture's size and channels."""
    import torch
    from torch.nn.functional import interpolate

    images = pixels.to(torch.float32) if pixels.dtype == torch.uint8 else pixels * 255
    if tuple(images.shape[2:]) != card.size:
        images = interpolate(images, card.size, mode="bilinear", antialias=True, align_corners=False)
    return images.clamp(0, 255).round().to(torch.uint8).expand(-1, card.channels, -1, -1)


@dataclass(slots=True, eq=False)
class ChosenSamples:
    """Some samples of another dataset, with their ids, labels and classes."""

    card: DatasetCard
    ids: Sequence[str]
    labels: NDArray[np.int64]
    whole: Dataset
    positions: NDArray[np.int64]

    def images(self, index: Sequence[int]) -> Images:
        return self.whole.images(self.positions[np.asarray(index, dtype=np.int64)].tolist())

    def file_bytes(self, position: int) -> bytes:
        return bytes_of_file(self.whole, int(self.positions[position]))


def subset_of(whole: Dataset, positions: NDArray[np.int64]) -> ChosenSamples:
    """The samples at these positions, in this order."""
    if not len(positions):
        raise HoldfastError(f"nothing of `{whole.card.name}` is left", hint="ask for a larger share, or more samples")
    ids = tuple(whole.ids[position] for position in positions.tolist())
    card = replace(whole.card, fingerprint=digest(["chosen", whole.card.fingerprint, list(ids)]))
    return ChosenSamples(card, ids, whole.labels[positions], whole, positions)


def keyed_order(ids: Sequence[str], seed: int) -> NDArray[np.int64]:
    """Positions in a random order that is a function of seed and ids: a longer choice contains every shorter one."""
    from holdfast.core.noise import Noise

    keys = Noise.of(seed, ids).scope("choice").keys.numpy()
    return np.argsort(keys, kind="stable")


def keyed_choice(
    ids: Sequence[str], count: int, seed: int, *, among: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """The positions of `count` samples chosen at random, in the order of the dataset."""
    positions = np.arange(len(ids)) if among is None else among
    order = keyed_order([ids[position] for position in positions.tolist()], seed)
    return np.sort(positions[order[:count]])


@register("dataset", "subsample", tags=("built",))
def subsample(
    dataset: str,
    *,
    share: float | None = None,
    count: int | None = None,
    per_class: bool = False,
    rest: bool = False,
    seed: int = 0,
) -> ChosenSamples:
    """A random part of a dataset: a share of it or a count of samples, over all or of every class.

    `subsample:(cifar10:split=train),share=0.05`. A sample's chance depends on seed and id alone, so that a larger part
    contains every smaller one and the order of the dataset does not matter. With `rest` it is what the part leaves:
    what to train on where the part is held out to test.
    """
    if (share is None) == (count is None):
        raise Misuse("`subsample` needs `share` or `count`, one of them", hint="share=0.1, or count=1000")
    if share is not None and not 0 < share <= 1:
        raise Misuse(f"`share` must lie in (0, 1], got {share}")
    if count is not None and count < 1:
        raise Misuse(f"`count` must be at least 1, got {count}")
    whole = load(dataset)
    groups = [np.arange(len(whole.ids))]
    if per_class:
        if not is_labelled(whole.labels):
            raise NoLabels(f"`per_class` needs labels, and `{dataset}` has none", hint="leave `per_class` out")
        groups = [np.flatnonzero(whole.labels == label) for label in np.unique(whole.labels)]
    counts = [round(share * len(group)) if share is not None else count or 0 for group in groups]
    for group, some in zip(groups, counts, strict=True):
        if some > len(group):
            where = f"`{whole.card.classes[whole.labels[group[0]]]}`" if per_class else f"`{dataset}`"
            raise HoldfastError(f"{where} has {len(group)} samples, not {some}", hint=f"count={len(group)} or fewer")
    parts = [keyed_choice(whole.ids, some, seed, among=group) for group, some in zip(groups, counts, strict=True)]
    positions = np.sort(np.concatenate(parts))
    if rest:
        positions = np.setdiff1d(np.arange(len(whole.ids)), positions)
    return subset_of(whole, positions)


@register("dataset", OWN_SIZE, tags=("built",))
def own_size(dataset: str, *, size: int | None = None, resize: int | None = None) -> ChosenSamples:
    """A dataset at the size of the evaluated model, resized and cropped as its card says: `own-size:imagenet-a`.

    `holdfast evaluate` fills in `size` and `resize` from the card of each model: shorter side to `resize`, then the
    centre. Without a model, or for a dataset whose images have one size, it is the dataset itself. One that is stored
    cropped (ImageNet-C) is only resized.
    """
    inner = registry.bind("dataset", dataset)
    args = dict(inner.args)
    if resize is not None and (size is None or resize < size):
        raise Misuse(
            f"`resize={resize}` must be at least `size`, got size={size or 'none'}", hint="resize=256,size=224"
        )
    if size is not None and "size" in args:
        args["size"] = size
        if args.get("resize") is not None:
            args["resize"] = max(size, round(size / USUAL_CROP)) if resize is None else resize
        inner = replace(inner, args=tuple(args.items()))
    whole: Dataset = registry.build(inner)
    framing = "" if size is None else f"@{args.get('size')}/{args.get('resize')}"
    reference = f"{OWN_SIZE}:({whole.card.reference})" if whole.card.reference else ""
    card = replace(whole.card, fingerprint=f"{whole.card.fingerprint}{framing}", reference=reference)
    return ChosenSamples(card, whole.ids, whole.labels, whole, np.arange(len(whole.ids)))


def sized_for(ref: Ref, card: ModelCard) -> Ref:
    """The dataset as it is built for a model: `own-size` with what the model's card says."""
    if ref.name != OWN_SIZE or ref.arg("size") is not None or card.size is None:
        return ref
    args = dict(ref.args) | {"size": card.size, "resize": card.resize}
    return replace(ref, args=tuple(args.items()))
