"""Forty models whose robust accuracy misleads, in ten families of four, and the honest network inside each.

Each takes an honest network and answers so that gradient attacks fail, succeed at something else, or mean nothing. None
of them is more robust than the network inside; `inside` is what an attack built for the model attacks instead.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Answer = Callable[["Broken", Tensor], Tensor]


class Broken(nn.Module):
    """An honest network answered for by `answer`; `other` is a second network with the same task."""

    def __init__(self, net: nn.Module, other: nn.Module, answer: Answer) -> None:
        super().__init__()
        self.net, self.other, self.answer = net, other, answer
        self.calls = 0
        self.seen: list[Tensor] = []
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        return self.answer(self, images)


@dataclass(frozen=True)
class Case:
    """A broken model: its family, what is wrong in words, and how it answers."""

    family: str
    name: str
    answer: Answer
    inside: Answer | None = None


class _Backward(torch.autograd.Function):
    """The identity, whose gradient is changed on the way back."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.change = change
        return images.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return ctx.change(gradient), None


def backward(images: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    return _Backward.apply(images, change)  # type: ignore[no-any-return, no-untyped-call]


def rounded(images: Tensor, levels: int) -> Tensor:
    return (images * levels).round() / levels


def straight_through(images: Tensor, levels: int) -> Tensor:
    return images + (rounded(images, levels) - images).detach()


def noise_for(gradient: Tensor) -> Tensor:
    return torch.randn(gradient.shape, generator=torch.Generator().manual_seed(int(gradient.abs().sum() * 1e6) % 2**31))


def border_only(gradient: Tensor) -> Tensor:
    mask = torch.zeros_like(gradient)
    mask[..., :1, :] = 1
    return gradient * mask + 1e-8 * mask


def ripple(images: Tensor) -> Tensor:
    """A steep fine wave of the pixels, far too small to change an answer."""
    return 0.02 * torch.sin(images.flatten(1).sum(1) * 1e4)[:, None]


def counted(model: Broken, images: Tensor, after: int, then: Answer) -> Tensor:
    model.calls += 1
    return then(model, images) if model.calls > after else model.net(images)


def remembers(model: Broken, images: Tensor) -> Tensor:
    """Answers for an image near one it has seen as it answered for that one."""
    logits = model.net(images)
    if not model.seen:
        model.seen = [images.detach()[:0], logits.detach()[:0]]
    known, kept = model.seen
    if len(known):
        near = torch.cdist(images.detach().flatten(1), known.flatten(1), p=float("inf"))
        nearest, index = near.min(1)
        logits = torch.where((nearest < 0.2)[:, None], kept[index] + 0 * logits, logits)
    else:
        nearest = torch.full((len(images),), torch.inf)
    fresh = nearest >= 0.2
    model.seen = [torch.cat([known, images.detach()[fresh]]), torch.cat([kept, logits.detach()[fresh]])]
    return logits


def drifts(model: Broken, images: Tensor) -> Tensor:
    """Keeps a running mean of what it has seen and normalises by it."""
    mean = images.detach().mean()
    model.calls += 1
    model.level = 0.9 * getattr(model, "level", mean) + 0.1 * mean  # type: ignore[assignment]
    return model.net((images - 0.5 * (mean - model.level)).clamp(0, 1))  # type: ignore[operator]


def alternates(model: Broken, images: Tensor) -> Tensor:
    model.calls += 1
    return model.net(images) if model.calls % 2 else model.other(images)


def crops(images: Tensor) -> list[Tensor]:
    return [images.roll((dx, dy), (2, 3)) for dx, dy in ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1))]


def votes(model: Broken, images: Tensor, of: Callable[[Tensor], Tensor]) -> Tensor:
    return torch.stack([of(model.net(crop)) for crop in crops(images)]).mean(0)


def one_hot(logits: Tensor) -> Tensor:
    return F.one_hot(logits.argmax(1), logits.shape[1]).float()


def soft_one_hot(logits: Tensor) -> Tensor:
    """A hard vote whose backward pass is that of a saturated softmax."""
    soft = (100 * logits).softmax(1)
    return soft + (one_hot(logits) - soft).detach()


