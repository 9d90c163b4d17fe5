"""What the parity scripts share: a model, a batch of real images, and who is right about them."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.models import TorchClassifier

WIDTH = 256


def peer_parser(script: str, *, attacks: str, samples: int = 200) -> argparse.ArgumentParser:
    """The options of a comparison with published code in the folder `--peer`; `script`: the docstring of the script."""
    parser = argparse.ArgumentParser(description=script.splitlines()[0])
    parser.add_argument("--peer", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--attacks", default=attacks)
    parser.add_argument("--samples", type=int, default=samples)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    return parser


class Result(NamedTuple):
    """Who is still right, the seconds it took, and passes per sample (forwards + backwards)."""

    right: Tensor
    seconds: float
    passes: float


class Counted:
    """A model that counts the images it is asked about; a backward pass follows where gradients are on."""

    def __init__(self, model: TorchClassifier) -> None:
        self.model, self.images = model, 0

    def __call__(self, images: Tensor) -> Tensor:
        self.images += len(images) * (2 if torch.is_grad_enabled() else 1)
        return self.model(images)


def batch_of(ref: str, samples: int, device: torch.device | str = "cpu") -> Batch:
    """Samples spread over the dataset, which may be sorted by class."""
    dataset = registry.build(registry.bind("dataset", ref))
    index = torch.linspace(0, len(dataset.ids) - 1, min(samples, len(dataset.ids))).long().tolist()
    pixels = dataset.images(index).pixels
    # in plain order: grey images may come with strides that select another, quicker kernel
    images = torch.empty(pixels.shape, device=device).copy_(pixels) / 255
    labels = torch.from_numpy(dataset.labels)[index].to(device)
    return Batch(images, labels, tuple(dataset.ids[i] for i in index))


def right(model: TorchClassifier, images: Tensor, labels: Tensor, *, width: int = WIDTH) -> Tensor:
    with torch.no_grad():
        return torch.cat([model(part).argmax(dim=1) for part in images.split(width)]) == labels


def ours(model: TorchClassifier, batch: Batch, attack: str, *, width: int, seed: int = 0) -> Result:
    """Our attack, by its ref."""
    change = registry.build(registry.bind("attack", attack))
    noise = Noise.of(seed, batch.ids, batch.images.device)
    changed, seconds = timed(lambda: change(model, batch, noise, width=width))
    passes = float((changed.forwards + changed.backwards).float().mean())
    return Result(right(model, changed.images, batch.labels), seconds, passes)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    began = time.perf_counter()
    made = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return made, time.perf_counter() - began


def peer_module(folder: Path | None, name: str, repository: str) -> Any:
    """A module of a peer's checkout, or a sentence that says what is missing."""
    if folder is None or not (folder / (name.replace(".", "/") + ".py")).exists():
        raise SystemExit(f"nothing to compare with: give the folder of a checkout of {repository}, which has {name}")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return importlib.import_module(name)


HEAD = (
    f"{'attack':24}{'radius':>8}{'n':>6}{'theirs':>9}{'ours':>9}{'agree':>8}"
    f"{'seconds':>10}{'ours':>9}{'passes':>9}{'ours':>8}"
)


def line(name: str, radius: str, theirs: Result, mine: Result) -> str:
    """One row of a table: accuracy left by theirs and ours, agreement, seconds, passes per sample."""
    same = (theirs.right == mine.right).float().mean()
    kept = [100 * float(result.right.float().mean()) for result in (theirs, mine)]
    return (
        f"{name:24}{radius:>8}{len(theirs.right):6}{kept[0]:8.2f}%{kept[1]:8.2f}%{100 * float(same):7.1f}%"
        f"{theirs.seconds:10.1f}{mine.seconds:9.1f}{theirs.passes:9.0f}{mine.passes:8.0f}"
    )
