"""Images that a program holds: arrays, tensors, PIL images, torch datasets and loaders, read once into one array."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, HoldfastWarning, Misuse
from holdfast.core.labels import NO_LABEL, is_labelled, no_labels
from holdfast.core.refs import checked_name
from holdfast.core.values import shortened
from holdfast.datasets.in_memory import InMemory, Pixels, in_memory, numbered

CHANNELS = (1, 3)
HEX = 6  # digits of an image's digest in its id
MEMORY_SHARE = 0.8  # of this machine's memory that images may take
PAIR_HINT = "give (images, labels), a torch Dataset, or a DataLoader whose batches are (images, labels)"
WRAP_HINT = "leave Normalize out of the transform and put it inside the model: holdfast.wrap(net, mean=…, std=…)"


class ImageArray(NamedTuple):
    """Images as NCHW, uint8 or float32 in [0, 1]; `channels_last`: they came as NHWC or NHW."""

    pixels: Pixels
    channels_last: bool


@dataclass(frozen=True, slots=True, eq=False)
class LabelledImages:
    """Labelled images in memory; `classes` are their names where the source has them."""

    pixels: Pixels
    labels: NDArray[np.int64]
    ids: tuple[str, ...]
    classes: tuple[str, ...] = ()

    def dataset(self, name: str, classes: int) -> InMemory:
        """The samples as a dataset for a model of so many classes."""
        names = self.classes if len(self.classes) == classes else numbered(range(classes), width=1)
        if not is_labelled(self.labels):
            names = ()
        elif int(self.labels.max(initial=0)) >= classes:
            raise Misuse(
                f"a label of `{name}` is {int(self.labels.max())}, the model knows the classes 0 to {classes - 1}",
                hint="labels count the model's classes from 0",
            )
        return in_memory(name, self.pixels, self.labels, ids=self.ids, classes=names, source="memory")


def read_samples(data: object) -> LabelledImages:
    """Labelled images from what people hold.

    Taken are: a pair `(images, labels)` of arrays, tensors or lists; any map-style torch `Dataset` or list of
    `(image, label)`; a `DataLoader` of `(images, labels)`. An image is a tensor, an array or a PIL image. An id is the
    position and a digest of the image; behind a loader that shuffles, the position in the order of the digests. Where
    nobody labelled the images, None stands for the labels, or for the label of every image.
    """
    if isinstance(data, list | tuple) and _is_pair(data):
        images, labels = data
        pixels = image_array(images).pixels
        return _samples(pixels, _numbers_or_none(labels, len(pixels)), data, shuffled=False)
    items = _items(data)
    parts = [_batch(item, i) for i, item in enumerate(_within_memory(_drawn(items)))]
    if not parts:
        raise Misuse(f"the {type(data).__name__} holds no images")
    first = parts[0][0]
    for i, (pixels, _) in enumerate(parts):
        if pixels.shape[1:] != first.shape[1:]:
            raise Misuse(
                f"item {i} has images of {_size(pixels)}, the first of {_size(first)}",
                hint="bring all to one size in the dataset's transform",
            )
    is_bytes = all(pixels.dtype == np.uint8 for pixels, _ in parts)
    pixels = np.concatenate([part if is_bytes else as_floats(part) for part, _ in parts])
    labels = np.concatenate([labels for _, labels in parts])
    if (labels == NO_LABEL).any() and (labels != NO_LABEL).any():
        raise Misuse("some images have labels and some have none", hint="keep them apart: two datasets, two calls")
    return _samples(pixels, labels, data, shuffled=_shuffles(data))


def image_array(images: object) -> ImageArray:
    """Images of any kind as NCHW, uint8 or float32 in [0, 1]; others are refused, with what to do."""
    if isinstance(images, list | tuple):
        images = _stacked(images)
    array = _array(images)
    if array.ndim == 0:
        raise Misuse(f"images are an array, a tensor or a list of them, got {type(images).__name__}", hint=PAIR_HINT)
    if array.ndim == 3 and array.shape[0] not in CHANNELS and array.shape[2] not in CHANNELS:
        array, last = array[:, None], True  # grey images; one image in colour has 3 axes too
    elif array.ndim != 4:
        raise Misuse(
            f"images have the shape (count, channels, height, width), got {array.shape}",
            hint="one image is a batch of one: images[None]",
        )
    elif array.shape[1] in CHANNELS:
        last = False
    elif array.shape[3] in CHANNELS:
        array, last = array.transpose(0, 3, 1, 2), True
    else:
        raise Misuse(
            f"images have 1 or 3 channels, got the shape {array.shape}",
            hint="(count, channels, height, width), or the channels last; drop an alpha channel",
        )
    return ImageArray(_checked(array), last)


def class_numbers(labels: object, count: int) -> NDArray[np.int64]:
    """Labels as whole numbers, one per image; everything else is refused, with what to do."""
    if labels is None:
        raise Misuse("the images have no labels", hint=PAIR_HINT)
    if isinstance(labels, list | tuple) and any(hasattr(label, "detach") for label in labels):
        labels = [int(label) if getattr(label, "ndim", 0) == 0 else _array(label) for label in labels]
    try:
        array = _array(labels)
    except ValueError as error:
        raise Misuse(f"labels must be whole numbers, one per image: {error}") from error
    if array.dtype == object and all(isinstance(label, int | np.integer) for label in array.flat):
        array = array.astype(np.int64)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2 and array.shape[0] == count and bool((np.sort(array, axis=1)[:, :-1] == 0).all()):
        raise Misuse(
            f"labels must be whole numbers, one per image, got one-hot rows of shape {array.shape}",
            hint="take the class numbers: labels.argmax(1)",
        )
    if array.shape != (count,):
        raise Misuse(f"{count} images need as many labels, got an array of shape {array.shape}")
    if array.dtype.kind not in "iu":
        hint = "class numbers count from 0: `labels.astype(int)` where the numbers are whole"
        if array.dtype.kind in "UOS":
            hint = "number the names: sorted(set(labels)).index(label)"
        raise Misuse(f"labels must be whole numbers, got {array.dtype} such as `{shortened(str(array[0]))}`", hint=hint)
    if array.size and array.min() < 0:
        raise Misuse(f"labels must not be negative, got {array.min()}", hint="labels count the classes from 0")
    return array.astype(np.int64)


def _numbers_or_none(labels: object, count: int) -> NDArray[np.int64]:
    """Labels as whole numbers; None stands for those of images that nobody labelled."""
    return no_labels(count) if labels is None else class_numbers(labels, count)


def as_floats(pixels: Pixels) -> NDArray[np.float32]:
    """Images as float32 in [0, 1]."""
    return pixels.astype(np.float32) / np.float32(255) if pixels.dtype == np.uint8 else pixels.astype(np.float32)


def _samples(pixels: Pixels, labels: NDArray[np.int64], data: object, *, shuffled: bool) -> LabelledImages:
    if not len(pixels):
        raise Misuse("there are no images", hint=PAIR_HINT)
    pixels = _as_bytes(pixels)
    digests = [hashlib.sha256(np.ascontiguousarray(image).data).hexdigest() for image in pixels]
    if shuffled:
        order = sorted(range(len(pixels)), key=lambda i: (digests[i], labels[i]))
        pixels, labels, digests = pixels[order], labels[order], [digests[i] for i in order]
    numbers = numbered(range(len(pixels)), width=len(str(len(pixels) - 1)))
    ids = tuple(f"{number}-{digest[:HEX]}" for number, digest in zip(numbers, digests, strict=True))
    source = getattr(data, "dataset", data)
    while hasattr(source, "dataset"):  # a Subset of a Subset
        source = source.dataset
    names = getattr(source, "classes", ())
    is_list = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return LabelledImages(pixels, labels, ids, tuple(names) if is_list else ())


def _is_pair(data: Sequence[object]) -> bool:
    """Whether these are images and their labels. Two samples, or two batches, of (images, labels) are a dataset."""
    if len(data) != 2:
        return False
    if all(isinstance(part, list | tuple) and len(part) == 2 for part in data):
        parts: Any = data
        return not all(_dimensions(images) >= 2 and _dimensions(images) > _dimensions(label) for images, label in parts)
    return _dimensions(data[1]) < 3  # labels have 1, one-hot rows 2, an image 3


def _dimensions(value: Any) -> int:
    """How many axes an image, a batch or labels have."""
    if _is_pil(value):
        return 3
    try:
        return int(value.ndim) if hasattr(value, "ndim") else np.ndim(value)
    except (TypeError, ValueError, RuntimeError):  # a list of what does not stack
        return 1


def _items(data: object) -> Iterable[object]:
    """The samples or batches of a dataset or loader; an error for what is neither."""
    kind = type(data).__name__
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        raise Misuse(f"a {kind} does not say which part are the images", hint='give a pair: (data["x"], data["y"])')
    if _is_array(data):
        raise Misuse(
            "the images have no labels", hint="give (images, labels); where nobody labelled them, (images, None)"
        )
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        _warn_of_augmentation(data)
        return (data[i] for i in range(len(data)))
    if isinstance(data, Iterable):
        return data
    raise Misuse(f"no labelled images in a {kind}", hint=PAIR_HINT)


def _warn_of_augmentation(data: Any) -> None:
    """A dataset that gives another image each time was made for training: its rows are of these draws alone."""
    if not len(data):
        return
    one, other = (_batch(item, 0)[0] for item in _drawn(data[0] for _ in range(2)))
    if one.shape != other.shape or not np.array_equal(one, other):
        warnings.warn(
            f"the {type(data).__name__} gives another image each time that sample 0 is read: is its transform that of "
            "training? What is measured holds for this draw",
            HoldfastWarning,
            stacklevel=5,
        )


def _drawn(items: Iterable[object]) -> Iterator[object]:
    """The items one by one; where other people's code fails, the error says at which."""
    iterator, position = iter(items), 0
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except HoldfastError:
            raise
        except Exception as error:
            problem = f"item {position} of the data cannot be read: {type(error).__name__}: {error}"
            raise HoldfastError(problem, hint="leave it out of the dataset: torch.utils.data.Subset") from error
        yield item
        position += 1