def grad_on(model: Broken, images: Tensor) -> Tensor:
    """While gradients are taken it answers as the other network, which breaks elsewhere."""
    return model.other(images) if torch.is_grad_enabled() else model.net(images)


def requires_grad(model: Broken, images: Tensor) -> Tensor:
    return model.net(images.flip(3)) if images.requires_grad else model.net(images)


def batch_norm(model: Broken, images: Tensor) -> Tensor:
    logits = model.net(images)
    return logits - 0.5 * logits.mean(0, keepdim=True) if len(images) > 1 else logits


def large_batches(model: Broken, images: Tensor) -> Tensor:
    """Honest in batches of up to 32, and with a reversed gradient in larger ones."""
    return model.net(images) if len(images) <= 32 else model.net(backward(images, torch.neg))


def first_of_batch(model: Broken, images: Tensor) -> Tensor:
    return model.net(images) + 0.3 * model.net(images[:1])


def sorted_batch(model: Broken, images: Tensor) -> Tensor:
    """Every second image of a batch is answered for by the other network."""
    turn = (torch.arange(len(images)) % 2)[:, None]
    return torch.where(turn == 0, model.net(images), model.other(images))


def nan_when_moved(model: Broken, images: Tensor) -> Tensor:
    """NaN off the grid of 8 bits, where every attacked image lies."""
    off = (images * 255 - (images * 255).round()).abs().flatten(1).amax(1) > 0.05
    return torch.where(off[:, None], torch.nan, model.net(images))


def nan_gradient(model: Broken, images: Tensor) -> Tensor:
    return model.net(images) + (images - images.detach()).flatten(1).square().sum(1, keepdim=True).sqrt()


def nan_gradient_of_some(model: Broken, images: Tensor) -> Tensor:
    """A root at zero for images that are dark on the whole."""
    light = images.mean((1, 2, 3)) - 0.3
    return model.net(images) + 0 * (light + light.abs()).sqrt()[:, None]


def inf_logits(model: Broken, images: Tensor) -> Tensor:
    logits = model.net(images)
    return logits.masked_fill(logits > logits.amax(1, keepdim=True) - 1e-6, torch.inf)


def batch_statistics(model: Broken, images: Tensor) -> Tensor:
    """Normalises by the statistics of the batch, as a network left in training mode."""
    mean, std = images.mean((0, 2, 3), keepdim=True), images.std((0, 2, 3), keepdim=True)
    return model.net(((images - mean) / std * 0.35 + 0.29).clamp(0, 1))


def dropout(share: float) -> Answer:
    return lambda model, x: model.net(F.dropout(x, share, training=True) * (1 - share / 2))


def random_noise(model: Broken, images: Tensor, size: float) -> Tensor:
    return model.net((images + size * torch.randn_like(images)).clamp(0, 1))


def random_shift(model: Broken, images: Tensor) -> Tensor:
    dx, dy = torch.randint(-2, 3, (2,)).tolist()
    return model.net(images.roll((dx, dy), (2, 3)))


def sometimes_noise(model: Broken, images: Tensor) -> Tensor:
    """One call in six is noisy."""
    return random_noise(model, images, 0.3) if torch.rand(()) < 1 / 6 else model.net(images)


def noisy_gradient(model: Broken, images: Tensor) -> Tensor:
    """Noise that only the gradient meets."""
    return model.net(backward(images, lambda g: g + 20 * g.std() * torch.randn_like(g)))


def leaky_rounding(model: Broken, images: Tensor) -> Tensor:
    """Rounded, with a weak second path that alone has a gradient, and points elsewhere."""
    return model.net(rounded(images, 12)) + 1e-3 * model.other(images.flip(2))


def thermometer(model: Broken, images: Tensor) -> Tensor:
    steps = torch.arange(1, 16, device=images.device).view(-1, 1, 1, 1, 1) / 16
    return model.net((images[None] > steps).float().mean(0))


