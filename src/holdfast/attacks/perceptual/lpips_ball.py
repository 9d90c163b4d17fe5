"""The LPIPS ball: images that a network finds no farther from the clean one than the radius."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.perceptual.lpips import Look, apart, features
from holdfast.attacks.shapes import TINY, length, wide
from holdfast.attacks.threat import Props, Scene, Threat
from holdfast.attacks.threats.projections import boxed
from holdfast.core.noise import Noise
from holdfast.core.types import Cost

START = 0.01  # standard deviation of the first noise, as published
CONJUGATE = 5  # iterations of conjugate gradients for a direction, as published
NEWTON, HALVINGS = 5, 10  # most steps of a projection
UNDERSHOOT = 0.01  # of the radius: how far inside a Newton step aims, so that it arrives
SLACK, ROUNDING = 5e-5, 5e-7  # half of what a result may be outside: so what was projected stays where it is
NUDGE = 0.05  # Euclidean length of the step that measures a derivative; 0.001 breaks no more, and rounds worse
RIDGE = 0.05  # of the bend along the gradient, added in all directions: where a network is blind no step is endless
STEEP = 1e-4  # a gradient shorter than this gives no direction, as published
EVERYONE = 1 << 30

PROJECTION = Cost(forwards=NEWTON + HALVINGS + 1, backwards=NEWTON)  # most passes of one projection


class PassCounts:
    """Passes through the measuring network, sample by sample; samples are known by the keys of their noise."""

    def __init__(self, noise: Noise) -> None:
        self.keys, self.order = noise.keys.sort()
        self.forwards, self.backwards = torch.zeros_like(self.keys), torch.zeros_like(self.keys)

    def rows(self, noise: Noise) -> Tensor:
        return self.order[torch.searchsorted(self.keys, noise.keys)]


class Memory:
    """What the network saw last: asking about the same images again costs no pass."""

    def __init__(self) -> None:
        self.about: list[tuple[Tensor, int]] = []
        self.features: Tensor | None = None

    def keep(self, scene: Scene, variable: Tensor, seen: Tensor) -> None:
        # holding the tensors keeps their memory from being used again; the version tells whether they were written to
        self.about = [(tensor.detach(), tensor._version) for tensor in (scene.images, variable)]
        self.features = seen.detach()

    def of(self, scene: Scene, variable: Tensor) -> Tensor | None:
        asked = (scene.images, variable)
        same = [
            kept.data_ptr() == tensor.data_ptr() and kept.shape == tensor.shape and version == tensor._version
            for (kept, version), tensor in zip(self.about, asked, strict=False)
        ]
        return self.features if same and all(same) else None


@dataclass(frozen=True, slots=True)
class LpipsBall(Threat):
    """A network may find the changed image no farther from the clean one than the radius.

    The variable is the perturbation, kept in the box. `conjugate`: iterations to find the steepest ascent in the
    network's own metric. At most `width` samples pass through the network at once; passes are added to `counts`.
    A projection asks which samples are still outside, on a GPU too: a pass through a network costs more than the wait.
    """

    name: ClassVar[str] = "lpips"
    reads_values: ClassVar[bool] = True
    network: Look
    conjugate: int = CONJUGATE
    width: int = EVERYONE
    counts: PassCounts | None = None
    memory: Memory = field(default_factory=Memory, compare=False, repr=False)

    @property
    def keeps_state(self) -> bool:
        return self.counts is not None

    def props(self, images: Tensor, noise: Noise, draw: Tensor) -> Props:
        """What the network sees in the clean images."""
        rows = torch.zeros_like(draw) if self.counts is None else self.counts.rows(noise)
        with torch.no_grad():
            seen = torch.cat([features(self.network, part) for part in torch.split(images, self.width)])
        props = {"features": seen, "row": rows}
        self.note(props, forwards=1)
        return props

    def identity(self, scene: Scene) -> Tensor:
        return torch.zeros_like(scene.images)

    def start(self, scene: Scene, noise: Noise, draw: Tensor, *, border: bool = False) -> Tensor:
        """A little Gaussian noise, or much of it, brought back to the border."""
        spread = noise.normal("start", scene.images.shape[1:], draw=draw)
        return self.project(scene, spread * (0.5 if border else START))

    def render(self, scene: Scene, variable: Tensor) -> Tensor:
        return scene.images + variable

    def size(self, scene: Scene, variable: Tensor) -> Tensor:
        """Exactly zero where nothing is changed, whatever the rounding of a network."""
        with torch.no_grad():
            far = self._in_parts(self.far, scene, variable)
        return torch.where(variable.flatten(1).abs().amax(dim=1) > 0, far, 0.0)

    def far(self, scene: Scene, variable: Tensor) -> Tensor:
        """The distance from the clean images."""
        return apart(self.seen(scene, variable), scene.props["features"])

    def seen(self, scene: Scene, variable: Tensor) -> Tensor:
        """What the network sees in the changed images; gradients flow to the variable if it asks for them."""
        known = None if torch.is_grad_enabled() and variable.requires_grad else self.memory.of(scene, variable)
        if known is not None:
            return known
        self.note(scene.props, forwards=1)
        seen = features(self.network, self.render(scene, variable).clamp(0.0, 1.0))
        self.memory.keep(scene, variable, seen)
        return seen

    def note(self, props: Props, *, forwards: int = 0, backwards: int = 0) -> None:
        """Enters passes of these samples."""
        if self.counts is not None:
            self.counts.forwards[props["row"]] += forwards
            self.counts.backwards[props["row"]] += backwards

    def project(self, scene: Scene, variable: Tensor) -> Tensor:
        """Newton steps on the distance, then halvings of the distance to the clean image for those still outside.

        Always a point inside; what is inside already stays where it is.
        """
        return self._in_parts(self._projected, scene, variable)

    def _projected(self, scene: Scene, variable: Tensor) -> Tensor:
        result = boxed(scene, variable.detach())
        rows = torch.arange(len(result), device=result.device)
        limit = scene.radius * (1 + SLACK) + ROUNDING
        for _ in range(NEWTON):
            part, here = scene.take(rows), result[rows].requires_grad_(True)
            with torch.enable_grad():
                far = self.far(part, here)
                outside = (far.detach() > limit[rows]).nonzero().squeeze(1)
                if not len(outside):
                    return result
                (slope,) = torch.autograd.grad(far[outside].sum(), here)
            rows, part, slope = rows[outside], part.take(outside), slope[outside].nan_to_num_(0.0, 0.0, 0.0)
            self.note(part.props, backwards=1)
            excess = far.detach()[outside] - part.radius * (1 - UNDERSHOOT)
            pull = excess / slope.flatten(1).square().sum(1).clamp_min(TINY)
            result[rows] = boxed(part, here.detach()[outside] - wide(pull, slope) * slope)
            limit = scene.radius
        result[rows] = self._halved(scene.take(rows), result[rows])
        return result

    def _halved(self, scene: Scene, variable: Tensor) -> Tensor:
        """The farthest point found inside on the line from the clean image to the variable."""
        inside, outside = torch.zeros_like(scene.radius), torch.ones_like(scene.radius)
        share = outside
        with torch.no_grad():
            for _ in range(HALVINGS + 1):
                fits = self.far(scene, wide(share, variable) * variable) <= scene.radius
                inside, outside = torch.where(fits, share, inside), torch.where(fits, outside, share)
                share = (inside + outside) / 2
        return wide(inside, variable) * variable

    def ascent(self, scene: Scene, variable: Tensor, gradient: Tensor) -> Tensor:
        """The direction v of length |Jv| = 1 along which the objective rises fastest, J the derivative of the features.

        Conjugate gradients on (JᵀJ + ridge) v = gradient, per sample; arXiv:2006.12655 has no ridge.
        """
        with torch.enable_grad():
            at = variable.detach().requires_grad_(True)
            here = self.seen(scene, at)
        base = here.detach()
        way, seen = torch.zeros_like(gradient), torch.zeros_like(base)
        left = along = gradient
        much = first = left.flatten(1).square().sum(1)
        floor = torch.zeros_like(much)
        for turn in range(self.conjugate):
            scale = length(along).clamp_min(TINY)
            self.note(scene.props, forwards=1, backwards=1)
            with torch.no_grad():
                nudged = features(self.network, scene.images + at + wide(NUDGE / scale, along) * along)
            moved = (nudged - base) * (scale / NUDGE)[:, None]  # J along
            (back,) = torch.autograd.grad(here, at, moved, retain_graph=turn + 1 < self.conjugate)
            bend = moved.square().sum(1)
            if turn == 0:
                floor = RIDGE * bend / first.clamp_min(TINY)
            reach = much / (bend + floor * scale.square()).clamp_min(TINY)
            way, seen = way + wide(reach, along) * along, seen + reach[:, None] * moved
            left = left - wide(reach, along) * (back + wide(floor, along) * along)
            before, much = much, left.flatten(1).square().sum(1)
            along = left + wide(much / before.clamp_min(TINY), along) * along
        steep = (length(gradient) >= STEEP) & (length(seen) > TINY)
        return way * wide(steep / length(seen).clamp_min(TINY), way)

    def _in_parts(self, work: Callable[[Scene, Tensor], Tensor], scene: Scene, variable: Tensor) -> Tensor:
        if len(variable) <= self.width:
            return work(scene, variable)
        rows = torch.split(torch.arange(len(variable), device=variable.device), self.width)
        return torch.cat([work(scene.take(part), variable[part]) for part in rows])
