"""How far to trust an attack's number: flags that a run raises by itself, and trials that a check can run.

The signs of hidden gradients are those of Athalye et al. 2018 (arXiv:1802.00420) and Carlini et al. 2019
(arXiv:1902.06705).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Classifier, Flag

ZERO_SHARE = 0.01
FLAT_SHARE = 0.1
BLACK_BOX_SHARE = 0.01
TRIAL_SAMPLES = 64
TRIAL_RADIUS = 8 / 255
UNBROKEN_SHARE = 0.05  # of the samples may withstand an attack that may do anything, before that is suspicious
WORSE_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Sign:
    """A share of counts above which a run's number is flagged."""

    name: str
    of: str
    among: str
    limit: float
    explanation: str

    def flag(self, tallies: Mapping[str, int]) -> Flag | None:
        count, total = tallies.get(self.of, 0), tallies.get(self.among, 0)
        if not total or count / total <= self.limit:
            return None
        return Flag(self.name, "warning", self.explanation.format(share=f"{100 * count / total:.1f} %"))


SIGNS = (
    Sign(
        "zero-gradients",
        "zero gradients",
        "gradients",
        ZERO_SHARE,
        "{share} of the attack's gradients were exactly zero: the model may hide its gradients, and the attack may be "
        "weaker than it looks",
    ),
    Sign(
        "flat-objective",
        "flat climbs",
        "climbs",
        FLAT_SHARE,
        "in {share} of the attack's runs the objective never rose above its start: gradients may not point anywhere, "
        "and the attack may be weaker than it looks",
    ),
    Sign(
        "black-box-beats-white-box",
        "broken without gradients alone",
        "tried without gradients",
        BLACK_BOX_SHARE,
        "{share} of the samples that withstood every attack with gradients were broken by one without: the model may "
        "hide its gradients",
    ),
)


def tally_flags(tallies: Mapping[str, int]) -> tuple[Flag, ...]:
    """Flags that only the whole run can raise."""
    return tuple(flag for sign in SIGNS if (flag := sign.flag(tallies)) is not None)


def trials(model: Classifier, images: Tensor, labels: Tensor, said: Callable[[str], None]) -> tuple[Flag, ...]:
    """Attacks a few samples in ways that must succeed if gradients can be trusted, and flags what does not."""
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).nonzero().squeeze(1)[:TRIAL_SAMPLES]
    if not len(right) or not model.card.differentiable:
        return ()
    batch = Batch(images[right], labels[right], tuple(str(i) for i in range(len(right))))
    return tuple(flag for trial in TRIALS if (flag := trial(model, batch, said)) is not None)


def _unbounded(model: Classifier, batch: Batch, said: Callable[[str], None]) -> Flag | None:
    said("an attack that may do anything")
    left = float((~_broken(model, batch, "pgd-linf:radius=1,steps=50,step_size=0.05")).float().mean())
    if left <= UNBROKEN_SHARE:
        return None
    return Flag(
        "unbounded-attack-fails",
        "warning",
        f"{100 * left:.1f} % of {len(batch)} samples withstand gradient steps that may change every pixel at will: "
        "the gradients lead nowhere, and no number from a gradient attack can be trusted",
    )


def _more_steps(model: Classifier, batch: Batch, said: Callable[[str], None]) -> Flag | None:
    said("more steps")
    few, many = (_broken(model, batch, f"pgd-linf:radius={TRIAL_RADIUS!r},steps={steps}") for steps in (5, 50))
    worse = float(few.float().mean() - many.float().mean())
    if worse <= WORSE_SHARE:
        return None
    return Flag(
        "more-steps-do-not-help",
        "warning",
        f"ten times the steps break {100 * worse:.1f} points fewer of {len(batch)} samples: the objective is too rough "
        "to follow, and a search with restarts or without gradients may find more",
    )


def _black_box(model: Classifier, batch: Batch, said: Callable[[str], None]) -> Flag | None:
    said("an attack without gradients")
    white = _broken(model, batch, f"pgd-linf:radius={TRIAL_RADIUS!r},steps=50")
    black = _broken(model, batch, f"square-linf:radius={TRIAL_RADIUS!r},queries=300")
    alone = float((black & ~white).float().mean())
    if alone <= BLACK_BOX_SHARE:
        return None
    return Flag(
        "black-box-beats-white-box",
        "warning",
        f"{100 * alone:.1f} % of {len(batch)} samples are broken by 300 random queries but not by 50 gradient steps: "
        "the model may hide its gradients",
    )


def _broken(model: Classifier, batch: Batch, ref: str) -> Tensor:
    attack: Attack = registry.build(registry.bind("attack", ref))
    radius = torch.full((len(batch),), attack.radius, device=batch.images.device)
    noise = Noise.of(0, batch.ids, batch.images.device)
    return attack.attempt(model, batch, noise, radius, width=len(batch)).broken


TRIALS = (_unbounded, _more_steps, _black_box)
