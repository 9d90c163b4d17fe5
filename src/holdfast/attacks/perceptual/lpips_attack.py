"""Attacks inside an LPIPS ball: whole once the model is there, because the model may be the network that measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import margin
from holdfast.attacks.perceptual.lpips import SELF, network_for, weights_words
from holdfast.attacks.perceptual.lpips_ball import (
    CONJUGATE,
    PROJECTION,
    PUBLISHED_PROJECTION,
    LpipsBall,
    PassCounts,
)
from holdfast.attacks.steps import Steepest
from holdfast.core.errors import Misuse
from holdfast.core.home import LPIPS_WEIGHTS
from holdfast.core.noise import Noise
from holdfast.core.registry import register
from holdfast.core.types import AttackResult, Batch, Classifier, Cost

NO_PASSES = Cost()
LAIDLAW = "Laidlaw et al. 2021, arXiv:2006.12655"


def margin_to_one(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """The margin up to one: there is nothing to gain from being more wrong than that (kappa of arXiv:2006.12655)."""
    return margin(logits, labels, targets).clamp_max(1.0)


@dataclass(frozen=True, slots=True)
class LpipsAttack(Attack):
    """A gradient attack inside the LPIPS ball of the network with that name; `self` is the attacked model itself.

    `each` and `last`: most passes through that network that a step takes, and the end of a run beside its steps. They
    count as passes of the model where it is the network, and in a tally where it is another. `published`: the ball's
    projection is that of the published code.
    """

    inside: Callable[[LpipsBall], GradientAttack]
    radius: float
    network: str
    each: Cost
    last: Cost = NO_PASSES
    published: bool = False

    def __post_init__(self) -> None:
        self.inside(LpipsBall(_no_network))  # what is wrong with the numbers shows before there is a model

    @property
    def cost(self) -> Cost:
        inside = self.inside(LpipsBall(_no_network))
        if self.network != SELF:
            return inside.cost
        runs, steps = inside.runs, inside.steps + 1  # a sample that is done may take one more, with others in its batch
        projection = projection_cost(self.published)
        # every run sees the clean image and projects its start; so does the whole, and then measures the result
        return Cost(
            inside.cost.forwards
            + runs * (steps * self.each.forwards + self.last.forwards)
            + (runs + 1) * (projection.forwards + 1)
            + 1,
            inside.cost.backwards
            + runs * (1 + steps * self.each.backwards + self.last.backwards)
            + (runs + 1) * projection.backwards,
        )

    @property
    def source_in_key(self) -> str:
        """The weights that measure, where they are somebody's own file."""
        return "" if self.network in (SELF, *LPIPS_WEIGHTS) else f"lpips network {weights_words(self.network)}"

    def attempt(
        self, model: Classifier, batch: Batch, noise: Noise, radius: Tensor, *, width: int, first: Tensor | None = None
    ) -> AttackResult:
        network, counts = network_for(self.network, model, batch.images), PassCounts(noise)
        ball = LpipsBall(network, width=width, counts=counts, published=self.published)
        result = self.inside(ball).attempt(model, batch, noise, radius, width=width, first=first)
        result.facts["lpips network"] = network.label
        if self.network == SELF:
            result.forwards, result.backwards = result.forwards + counts.forwards, result.backwards + counts.backwards
        else:
            result.tallies["lpips passes"] = int((counts.forwards + counts.backwards).sum())
        return result


def projection_cost(published: bool) -> Cost:
    return PUBLISHED_PROJECTION if published else PROJECTION


def _no_network(images: Tensor) -> Sequence[Tensor]:
    raise AssertionError(f"no network yet to see {len(images)} images with")


@register("attack", "ppgd", source=LAIDLAW, tags=("white box", "lpips"), later=("published",))
def ppgd(
    *, radius: float = 0.5, steps: int = 40, restarts: int = 1, network: str = "self", published: bool = False
) -> LpipsAttack:
    """Perceptual PGD: steepest ascent in a network's own metric, inside an LPIPS distance of `radius`.

    `network`: whose features measure: `self` (the attacked model), `alexnet`, `alexnet-cifar`, or the path of a file
    with AlexNet's weights; radii of different networks do not compare. Published numbers of CIFAR-10 use
    `alexnet-cifar`, whose weights are in no public repository, those of ImageNet `alexnet`, whose weights are public;
    0.5 and 40 steps are from their evaluation.
    Differs from the published code: a projection always ends inside, moves only what is outside, and aims inside by 1 %
    of the radius (there by 0.1, whatever the radius, which weakens small ones); the conjugate gradients never stop for
    the whole batch, measure derivatives by a step of fixed length, and add 5 % of the metric along the gradient in all
    directions; the start is projected; a sample stops at its first success. `published` is as strong as the published
    code: its projection, its metric, every step on every sample, the last point.
    """
    if steps < 1:
        raise Misuse(f"steps is 1 or more, got {steps}")

    def inside(ball: LpipsBall) -> GradientAttack:
        return GradientAttack(
            *(ball, margin_to_one, Steepest(2.0 / steps), steps, restarts),
            keep="last" if published else "strongest",
            stop_when_broken=not published,
            radius=radius,
        )

    projection = projection_cost(published)
    each = Cost(1 + CONJUGATE + published + projection.forwards, CONJUGATE + projection.backwards)
    return LpipsAttack(inside, radius, network, each, published=published)
