"""The gradient loop for training: every sample takes every step, and the host never waits for the device.

It is the loop of `gradient.py` without its book-keeping between rounds, so that a whole training step, the attack
included, can be recorded as one CUDA graph.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from holdfast.attacks.active_set import ActiveSet
from holdfast.attacks.asked_model import AskedModel
from holdfast.attacks.gradient import GradientAttack, _GradientLoop
from holdfast.attacks.recipes.adam import Adam
from holdfast.attacks.recipes.automatic import Automatic, Sparse
from holdfast.attacks.steps import Steepest
from holdfast.core.noise import Noise
from holdfast.core.types import Batch, Classifier

LAST_COUNTS = (Steepest, Adam)  # steps whose last point is the one to train on, as published
BEST_COUNTS = (Automatic, Sparse)  # steps that may overshoot: the best point on the way counts


def takes_every_step(attack: GradientAttack) -> bool:
    """Whether `last_images` serves for this attack: one run of fixed steps, none of which looks at values."""
    one_run = attack.restarts == 1 and attack.targets == 0 and attack.keep != "smallest"
    return one_run and isinstance(attack.step, LAST_COUNTS + BEST_COUNTS) and not attack.threat.reads_values


def last_images(attack: GradientAttack, model: Classifier, batch: Batch, noise: Noise) -> Tensor:
    """The images after the last step of the attack, or at its best point, where its steps may overshoot.

    One pass with gradients per step, and one more to see the last point where the best one counts.
    """
    last = isinstance(attack.step, LAST_COUNTS)
    every = replace(attack, stop_when_broken=False, keep="last" if last else "strongest")
    radius = torch.full((len(batch),), every.radius, device=batch.images.device)
    active = ActiveSet(AskedModel(model, every), batch, noise, radius, len(batch), None, every.steps + 1)
    loop = _GradientLoop(every, active)
    samples = active.refill(loop._started)
    assert samples is not None, "a batch for training is not empty"
    for _ in range(every.steps if last else every.steps + 1):
        loop._step(samples)
    with torch.no_grad():
        return every.threat.render(samples.scene, samples.variable if last else samples.best).clamp(0.0, 1.0)
