"""A faster version of a model for gradients: float16 that keeps small perturbations, channels last, norms folded.

Attacks take its gradients and its first opinion; the model itself confirms every success in float32.

A change of 0.1/255 is lost when the pixel is rounded to 8 bits (bfloat16) and coarse at 11 (float16), so the first
layer stays in float32. Gradients are scaled sample by sample before they go back through float16; what leaves its range
all the same is counted in `out_of_range`. Parts of an attack that the fast version was found too `weak` for take the
model itself.

Where it `records`, a loop may record its steps as CUDA graphs and keep them in `replays`.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from holdfast.core.rounding import percent
from holdfast.core.types import FastVersion
from holdfast.models.classifier import TorchClassifier
from holdfast.models.compiling import Compilation, Function, asked, in_half, in_one_line
from holdfast.models.lengths import Lengths, is_capturing, padded

Speed = Literal["auto", "exact", "eager", "graph", "compile"]
COMPILED_GAIN = (
    0.3  # of the time of passes, saved by compiling; measured 0.28 (ConvNeXt-T) to 0.63 (EfficientNet-Lite0)
)
COMPILING = 12.0  # seconds to be saved before a process is begun that compiles: it takes 20 to 35, beside the work
TAKING_OVER = 6.0  # seconds to be saved before what is compiled is taken from the cache
LEAST_COSINE = 0.9  # of the compiled version's gradients with those of the uncompiled one
COMPARED = 256  # images whose logits are compared with the model's: float32 takes 0.5 s for 1,024 on a WRN-28-10
LEAST_AGREEMENT = 0.9  # of predictions with the model itself, on real images
SCALES = tuple(2.0**power for power in range(14, -13, -2))  # of the largest entry of a sample's gradient at the logits
MOST_FACTOR = 2.0**120  # and of its inverse: both are numbers of float32, whatever the gradient
HEADROOM = 2.0**4  # how much larger gradients may grow during an attack than on the images the scale was chosen on
COMPILED = ", compiled"  # in the words of a version that is
LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


def is_worth_compiling(seconds: float) -> bool:
    """Whether a compiled version saves enough of so many seconds of uncompiled passes."""
    return COMPILED_GAIN * seconds > COMPILING


class UnlikeError(RuntimeError):
    """The fast version answers unlike the model."""


class FastModel(FastVersion):
    """Logits in float16 arithmetic, with gradients in float32. `words` describe how they are computed.

    It is asked in few `lengths`. Where much is ahead of it (`expect`), another process compiles it for the length in
    use, and it takes that over when it is ready and proves as good and faster (`improve`); `notes` say why not.
    """

    lengths: Lengths

    def __init__(self, model: TorchClassifier, images: Tensor, *, width: int, speed: Speed) -> None:
        """`images`: real ones, to try it on, as many as it will be asked about at once."""
        self.out_of_range = torch.zeros((), dtype=torch.int64, device=images.device)
        net = copy.deepcopy(model.net).eval()
        without_norms = folded(net)
        self.words = "float16, first layer float32" + ", norms folded" * (without_norms is not net)
        first = first_layer(net, images[:width])
        self.plain = in_float16(net, first)
        self.with_gradients = self.plain if without_norms is net else in_float16(without_norms, first)
        self.speed, self.images = speed, images[:width]
        self.records = speed in ("graph", "compile")
        self.lengths = Lengths()
        self.compiled: dict[tuple[int, bool], Function] = {}
        self.compiling: Compilation | None = None
        self.attempted: set[bool] = set()
        self.until: dict[bool, float] = {}  # when the passes expected will be through
        self.notes: list[str] = []
        # how far a lead may be off: twice what it is on some of these images; closer calls are the model's own
        some = self.images[:COMPARED]
        with torch.no_grad():
            exact = model(some)
        self.error = 2 * max(_compare(exact, net, some) for net in (self.plain, self.with_gradients))
        self.scale = self._largest_scale(self.images)
        if speed == "compile":
            self._compile_now(min(width, len(images)))
        self.out_of_range.zero_()

    def __call__(self, images: Tensor) -> Tensor:
        count = len(images)
        length = count if is_capturing() else self.lengths.fit(count)
        if not (torch.is_grad_enabled() and images.requires_grad):
            return self._counted(self._asked(padded(images, length))[:count])
        scaling = Scaling(self.scale, self.out_of_range)
        down: Tensor = _ScaleDown.apply(images, scaling)  # type: ignore[no-untyped-call]
        logits = self._counted(self._asked(padded(down, length))[:count])
        up: Tensor = _ScaleUp.apply(logits, scaling)  # type: ignore[no-untyped-call]
        return up

    def overflows(self) -> int:
        """How many samples left the range of float16 since the last call."""
        count = int(self.out_of_range)
        self.out_of_range.zero_()
        return count

    def expect(self, seconds: float, *, gradients: bool) -> None:
        """So many seconds of its passes are ahead: where compiling pays, it is begun when the work is under way."""
        if self.speed == "auto" and gradients not in self.until:
            self.until[gradients] = time.perf_counter() + seconds

    def improve(self, length: int, *, gradients: bool) -> None:
        """Between two rounds of a loop: begins to compile what pays, and takes over what is ready."""
        if self.several:  # what is compiled can go back once only: it reuses the memory of the way there
            return
        try:
            self._improve(length, gradients)
        except Exception as error:  # noqa: BLE001 - the job goes on as it did, whatever the compiler meets
            self.compiling = None
            self.notes.append(f"not compiled: {in_one_line(error)}")

    def stop_compiling(self) -> None:
        """It is not used now: what is being compiled for it ends, and may be begun again."""
        if self.compiling is not None:
            self.compiling.cancel()
            self.attempted.discard(self.compiling.gradients)
            self.compiling = None

    def _improve(self, length: int, gradients: bool) -> None:
        compiling = self.compiling
        if compiling is not None and compiling.is_over:
            self.compiling = None
            if self._saves(compiling.gradients) > TAKING_OVER:
                self._take_over(compiling)
        if self.compiling is None and gradients not in self.attempted and self._saves(gradients) > TAKING_OVER:
            self.attempted.add(gradients)  # once: what could be saved only shrinks
            begun = Compilation(self.with_gradients, self._probe(length), gradients=gradients)
            if begun.is_cached or self._saves(gradients) > COMPILING:
                self.compiling = begun.start()

    def _saves(self, gradients: bool) -> float:
        """Seconds that a compiled version would save of what is expected."""
        return COMPILED_GAIN * (self.until.get(gradients, 0.0) - time.perf_counter())

    def _compile_now(self, length: int) -> None:
        for gradients in (True, False):
            self._take_over(Compilation(self.with_gradients, self._probe(length), gradients=gradients))

    def _take_over(self, compilation: Compilation) -> None:
        """Uses what was compiled where it answers as before, and faster."""
        images, gradients = compilation.images, compilation.gradients
        compiled = compilation.compiled(math.inf if self.speed == "compile" else self._saves(gradients))
        if compiled is None:
            self.notes.append(f"not compiled: {compilation.error}")
            return
        if self._is_unlike(compiled, images, gradients):
            self.notes.append("not compiled: the compiled version answers unlike this one")
            return
        before = _seconds(lambda: asked(self._uncompiled, images, gradients=gradients))
        after = _seconds(lambda: asked(compiled, images, gradients=gradients))
        if after < before:
            self.compiled[len(images), gradients] = compiled
            self.lengths.forget(len(images))
            self.replays = None
            self.words = self.words.removesuffix(COMPILED) + COMPILED

    def _is_unlike(self, compiled: Function, images: Tensor, gradients: bool) -> bool:
        known, gradient = asked(self._uncompiled, images, gradients=gradients, scale=self.scale)
        logits, other = asked(compiled, images, gradients=gradients, scale=self.scale)
        off = logits - known
        if not bool(off.isfinite().all()) or float((off.amax(dim=1) - off.amin(dim=1)).max()) > 2 * self.error:
            return True
        if gradient is None or other is None:
            return False
        alike = nn.functional.cosine_similarity(gradient.flatten(1).double(), other.flatten(1).double(), dim=1)
        return float(alike.median()) < LEAST_COSINE

    def _probe(self, length: int) -> Tensor:
        return self.images[torch.arange(length, device=self.images.device) % len(self.images)]

    def _asked(self, images: Tensor) -> Tensor:
        gradients = torch.is_grad_enabled() and images.requires_grad
        function = None if gradients and self.several else self.compiled.get((len(images), gradients))
        chosen = self._uncompiled if function is None else function
        if function is not None:
            images = images.contiguous()  # another order would be compiled anew
        return chosen(images) if is_capturing() else self.lengths.timed(len(images), lambda: chosen(images))

    def _uncompiled(self, images: Tensor) -> Tensor:
        # without gradients and not compiled, a norm is quicker than the bias it would be folded into
        return in_half(self.with_gradients if torch.is_grad_enabled() else self.plain, images)

    def _counted(self, logits: Tensor) -> Tensor:
        self.out_of_range.add_((~logits.detach().isfinite().all(dim=1)).sum())
        return logits

    def _largest_scale(self, images: Tensor) -> float:
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


class Scaling:
    """What the two ends of one backward pass share: the factor of each sample, and which had a usable gradient."""

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
        factor = (scaling.scale / largest).clamp_max(MOST_FACTOR)
        scaling.factor = torch.where(scaling.usable & (largest > 0), factor, 1.0)
        return gradient * scaling.factor[:, None], None


class _ScaleDown(torch.autograd.Function):
    """At the images: takes the factor off again, and counts gradients that overflowed."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, scaling: Scaling) -> Tensor:
        ctx.scaling = scaling
        return images.view_as(images)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        scaling: Scaling = ctx.scaling
        assert scaling.factor is not None, "the logits come before the images"
        assert scaling.usable is not None
        largest = torch.linalg.vector_norm(gradient, ord=torch.inf, dim=tuple(range(1, gradient.dim())))
        scaling.out_of_range.add_((scaling.usable & ~largest.isfinite()).sum())
        factor = scaling.factor.reshape(-1, *(1,) * (gradient.dim() - 1))
        unscaled = torch.empty(gradient.shape, device=gradient.device)  # in the order of the images, not of the network
        return torch.div(gradient, factor, out=unscaled), None


