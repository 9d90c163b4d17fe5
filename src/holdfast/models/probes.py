"""What `check` asks of a forward pass, one function each; None means nothing to report.

Randomness is one of the three things RobustBench excludes (arXiv:2010.09670; the others are in `gradients.py`). The
rest are the ordinary ways in which a number looks right and is wrong.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from holdfast.models.subject import Finding, Subject

SAME = 1e-5  # relative; float32 sums in another order (atomics on a GPU) stay below it
SAME_IN_BATCH = 1e-3  # relative; another batch size picks another convolution, and TF32 keeps 10 bits: 2⁻¹⁰
ALONE = 4
GUESSING = 0.05  # a count that guessing reaches with this chance tells nothing
FEWEST = 8  # images, below which accuracy tells nothing


def images_outside(subject: Subject) -> Finding | None:
    images = subject.images
    if images.is_floating_point() and bool(((images >= 0) & (images <= 1)).all()):
        return None
    return Finding(
        "error",
        f"The images are {images.dtype} in [{float(images.min()):.4g}, {float(images.max()):.4g}], where models take "
        "floating-point numbers in [0, 1]. Normalise inside the model, not in the dataset.",
    )


def train_mode(subject: Subject) -> Finding | None:
    """Puts the model in evaluation mode for all that follow."""
    if isinstance(subject.classifier, nn.Module):
        subject.classifier.eval()
    stubborn = training_parts(subject.classifier)
    if stubborn:
        return Finding(
            "error",
            f"Parts stay in training mode after eval(): {', '.join(stubborn[:3])}. Dropout and batch statistics then "
            "change every answer. Let train(False) reach them.",
        )
    if subject.was_training:
        return Finding(
            "note",
            "The network came in training mode and is measured in evaluation mode. Call eval() where it is made if "
            "that is what you want; a network meant to run in training mode will give other numbers.",
        )
    return None


def forward(subject: Subject) -> Finding | None:
    """Raises what the model raises."""
    return None if subject.output is not None else Finding("error", "The model returns nothing. Return the logits.")


def wrong_outputs(subject: Subject) -> Finding | None:
    output, labels, classes = subject.output, subject.labels, subject.classifier.card.classes
    expected = (len(subject.images), classes)
    if not isinstance(output, Tensor):
        return Finding("error", f"The model returns a {type(output).__name__}. Return the tensor of logits alone.")
    if tuple(output.shape) != expected:
        return Finding(
            "error",
            f"The model returns shape {tuple(output.shape)} where its card promises {expected}: a row per image, a "
            "logit per class. Labels would meet the wrong columns. Correct `classes`, or the model.",
        )
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        return Finding(
            "error",
            f"Labels go from {int(labels.min())} to {int(labels.max())}, the model knows the classes 0 to "
            f"{classes - 1}. The dataset belongs to another model, or needs a label map.",
        )
    return None


def non_finite_logits(subject: Subject) -> Finding | None:
    broken = int((~torch.isfinite(subject.logits)).any(1).sum())
    if not broken:
        return None
    return Finding(
        "error",
        f"{broken} of {len(subject.images)} valid images give NaN or infinite logits. They have no prediction, and "
        "attacks no direction. Look for a division, a logarithm or half precision in the forward pass.",
    )


def constant_logits(subject: Subject) -> Finding | None:
    images_differ = not torch.equal(subject.images[1:], subject.images[:-1])
    if not images_differ or not _is_constant(subject.logits):
        return None
    return Finding(
        "error",
        "Different images give the same logits: the model does not look at its input, or saturates in [0, 1]. Check "
        "that the weights are loaded, and the range the network was trained on.",
    )


def writes_input(subject: Subject) -> Finding | None:
    if not subject.wrote:
        return None
    return Finding(
        "error",
        "The forward pass overwrites the images it is given (an operation ending in `_`). Attacks reuse that tensor, "
        "so sizes and successes would be wrong. Use the operation that makes a new tensor.",
    )


def probabilities(subject: Subject) -> Finding | None:
    logits = subject.logits
    if logits.min() < 0 or (logits.sum(1) - 1).abs().max() > 1e-3:  # a softmax in half precision is that close to one
        return None
    return Finding(
        "warning",
        "The outputs are probabilities, not logits. The loss applies softmax again, which flattens it: attacks look "
        "weaker than they are, and calibration is wrong. Return the values before softmax.",
    )


def at_chance(subject: Subject) -> Finding | None:
    right, count = _right(subject, subject.logits), len(subject.images)
    if count < FEWEST or not _is_guessing(subject, right):
        return None
    found = {words: _right(subject, subject.logits_of(images)) for words, images in _ranges(subject.images).items()}
    words, most = max(found.items(), key=lambda item: item[1])
    cause = (
        "Check the order of the classes, and that mean, std and size belong to this network."
        if _is_guessing(subject, most)
        else f"With images {words} it is {most}, so that step is missing: models.normalised(net, mean, std)."
    )
    return Finding(
        "warning",
        f"{right} of {count} images are right, which guessing reaches too; robustness of such a model means nothing. "
        + cause,
    )


def random_forward(subject: Subject) -> Finding | None:
    difference = _difference(subject.logits, subject.again)
    if difference <= SAME:
        return None
    return Finding(
        "warning",
        f"The same images give other logits the second time ({difference:.0e} relative). Accuracy is a random number, "
        "and attacks that trust one gradient look weaker than they are. Fix the randomness, or average over it "
        "(expectation over transformation) and say so.",
    )


def batch_dependent(subject: Subject) -> Finding | None:
    if _difference(subject.logits, subject.again) > SAME:  # then an image alone differs, too; that is another flag
        return None
    alone = torch.cat([subject.logits_of(image[None]) for image in subject.images[:ALONE]])
    difference = _difference(alone, subject.logits[:ALONE])
    if difference <= SAME_IN_BATCH:
        return None
    return Finding(
        "error",
        f"An image alone gives other logits than in a batch ({difference:.0e} relative): its neighbours take part, as "
        "with batch statistics. Results depend on batch size and order. Treat images one by one.",
    )


def is_training(classifier: object) -> bool:
    """Whether any part was in training mode when the classifier was made, or is now."""
    return bool(getattr(classifier, "was_training", False)) or bool(training_parts(classifier))


def training_parts(classifier: object) -> list[str]:
    """The parts that are in training mode, by name."""
    parts = classifier.named_modules() if isinstance(classifier, nn.Module) else ()
    return [name or "the model itself" for name, part in parts if part.training]


def _difference(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest value."""
    scale = max(float(one.abs().max()), float(other.abs().max()), 1e-30)
    return float((one - other).abs().max()) / scale


def _is_constant(logits: Tensor) -> bool:
    return _difference(logits, logits[:1]) <= SAME


def _right(subject: Subject, logits: Tensor) -> int:
    return int((logits.argmax(1) == subject.labels).sum())


def _is_guessing(subject: Subject, right: int) -> bool:
    count, chance = len(subject.images), 1 / subject.classifier.card.classes
    reached = sum(math.comb(count, k) * chance**k * (1 - chance) ** (count - k) for k in range(right, count + 1))
    return reached > GUESSING


def _ranges(images: Tensor) -> dict[str, Tensor]:
    """The ranges that networks are usually trained on, in words."""
    mean, std = images.mean((0, 2, 3), keepdim=True), images.std((0, 2, 3), keepdim=True) + 1e-6
    return {"in [0, 255]": images * 255, "in [-1, 1]": images * 2 - 1, "of mean 0 and std 1": (images - mean) / std}