def _batch(item: object, position: int) -> tuple[Pixels, NDArray[np.int64]]:
    """The images and labels of one item: a sample or a batch of them."""
    where = f"item {position} of the data"
    if isinstance(item, Mapping):
        keys = ", ".join(f"`{key}`" for key in list(item)[:8])
        image = next((f'"{key}"' for key in item if str(key).startswith(("image", "img", "pixel"))), '"image"')
        label = next((f'"{key}"' for key in item if str(key).startswith(("label", "target", "class"))), '"label"')
        raise Misuse(
            f"{where} is a dict with the keys {keys}, not (images, labels)",
            hint=f"give pairs: [(item[{image}], item[{label}]) for item in data]",
        )
    if not isinstance(item, list | tuple) or len(item) != 2:
        what = f"{len(item)} things" if isinstance(item, list | tuple) else f"a {type(item).__name__}"
        hint = "give a Dataset or a collate_fn whose items are (images, labels); without labels (images, None)"
        raise Misuse(f"{where} is {what}, not (images, labels)", hint=hint)
    images, labels = item
    try:
        array = None if isinstance(images, list | tuple) else _array(images)
        if array is None or array.ndim == 4:
            pixels = image_array(images).pixels
            return pixels, _numbers_or_none(labels, len(pixels))
        single = None if labels is None else [_single(labels)]
        return image_array(_sample(images, array)).pixels, _numbers_or_none(single, 1)
    except HoldfastError as error:
        raise Misuse(f"{where}: {error.problem}", hint=error.hint) from error


