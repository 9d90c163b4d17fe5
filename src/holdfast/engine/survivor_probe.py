"""A cheap second look at a few samples that withstood a gradient attack.

Do queries break them, do gradients lead on, and are gradients true where it counts, just before the boundary?

It runs once, when a run's rows are joined, on samples chosen by their keys: the same whatever the shards, the number of
starts and the machine. It changes no row. Its counts and passes go to the run's tallies, from which flags are raised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast.attacks.asked_model import ExactModel
from holdfast.attacks.attack import Attack
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.recipes.cascade import Cascade
from holdfast.attacks.shapes import parts_of, wide
from holdfast.attacks.success import is_wrong
from holdfast.attacks.threats.balls import Ball
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.engine.device import is_out_of_memory
from holdfast.engine.jobs import Job
from holdfast.engine.measure import final_logits
from holdfast.models.gradient_probes import PASSES_TO_COMPARE, rises_as_gradients_say
from holdfast.models.subject import margin_of
from holdfast.store import Rows

MOST, FEWEST = 16, 4  # survivors; fewer tell nothing
QUERIES, LEAST_QUERIES = 100, 30
SHARE = 0.05  # of the passes that the run itself may take, for queries
IN_BATCH, MOST_IN_BATCH = 8, 128  # survivors alone among themselves, and in a batch such as the run's
MOVED = 0.05  # of the length of a gradient: what other batches may change of it
UNBOUNDED = "pgd-linf:radius=0.5,steps=20"
HALVINGS = 5  # of the way to the boundary, to find it
BEFORE = 0.9  # of that way: where gradients are compared
STRONG = ("apgd-ce-{norm}:steps=50", "apgd-dlr-{norm}:steps=50")


@dataclass(frozen=True, slots=True)
class Reach:
    """The norm and radius a gradient attack is bounded by."""

    norm: str
    radius: float


def probed(
    job: Job, pieces: Sequence[Rows], order: Sequence[str], device: torch.device, *, width: int
) -> dict[str, int]:
    """What a second look at some survivors found, as tallies; nothing where the run follows no gradients.

    `order` names the samples of the run, `pieces` hold them. A look that fails leaves the run as it is, and says so.
    """
    attack = job.changes[-1][1] if job.changes else None
    if not isinstance(attack, Attack) or not attack.cost.backwards:
        return {}
    chosen = _survivors(job, pieces, order)
    if len(chosen) < FEWEST:
        return {}
    planned = len(order) * (attack.cost.forwards + attack.cost.backwards)
    queries = max(LEAST_QUERIES, min(QUERIES, int(SHARE * planned / len(chosen))))
    try:
        look = _Look(job, chosen, device, width)
        return _looked(look, reach_of(attack), queries, min(width, len(order), MOST_IN_BATCH))
    except Exception as error:
        if is_out_of_memory(error):
            raise
        return {"probe: failed": 1}


def _looked(look: _Look, reach: Reach | None, queries: int, together: int) -> dict[str, int]:
    tallies = look.unbounded() | look.in_batches(together)
    if reach is not None:
        tallies |= look.clean() | look.queries(reach, queries)
    return tallies | {"probe: passes": look.passes}


def reach_of(attack: Attack) -> Reach | None:
    """The bound of an attack in a norm ball; None where it has none, or where queries are part of it already."""
    if isinstance(attack, Cascade):
        if any(not stage.attack.cost.backwards for stage in attack.stages):
            return None
        reaches = [reach_of(stage.attack) for stage in attack.stages]
        first = next((reach for reach in reaches if reach is not None), None)
        if first is None or math.isnan(attack.radius):
            return first
        return replace(first, radius=attack.radius)
    if isinstance(attack, GradientAttack):
        threat = attack.threat
        if isinstance(threat, Ball) and threat.name in ("linf", "l2", "l1") and 0 < attack.radius < math.inf:
            return Reach(threat.name, attack.radius)
    return None


def _survivors(job: Job, pieces: Sequence[Rows], order: Sequence[str]) -> list[str]:
    """Some samples that were right after the attack: those whose keys come first."""
    inverse = reversed(pieces)  # the first piece that holds a sample counts
    answers = {name: good for rows in inverse for name, good in zip(rows.ids, rows.correct.tolist(), strict=True)}
    right = [name for name in order if answers.get(name, False)]
    if not right:
        return []
    keys = Noise.of(job.run.seed, right).scope("survivors").keys.tolist()
    return [name for _, name in sorted(zip(keys, right, strict=True))[:MOST]]


class _Look:
    """Some survivors, as the attack met them. The model itself is asked, not its fast version."""

    def __init__(self, job: Job, chosen: list[str], device: torch.device, width: int) -> None:
        before = replace(job, changes=job.changes[:-1], logits=None).measured(chosen, device, width)
        self.unpadded, self.model, self.width = job.model, ExactModel(job.model), width
        labels = torch.from_numpy(before.labels).to(device)
        self.batch = Batch(before.after, labels, tuple(chosen))
        self.noise = Noise.of(job.run.seed, chosen, device).scope("survivor probe")
        self.passes = len(chosen)
        self.wrong = is_wrong(before.logits, labels)

    def clean(self) -> dict[str, int]:
        return {"probe: survivors shown": len(self.batch), "probe: clean images now wrong": int(self.wrong.sum())}

    def unbounded(self) -> dict[str, int]:
        images, broken = self._attacked(UNBOUNDED, torch.arange(len(self.batch)))
        tallies = {
            "probe: survivors attacked": len(self.batch),
            "probe: unbroken without a bound": int((~broken).sum()),
        }
        return tallies | self._gradients_before(images, (broken & ~self.wrong).nonzero().squeeze(1))

    def _gradients_before(self, beyond: Tensor, rows: Tensor) -> dict[str, int]:
        """Whether the margin rises along its gradient as it says, shortly before samples turn wrong on their way."""
        true = 0
        for part in parts_of(rows, self.width):
            images, labels = self.batch.images[part], self.batch.labels[part]
            way = beyond[part] - images
            low, high = torch.zeros_like(labels, dtype=way.dtype), torch.ones_like(labels, dtype=way.dtype)
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                with torch.no_grad():
                    wrong = is_wrong(self.model(images + wide(middle, way) * way), labels)
                low, high = torch.where(wrong, low, middle), torch.where(wrong, middle, high)
            true += int(rises_as_gradients_say(self.model, images + wide(BEFORE * low, way) * way, labels).sum())
            self.passes += len(part) * (HALVINGS + PASSES_TO_COMPARE)
        return {"probe: gradients compared": len(rows), "probe: gradients false": len(rows) - true}

    def in_batches(self, together: int) -> dict[str, int]:
        """Whose gradient is another in a batch as long as the run's, filled up with the survivors again."""
        few = min(IN_BATCH, len(self.batch))
        if together <= len(self.batch):
            return {}
        index = torch.arange(together, device=self.batch.images.device) % len(self.batch)
        alone, among = (self._gradients(rows)[:few].flatten(1) for rows in (index[:few], index))
        length = torch.maximum(alone.norm(dim=1), among.norm(dim=1)).clamp_min(1e-30)
        moved = int(((alone - among).norm(dim=1) > MOVED * length).sum())
        self.passes += 2 * (few + together)
        return {"probe: gradients in batches": few, "probe: gradients others in batches": moved}

    def _gradients(self, rows: Tensor) -> Tensor:
        """Those of the margins, all in one batch."""
        leaf = self.batch.images[rows].clone().requires_grad_()
        with torch.enable_grad():
            margins = margin_of(self.unpadded(leaf).float(), self.batch.labels[rows])
            (gradient,) = torch.autograd.grad(margins.sum(), leaf)
        return gradient.nan_to_num(0.0)

    def queries(self, reach: Reach, queries: int) -> dict[str, int]:
        """Who is broken by a short search inside the radius, and not by strong gradient attacks inside it."""
        everyone = torch.arange(len(self.batch))
        radius = f"radius={reach.radius!r}"
        _, by_queries = self._attacked(f"square-{reach.norm}:{radius},queries={queries},rescale=true", everyone)
        alone = everyone[(by_queries & ~self.wrong).cpu()]
        for ref in STRONG:
            if len(alone):
                _, broken = self._attacked(f"{ref.format(norm=reach.norm)},{radius}", alone)
                alone = alone[~broken.cpu()]
        return {"probe: survivors asked": len(everyone), "probe: broken by queries alone": len(alone)}

    def _attacked(self, ref: str, rows: Tensor) -> tuple[Tensor, Tensor]:
        """What an attack makes of these samples, and who is wrong on that, scored as a run scores it."""
        rows = rows.to(self.batch.images.device)
        part = self.batch.take(rows)
        attack: Attack = registry.build(registry.bind("attack", ref))
        result = attack(self.model, part, self.noise.take(rows).scope(ref), width=self.width)
        self.passes += int(result.forwards.sum() + result.backwards.sum()) + len(part)
        return result.images, is_wrong(final_logits(self.model, result.images, self.width), part.labels)