def in_float16(net: nn.Module, first: str) -> nn.Module:
    """The network with the weights of its layers in float16, but for the one named; changes the network given."""
    net = net.requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for name, part in net.named_modules():
        if isinstance(part, LAYERS) and name != first and not _is_hooked(part):
            for parameter in part.parameters(recurse=False):
                if parameter.dtype == torch.float32:
                    parameter.data = parameter.data.half()
    if not first or first not in dict(net.named_modules()):
        return net
    above, _, own = first.rpartition(".")
    parent = net.get_submodule(above)
    setattr(parent, own, InFloat32(getattr(parent, own)))
    return net


def first_layer(net: nn.Module, images: Tensor) -> str:
    """The name of the layer that meets the images first; empty where the network has no such layers."""
    met: list[str] = []
    layers = [(name, part) for name, part in net.named_modules() if isinstance(part, LAYERS)]
    hooks = [part.register_forward_pre_hook(lambda *_, name=name: met.append(name)) for name, part in layers]
    try:
        with torch.no_grad():
            net(images)
    finally:
        for hook in hooks:
            hook.remove()
    return met[0] if met else ""


class InFloat32(nn.Module):
    """A layer that computes in float32, whatever is around it."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, values: Tensor) -> Tensor:
        with torch.autocast(values.device.type, enabled=False):
            result: Tensor = self.layer(values.float())
        return result

    def __getattr__(self, name: str) -> Any:
        """Weights and settings are the layer's: some networks look at them."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("layer"), name)