def _sample(image: object, array: NDArray[Any]) -> NDArray[Any]:
    """One image as a batch of one: CHW, HWC or HW."""
    if array.ndim not in (2, 3):
        raise Misuse(f"an image has the shape (channels, height, width), got {array.shape}")
    if array.ndim == 2:
        return array[None, None]
    is_last = array.shape[2] in CHANNELS and (array.shape[0] not in CHANNELS or _is_pil(image))
    return (array.transpose(2, 0, 1) if is_last else array)[None]


def _single(label: object) -> object:
    array = _array(label)
    return array.reshape(-1)[0] if array.size == 1 else label


def _stacked(images: Sequence[object]) -> NDArray[Any]:
    """A list of images as one array."""
    if not images:
        raise Misuse("there are no images")
    arrays = [_array(image) for image in images]
    shapes = {array.shape: i for i, array in reversed(list(enumerate(arrays)))}
    if len(shapes) > 1:
        (one, i), (other, j) = list(shapes.items())[:2]
        raise Misuse(
            f"image {min(i, j)} has the shape {one if i < j else other}, image {max(i, j)} {other if i < j else one}",
            hint="bring all to one size first",
        )
    return np.stack(arrays)


def _array(value: object) -> NDArray[Any]:
    if hasattr(value, "detach"):
        return np.asarray(value.detach().cpu().float() if _is_half(value) else value.detach().cpu())
    if _is_pil(value):
        image: Any = value
        if image.mode.startswith(("I", "F")):
            hint = "bring them to 8 bits, or give floats in [0, 1]: numpy.asarray(image) / 65535"
            raise Misuse(f"an image has pixels of mode {image.mode}, not of 8 bits", hint=hint)
        plain = image if image.mode in ("L", "RGB") else image.convert("L" if image.mode == "1" else "RGB")
        return np.asarray(plain)
    return np.asarray(value)


