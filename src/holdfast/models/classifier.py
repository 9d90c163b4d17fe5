"""A network as a classifier: its card, preprocessing and digest of weights; loaded from a text or wrapped live."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeGuard, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.refs import Ref, printable_name
from holdfast.core.registry import registry
from holdfast.core.types import Classifier, ExactVersion, FastVersion, ModelCard

MOST_LETTERS = 300  # of a module's name, which may be that of an experiment
Numbers = None | tuple[float, ...]
PROBE_SHAPES = tuple((channels, size) for size in (32, 28, 224, 64, 96, 299) for channels in (3, 1))


class TorchClassifier(nn.Module):
    """A network and its card: logits for images in [0, 1].

    `was_training` remembers whether any part of the network was in training mode when it was wrapped. Making one
    changes nothing in the network. One that is `live` is somebody's own module: it answers in evaluation mode and is
    left as it was; `borrowed` puts it into that mode for a while. `fast`, where there is one, answers quicker in lower
    precision: for gradients, never for scores. `exact`, where there is one, asks it in few batch lengths.
    """

    live = False

    fast: FastVersion | None = None
    exact: ExactVersion | None = None
    label_map: str = ""  # digest of the map that its logits go through, where there is one

    def __init__(self, net: nn.Module, card: ModelCard) -> None:
        super().__init__()
        self.net = net
        self.card = card
        self.was_training = any(map(in_training_mode, net.modules()))
        self.training = in_training_mode(net)

    @property
    def cannot_take(self) -> str | None:
        """The attacks this classifier cannot take, in words; None when it takes them all."""
        if self.card.differentiable:
            return None
        return f"`{self.card.name}` runs forward only: it takes no attack that follows gradients, only those on logits"

    def forward(self, images: Tensor) -> Tensor:
        if images.requires_grad and self.cannot_take:
            raise HoldfastError(self.cannot_take, hint="use an attack that only looks at logits, such as Square")
        if self.live and any(map(in_training_mode, self.net.modules())):
            with modes_kept(self.net):
                self.net.eval()
                return self._logits(images)
        return self._logits(images)

    def _logits(self, images: Tensor) -> Tensor:
        """The logits in float32; the network gets images of its own, which it may write into."""
        logits = self.net(images.clone())
        if not isinstance(logits, Tensor) or logits.is_complex():
            return cast(Tensor, logits)  # named by whoever asked
        if logits.ndim == 1 and len(images) == 1:  # `squeeze` takes the batch of one too
            logits = logits[None]
        return logits.float()


class Normalised(nn.Module):
    """A network behind its preprocessing: resizes to `size` where that differs, then (images - mean) / std."""

    mean: Tensor
    std: Tensor

    def __init__(self, net: nn.Module, mean: Sequence[float], std: Sequence[float], size: int | None) -> None:
        super().__init__()
        self.net = net
        self.size = size
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).reshape(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).reshape(1, -1, 1, 1))
        self.training = in_training_mode(net)

    def forward(self, images: Tensor) -> Tensor:
        if self.size is not None:
            images = at_side(images, self.size)
        logits: Tensor = self.net((images - self.mean) / self.std)
        return logits


def at_side(images: Tensor, side: int) -> Tensor:
    """The images at this side, bilinear and antialiased; as they are where they have it."""
    if images.shape[-2:] == (side, side):
        return images
    return F.interpolate(images, size=(side, side), mode="bilinear", antialias=True)


def normalised(
    net: nn.Module, mean: Sequence[float] | None, std: Sequence[float] | None, size: int | None = None
) -> nn.Module:
    """A module that takes images in [0, 1]: resizing (bilinear, antialiased) and normalisation happen inside.

    One number stands for all channels. Without any of the three the network itself comes back.
    """
    if (mean is None) != (std is None):
        raise Misuse("`mean` and `std` belong together, got only one of them", hint="give both, or neither")
    if mean is None or std is None:
        return net if size is None else Normalised(net, (0.0,), (1.0,), size)
    if len(mean) != len(std) and 1 not in (len(mean), len(std)):
        raise Misuse(f"`mean` has {len(mean)} channels and `std` has {len(std)}")
    if not all(value > 0 for value in std):
        raise Misuse(f"`std` must be positive, got {list(std)}")
    if any(value > 1 for value in mean):
        hint = "images lie in [0, 1]: divide a mean and std for [0, 255] by 255"
        raise Misuse(f"`mean` must lie in [0, 1], got {list(mean)}", hint=hint)
    return Normalised(net, mean, std, size)


def weights_digest(module: nn.Module) -> str:
    """sha256 over the sorted state dict: name, type, shape and bytes of every tensor; the device does not matter."""
    state = module.state_dict()
    empty = next((name for name, tensor in state.items() if isinstance(tensor, Tensor) and tensor.is_meta), None)
    if empty is not None:
        raise HoldfastError(
            f"the weights of the {type(module).__name__} have no values: `{empty}` is on the meta device",
            hint="load them first: net.to_empty(device='cpu'), then net.load_state_dict(…)",
        )
    total = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name]
        if isinstance(tensor, Tensor):
            total.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
            total.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


@contextmanager
def float32_by_default() -> Iterator[None]:
    """New tensors are float32, whatever type the caller works in."""
    kind = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(kind)


def device_of(module: object) -> torch.device | None:
    """Where the first parameter or buffer lives; None for what has none."""
    tensors = (*module.parameters(), *module.buffers()) if isinstance(module, nn.Module) else ()
    return tensors[0].device if tensors else None


@contextmanager
def borrowed(models: Sequence[object]) -> Iterator[None]:
    """Live models in evaluation mode, frozen and with the digest of their weights as they are now.

    Afterwards they are as before, mode, `requires_grad` and device of every part, so that a training loop can go on.
    """
    live = [model for model in models if isinstance(model, TorchClassifier) and model.live]
    with ExitStack() as stack:
        for model in live:
            stack.enter_context(modes_kept(model))
            stack.callback(_restore, model.net, device_of(model.net), [p.requires_grad for p in model.net.parameters()])
            stack.callback(setattr, model, "live", True)
            model.eval().requires_grad_(False)
            model.live = False
            model.card = replace(model.card, weights=weights_digest(model.net) if model.net.state_dict() else "")
        yield


def _restore(net: nn.Module, device: torch.device | None, flags: Sequence[bool]) -> None:
    if device is not None and device_of(net) != device:
        net.to(device)
    for parameter, flag in zip(net.parameters(), flags, strict=True):
        parameter.requires_grad_(flag)


@contextmanager
def modes_kept(module: object) -> Iterator[None]:
    """Every part is in its own mode again afterwards, whatever happens inside."""
    parts = list(module.modules()) if isinstance(module, nn.Module) else []
    modes = [in_training_mode(part) for part in parts]
    try:
        yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            if in_training_mode(part) != mode:
                part.training = mode


def in_training_mode(part: nn.Module) -> bool:
    """Whether a part is in training mode; a frozen script has no mode."""
    return bool(getattr(part, "training", False))


class Outputs(NamedTuple):
    """Classes and channels of a network, seen in one forward pass."""

    classes: int
    channels: int


def load(model: str | Ref, *, device: str | torch.device | None = None) -> TorchClassifier:
    """The classifier a text stands for, in evaluation mode, frozen, its card complete."""
    ref = registry.bind("model", model) if isinstance(model, str) else model
    with float32_by_default():
        built = registry.build(ref)
    if not is_classifier(built):
        raise HoldfastError(
            f"the model source `{ref.name}` made a {type(built).__name__}, which is no classifier",
            hint="a source returns something callable with a `card`: TorchClassifier(net, card)",
        )
    return prepared(built, source=ref.plain, device=device)


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
    kind: str = "",
    group: str = "",
    device: str | torch.device | None = None,
    shape: tuple[int, int, int] | None = None,
) -> TorchClassifier:
    """A live module as a classifier. The module answers in evaluation mode and stays as it is: mode, gradients, device.

    Weights are read when it is evaluated, so one classifier serves a whole training loop. `shape`: channels, height and
    width of an image to try it on, where classes or channels are not given.
    """
    if not isinstance(net, nn.Module):
        raise Misuse(f"a model is a torch module, got {type(net).__name__}", hint="put the function into an nn.Module")
    printable_name(name, most=MOST_LETTERS)
    if device is not None:
        net.to(device)
    facts = {"trained_on": trained_on, "threats": threats, "kind": kind, "group": group}
    classifier = described(
        net, name=name, classes=classes, channels=channels, size=size, mean=mean, std=std, shape=shape, **facts
    )
    _complete_card(classifier, "live")
    classifier.live = True
    return classifier


def prepared(
    classifier: Classifier, *, source: str = "live", device: str | torch.device | None = None
) -> TorchClassifier:
    """The classifier in evaluation mode, its parameters frozen, its card completed with source, digest and size."""
    ready = classifier
    if not isinstance(ready, TorchClassifier):
        net = ready if isinstance(ready, nn.Module) else _Called(ready)
        ready = TorchClassifier(net, ready.card)
    ready.eval().requires_grad_(False)
    if device is not None:
        ready.to(device)
    _complete_card(ready, source)
    return ready


def _complete_card(classifier: TorchClassifier, source: str) -> None:
    count = sum(parameter.numel() for parameter in classifier.parameters()) or classifier.card.parameters
    weights = weights_digest(classifier.net) if classifier.net.state_dict() else classifier.card.weights
    classifier.card = replace(classifier.card, source=source, weights=weights, parameters=count)


def described(
    net: nn.Module,
    *,
    name: str,
    classes: int | None = None,
    channels: int | None = None,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    shape: tuple[int, int, int] | None = None,
    **facts: Any,
) -> TorchClassifier:
    """The network behind its preprocessing with a first card; unknown numbers are found by a forward pass.

    `facts` are further fields of the card.
    """
    if channels is None and mean is not None and len(mean) > 1:
        channels = len(mean)
    if mean is not None and channels is not None and len(mean) not in (1, channels):
        hint = "one number for each channel, or one for all"
        raise Misuse(f"`{name}` takes {channels} channels, `mean` has {len(mean)} numbers", hint=hint)
    whole = normalised(net, mean, std, size)
    if classes is None or channels is None:
        outputs = _probed(whole, name=name, channels=channels, size=size, shape=shape)
        classes, channels = classes or outputs.classes, channels or outputs.channels
    return TorchClassifier(whole, ModelCard(name, "", classes, channels, size, **facts))


def is_classifier(thing: object) -> TypeGuard[Classifier]:
    """Whether a thing, not its class, can be called and has a card."""
    return isinstance(thing, Classifier) and isinstance(thing.card, ModelCard) and not isinstance(thing, type)


def _probed(
    net: nn.Module, *, name: str, channels: int | None, size: int | None, shape: tuple[int, int, int] | None
) -> Outputs:
    """One forward pass on grey images of this shape, or of the first one that the network takes."""
    squares = [(c, size or s) for c, s in PROBE_SHAPES if channels in (None, c)] or [(channels or 3, size or 32)]
    shapes = [(c, side, side) for c, side in squares] if shape is None else [shape]
    trouble: list[str] = []
    for tried in dict.fromkeys(shapes):
        images = torch.full((2, *tried), 0.5, device=device_of(net), dtype=torch.float32)
        try:
            with modes_kept(net), torch.no_grad():
                logits = net.eval()(images)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a network may raise anything on a shape it does not take
            trouble.append(f"{'x'.join(map(str, tried))}: {str(error).splitlines()[0] if str(error) else error!r}")
            continue
        if not isinstance(logits, Tensor) or logits.ndim != 2:
            got = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
            raise HoldfastError(
                f"`{name}` must return logits of shape (images, classes), got {got}",
                hint="wrap it in a module whose forward returns the logits alone",
            )
        return Outputs(classes=logits.shape[1], channels=tried[0])
    if shape is not None:
        raise Misuse(
            f"`{name}` does not take these images ({trouble[0]})",
            hint="give images of the shape and type that it takes: float32 in [0, 1]",
        )
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
