"""Attacks inside an LPIPS ball: whole once the model is there, because the model may be the network that measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from holdfast.attacks.attack import Attack, Attempt
from holdfast.attacks.budget import NOTHING, Budget
from holdfast.attacks.loop import Climb
from holdfast.attacks.objectives import margin
from holdfast.attacks.perceptual.lpips import SELF, network_for
from holdfast.attacks.perceptual.lpips_ball import PROJECTION, Ledger, LpipsBall
from holdfast.core.noise import Noise
from holdfast.core.types import Batch, Classifier, Cost

LAIDLAW = "Laidlaw et al. 2021, arXiv:2006.12655"


def margin_to_one(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """The margin up to one: there is nothing to gain from being more wrong than that (kappa of arXiv:2006.12655)."""
    return margin(logits, labels, targets).clamp_max(1.0)


@dataclass(frozen=True, slots=True)
class LpipsAttack(Attack):
    """A climb inside the LPIPS ball of the network with that name, the attacked model's own features for `self`.

    `each` and `last`: most passes through that network that a step takes, and the end of a run beside its steps. They
    count as passes of the model where it is the network, and in a tally where it is another.
    """

    climb: Callable[[LpipsBall], Climb]
    radius: float
    network: str
    each: Cost
    last: Cost = NOTHING

    def __post_init__(self) -> None:
        self._inside(LpipsBall(_blind))  # what is wrong with the numbers shows before there is a model

    @property
    def cost(self) -> Cost:
        inside = self._inside(LpipsBall(_blind))
        if self.network != SELF:
            return inside.cost
        runs, steps = inside.climb.runs, inside.climb.steps + 1  # who is done in a mixed batch takes one step more
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
    ) -> Attempt:
        network, ledger = network_for(self.network, model, batch.images), Ledger(noise)
        ball = LpipsBall(network, width=width, ledger=ledger)
        made = self._inside(ball).attempt(model, batch, noise, radius, width=width, first=first)
        made.facts["lpips network"] = network.label
        if self.network == SELF:
            made.forwards, made.backwards = made.forwards + ledger.forwards, made.backwards + ledger.backwards
        else:
            made.tallies["lpips passes"] = int((ledger.forwards + ledger.backwards).sum())
        return made

    def _inside(self, ball: LpipsBall) -> Budget:
        return Budget(self.climb(ball), self.radius)


def _blind(images: Tensor) -> Sequence[Tensor]:
    raise AssertionError(f"no network yet to see {len(images)} images with")
