"""Weights on disk, with the architecture they belong to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.classifier import Numbers, TorchClassifier, described, normalised, weights_digest
from holdfast.models.header import SavedModel, read_card
from holdfast.models.weights import architecture as built
from holdfast.models.weights import fit_weights, read_state, tensors_of


@register("model", "file")
def file_model(
    path: str,
    *,
    architecture: str | None = None,
    classes: int | None = None,
    size: int | None = None,
    mean: Numbers = None,
    std: Numbers = None,
) -> Classifier:
    """Weights from a file: `file:PATH,architecture=resnet18-cifar`; a file with a card needs nothing else.

    Reads safetensors, and torch files with `weights_only=True`: code in a checkpoint never runs. Without `mean` and
    `std` the network sees the images as they are, in [0, 1].
    """
    file = Path(path).expanduser()
    saved = read_card(file) if file.suffix == ".safetensors" and file.is_file() else None
    if saved is not None and (architecture, classes, size, mean, std) == (None,) * 5:
        return saved_model(file, saved)
    if saved is not None:
        architecture, size = architecture or saved.architecture, size or saved.card.size
        mean, std = mean or saved.mean, std or saved.std
    state = read_state(file)
    if architecture is None:
        hint = "name the architecture: file:PATH,architecture=resnet18-cifar, or =timm:NAME, or =torchvision:NAME"
        raise Misuse(f"`{path}` has no card that says which network it is", hint=hint)
    network = built(architecture, classes=classes)
    if None not in (classes, network.number("classes")) and classes != network.number("classes"):
        raise Misuse(f"`{architecture}` has {network.number('classes')} classes, and classes={classes} is asked for")
    own = tensors_of(network.net, state, what=f"`{path}`")
    classifier = described(
        fit_weights(network.net, own, what=f"`{path}`"),
        name=file.stem,
        classes=classes or network.number("classes"),
        channels=network.number("channels"),
        size=size,
        mean=mean,
        std=std,
    )
    if saved is not None:
        card = classifier.card
        classifier.card = replace(saved.card, classes=card.classes, channels=card.channels, size=card.size)
    return classifier


def saved_model(path: Path, saved: SavedModel) -> TorchClassifier:
    """The classifier in a file that `save_model` wrote, checked against the digest on its card."""
    net = fit_weights(built(saved.architecture).net, read_state(path), what=f"`{path}`")
    whole = normalised(net, saved.mean, saved.std, saved.card.size)
    if saved.card.weights and saved.card.weights != weights_digest(whole):
        hint = "copy or download the file again; weights that were meant to change need models.save_model"
        raise HoldfastError(f"the weights in `{path}` are not those its card was written for", hint=hint)
    return TorchClassifier(whole, saved.card)