CASES: tuple[Case, ...] = (
    Case("input quantisation", "rounded to 12 levels", lambda m, x: m.net(rounded(x, 12))),
    Case("input quantisation", "thermometer code", thermometer),
    Case("input quantisation", "rounded, with a leak that points elsewhere", leaky_rounding),
    Case("input quantisation", "straight-through on 6 levels", lambda m, x: m.net(straight_through(x, 6))),
    Case("saturation", "logits times 1,000", lambda m, x: 1000 * m.net(x)),
    Case("saturation", "tanh of 20 times the logits", lambda m, x: torch.tanh(20 * m.net(x))),
    Case("saturation", "logits cut off at 1", lambda m, x: m.net(x).clamp(-1, 1) + 1e-3 * m.net(x).detach()),
    Case("saturation", "steep ripple on the logits", lambda m, x: m.net(x) + ripple(x) * m.net(x).detach()),
    Case("randomness", "noise on the input", lambda m, x: random_noise(m, x, 0.1)),
    Case("randomness", "random shifts", random_shift),
    Case("randomness", "noise on one call in six", sometimes_noise),
    Case("randomness", "noise on the gradient alone", noisy_gradient),
    Case("state", "answers as for the nearest image seen", remembers),
    Case("state", "another network from call 400 on", lambda m, x: counted(m, x, 400, lambda m, x: m.other(x))),
    Case("state", "a running mean of what was asked", drifts),
    Case("state", "two networks in turn", alternates),
    Case("vote", "hard vote over five crops", lambda m, x: votes(m, x, one_hot)),
    Case("vote", "hard vote with a saturated backward", lambda m, x: votes(m, x, soft_one_hot)),
    Case("vote", "the top class alone", lambda m, x: one_hot(m.net(x)) + 0 * m.net(x)),
    Case("vote", "ranks of the logits", lambda m, x: m.net(x).argsort(1).argsort(1).float() + 1e-6 * m.net(x).flip(1)),
    Case("gradient tampering", "reversed gradient", lambda m, x: m.net(backward(x, torch.neg))),
    Case("gradient tampering", "random gradient", lambda m, x: m.net(backward(x, noise_for))),
    Case("gradient tampering", "gradient at the border alone", lambda m, x: m.net(backward(x, border_only))),
    Case(
        "gradient tampering", "gradient of another network", lambda m, x: m.net(x.detach()) + _zero(m.other(x.flip(2)))
    ),
    Case("batch and call", "answers otherwise with gradients on", grad_on),
    Case("batch and call", "answers otherwise where the input requires a gradient", requires_grad),
    Case("batch and call", "reversed gradient in batches over 32", large_batches),
    Case("batch and call", "the first image of the batch takes part", first_of_batch),
    Case("NaN", "NaN off the grid of 8 bits", nan_when_moved),
    Case("NaN", "NaN gradient everywhere", nan_gradient),
    Case("NaN", "NaN gradient for dark images", nan_gradient_of_some),
    Case("NaN", "infinite top logit", inf_logits),
    Case("probabilities", "softmax of the logits", lambda m, x: m.net(x).softmax(1)),
    Case("probabilities", "softmax of 10 times the logits", lambda m, x: (10 * m.net(x)).softmax(1)),
    Case("probabilities", "softmax, rounded to three digits", lambda m, x: rounded(m.net(x).softmax(1), 1000)),
    Case("probabilities", "logarithm of a cut-off softmax", lambda m, x: m.net(x).softmax(1).clamp_min(1e-3).log()),
    Case("wrong mode", "dropout at test time", dropout(0.3)),
    Case("wrong mode", "statistics of the batch", batch_statistics),
    Case("wrong mode", "logits minus their batch mean", batch_norm),
    Case("wrong mode", "every second image by another network", sorted_batch),
)


def _zero(values: Tensor) -> Tensor:
    """Nothing, with the gradient of the values."""
    return values - values.detach()


def made(case: Case, net: nn.Module, other: nn.Module) -> Broken:
    """The broken model on copies of two honest networks."""
    return Broken(copy.deepcopy(net), copy.deepcopy(other), case.answer)


assert len(CASES) == 40, "forty models"
assert len({case.family for case in CASES}) == 10, "in ten families"
