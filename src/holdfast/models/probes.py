"""What `check` asks of a forward pass, one function each; None means nothing to report.

Randomness is one of the three things RobustBench excludes (arXiv:2010.09670; the others are in `gradients.py`). The
rest are the ordinary ways in which a number looks right and is wrong.
"""

from __future__ import annotations

import math
from collections import deque

import torch
from torch import Tensor, nn

from holdfast.core.rounding import percent
from holdfast.models.classifier import in_training_mode
from holdfast.models.subject import TOGETHER, ProbeResult, Subject, error, note, warning

SAME = 1e-5  # relative; float32 sums in another order (atomics on a GPU) stay below it
SAME_IN_BATCH = 1e-3  # relative; another batch size picks another convolution, and TF32 keeps 10 bits: 2⁻¹⁰
ALONE = 4
REPEATS = 20  # calls on two images, so that what happens on one call of five is seen with 99 %
ONE_CLASS = 0.9  # of the predictions are the same class, while no label has more than half of the images
GUESSING = 0.05  # a count that guessing reaches with this chance tells nothing
FEWEST = 8  # images, below which accuracy tells nothing


def images_outside(subject: Subject) -> ProbeResult | None:
    images = subject.images
    if images.is_floating_point() and bool(((images >= 0) & (images <= 1)).all()):
        return None
    return error(
        f"The images are {images.dtype} in [{float(images.min()):.4g}, {float(images.max()):.4g}], where models take "
        "floating-point numbers in [0, 1]. Normalise inside the model, not in the dataset."
    )


def train_mode(subject: Subject) -> ProbeResult | None:
    """Puts the model in evaluation mode for all that follow."""
    if isinstance(subject.classifier, nn.Module):
        subject.classifier.eval()
    if stubborn := training_parts(subject.classifier):
        return error(
            f"Parts stay in training mode after eval(): {', '.join(stubborn[:3])}. Dropout and batch statistics then "
            "change every prediction. Let train(False) reach them."
        )
    if subject.was_training:
        return note(
            "The network came in training mode and is measured in evaluation mode. Call eval() where it is made if "
            "that is what you want; a network meant to run in training mode will give other numbers."
        )
    return None


def forward(subject: Subject) -> ProbeResult | None:
    """Raises what the model raises."""
    return None if subject.output is not None else error("The model returns nothing. Return the logits.")


def wrong_outputs(subject: Subject) -> ProbeResult | None:
    output, labels, classes = subject.output, subject.labels, subject.classifier.card.classes
    expected = (len(subject.images), classes)
    if not isinstance(output, Tensor):
        return error(f"The model returns a {type(output).__name__}. Return the tensor of logits alone.")
    if tuple(output.shape) != expected:
        return error(
            f"The model returns shape {tuple(output.shape)} where its card promises {expected}: a row per image, a "
            "logit per class. Labels would meet the wrong columns. Correct `classes`, or the model."
        )
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        return error(
            f"Labels go from {int(labels.min())} to {int(labels.max())}, the model knows the classes 0 to "
            f"{classes - 1}. The dataset belongs to another model, or needs a label map."
        )
    return None


def non_finite_logits(subject: Subject) -> ProbeResult | None:
    broken = int((~torch.isfinite(subject.logits)).any(1).sum())
    if not broken:
        return None
    return error(
        f"{broken} of {len(subject.images)} valid images give NaN or infinite logits. They have no prediction, and "
        "attacks no direction. Look for a division, a logarithm or half precision in the forward pass."
    )


def constant_logits(subject: Subject) -> ProbeResult | None:
    images_differ = not torch.equal(subject.images[1:], subject.images[:-1])
    if not images_differ or _difference(subject.logits, subject.logits[:1]) > SAME:
        return None
    return error(
        "Different images give the same logits: the model does not look at its input, or saturates in [0, 1]. Check "
        "that the weights are loaded, and the range the network was trained on."
    )


def writes_input(subject: Subject) -> ProbeResult | None:
    if not subject.wrote:
        return None
    return error(
        "The forward pass overwrites the images it is given (an operation ending in `_`). Attacks reuse that tensor, "
        "so sizes and successes would be wrong. Use the operation that makes a new tensor."
    )


