"""Threats: what an attacker may change, as geometry."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from torch import Tensor

from holdfast.core.noise import Noise

Props = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Scene:
    """What an attack works on, per sample: the images, how far it may go, and what was drawn once and stays.

    `props` are a threat's fixed draws or tables, such as the kernels of falling snow.
    """

    images: Tensor
    radius: Tensor
    props: Props = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.images)

    def take(self, index: Tensor) -> Scene:
        return Scene(self.images[index], self.radius[index], {name: prop[index] for name, prop in self.props.items()})

    def within(self, radius: Tensor) -> Scene:
        """The same scene with other radii."""
        return replace(self, radius=radius)


class Threat(Protocol):
    """A set of changes around each image. Every tensor is per sample in its first dimension.

    The `variable` is what an attack moves: for norm balls the perturbation itself, for others a flow field, a table of
    colours, coefficients. The image that a sample becomes may not depend on its neighbours.

    A threat derives from this class. `change_at_zero`: what it does to an image at radius 0, in words, if anything.
    `reads_values`: whether its steps depend on values of tensors, so that they cannot be recorded as a CUDA graph.
    `keeps_state`: whether it has state outside the loop's tensors, so that a loop cannot be saved halfway.
    `is_low_dimensional`: whether it moves a few numbers only. They may start at their best, and a grey image has no
    hue: zero gradients and flat objectives then say nothing about the model.
    """

    @property
    def change_at_zero(self) -> str:
        return ""

    @property
    def reads_values(self) -> bool:
        return False

    @property
    def keeps_state(self) -> bool:
        return False

    @property
    def is_low_dimensional(self) -> bool:
        return False

    @property
    def name(self) -> str: ...

    def props(self, images: Tensor, noise: Noise, draw: Tensor) -> Props:  # noqa: ARG002
        """What is drawn once per sample and run, and not optimised: nothing, for most threats."""
        return {}

    def identity(self, scene: Scene) -> Tensor:
        """The variable that changes nothing, or the least."""
        ...

    def start(self, scene: Scene, noise: Noise, draw: Tensor, *, border: bool = False) -> Tensor:
        """A random variable inside the set, or as far out as the radius allows."""
        ...

    def render(self, scene: Scene, variable: Tensor) -> Tensor:
        """The images as changed by the variable; gradients flow to the variable."""
        ...

    def project(self, scene: Scene, variable: Tensor) -> Tensor:
        """The nearest variable inside the set."""
        ...

    def ascent(self, scene: Scene, variable: Tensor, gradient: Tensor) -> Tensor:
        """The direction of size one along which the objective rises fastest."""
        ...

    def size(self, scene: Scene, variable: Tensor) -> Tensor:
        """The size of the change in the units of the radius, measured on the result."""
        ...


def scene_of(threat: Threat, images: Tensor, radius: Tensor, noise: Noise, draw: Tensor) -> Scene:
    """A scene with the threat's own draws in place."""
    return Scene(images, radius, threat.props(images, noise, draw))
