"""Model files: weights read with the architecture they belong to, and written with a card in the header.

Written files are safetensors, so that one file is a whole model.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.core.types import Classifier, ModelCard
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


def save_model(
    path: str | Path,
    net: nn.Module,
    card: ModelCard,
    *,
    architecture: str,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    half: bool = False,
) -> Path:
    """Writes the bare network (what `architecture` builds) and its card as one file, whole or not at all.

    `card.size`, where given, is the size images are brought to inside the model, as everywhere. `half`: matrices and
    kernels are rounded to float16, in the network too; it is loaded in float32 all the same.
    """
    from safetensors.torch import save

    path = Path(path)
    if path.suffix != ".safetensors":
        raise Misuse(f"a model file ends in .safetensors, got `{path.name}`")
    if half:
        for matrix in filter(_is_matrix, net.state_dict().values()):
            matrix.copy_(matrix.detach().half())
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in net.state_dict().items()}
    _must_build(architecture, net, tensors)
    card = replace(
        card,
        source="",
        weights=weights_digest(normalised(net, mean, std, card.size)),
        parameters=sum(parameter.numel() for parameter in net.parameters()),
    )
    fields = {
        **asdict(card),
        "architecture": architecture,
        "mean": None if mean is None else list(mean),
        "std": None if std is None else list(std),
    }
    if half:
        tensors = {name: tensor.half() if _is_matrix(tensor) else tensor for name, tensor in tensors.items()}
    _write(path, save(tensors, metadata={"card": json.dumps(fields, sort_keys=True)}))
    return path


def annotate_model(path: str | Path, notes: str) -> None:
    """Replaces the notes on the card of a model file; its weights stay as they are, to the byte."""
    path = Path(path)
    if read_card(path) is None:
        raise Misuse(f"`{path}` has no card to write notes on", hint="write the file with models.save_model")
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    card = json.loads(header["__metadata__"]["card"])
    header["__metadata__"]["card"] = json.dumps(card | {"notes": notes}, sort_keys=True)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of eight bytes, as the format asks for
    _write(path, struct.pack("<Q", len(text)) + text + content[8 + length :])


def _is_matrix(tensor: Tensor) -> bool:
    """Statistics and biases are few, and variances may leave the range of float16."""
    return tensor.is_floating_point() and tensor.dim() > 1


def _must_build(architecture: str, net: nn.Module, tensors: dict[str, Tensor]) -> None:
    """What is written must load again: the architecture's own network takes these tensors."""
    try:
        fit_weights(built(architecture).net, tensors, what=f"the {type(net).__name__} to save")
    except HoldfastError as error:
        hint = "save the bare network, without its normalisation, and give all its arguments: small-cnn:width=32"
        raise Misuse(error.problem, hint=hint) from error


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