def probabilities(subject: Subject) -> ProbeResult | None:
    logits = subject.logits
    if logits.min() < 0 or (logits.sum(1) - 1).abs().max() > 1e-3:  # a softmax in half precision is that close to one
        return None
    return warning(
        "The outputs are probabilities, not logits. The loss applies softmax again, which flattens it: attacks look "
        "weaker than they are, and calibration is wrong. Return the values before softmax."
    )


def one_class(subject: Subject) -> ProbeResult | None:
    predictions, labels, count = subject.logits.argmax(1), subject.labels, len(subject.images)
    counts = predictions.bincount(minlength=1)
    top, most = int(counts.argmax()), int(counts.max())
    if count < FEWEST or most < ONE_CLASS * count or int(labels.bincount().max()) > count / 2:
        return None
    share = "" if subject.majority is None else f" The commonest label has {percent(subject.majority)} % of all images."
    return warning(
        f"The model predicts class {top} for {most} of {count} images of {int((labels.bincount() > 0).sum())} labels: "
        f"one class for all, whatever the accuracy.{share} Look at balanced accuracy, and train on all classes."
    )


def at_chance(subject: Subject) -> ProbeResult | None:
    right, count = _right(subject, subject.logits), len(subject.images)
    if count < FEWEST or not _is_guessing(subject, right):
        return None
    correct = {words: _right(subject, subject.logits_of(images)) for words, images in _ranges(subject.images).items()}
    words, most = max(correct.items(), key=lambda item: item[1])
    cause = (
        "Check the order of the classes, and that mean, std and size belong to this network."
        if _is_guessing(subject, most)
        else f"With images {words} it is {most}, so that step is missing: models.normalised(net, mean, std)."
    )
    return warning(
        f"{right} of {count} images are right, which guessing reaches too; robustness of such a model means nothing. "
        + cause,
    )


def random_forward(subject: Subject) -> ProbeResult | None:
    difference, calls = _difference(subject.logits, subject.second_logits), 2
    if difference <= SAME:
        pair = subject.images[:2]
        first = subject.logits_of(pair)
        differences = [_difference(first, subject.logits_of(pair)) for _ in range(REPEATS)]
        difference, calls = max(differences), REPEATS + 1
    if difference <= SAME:
        return None
    return warning(
        f"The same images give other logits within {calls} calls ({difference:.0e} relative). Accuracy is a random "
        "number, and attacks that trust one gradient look weaker than they are. Fix the randomness or the state, or "
        "average over it (expectation over transformation) and say so."
    )


def keeps_state(subject: Subject) -> ProbeResult | None:
    """Compares what the parts hold before and after a call that is not the first: caches of shapes are full by then."""
    subject.logits_of(subject.images[:2])
    before = _held(subject.classifier)
    subject.logits_of(subject.images[2:4])
    subject.logits_of(subject.noisy[:2])
    changed = [name for name, value in _held(subject.classifier).items() if before.get(name) != value]
    if not changed:
        return None
    return warning(
        f"The model writes to itself in its forward pass ({', '.join(changed[:3])}). Then logits may depend on earlier "
        "calls, a resumed run may differ from an undisturbed one, and an attack may meet another model than "
        "the score. Keep no state between calls."
    )


def gradient_mode(subject: Subject) -> ProbeResult | None:
    """Attacks compute logits with gradients on, scores with them off: the two must agree."""
    if subject.is_any("random-forward", "batch-dependent"):
        return None
    with torch.enable_grad():
        mode_on = subject.classifier(subject.images[:TOGETHER].clone()).detach().float()
    different = _difference(mode_on, subject.logits[:TOGETHER])
    seen, noisy = subject.gradients.logits, subject.noisy_gradients.logits
    if seen is not None and noisy is not None:
        different = max(different, _difference(seen, subject.logits))
        different = max(different, _difference(noisy, subject.noisy_logits))
    if different <= SAME_IN_BATCH:
        return None
    return error(
        f"The model gives other logits with gradients on ({different:.0e} relative). Attacks then break another "
        "model than the one that is scored, which then looks robust. Let forward ignore the mode of autograd."
    )


