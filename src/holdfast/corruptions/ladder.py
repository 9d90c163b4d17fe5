"""What every corruption shares: a ladder of severities, drawing apart from applying, clipping and 8-bit rounding.

A corruption is one file with a renderer:

    @corruption("gaussian-noise", category="noise", cifar=(.04, .06, .08, .09, .10), imagenet=(.08, .12, .18, .26, .38))
    class GaussianNoise:
        def draw(self, images, level, noise): return level * noise.normal("pixels", images.shape[1:])
        def apply(self, images, drawn): return images + drawn

`draw` is all the randomness, `apply` is a function of images and parameters, so that a threat may optimise the same
parameters that a corruption draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import register
from holdfast.core.types import Batch, Changed, Classifier, Cost

HENDRYCKS = "Hendrycks & Dietterich 2019, arXiv:1903.12261"
LARGEST_CIFAR = 64  # pixels: images up to this side take the `cifar` ladder, larger ones `imagenet`
LEVELS = 255.0
AT_ONCE = {"cpu": 1 << 20, "gpu": 1 << 26}  # numbers

Level = float | tuple[float, ...]
LadderName = Literal["auto", "cifar", "imagenet"]
Quantise = Literal["round", "truncate", "off"]


class Renderer(Protocol):
    """How a corruption draws its parameters and applies them; `level` is its rung of the ladder.

    Where nothing is random the level is all that is drawn. A renderer may have `facts`, provenance in words, `at_once`,
    how many numbers of images a CPU takes at a time, and `source_in_key`, which names what it takes from outside the
    package.
    """

    def draw(self, images: Tensor, level: Any, noise: Noise) -> Any:  # noqa: ARG002
        return level

    def apply(self, images: Tensor, drawn: Any) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Corruption:
    """A renderer at one severity of one ladder."""

    name: str
    renderer: Renderer
    ladders: dict[str, tuple[Level, ...]]
    severity: int
    ladder: LadderName
    quantise: Quantise

    def __post_init__(self) -> None:
        rungs = len(self.ladders["cifar"])
        if not 1 <= self.severity <= rungs:
            raise Misuse(f"`severity` of `{self.name}` must be 1 to {rungs}, got {self.severity}")

    @property
    def source_in_key(self) -> str:
        """What the renderer takes from outside the package, where rows depend on it."""
        return str(getattr(self.renderer, "source_in_key", ""))

    @property
    def cost(self) -> Cost:
        return Cost()

    def __call__(self, model: Classifier | None, batch: Batch, noise: Noise, *, width: int) -> Changed:  # noqa: ARG002
        ladder, some = self._ladder(batch.images), self._at_once(batch.images)
        level = self.ladders[ladder][self.severity - 1]
        pieces = [
            self._rendered(batch.images[i : i + some], level, noise.take(slice(i, i + some)))
            for i in range(0, len(batch), some)
        ]
        facts = {f"{self.name} ladder": ladder, **getattr(self.renderer, "facts", {})}
        return Changed(torch.cat(pieces) if pieces else batch.images, facts=facts)

    def _at_once(self, images: Tensor) -> int:
        """How many images are rendered at a time: what stays in a core's cache, or what a GPU has memory for."""
        most = getattr(self.renderer, "at_once", AT_ONCE["cpu"]) if images.device.type == "cpu" else AT_ONCE["gpu"]
        return max(1, int(most) // max(1, images[:1].numel()))

    def _rendered(self, images: Tensor, level: Level, noise: Noise) -> Tensor:
        drawn = self.renderer.draw(images, level, noise)
        return quantised(self.renderer.apply(images, drawn).clamp(0.0, 1.0), self.quantise)

    def _ladder(self, images: Tensor) -> str:
        if self.ladder != "auto":
            return self.ladder
        return "cifar" if max(images.shape[-2:]) <= LARGEST_CIFAR else "imagenet"


def corruption(
    name: str,
    *,
    category: str,
    cifar: tuple[Level, ...],
    imagenet: tuple[Level, ...],
    version: int = 1,
    source: str = HENDRYCKS,
    extra: bool = False,
) -> Callable[[type[Renderer]], type[Renderer]]:
    """Registers a renderer with its two ladders, severity 1 first; `extra`: not one of the fifteen standard ones."""
    ladders = {"cifar": cifar, "imagenet": imagenet}
    middle = (len(cifar) + 1) // 2

    def decorate(renderer: type[Renderer]) -> type[Renderer]:
        def make(*, severity: int = middle, ladder: LadderName = "auto", quantise: Quantise = "round") -> Corruption:
            return Corruption(name, renderer(), ladders, severity, ladder, quantise)

        make.__doc__, make.__module__, make.__qualname__ = renderer.__doc__, renderer.__module__, renderer.__qualname__
        register("corruption", name, version=version, source=source, tags=(category, "extra" if extra else "standard"))(
            make
        )
        return renderer

    return decorate


def quantised(images: Tensor, how: Quantise = "round") -> Tensor:
    """Images as 8-bit storage would keep them. The published generators truncate, which darkens; we round."""
    if how == "off":
        return images
    levels = images * LEVELS
    return (levels.round() if how == "round" else levels.floor()) / LEVELS