def folded(net: nn.Module) -> nn.Module:
    """The network with batch norms taken into the convolutions before them; as it is where it cannot be traced."""
    from torch.fx import GraphModule
    from torch.fx.experimental.optimization import fuse

    try:
        fused = fuse(net)
    except Exception:  # noqa: BLE001 - models are other people's code, and many take turns a trace cannot
        return net
    assert isinstance(fused, GraphModule), "a traced network"
    for node in fused.graph.nodes:
        node.type = None  # an annotation that is text, as they all are in many files, cannot be pickled
    fused.recompile()
    return fused.requires_grad_(False)


def fast_version(
    model: TorchClassifier, images: Tensor, *, width: int, speed: Speed, report: Callable[[str], None]
) -> FastModel | None:
    """The fastest version of the model that works here; None where that is the model itself."""
    ways: tuple[Speed, ...] = (speed, "graph", "eager") if speed == "compile" else (speed,)
    for way in dict.fromkeys(ways):
        try:
            return FastModel(model, images, width=width, speed=way)
        except UnlikeError as error:
            report(f"gradients stay in float32: in float16 {error}")
            return None
        except Exception as error:  # noqa: BLE001 - models are other people's code, and many cannot be captured
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            report(f"no {way} version of this model: {type(error).__name__}: {str(error).splitlines()[0][:160]}")
    return None


def _seconds(work: Callable[[], object]) -> float:
    """Of the quickest of three."""
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return min(times)


def _compare(exact: Tensor, net: nn.Module, images: Tensor) -> float:
    """The largest difference of two logits' gap to those of the model; an error where predictions differ."""
    with torch.no_grad():
        logits = in_half(net, images)
    agreement = float((logits.argmax(1) == exact.argmax(1)).float().mean())
    if not bool(logits.isfinite().all()) or agreement < LEAST_AGREEMENT:
        raise UnlikeError(f"only {percent(agreement, 0)} % of its predictions are those of the model")
    off = logits - exact
    return float((off.amax(dim=1) - off.amin(dim=1)).max())


def _is_hooked(layer: nn.Module) -> bool:
    """Whether something else makes or uses the layer's weights: a parametrisation, a spectral norm."""
    return bool(layer._forward_pre_hooks or hasattr(layer, "parametrizations"))