def memory_dependent(subject: Subject) -> ProbeResult | None:
    """The same numbers in another order of memory; a model that cannot take that order at all raises no flag."""
    if subject.is_any("random-forward", "batch-dependent"):
        return None
    few = subject.images[:TOGETHER]
    odd = few.transpose(2, 3).contiguous().transpose(2, 3)
    try:
        with torch.no_grad():
            answer = subject.classifier(odd).float()
    except Exception:  # noqa: BLE001 - `view` after a convolution; runs give plain order
        return None
    difference = _difference(answer, subject.logits[:TOGETHER])
    if difference <= SAME_IN_BATCH:
        return None
    return error(
        f"The same images in another order of memory give other logits ({difference:.0e} relative). Attacks and scores "
        "may then meet different models. Let forward look at values, not at strides."
    )


def batch_dependent(subject: Subject) -> ProbeResult | None:
    if subject.is_any("random-forward"):  # then an image alone differs, too
        return None
    alone = torch.cat([subject.logits_of(image[None]) for image in subject.images[:ALONE]])
    difference = _difference(alone, subject.logits[:ALONE])
    turned = torch.cat([subject.images, subject.noisy]).flip(0)  # a larger batch, in another order, of other neighbours
    difference = max(difference, _difference(subject.logits_of(turned).flip(0)[: len(alone)], subject.logits[:ALONE]))
    if difference <= SAME_IN_BATCH:
        return None
    return error(
        f"An image alone gives other logits than in a batch ({difference:.0e} relative): its neighbours take part, as "
        "with batch statistics. Results depend on batch size and order. Treat images one by one."
    )


def noisy_logits(subject: Subject) -> ProbeResult | None:
    """Images as an attack makes them, and plain ones."""
    shape = subject.images[:1].shape
    plain = torch.cat([torch.full(shape, value, device=subject.images.device) for value in (0.0, 0.5, 1.0)])
    few = subject.images[: len(subject.noisy)]
    strong = (few + 16 * (subject.noisy - few)).clamp(0, 1)[:ALONE]
    logits = torch.cat([subject.noisy_logits, subject.logits_of(torch.cat([strong, plain]))])
    broken = int((~torch.isfinite(logits)).any(1).sum())
    if not broken:
        return None
    return error(
        f"{broken} of {len(logits)} noisy or plain images give NaN or infinite logits, though clean ones do not. Such "
        "images count as broken, and attacks have no direction there. Look for a division, a root or a logarithm."
    )


def training_parts(classifier: object) -> list[str]:
    """The parts that are in training mode, by name."""
    parts = classifier.named_modules() if isinstance(classifier, nn.Module) else ()
    return [name or "the model itself" for name, part in parts if in_training_mode(part)]


def _held(classifier: object) -> dict[str, object]:
    """What the parts of a model hold, by name, as far as it can be compared: numbers, texts, tensors, lengths."""
    held: dict[str, object] = {}
    for name, part in classifier.named_modules() if isinstance(classifier, nn.Module) else ():
        for key, value in [*vars(part).items(), *part._buffers.items()]:
            if isinstance(value, bool | int | float | str):
                held[f"{name}.{key}".strip(".")] = value
            elif isinstance(value, Tensor):
                held[f"{name}.{key}".strip(".")] = _summed(value)
            elif isinstance(value, list | dict | set | deque) and not key.startswith("_"):
                held[f"{name}.{key}".strip(".")] = len(value)
    return held


def _summed(value: Tensor) -> tuple[object, ...]:
    numbers = value.detach().double().flatten() if not value.is_complex() else value.detach().abs().double().flatten()
    return tuple(value.shape), float(numbers.sum()), float(numbers.square().sum())


def _difference(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest value."""
    scale = max(float(one.abs().max()), float(other.abs().max()), 1e-30)
    return float((one - other).abs().max()) / scale


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