def _is_half(tensor: Any) -> bool:
    return str(tensor.dtype) in ("torch.bfloat16", "torch.float16")


def _is_pil(value: object) -> bool:
    return hasattr(value, "mode") and hasattr(value, "convert")


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) or hasattr(value, "detach")


def _checked(array: NDArray[Any]) -> Pixels:
    """uint8, or float32 in [0, 1]."""
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind != "f":
        hint = "`.astype(numpy.uint8)` where they run from 0 to 255"
        raise Misuse(f"images must be uint8, or floats in [0, 1], got {array.dtype}", hint=hint)
    floats = np.asarray(array, dtype=np.float32)
    if not floats.size:
        return floats
    low, high = float(floats.min()), float(floats.max())
    if not (low >= 0 and high <= 1):
        hint = "these look like bytes as floats: divide them by 255" if low >= 0 and 2 < high <= 255 else WRAP_HINT
        if not (np.isfinite(low) and np.isfinite(high)):
            hint = "NaN or infinity is no pixel: look at how the images are made"
        position = int((~((floats >= 0) & (floats <= 1))).reshape(len(floats), -1).any(axis=1).argmax())
        raise Misuse(f"image {position}: images must lie in [0, 1], got [{low:.4g}, {high:.4g}]", hint=hint)
    return floats


def _as_bytes(pixels: Pixels) -> Pixels:
    """The same images as uint8 where that loses nothing, a quarter of the memory."""
    if pixels.dtype == np.uint8:
        return pixels
    whole = np.rint(pixels * np.float32(255)).astype(np.uint8)
    return whole if np.array_equal(as_floats(whole), pixels) else pixels


def _within_memory(items: Iterable[object]) -> Iterator[object]:
    """The items, as long as this machine can hold the images of as many."""
    most, held = MEMORY_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), 0
    for item in items:
        image = item[0] if isinstance(item, list | tuple) and item else None
        held += int(getattr(image, "nbytes", 0))
        if held > most:
            raise HoldfastError(
                f"the images take more than {most / 2**30:.0f} GiB, too much for this machine's memory",
                hint="save them as a folder of images and name it: `folder:PATH,size=224`",
            )
        yield item


def _shuffles(data: object) -> bool:
    """Whether a loader gives the samples in another order each time, by whichever of its samplers."""
    by_batch = getattr(data, "batch_sampler", None)
    samplers = [getattr(data, "sampler", None), by_batch, getattr(by_batch, "sampler", None)]
    return any("Random" in type(each).__name__ or getattr(each, "shuffle", False) is True for each in samplers)


def _size(pixels: Pixels) -> str:
    return "x".join(map(str, pixels.shape[1:]))


def data_name(name: str, known: Iterable[str]) -> str:
    """The name of data in memory, refused where a dataset of holdfast has it."""
    if name in known:
        raise Misuse(f"`{name}` is the name of a dataset that holdfast has", hint="give your data another name")
    return checked_name(name)
