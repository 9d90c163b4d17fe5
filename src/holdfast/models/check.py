"""Is the model eligible, and is its number going to mean anything: a few passes on a few images, answered in flags."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.core.types import Classifier, Flag
from holdfast.models import gradient_probes, probes
from holdfast.models.classifier import device_of, modes_kept
from holdfast.models.subject import Find, Finding, Subject

MOST_IMAGES = 16


class Probe(NamedTuple):
    """A question to the model. After a `gate` that found something, the later questions have no meaning."""

    name: str
    find: Find
    gate: bool = False


PROBES = (
    Probe("train-mode", probes.train_mode),
    Probe("images-outside", probes.images_outside, gate=True),
    Probe("forward", probes.forward, gate=True),
    Probe("wrong-outputs", probes.wrong_outputs, gate=True),
    Probe("non-finite-logits", probes.non_finite_logits, gate=True),
    Probe("constant-logits", probes.constant_logits, gate=True),
    Probe("writes-input", probes.writes_input),
    Probe("probabilities", probes.probabilities),
    Probe("one-class", probes.one_class),
    Probe("at-chance", probes.at_chance),
    Probe("random-forward", probes.random_forward),
    Probe("keeps-state", probes.keeps_state),
    Probe("batch-dependent", probes.batch_dependent),
    Probe("memory-dependent", probes.depends_on_memory),
    Probe("noisy-logits", probes.noisy_logits),
    Probe("optimisation-loop", gradient_probes.optimisation_loop),
    Probe("not-differentiable", gradient_probes.not_differentiable),
    Probe("gradient-nan", gradient_probes.gradient_nan),
    Probe("gradient-zero", gradient_probes.gradient_zero),
    Probe("gradient-mode", probes.depends_on_gradient_mode),
    Probe("input-rounded", gradient_probes.input_rounded),
    Probe("gradient-false", gradient_probes.gradient_false),
)


def check(classifier: Classifier, images: Tensor, labels: Tensor, *, majority: float | None = None) -> tuple[Flag, ...]:
    """Every reason to read this model's numbers with care, on at most 16 of the images; none for a model in order.

    The images are chosen so that as many labels as possible appear, each as often. `majority`: the share of the
    commonest label in the whole dataset; of the labels given, if nothing is said. A broken model gives flags, never an
    exception, and is left as it was.
    """
    assert len(images) == len(labels) > 0, f"{len(images)} images and {len(labels)} labels"
    device = device_of(classifier) or images.device
    index = torch.from_numpy(balanced(labels.cpu().numpy(), MOST_IMAGES)).to(images.device)
    few = images[index].detach().to(device), labels[index.to(labels.device)].to(device).long()
    share = float(np.unique(labels.cpu().numpy(), return_counts=True)[1].max()) / len(labels)
    share = share if majority is None else majority
    subject = Subject(classifier, *few, was_training=probes.is_training(classifier), majority=share)
    flags: list[Flag] = []
    with modes_kept(classifier):
        for probe in PROBES:
            finding = _asked(probe, subject)
            if finding is not None:
                subject.found.add(probe.name)
                flags.append(Flag(probe.name, finding.level, finding.explanation))
            if finding is not None and probe.gate:
                break
    return tuple(flags)


def balanced(labels: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Places of at most so many samples: in turn one of each label, labels evenly spread where they are too many."""
    order = np.argsort(labels, kind="stable")
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    kept = np.linspace(0, len(starts) - 1, min(count, len(starts))).astype(np.int64)
    turns = [starts[i] + np.linspace(0, counts[i] - 1, min(counts[i], count)).astype(np.int64) for i in kept]
    each = [turn[k] for k in range(max(map(len, turns))) for turn in turns if k < len(turn)]
    return np.sort(order[np.array(each[:count], dtype=np.int64)])


def _asked(probe: Probe, subject: Subject) -> Finding | None:
    try:
        return probe.find(subject)
    except Exception as error:  # noqa: BLE001 - a broken model may raise anything, and that is the finding
        said = (str(error) or "no message").splitlines()[0]
        return Finding("error", f"The model raised {type(error).__name__} here: {said}. An evaluation would, too.")
