"""A faster version of a model for gradients: float16 that keeps small perturbations, channels last, norms folded.

Attacks take its gradients and its first opinion on who is broken; the model itself confirms every success in float32.

A change of 0.1/255 is lost when the pixel is rounded to 8 bits (bfloat16) and coarse at 11 (float16), so the first
layer stays in float32. Gradients are scaled sample by sample before they go back through float16; what leaves its range
all the same is counted in `out_of_range`. Parts of an attack that the fast version was found too `weak` for take the
model itself.

Where it `records`, a loop may record its steps as CUDA graphs and keep them in `replays`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from holdfast.models.classifier import TorchClassifier

Speed = Literal["auto", "exact", "eager", "graph", "compile"]
COMPILING_PAYS = 10_000_000  # passes; a ResNet-18 saves 1 to 2 µs each on an H200 and compiles in 20 seconds
LEAST_AGREEMENT = 0.9  # of predictions with the model itself, on real images
SCALES = tuple(2.0**power for power in range(14, -13, -2))  # of the largest entry of a sample's gradient at the logits
HEADROOM = 2.0**4  # how much larger gradients may grow during an attack than on the images the scale was chosen on
LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


class UnlikeError(RuntimeError):
    """The fast version answers unlike the model."""


class FastModel:
    """Logits in float16 arithmetic, with gradients in float32. `words` describe how they are computed."""

    def __init__(self, model: TorchClassifier, images: Tensor, *, width: int, speed: Speed) -> None:
        """`images`: a few real ones, to try it on."""
        self.out_of_range = torch.zeros((), dtype=torch.int64, device=images.device)
        net = copy.deepcopy(model.net).eval()
        without_norms = folded(net)
        self.words = "float16, first layer float32" + ", norms folded" * (without_norms is not net)
        self.weak: frozenset[Hashable] = frozenset()
        self.plain = in_float16(net, images)
        self.with_gradients = self.plain if without_norms is net else in_float16(without_norms, images)
        self.records = speed in ("graph", "compile")
        self.replays: object = None
        self.compiled: Callable[[Tensor], Tensor] | None = None
        self.least = width // 2  # smaller batches, which come last, would be compiled again
        # how far a lead may be off: twice what it is on these images; closer calls are the model's own
        self.error = 2 * max(_compare(model, net, images) for net in (self.plain, self.with_gradients))
        self.scale = self._found_scale(images)
        if speed == "compile":
            self._compile(images, width)
        self.out_of_range.zero_()

    def __call__(self, images: Tensor) -> Tensor:
        if not (torch.is_grad_enabled() and images.requires_grad):
            return self._counted(self._compiled_for(images)(images))
        scaling = Scaling(self.scale, self.out_of_range)
        down: Tensor = _ScaleDown.apply(images, scaling)  # type: ignore[no-untyped-call]
        up: Tensor = _ScaleUp.apply(self._counted(self._compiled_for(images)(down)), scaling)  # type: ignore[no-untyped-call]
        return up

    def overflows(self) -> int:
        """How many samples left the range of float16 since the last call."""
        count = int(self.out_of_range)
        self.out_of_range.zero_()
        return count

    def _compiled_for(self, images: Tensor) -> Callable[[Tensor], Tensor]:
        if self.compiled is not None and len(images) >= self.least:
            return self.compiled
        # without gradients and not compiled, a norm is quicker than the bias it would be folded into
        net = self.with_gradients if torch.is_grad_enabled() else self.plain
        return lambda given: _autocast(net, given)

    def _counted(self, logits: Tensor) -> Tensor:
        self.out_of_range.add_((~logits.detach().isfinite().all(dim=1)).sum())
        return logits

    def _found_scale(self, images: Tensor) -> float:
        """The largest scale at which no gradient overflows on these images, less some headroom."""
        for scale in SCALES:
            self.scale = scale
            self.out_of_range.zero_()
            leaf = images.detach().clone().requires_grad_()
            with torch.enable_grad():
                logits = self(leaf)
                top = logits.topk(min(2, logits.shape[1]), dim=1).values
                torch.autograd.grad((top[:, 0] - top[:, -1]).sum() + logits[:, 0].sum(), leaf)
            if not int(self.out_of_range):
                return scale / HEADROOM
        raise UnlikeError("its gradients leave the range of float16")

    def _compile(self, images: Tensor, width: int) -> None:
        self.compiled = torch.compile(lambda given: _autocast(self.with_gradients, given), dynamic=True)
        probe = images.new_zeros((width, *images.shape[1:])).requires_grad_()
        torch.autograd.grad(self(probe).sum(), probe)
        with torch.no_grad():
            self(probe.detach())
        self.words += ", compiled"


class Scaling:
    """What the two ends of one backward pass share: the factor of each sample, and who had a usable gradient."""

    def __init__(self, scale: float, out_of_range: Tensor) -> None:
        self.scale, self.out_of_range = scale, out_of_range
        self.factor: Tensor | None = None
        self.usable: Tensor | None = None


class _ScaleUp(torch.autograd.Function):
    """At the logits: brings each sample's gradient to the scale that float16 takes best."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, scaling: Scaling) -> Tensor:
        ctx.scaling = scaling
        return logits.float()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        scaling: Scaling = ctx.scaling
        largest = gradient.abs().amax(dim=1)
        scaling.usable = largest.isfinite()
        scaling.factor = torch.where(scaling.usable & (largest > 0), scaling.scale / largest, 1.0)
        return gradient * scaling.factor[:, None], None


