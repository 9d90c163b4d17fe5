"""Is the model eligible, and is its number going to mean anything: a few passes on a few images, answered in flags."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from holdfast.core.types import Classifier, Flag
from holdfast.models import gradients, probes
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
    Probe("at-chance", probes.at_chance),
    Probe("random-forward", probes.random_forward),
    Probe("batch-dependent", probes.batch_dependent),
    Probe("optimisation-loop", gradients.optimisation_loop),
    Probe("not-differentiable", gradients.not_differentiable),
    Probe("gradient-nan", gradients.gradient_nan),
    Probe("gradient-zero", gradients.gradient_zero),
)


def check(classifier: Classifier, images: Tensor, labels: Tensor) -> tuple[Flag, ...]:
    """Every reason to read this model's numbers with care, on at most 16 of the images; none for a model in order.

    A broken model gives flags, never an exception, and is left as it was.
    """
    assert len(images) == len(labels) > 0, f"{len(images)} images and {len(labels)} labels"
    device = device_of(classifier) or images.device
    few = images[:MOST_IMAGES].detach().to(device), labels[:MOST_IMAGES].to(device).long()
    subject = Subject(classifier, *few, was_training=probes.is_training(classifier))
    flags: list[Flag] = []
    with modes_kept(classifier):
        for probe in PROBES:
            finding = _asked(probe, subject)
            if finding is not None:
                flags.append(Flag(probe.name, finding.level, finding.explanation))
            if finding is not None and probe.gate:
                break
    return tuple(flags)


def _asked(probe: Probe, subject: Subject) -> Finding | None:
    try:
        return probe.find(subject)
    except Exception as error:  # noqa: BLE001 - a broken model may raise anything, and that is the finding
        said = (str(error) or "no message").splitlines()[0]
        return Finding("error", f"The model raised {type(error).__name__} here: {said}. An evaluation would, too.")
