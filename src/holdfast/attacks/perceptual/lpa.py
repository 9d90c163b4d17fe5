"""The Lagrangian perceptual attacks: distance beyond the radius is paid for, at a rising price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import Objective, margin
from holdfast.attacks.perceptual.lpips import apart
from holdfast.attacks.perceptual.lpips_attack import LAIDLAW, LpipsAttack, margin_to_one, projection_cost
from holdfast.attacks.perceptual.lpips_ball import LpipsBall
from holdfast.attacks.shapes import TINY, length, wide
from holdfast.attacks.steps import Point, State, Step
from holdfast.attacks.threat import Scene, Threat
from holdfast.attacks.threats.balls import boxed
from holdfast.core.errors import Misuse
from holdfast.core.registry import register
from holdfast.core.types import Cost

CHEAP, DEAR = 0.01, 10.0  # price of distance: at first in LPA; at the end in Fast-LPA, and LPA's factor between rounds
PROBE = 0.1  # Euclidean length of the step that measures how fast the distance grows
FLAT = 1e-8
PUBLISHED_FAST_FLAT = 1e-4
DECAY = 0.1  # what is left of the step at the end of a round


@dataclass(frozen=True, slots=True)
class Excess:
    """The price of the distance beyond the radius."""

    ball: LpipsBall

    def __call__(self, scene: Scene, variable: Tensor, state: State) -> Tensor:
        self.ball.note(scene.props, backwards=int(torch.is_grad_enabled()))
        return state["price"] * (self.ball.far(scene, variable) - scene.radius).clamp_min(0.0)


@dataclass(frozen=True, slots=True)
class Lagrange(Step):
    """Along the gradient, as far as moves the features by a length that falls from the radius to a tenth of it.

    In `rounds` of `steps` each: where a round ends outside, the price of distance grows tenfold. Or `rising`: it grows
    tenfold from the first step to the last. The last step ends with a projection, so that its point counts.
    `stops`: a sample that was found broken inside takes that step and then no other, as in the published LPA.
    `flat`: added to how fast the features move, so that a flat place does not send the image to infinity.
    """

    strays: ClassVar[bool] = True
    steps: int
    rounds: int = 1
    rising: bool = False
    stops: bool = False
    flat: float = FLAT

    def fresh(self, threat: Threat, scene: Scene, variable: Tensor) -> State:  # noqa: ARG002
        price = torch.full_like(scene.radius, DECAY * DEAR if self.rising else CHEAP)
        return {"price": price} | ({"moves": torch.ones_like(price, dtype=torch.bool)} if self.stops else {})

    def advance(self, point: Point, state: State) -> Tensor:
        ball, scene, here, taken = point.threat, point.scene, point.variable, point.taken
        assert isinstance(ball, LpipsBall), "features are those of a ball"
        way = point.gradient / wide(length(point.gradient).clamp_min(TINY), here)
        with torch.no_grad():
            seen = ball.seen(scene, here)
            growth = apart(ball.seen(scene, here + PROBE * way), seen) / PROBE
        into = taken % self.steps
        stride = scene.radius * DECAY ** (into / self.steps) / (growth + self.flat)
        far = apart(seen, scene.props["features"])
        moved = boxed(scene, here + wide(stride, here) * way)
        outside = far >= scene.radius
        if self.stops:
            moved = torch.where(wide(state["moves"], here), moved, here)
            outside = outside & state["moves"]
            state["moves"] = state["moves"] & ~(point.wrong & (far <= scene.radius))
        state["price"] = self._price(state["price"], taken, outside)
        return self._counted(point, moved)

    def _price(self, price: Tensor, taken: Tensor, outside: Tensor) -> Tensor:
        """The price at the next point."""
        if self.rising:
            return DEAR * DECAY ** (1.0 - (taken + 1) / self.steps)
        return torch.where(outside & (taken % self.steps == self.steps - 1), DEAR * price, price)

    def _counted(self, point: Point, moved: Tensor) -> Tensor:
        """The last point of a run inside, where it counts."""
        rows = (point.taken == self.rounds * self.steps - 1).nonzero().squeeze(1)
        if len(rows):
            moved[rows] = point.threat.project(point.scene.take(rows), moved[rows])
        return moved


@register("attack", "lpa", source=LAIDLAW, tags=("white box", "lpips"), later=("published",))
def lpa(
    *,
    radius: float = 0.5,
    steps: int = 40,
    rounds: int = 5,
    restarts: int = 1,
    network: str = "self",
    published: bool = False,
) -> LpipsAttack:
    """Lagrangian perceptual attack: pays for LPIPS distance beyond `radius`, ten times as much after every round.

    `steps` are those of one of the `rounds`. `network`: whose features measure: `self` (the attacked model), `alexnet`,
    `alexnet-cifar`, or the path of a file with AlexNet's weights; radii of different networks do not compare. Published
    numbers of CIFAR-10 use `alexnet-cifar`, whose weights are in no public repository, those of ImageNet `alexnet`,
    whose weights are public; 0.5 and 40 steps are from their evaluation.
    Differs from the published code: a success is the very image that was tested, not one a step further on; the last
    image is projected and tested too, and the best image inside is kept where none succeeds; a projection always ends
    inside and aims there by 1 % of the radius, not by 0.1; the start is projected. `published` is as strong as the
    published code, and does all of this as it does.
    """
    step = Lagrange(steps, rounds, stops=published)
    return _lagrangian(radius, step, restarts, network, margin_to_one, published=published)


@register("attack", "fast-lpa", source=LAIDLAW, tags=("white box", "lpips"), later=("published",))
def fast_lpa(
    *, radius: float = 0.5, steps: int = 20, restarts: int = 1, network: str = "self", published: bool = False
) -> LpipsAttack:
    """Fast Lagrangian perceptual attack: one round in which the price of LPIPS distance beyond `radius` rises.

    Made for training; `lpa` is stronger. `network` as in `lpa`.
    Differs from the published code: the last image is projected and tested, because outside the set nothing counts
    (there it is used as it is), any image inside on the way counts, and the start is projected. `published` is as
    strong as the published code with its projection: only the last image counts.
    """
    step = Lagrange(steps, rising=True, flat=PUBLISHED_FAST_FLAT if published else FLAT)
    return _lagrangian(radius, step, restarts, network, margin, published=published)


def _lagrangian(
    radius: float, step: Lagrange, restarts: int, network: str, objective: Objective, *, published: bool
) -> LpipsAttack:
    if step.steps < 1 or step.rounds < 1:
        raise Misuse(f"steps and rounds are 1 or more, got {step.steps} and {step.rounds}")

    def inside(ball: LpipsBall) -> GradientAttack:
        return GradientAttack(
            *(ball, objective, step, step.rounds * step.steps, restarts),
            keep="last" if published else "strongest",
            penalty=Excess(ball),
            stop_when_broken=not published,
            radius=radius,
        )

    last = projection_cost(published)
    last = Cost(1 + last.forwards, last.backwards)
    return LpipsAttack(inside, radius, network, each=Cost(2, 1), last=last, published=published)