class _ScaleDown(torch.autograd.Function):
    """At the images: takes the factor off again, and counts gradients that overflowed on the way."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, scaling: Scaling) -> Tensor:
        ctx.scaling = scaling
        return images.view_as(images)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        scaling: Scaling = ctx.scaling
        assert scaling.factor is not None, "the logits come before the images"
        assert scaling.usable is not None
        finite = gradient.flatten(1).isfinite().all(dim=1)
        scaling.out_of_range.add_((scaling.usable & ~finite).sum())
        factor = scaling.factor.reshape(-1, *(1,) * (gradient.dim() - 1))
        return gradient.float() / factor, None


def in_float16(net: nn.Module, images: Tensor) -> nn.Module:
    """The network with the weights of its layers in float16, but for the first; changes the network given."""
    net = net.requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    first = first_layer(net, images)
    if first is not None:
        keep_in_float32(first)
    for part in net.modules():
        if isinstance(part, LAYERS) and part is not first and not _is_hooked(part):
            for parameter in part.parameters(recurse=False):
                if parameter.dtype == torch.float32:
                    parameter.data = parameter.data.half()
    return net


def first_layer(net: nn.Module, images: Tensor) -> nn.Module | None:
    """The layer that meets the images first; None where the network has no such layers."""
    met: list[nn.Module] = []
    layers = [part for part in net.modules() if isinstance(part, LAYERS)]
    hooks = [layer.register_forward_pre_hook(lambda layer, _: met.append(layer)) for layer in layers]
    try:
        with torch.no_grad():
            net(images[:2])
    finally:
        for hook in hooks:
            hook.remove()
    return met[0] if met else None


def keep_in_float32(layer: nn.Module) -> None:
    """Has a layer compute in float32, whatever is around it."""
    forward = layer.forward

    def in_float32(values: Tensor) -> Tensor:
        with torch.autocast(values.device.type, enabled=False):
            result: Tensor = forward(values.float())
        return result

    layer.forward = in_float32


def folded(net: nn.Module) -> nn.Module:
    """The network with batch norms taken into the convolutions before them; as it is where it cannot be traced."""
    from torch.fx.experimental.optimization import fuse

    try:
        fused: nn.Module = fuse(net)
    except Exception:  # noqa: BLE001 - models are other people's code, and many take turns a trace cannot
        return net
    return fused.requires_grad_(False)


def settled_speed(speed: Speed, passes: int) -> Speed:
    """What `auto` means for so many passes."""
    if speed != "auto":
        return speed
    return "compile" if passes >= COMPILING_PAYS else "graph"


def fast_version(
    model: TorchClassifier, images: Tensor, *, width: int, speed: Speed, said: Callable[[str], None]
) -> FastModel | None:
    """The fastest version of the model that works here; None where that is the model itself."""
    ways: tuple[Speed, ...] = (speed, "graph", "eager") if speed != "eager" else ("eager",)
    for way in dict.fromkeys(ways):
        try:
            return FastModel(model, images, width=width, speed=way)
        except UnlikeError as error:
            said(f"gradients stay in float32: in float16 {error}")
            return None
        except Exception as error:  # noqa: BLE001 - models are other people's code, and many cannot be captured
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            said(f"no {way} version of this model: {type(error).__name__}: {str(error).splitlines()[0][:160]}")
    return None


def _autocast(net: nn.Module, images: Tensor) -> Tensor:
    with torch.autocast(images.device.type, torch.float16, cache_enabled=False):
        logits: Tensor = net(images.contiguous(memory_format=torch.channels_last))
    return logits.float()


def _compare(model: TorchClassifier, net: nn.Module, images: Tensor) -> float:
    """The largest difference of two logits' gap; an error where predictions differ."""
    with torch.no_grad():
        exact = model(images)
        logits = _autocast(net, images)
    agreement = float((logits.argmax(1) == exact.argmax(1)).float().mean())
    if not bool(logits.isfinite().all()) or agreement < LEAST_AGREEMENT:
        raise UnlikeError(f"only {100 * agreement:.0f} % of its predictions are those of the model")
    off = logits - exact
    return float((off.amax(dim=1) - off.amin(dim=1)).max())


def _is_hooked(layer: nn.Module) -> bool:
    """Whether something else makes or uses the layer's weights: a parametrisation, a spectral norm."""
    return bool(layer._forward_pre_hooks or hasattr(layer, "parametrizations"))
