"""Is the model eligible, and is its number going to mean anything: a few passes on a few images, reported as flags."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.core.types import Classifier, Flag
from holdfast.models import gradient_probes, probes
from holdfast.models.classifier import device_of, modes_kept
from holdfast.models.subject import ProbeFunction, ProbeResult, Subject

MOST_IMAGES = 16


# in this order; a probe's flag has its name, with dashes
PROBES: tuple[ProbeFunction, ...] = (
    probes.train_mode,
    *(probes.images_outside, probes.forward, probes.wrong_outputs, probes.non_finite_logits, probes.constant_logits),
    *(probes.writes_input, probes.probabilities, probes.one_class, probes.at_chance, probes.random_forward),
    *(probes.keeps_state, probes.batch_dependent, probes.memory_dependent, probes.noisy_logits),
    *(gradient_probes.optimisation_loop, gradient_probes.not_differentiable, gradient_probes.gradient_nan),
    *(gradient_probes.gradient_zero, probes.gradient_mode),
    *(gradient_probes.input_rounded, gradient_probes.gradient_false),
)
GATES = PROBES[1:6]  # where one of these reports something, the later probes have no meaning


def check(classifier: Classifier, images: Tensor, labels: Tensor, *, majority: float | None = None) -> tuple[Flag, ...]:
    """Every reason to read this model's numbers with care, on at most 16 of the images; none for a model in order.

    The images are chosen so that as many labels as possible appear, each as often. `majority`: the share of the
    commonest label in the whole dataset; of the labels given, if nothing is said. A broken model gives flags, never an
    exception, and is left as it was.
    """
    assert len(images) == len(labels) > 0, f"{len(images)} images and {len(labels)} labels"
    device = device_of(classifier) or images.device
    index = torch.from_numpy(balanced_sample(labels.cpu().numpy(), MOST_IMAGES)).to(images.device)
    few = images[index].detach().to(device), labels[index.to(labels.device)].to(device).long()
    share = float(np.unique(labels.cpu().numpy(), return_counts=True)[1].max()) / len(labels)
    share = share if majority is None else majority
    was_training = bool(getattr(classifier, "was_training", False) or probes.training_parts(classifier))
    subject = Subject(classifier, *few, was_training, majority=share)
    flags: list[Flag] = []
    with modes_kept(classifier):
        for probe in PROBES:
            if (result := _run_probe(probe, subject)) is None:
                continue
            flags.append(Flag(probe.__name__.replace("_", "-"), result.level, result.explanation))
            subject.flags.add(flags[-1].name)
            if probe in GATES:
                break
    return tuple(flags)


def balanced_sample(labels: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Positions of at most so many samples: in turn one of each label, labels evenly spread where they are too many."""
    order = np.argsort(labels, kind="stable")
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    kept = np.linspace(0, len(starts) - 1, min(count, len(starts))).astype(np.int64)
    turns = [starts[i] + np.linspace(0, counts[i] - 1, min(counts[i], count)).astype(np.int64) for i in kept]
    each = [turn[k] for k in range(max(map(len, turns))) for turn in turns if k < len(turn)]
    return np.sort(order[np.array(each[:count], dtype=np.int64)])


def _run_probe(probe: ProbeFunction, subject: Subject) -> ProbeResult | None:
    try:
        return probe(subject)
    except Exception as error:  # noqa: BLE001 - a broken model may raise anything, and that is the result
        text = (str(error) or "no message").splitlines()[0]
        return ProbeResult("error", f"The model raised {type(error).__name__} here: {text}. An evaluation would, too.")
