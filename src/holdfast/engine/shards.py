"""Shards of a dataset: read ahead of the measurement, brought to the device, with caches of images and logits."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.core.errors import HoldfastError, NotRead
from holdfast.core.types import Dataset, Images, bytes_of_file

AHEAD = 2


@dataclass(frozen=True, slots=True)
class Shard:
    """Some samples of a dataset, decoded."""

    index: NDArray[np.int64]
    images: Images


def shard_size(width: int) -> int:
    """Samples in a shard: enough to refill a batch a few times, few enough that a slow model shows progress.

    The same at every start, so that a resumed run meets the same batches as an undisturbed one.
    """
    return max(64, 4 * width)


def shards_ahead(dataset: Dataset, shards: Sequence[NDArray[np.int64]]) -> Generator[Shard | NotRead, None, None]:
    """Yields every shard decoded, or why it could not be read, reading up to two ahead in a thread.

    Any other error there is raised here.
    """
    ready: queue.Queue[Shard | BaseException | None] = queue.Queue(AHEAD)
    stopped = threading.Event()

    def offer(item: Shard | BaseException | None) -> None:
        while not stopped.is_set():
            with contextlib.suppress(queue.Full):
                ready.put(item, timeout=0.1)
                return

    def read() -> None:
        try:
            for index in shards:
                if stopped.is_set():
                    return
                try:
                    offer(Shard(index, dataset.images(index.tolist())))
                except NotRead as fault:
                    offer(fault)
            offer(None)
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            offer(error)

    thread = threading.Thread(target=read, name="holdfast-decode", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException) and not isinstance(item, NotRead):
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()


def on_device(pixels: Tensor, device: torch.device) -> Tensor:
    """Float32 images in [0, 1] on the device, in plain order; bytes travel as bytes.

    The strides of a single channel are arbitrary; a convolution may take them for channels last and answer in that
    order, on which a network's own `view` fails.
    """
    moved = pixels.to(device, non_blocking=True)
    images = moved.to(torch.float32).div_(255.0) if moved.dtype == torch.uint8 else moved.to(torch.float32)
    return images.contiguous().flatten().view(images.shape)


def out_of_range(images: Tensor) -> dict[int, str]:
    """Positions of images that are not in [0, 1], with the range found. All of them wrong is an error of set-up."""
    flat = images.flatten(1)
    if not flat.numel():
        return {}
    low, high = flat.amin(dim=1), flat.amax(dim=1)
    fine = (low >= 0) & (high <= 1)  # NaN is not
    if bool(fine.all()):
        return {}
    if not bool(fine.any()):
        raise HoldfastError(
            f"images must lie in [0, 1], got [{float(flat.min()):.4g}, {float(flat.max()):.4g}]",
            hint=_range_hint(float(flat.min()), float(flat.max())),
        )
    return {
        int(i): f"image outside [0, 1]: [{float(low[i]):.4g}, {float(high[i]):.4g}]"
        for i in (~fine).nonzero().squeeze(1)
    }


def _range_hint(low: float, high: float) -> str:
    """What to do about images outside [0, 1]: bytes saved as floats are divided, normalised images are not."""
    if low >= 0 and high <= 2:
        return "bring them into [0, 1] before they are saved: clip them, or divide them by their largest value"
    if low >= 0 and high <= 255:
        return "these look like bytes saved as floats: divide them by 255, or save them with `.astype(numpy.uint8)`"
    return "put the normalisation inside the classifier: models.normalised(net, mean, std)"


MOST_DECODED = 4 << 30  # bytes
MOST_LOGITS = 1 << 28  # bytes
SLOW = 1e-4  # seconds per image: what takes longer to read is worth keeping

ImagesKey = tuple[object, ...]


class ImageCache:
    """A dataset whose images are kept once decoded, where decoding is slow, up to a number of bytes."""

    def __init__(self, dataset: Dataset, most: int = MOST_DECODED) -> None:
        self.card, self.ids, self.labels = dataset.card, dataset.ids, dataset.labels
        self.dataset, self.most, self.held = dataset, most, 0
        self.kept: dict[bytes, Images] = {}

    def images(self, index: Sequence[int]) -> Images:
        key = np.asarray(index, dtype=np.int64).tobytes()
        if key in self.kept:
            return self.kept[key]
        begun = time.perf_counter()
        images = self.dataset.images(index)
        size = images.pixels.nbytes
        if time.perf_counter() - begun > SLOW * len(index) and self.held + size <= self.most:
            self.kept[key] = images
            self.held += size
        return images

    def file_bytes(self, position: int) -> bytes:
        return bytes_of_file(self.dataset, position)


class LogitCache:
    """Logits of one model by what was done to the images, the latest kept; an attack need not ask again."""

    def __init__(self, most: int = MOST_LOGITS) -> None:
        self.most, self.held = most, 0
        self.kept: OrderedDict[ImagesKey, dict[str, Tensor]] = OrderedDict()

    def keep(self, key: ImagesKey, ids: Sequence[str], logits: Tensor) -> None:
        if logits.nbytes > self.most:
            return
        self.kept.setdefault(key, {}).update(zip(ids, logits.detach().to("cpu", torch.float32), strict=True))
        self.kept.move_to_end(key)
        self.held += logits.nbytes
        while self.held > self.most:
            _, oldest = self.kept.popitem(last=False)
            self.held -= sum(row.nbytes for row in oldest.values())

    def recall(self, key: ImagesKey, ids: Sequence[str], device: torch.device) -> Tensor | None:
        """The logits of these samples, None unless all are known."""
        known = self.kept.get(key)
        if known is None or not ids or any(name not in known for name in ids):
            return None
        return torch.stack([known[name] for name in ids]).to(device)

    def forget(self) -> None:
        self.kept.clear()
        self.held = 0
