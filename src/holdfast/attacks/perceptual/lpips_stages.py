"""The stages of any network: the activations by which it can measure how far apart two images are.

A network is read as a chain of parts. A `Sequential` is its members; any other module that changes the resolution once
at most is one part; all else is opened. At every resolution where a part with weights works, the last output is a
stage, and the deepest five stages count. For a ResNet these are the outputs of its four layers (and of the stem, where
pooling follows it), for a VGG the last activations before each pooling: what the literature takes.

Tokens (N, T, C) count as maps of T places. Maps of one pixel are no stages, nor is what the `forward` of a module does
between its parts. A network without any stage, such as a perceptron, has its vectors taken instead, by their widths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.attacks.asked_model import ExactModel
from holdfast.core.errors import HoldfastError
from holdfast.core.types import Classifier

MOST = 5
TOKENS, MAPS = 3, 4  # dimensions

Resolution = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Call:
    """One call of a module: the `turn`-th of this module in a pass, with what went in, came out and was called inside.

    `inside` and `out`: the resolution, or nothing where it was no map.
    """

    module: nn.Module
    name: str
    turn: int
    inside: Resolution | None
    out: Resolution | None = None
    calls: list[Call] = field(default_factory=list)

    def resolutions(self) -> set[Resolution]:
        inner = {resolution for call in self.calls for resolution in call.resolutions()}
        return inner | ({self.out} if self.out is not None else set())

    def parts(self) -> Iterator[Call]:
        chain = isinstance(self.module, nn.Sequential) and self.calls
        if self.out is not None and not chain and len(self.resolutions() - {self.inside}) <= 1:
            yield self
        else:
            for call in self.calls:
                yield from call.parts()


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """A classifier's own activations at its stages."""

    model: Classifier
    calls: tuple[Call, ...]

    @property
    def label(self) -> str:
        return "the model's own " + ", ".join(call.name or "output" for call in self.calls)

    def __call__(self, images: Tensor) -> list[Tensor]:
        caught: dict[tuple[nn.Module, int], Tensor] = {}
        turns: Counter[nn.Module] = Counter()

        def catch(module: nn.Module, args: Any, output: Any) -> None:  # noqa: ARG001 - the signature of a hook
            caught[module, turns[module]] = output
            turns[module] += 1

        hooks = [module.register_forward_hook(catch) for module in {call.module for call in self.calls}]
        try:
            self.model(images)
        finally:
            for hook in hooks:
                hook.remove()
        return [_as_map(caught[call.module, call.turn]) for call in self.calls]


def own_stages(model: Classifier, images: Tensor) -> Stages:
    """The stages of a classifier for images of this shape, found in one pass of a grey image."""
    if isinstance(model, ExactModel):
        model = model.model  # no padding: activations are those of the images given
    net = getattr(model, "net", model)
    net = getattr(net, "_orig_mod", net)  # what torch.compile wrapped
    if not isinstance(net, nn.Module):
        raise HoldfastError(
            f"`{model.card.name}` is no torch module, so its own activations cannot be read",
            hint="measure with another network: network=alexnet-cifar, or network=PATH to AlexNet's weights",
        )
    grey = torch.full_like(images[:1], 0.5) if len(images) else images.new_full((1, *images.shape[1:]), 0.5)
    for resolution in (_resolution_of_map, _width_of_vector):
        stages = _stages(_traced(model, net, grey, resolution))
        if stages:
            return Stages(model, stages)
    raise HoldfastError(
        f"`{model.card.name}` shows no activations to measure with",
        hint="its modules must return plain tensors; or measure with another network: network=alexnet-cifar",
    )


def _stages(whole: Call) -> tuple[Call, ...]:
    last: dict[Resolution, Call] = {}
    weighty: set[Resolution] = set()
    for part in whole.parts():
        assert part.out is not None, "a part is a call that returned a map"
        last.pop(part.out, None)  # so that the order is that of the last ones
        last[part.out] = part
        if any(True for _ in part.module.parameters()):
            weighty.add(part.out)
    return tuple(part for resolution, part in last.items() if resolution in weighty)[-MOST:]


def _traced(
    model: Classifier, net: nn.Module, images: Tensor, resolution: Callable[[object], Resolution | None]
) -> Call:
    """The tree of calls that one pass makes."""
    names = {module: name for name, module in net.named_modules()}
    turns: Counter[nn.Module] = Counter()
    whole = Call(nn.Sequential(), "", 0, None)
    under_way = [whole]

    def enter(module: nn.Module, args: tuple[Any, ...]) -> None:
        call = Call(module, names[module], turns[module], resolution(args[0]) if args else None)
        turns[module] += 1
        under_way[-1].calls.append(call)
        under_way.append(call)

    def leave(module: nn.Module, args: Any, output: Any) -> None:  # noqa: ARG001 - the signature of a hook
        under_way.pop().out = resolution(output)

    hooks = [
        hook for part in names for hook in (part.register_forward_pre_hook(enter), part.register_forward_hook(leave))
    ]
    try:
        with torch.no_grad():
            model(images)
    finally:
        for hook in hooks:
            hook.remove()
    return whole


def _resolution_of_map(output: object) -> Resolution | None:
    if not isinstance(output, Tensor) or output.dim() not in (TOKENS, MAPS):
        return None
    resolution = tuple(output.shape[1:2] if output.dim() == TOKENS else output.shape[2:])
    return None if max(resolution) == 1 else resolution


def _width_of_vector(output: object) -> Resolution | None:
    return (output.shape[1],) if isinstance(output, Tensor) and output.dim() == 2 else None


def _as_map(output: Tensor) -> Tensor:
    if output.dim() == TOKENS:
        return output.transpose(1, 2).unsqueeze(3)
    return output if output.dim() == MAPS else output[:, :, None, None]
