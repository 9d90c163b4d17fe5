"""A quicker version of a model for gradients: bfloat16, channels last, norms folded away, compiled if that pays.

Attacks take its gradients and its word on who might be broken; every success is confirmed by the model itself. Where it
`records`, a loop may record its steps, this model's passes among them, as CUDA graphs, and keep them in `replays`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from holdfast.models.classifier import TorchClassifier

Speed = Literal["auto", "exact", "eager", "graph", "compile"]
COMPILING_PAYS = 10_000_000  # passes; a ResNet-18 saves 1 to 2 µs each on an H200 and compiles in 20 seconds
LEAST_AGREEMENT = 0.9  # of predictions with the model itself, on real images


class Rough:
    """Logits in lower precision."""

    def __init__(self, model: TorchClassifier, images: Tensor, *, width: int, speed: Speed) -> None:
        """`images`: a few real ones, to try it on."""
        self.net = copy.deepcopy(model.net).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.folded = folded(self.net)
        self.records = speed in ("graph", "compile")
        self.replays: object = None
        self.words = "bfloat16" + ", norms folded" * (self.folded is not self.net) + ", CUDA graphs" * self.records
        self.compiled: Callable[[Tensor], Tensor] | None = None
        self.least = width // 2  # smaller batches, which come last, would be compiled again
        _compare(model, self._answers, images)
        _compare(model, self._slopes, images)
        if speed == "compile":
            self.compiled = torch.compile(self._slopes, dynamic=True)
            probe = images.new_zeros((width, *images.shape[1:])).requires_grad_()
            torch.autograd.grad(self.compiled(probe).sum(), probe)
            with torch.no_grad():
                self.compiled(probe.detach())
            self.words += ", compiled"

    def __call__(self, images: Tensor) -> Tensor:
        if self.compiled is not None and len(images) >= self.least:
            return self.compiled(images)
        return self._slopes(images) if torch.is_grad_enabled() else self._answers(images)

    def _slopes(self, images: Tensor) -> Tensor:
        return _in_bfloat16(self.folded, images)

    def _answers(self, images: Tensor) -> Tensor:
        """Without gradients and not compiled, a norm is quicker than the bias it would be folded into."""
        return _in_bfloat16(self.net, images)


def _in_bfloat16(net: nn.Module, images: Tensor) -> Tensor:
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        logits: Tensor = net(images.contiguous(memory_format=torch.channels_last))
    return logits.float()


def folded(net: nn.Module) -> nn.Module:
    """The network with batch norms taken into the convolutions before them; as it is where it cannot be traced."""
    from torch.fx.experimental.optimization import fuse

    try:
        fused: nn.Module = fuse(net).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    except Exception:  # noqa: BLE001 - models are other people's code, and many take turns a trace cannot
        return net
    return fused.requires_grad_(False)


class UnlikeError(RuntimeError):
    """The rough version answers unlike the model."""


def _compare(model: TorchClassifier, rough: Callable[[Tensor], Tensor], images: Tensor) -> None:
    with torch.no_grad():
        exact = model(images)
        logits = rough(images)
    agreement = float((logits.argmax(1) == exact.argmax(1)).float().mean())
    if not bool(logits.isfinite().all()) or agreement < LEAST_AGREEMENT:
        raise UnlikeError(f"only {100 * agreement:.0f} % of its predictions are those of the model")


def settled_speed(speed: Speed, passes: int) -> Speed:
    """What `auto` means for so many passes."""
    if speed != "auto":
        return speed
    return "compile" if passes >= COMPILING_PAYS else "graph"


def roughened(
    model: TorchClassifier, images: Tensor, *, width: int, speed: Speed, said: Callable[[str], None]
) -> Rough | None:
    """The quickest version of the model that works here; None where that is the model itself."""
    ways: tuple[Speed, ...] = (speed, "graph", "eager") if speed != "eager" else ("eager",)
    for way in dict.fromkeys(ways):
        try:
            return Rough(model, images, width=width, speed=way)
        except UnlikeError as error:
            said(f"gradients stay in float32: in bfloat16 {error}")
            return None
        except Exception as error:  # noqa: BLE001 - models are other people's code, and many cannot be captured
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            said(f"no {way} version of this model: {type(error).__name__}: {str(error).splitlines()[0][:160]}")
    return None
