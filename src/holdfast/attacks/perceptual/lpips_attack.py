"""Attacks inside an LPIPS ball: whole once the model is there, because the model may be the network that measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.objectives import margin
from holdfast.attacks.perceptual.lpips import SELF, network_for
from holdfast.attacks.perceptual.lpips_ball import PROJECTION, LpipsBall, PassCounts
from holdfast.core.noise import Noise
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
    count as passes of the model where it is the network, and in a tally where it is another.
    """

    inside: Callable[[LpipsBall], GradientAttack]
    radius: float
    network: str
    each: Cost
    last: Cost = NO_PASSES

    def __post_init__(self) -> None:
        self.inside(LpipsBall(_no_network))  # what is wrong with the numbers shows before there is a model

    @property
    def cost(self) -> Cost:
        inside = self.inside(LpipsBall(_no_network))
        if self.network != SELF:
            return inside.cost
        runs, steps = inside.runs, inside.steps + 1  # a sample that is done may take one more, with others in its batch
        # every run sees the clean image and projects its start; so does the whole, and then measures the result
        return Cost(
            inside.cost.forwards
            + runs * (steps * self.each.forwards + self.last.forwards)
            + (runs + 1) * (PROJECTION.forwards + 1)
            + 1,
            inside.cost.backwards
            + runs * (1 + steps * self.each.backwards + self.last.backwards)
            + (runs + 1) * PROJECTION.backwards,
        )

    def attempt(
        self,
        model: Classifier,
        batch: Batch,
        noise: Noise,
        radius: Tensor,
        *,
        width: int,
        first: Tensor | None = None,
    ) -> AttackResult:
        network, counts = network_for(self.network, model, batch.images), PassCounts(noise)
        ball = LpipsBall(network, width=width, counts=counts)
        result = self.inside(ball).attempt(model, batch, noise, radius, width=width, first=first)
        result.facts["lpips network"] = network.label
        if self.network == SELF:
            result.forwards, result.backwards = result.forwards + counts.forwards, result.backwards + counts.backwards
        else:
            result.tallies["lpips passes"] = int((counts.forwards + counts.backwards).sum())
        return result


def _no_network(images: Tensor) -> Sequence[Tensor]:
    raise AssertionError(f"no network yet to see {len(images)} images with")
