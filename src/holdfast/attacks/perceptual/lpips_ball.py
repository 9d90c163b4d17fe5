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
from holdfast.attacks.threats.balls import boxed
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
# the published projection: most steps, how far inside they aim beside the excess, and what they go too far by
PUBLISHED_NEWTON, PUBLISHED_UNDERSHOOT, PUBLISHED_GAIN = 10, 0.1, 1.1
PUBLISHED_NUDGE = 1e-3  # of a direction, whatever its length

PROJECTION = Cost(forwards=NEWTON + HALVINGS + 1, backwards=NEWTON)  # most passes of one projection
PUBLISHED_PROJECTION = Cost(forwards=PUBLISHED_NEWTON + HALVINGS + 1, backwards=PUBLISHED_NEWTON)


class PassCounts:
    """Passes through the measuring network, sample by sample; samples are known by the keys of their noise."""

    def __init__(self, noise: Noise) -> None:
        self.keys, self.order = noise.keys.sort()
        self.forwards, self.backwards = torch.zeros_like(self.keys), torch.zeros_like(self.keys)

    def rows(self, noise: Noise) -> Tensor:
        return self.order[torch.searchsorted(self.keys, noise.keys)]

    def add(self, rows: Tensor, forwards: int, backwards: int) -> None:
        """A sample may be there more than once, and each counts."""
        for counts, passes in ((self.forwards, forwards), (self.backwards, backwards)):
            if passes:
                counts.index_add_(0, rows, torch.full_like(rows, passes))


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
    `published`: a projection aims inside by 0.1 whatever the radius, the start is not projected, not even onto the
    box, what a probe shows is not cut to valid images, and the metric has no ridge.
    A projection asks which samples are still outside, on a GPU too: a pass through a network costs more than the wait.
    """

    name: ClassVar[str] = "lpips"
    reads_values: ClassVar[bool] = True
    network: Look
    conjugate: int = CONJUGATE
    width: int = EVERYONE
    counts: PassCounts | None = None
    published: bool = False
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
        spread = spread * (0.5 if border else START)
        return spread if self.published else self.project(scene, spread)

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
        images = self.render(scene, variable)
        seen = features(self.network, images if self.published else images.clamp(0.0, 1.0))
        self.memory.keep(scene, variable, seen)
        return seen

    def note(self, props: Props, *, forwards: int = 0, backwards: int = 0) -> None:
        """Enters passes of these samples."""
        if self.counts is not None:
            self.counts.add(props["row"], forwards, backwards)

    def project(self, scene: Scene, variable: Tensor) -> Tensor:
        """Newton steps on the distance, then halvings of the distance to the clean image for those still outside.

        Always a point inside; what is inside already stays where it is.
        """
        return self._in_parts(self._projected, scene, variable)

    def _projected(self, scene: Scene, variable: Tensor) -> Tensor:
        result = boxed(scene, variable.detach())
        rows, slopes = torch.arange(len(result), device=result.device), torch.zeros_like(result)
        limit = scene.radius * (1 + SLACK) + ROUNDING
        for _ in range(PUBLISHED_NEWTON if self.published else NEWTON):
            part, here = scene.take(rows), result[rows].requires_grad_(True)
            with torch.enable_grad():
                far = self.far(part, here)
                outside = (far.detach() > limit[rows]).nonzero().squeeze(1)
                if not len(outside):
                    return result
                (slope,) = torch.autograd.grad(far[outside].sum(), here)
            rows, part, slope = rows[outside], part.take(outside), slope[outside].nan_to_num_(0.0, 0.0, 0.0)
            self.note(part.props, backwards=1)
            if self.published:  # the published code adds the slopes of all steps so far, which shortens later ones
                slope = slopes[rows] = slopes[rows] + slope
            excess = self._excess(far.detach()[outside], part.radius)
            pull = excess / slope.flatten(1).square().sum(1).clamp_min(TINY)
            result[rows] = boxed(part, here.detach()[outside] - wide(pull, slope) * slope)
            limit = scene.radius
        result[rows] = self._halved(scene.take(rows), result[rows])
        return result

    def _excess(self, far: Tensor, radius: Tensor) -> Tensor:
        """By how much a Newton step means to shorten the distance."""
        if self.published:
            return PUBLISHED_GAIN * (far - radius + PUBLISHED_UNDERSHOOT)
        return far - radius * (1 - UNDERSHOOT)

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
            self.note(scene.props, backwards=1)
            moved = self._derivative(scene, at.detach(), along, base)  # J along
            (back,) = torch.autograd.grad(here, at, moved, retain_graph=turn + 1 < self.conjugate)
            bend = (along * back).flatten(1).sum(1) if self.published else moved.square().sum(1)
            if turn == 0 and not self.published:
                floor = RIDGE * bend / first.clamp_min(TINY)
            bend = bend + floor * scale.square()
            # measured by a difference, the published bend may be negative, and is divided by all the same
            reach = much / torch.where(bend.abs() < TINY, TINY, bend) if self.published else much / bend.clamp_min(TINY)
            way, seen = way + wide(reach, along) * along, seen + reach[:, None] * moved
            left = left - wide(reach, along) * (back + wide(floor, along) * along)
            before, much = much, left.flatten(1).square().sum(1)
            along = left + wide(much / before.clamp_min(TINY), along) * along
        if self.published:
            seen = self._derivative(scene, at.detach(), way, base)
        steep = (length(gradient) >= STEEP) & (length(seen) > TINY)
        return way * wide(steep / length(seen).clamp_min(TINY), way)

    def _derivative(self, scene: Scene, at: Tensor, along: Tensor, base: Tensor) -> Tensor:
        """How the features change along a direction: by a step of fixed length, or as published by a thousandth."""
        self.note(scene.props, forwards=1)
        scale = torch.ones_like(scene.radius) if self.published else length(along).clamp_min(TINY)
        step = PUBLISHED_NUDGE if self.published else NUDGE
        with torch.no_grad():
            nudged = features(self.network, scene.images + at + wide(step / scale, along) * along)
        return (nudged - base) * (scale / step)[:, None]

    def _in_parts(self, work: Callable[[Scene, Tensor], Tensor], scene: Scene, variable: Tensor) -> Tensor:
        if len(variable) <= self.width:
            return work(scene, variable)
        rows = torch.split(torch.arange(len(variable), device=variable.device), self.width)
        return torch.cat([work(scene.take(part), variable[part]) for part in rows])
