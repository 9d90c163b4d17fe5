"""Several datasets as one, in given shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse, NoLabels
from holdfast.core.labels import is_labelled
from holdfast.core.refs import digest
from holdfast.core.registry import register
from holdfast.core.types import Dataset, DatasetCard, Images, bytes_of_file
from holdfast.datasets import load
from holdfast.datasets.subsample import keyed_choice, subset_of

if TYPE_CHECKING:
    from torch import Tensor

SOURCE = "Shi et al. 2023, arXiv:2302.01381"


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
