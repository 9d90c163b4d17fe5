"""From a text or a live module to a classifier that is ready to be measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.refs import Ref
from holdfast.core.registry import registry
from holdfast.core.types import Classifier, ModelCard
from holdfast.models.classifier import TorchClassifier, device_of, modes_kept, normalised, weights_digest

Numbers = None | tuple[float, ...]
PROBE_SHAPES = tuple((channels, size) for size in (32, 28, 224, 64, 96, 299) for channels in (3, 1))


class Outputs(NamedTuple):
    """What a network said about itself on a probe."""

    classes: int
    channels: int


def load(model: str | Ref, *, device: str | torch.device | None = None) -> TorchClassifier:
    """The classifier a text stands for, in evaluation mode, frozen, its card complete."""
    ref = registry.bind("model", model) if isinstance(model, str) else model
    built = registry.build(ref)
    if not is_classifier(built):
        raise HoldfastError(
            f"the model source `{ref.name}` made a {type(built).__name__}, which is no classifier",
            hint="a source returns something callable with a `card`: TorchClassifier(net, card)",
        )
    return prepared(built, source=str(ref), device=device)


def wrap(
    net: nn.Module,
    *,
    name: str,
    classes: int | None = None,
    channels: int | None = None,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    trained_on: str = "",
    threats: tuple[str, ...] = (),
    device: str | torch.device | None = None,
) -> TorchClassifier:
    """A live module as a classifier. The module answers in evaluation mode and stays as it is: mode, gradients, device.

    Weights are read when it is evaluated, so one classifier serves a whole training loop.
    """
    if device is not None:
        net.to(device)
    classifier = described(net, name=name, classes=classes, channels=channels, size=size, mean=mean, std=std)
    count = sum(parameter.numel() for parameter in net.parameters())
    weights = weights_digest(classifier.net) if classifier.net.state_dict() else ""
    classifier.card = replace(
        classifier.card, source="live", trained_on=trained_on, threats=threats, weights=weights, parameters=count
    )
    classifier.live = True
    return classifier


def prepared(
    classifier: Classifier, *, source: str = "live", device: str | torch.device | None = None
) -> TorchClassifier:
    """The classifier in evaluation mode, its parameters frozen, its card completed with source, digest and size."""
    ready = (
        classifier if isinstance(classifier, TorchClassifier) else TorchClassifier(_module(classifier), classifier.card)
    )
    ready.eval().requires_grad_(False)
    if device is not None:
        ready.to(device)
    count = sum(parameter.numel() for parameter in ready.parameters())
    weights = weights_digest(ready.net) if ready.net.state_dict() else ready.card.weights
    ready.card = replace(ready.card, source=source, weights=weights, parameters=count or ready.card.parameters)
    return ready


def described(
    net: nn.Module,
    *,
    name: str,
    classes: int | None = None,
    channels: int | None = None,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> TorchClassifier:
    """The network behind its preprocessing with a first card; what the caller does not know is asked of the network."""
    if channels is None and mean is not None and len(mean) > 1:
        channels = len(mean)
    whole = normalised(net, mean, std, size)
    if classes is None or channels is None:
        outputs = _probed(whole, name=name, channels=channels, size=size)
        classes, channels = classes or outputs.classes, channels or outputs.channels
    return TorchClassifier(whole, ModelCard(name=name, source="", classes=classes, channels=channels, size=size))


def is_classifier(thing: object) -> TypeGuard[Classifier]:
    """Whether a thing, not its class, can be called and has a card."""
    return isinstance(thing, Classifier) and isinstance(thing.card, ModelCard) and not isinstance(thing, type)


def _probed(net: nn.Module, *, name: str, channels: int | None, size: int | None) -> Outputs:
    """One forward pass on grey images of the first shape the network takes."""
    shapes = [(c, size or s) for c, s in PROBE_SHAPES if channels in (None, c)] or [(channels or 3, size or 32)]
    trouble: list[str] = []
    for shape in dict.fromkeys(shapes):
        images = torch.full((2, shape[0], shape[1], shape[1]), 0.5, device=device_of(net))
        try:
            with modes_kept(net), torch.no_grad():
                logits = net.eval()(images)
        except Exception as error:  # noqa: BLE001 - a network may raise anything on a shape it does not take
            trouble.append(f"{shape[0]}x{shape[1]}x{shape[1]}: {str(error).splitlines()[0] if str(error) else error!r}")
            continue
        if not isinstance(logits, Tensor) or logits.ndim != 2:
            got = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
            raise HoldfastError(
                f"`{name}` must return logits of shape (images, classes), got {got}",
                hint="wrap it in a module whose forward returns the logits alone",
            )
        return Outputs(classes=logits.shape[1], channels=shape[0])
    raise Misuse(
        f"`{name}` took none of the images it was tried on ({'; '.join(trouble[:2])})",
        hint="say what it takes: classes=10,channels=3,size=32",
    )


class _Called(nn.Module):
    """A callable that is no module, as one."""

    def __init__(self, function: Classifier) -> None:
        super().__init__()
        self.function = function
        self.training = False

    def forward(self, images: Tensor) -> Tensor:
        return self.function(images)


def _module(classifier: Classifier) -> nn.Module:
    return classifier if isinstance(classifier, nn.Module) else _Called(classifier)
