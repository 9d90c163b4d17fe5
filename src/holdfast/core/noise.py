"""Keyed noise: every random draw is a function of (seed, sample id, purpose, draw) and of nothing else.

A counter-based hash (the SplitMix64 finaliser, Steele et al. 2014) in 64-bit integers gives the same bits on every
device, whatever the batch, its order and its neighbours. `normal` uses only operations that IEEE 754 rounds exactly
(add, multiply, divide) in a fixed order, so it is the same to the bit too; torch's `log`, `sqrt` and
`erfinv` are not: their last bit depends on the device and, on a CPU, on where in the tensor an element lies.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15
CHUNK = {"cpu": 1 << 15, "cuda": 1 << 26}  # elements at once: stays in a core's cache; bounds memory on a GPU


class Noise:
    """Random draws for a batch of samples.

    `outer`: the noise that this one was scoped from, and the purpose it was scoped by; None for noise of no scope.
    """

    __slots__ = ("keys", "outer")

    def __init__(self, keys: Tensor, outer: tuple[Tensor, str] | None = None) -> None:
        self.keys = keys
        self.outer = outer

    @classmethod
    def of(cls, seed: int, ids: Sequence[str], device: torch.device | str = "cpu") -> Noise:
        import torch

        return cls(torch.tensor([_hash64(f"{seed}\0{name}") for name in ids], dtype=torch.int64, device=device))

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, index: Tensor | slice) -> Noise:
        """The noise of some of the samples."""
        outer = None if self.outer is None else (self.outer[0][index], self.outer[1])
        return Noise(self.keys[index], outer)

    def scope(self, purpose: str) -> Noise:
        """Noise apart from this one, for a component that names its own purposes."""
        return Noise(_mixed(self.keys ^ _hash64(purpose)), (self.keys, purpose))

    def renamed(self, old: str, new: str) -> Noise:
        """The noise that a component named `new` would have been given where this was scoped for one named `old`.

        A component's scope is its name, after a blank and what else tells it apart. Noise of another scope is returned
        as it is.
        """
        if self.outer is None or self.outer[1].rpartition(" ")[2] != old:
            return self
        keys, purpose = self.outer
        return Noise(keys).scope(purpose.removesuffix(old) + new)

    def uniform(self, purpose: str, shape: Sequence[int], *, draw: int | Tensor = 0) -> Tensor:
        """Uniform in (0, 1), float32, one tensor of `shape` per sample; never exactly 0 or 1."""
        return self._drawn(purpose, shape, draw, _uniform)

    def normal(self, purpose: str, shape: Sequence[int], *, draw: int | Tensor = 0) -> Tensor:
        """Standard normal, float32 (tails to 5.4 standard deviations)."""
        return self._drawn(purpose, shape, draw, _normal)

    def integers(self, purpose: str, shape: Sequence[int], *, low: int, high: int, draw: int | Tensor = 0) -> Tensor:
        """Whole numbers in [low, high), int64; `high - low` at most 2³¹."""
        assert 0 < high - low <= 1 << 31, f"an empty or too wide range: [{low}, {high})"
        return self._drawn(purpose, shape, draw, lambda bits: ((_shifted(bits, 32) * (high - low)) >> 32) + low)

    def _drawn(
        self, purpose: str, shape: Sequence[int], draw: int | Tensor, convert: Callable[[Tensor], Tensor]
    ) -> Tensor:
        import torch

        keys = _mixed(self.scope(purpose).keys + _wrapped(draw, GOLDEN))
        count = math.prod(shape)
        steps = _counter(count, str(keys.device))
        most = CHUNK["cpu" if keys.device.type == "cpu" else "cuda"]
        rows = max(1, most // max(1, count))
        parts = [
            torch.cat([convert(_mixed(some[:, None] + part)) for part in torch.split(steps, most)], dim=1)
            for some in torch.split(keys, rows)
        ]
        return torch.cat(parts).reshape(len(keys), *shape)


def _hash64(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >= 1 << 63 else value


def _wrapped(draw: int | Tensor, factor: int) -> int | Tensor:
    return _signed(draw * factor) if isinstance(draw, int) else draw.long() * _signed(factor)


@functools.lru_cache(maxsize=8)
def _counter(count: int, device: str) -> Tensor:
    import torch

    return torch.arange(1, count + 1, dtype=torch.int64, device=device) * _signed(GOLDEN)


def _shifted(bits: Tensor, by: int) -> Tensor:
    """Logical shift to the right; torch's own keeps the sign."""
    return bits.bitwise_right_shift(by).bitwise_and_((1 << (64 - by)) - 1)


def _mixed(bits: Tensor) -> Tensor:
    bits = bits.bitwise_xor(_shifted(bits, 30)).mul_(_signed(0xBF58476D1CE4E5B9))
    bits = bits.bitwise_xor_(_shifted(bits, 27)).mul_(_signed(0x94D049BB133111EB))
    return bits.bitwise_xor_(_shifted(bits, 31))


def _uniform(bits: Tensor) -> Tensor:
    """(2k + 1) / 2²⁴ for 23 random bits k: exact in float32, symmetric, inside (0, 1)."""
    return _shifted(bits, 41).float().mul_(2.0).add_(1.0).mul_(2.0**-24)


# Giles, "Approximating the erfinv function" (2010), single precision, highest power first, times √2.
CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
ROOT_TWO = 2.0**0.5


def _normal(bits: Tensor) -> Tensor:
    chance = _uniform(bits)
    w = _log(4.0 * (chance * (1.0 - chance))).neg_()
    x = (chance * 2.0).sub_(1.0)
    near = _polynomial(CENTRE, w - 2.5)
    far = _polynomial(TAIL, _sqrt(w).sub_(3.0))
    return near.where(w < 5.0, far).mul_(x).mul_(ROOT_TWO)


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    value = x * coefficients[0]
    for coefficient in coefficients[1:-1]:
        value = value.add_(coefficient).mul_(x)
    return value.add_(coefficients[-1])


def _sqrt(value: Tensor) -> Tensor:
    """Square root of numbers in (0, 100): a guess from the exponent, then Newton. CUDA's own differs from a CPU's."""
    import torch

    root = ((value.view(torch.int32) >> 1) + 0x1FBD1DF5).view(torch.float32)
    for _ in range(3):
        root = (value / root).add_(root).mul_(0.5)
    return root


def _log(value: Tensor) -> Tensor:
    """Natural logarithm of normal float32 numbers from exactly rounded operations (fdlibm's reduction and series)."""
    import torch

    bits = value.view(torch.int32) + (0x3F800000 - 0x3F3504F3)
    exponent = ((bits >> 23) - 127).to(torch.float32)
    f = ((bits & 0x7FFFFF) + 0x3F3504F3).view(torch.float32).sub_(1.0)
    s = f / (f + 2.0)
    z = s * s
    w = z * z
    odd = (w * 0.28498786688).add_(0.66666662693).mul_(z)
    series = (w * 0.24279078841).add_(0.40000972152).mul_(w).add_(odd)
    half = (f * f).mul_(0.5)
    tail = exponent * 9.0580006145e-06
    return series.add_(half).mul_(s).add_(tail).sub_(half).add_(f).add_(exponent.mul_(6.9313812256e-01))
