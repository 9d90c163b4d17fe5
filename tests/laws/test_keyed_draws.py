"""The arithmetic behind keyed noise against exact functions, to the last bits that float32 has."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import ndtri

from holdfast.core import noise
from holdfast.core.noise import Noise


def test_the_logarithm_is_that_of_numpy_to_three_units_in_the_last_place() -> None:
    random = np.random.default_rng(0)
    values = np.concatenate(
        [random.uniform(2.0**-24, 1, 20_000), np.geomspace(2.0**-22, 0.9999, 5000), [0.5, 0.70710677]]
    )
    values = values.astype(np.float32)
    made = noise._log(torch.from_numpy(values)).double().numpy()
    exact = np.log(values.astype(np.float64))
    np.testing.assert_allclose(made, exact, rtol=4e-7, atol=3e-8)


def test_the_square_root_is_that_of_numpy() -> None:
    values = np.geomspace(1e-3, 99, 20_000).astype(np.float32)
    made = noise._sqrt(torch.from_numpy(values)).double().numpy()
    np.testing.assert_allclose(made, np.sqrt(values.astype(np.float64)), rtol=2.5e-7)


def test_a_normal_draw_is_the_quantile_of_its_uniform_one_far_into_the_tails() -> None:
    """Giles promises 3e-7 of relative error in the middle; float32 leaves about that much in the tails."""
    top = torch.arange(1 << 23, dtype=torch.int64)
    bits = torch.cat([top[:4000], top[-4000:], top[:: 1 << 9]]) << 41
    chance = noise._uniform(bits).double().numpy()
    np.testing.assert_allclose(noise._normal(bits).double().numpy(), ndtri(chance), rtol=5e-7, atol=3e-8)
    assert chance.min() == 2.0**-24
    assert chance.max() == 1 - 2.0**-24


def test_a_scope_renamed_is_the_scope_of_the_other_name() -> None:
    whole = Noise.of(0, ("a", "b"))
    scoped = whole.scope("2 pgd-linf")
    renamed = scoped.renamed("pgd-linf", "apgd")
    assert torch.equal(renamed.keys, whole.scope("2 apgd").keys)
    assert torch.equal(whole.scope("pgd-linf").renamed("pgd-linf", "x").keys, whole.scope("x").keys)
    assert scoped.renamed("linf", "x") is scoped  # a part of the name is not the name
    assert whole.renamed("pgd-linf", "x") is whole
    some = scoped.take(torch.tensor([1]))
    assert torch.equal(some.renamed("pgd-linf", "apgd").keys, renamed.keys[1:])


@pytest.mark.parametrize("count", [1, 7, 1 << 15, (1 << 15) + 1, 70_000])
def test_draws_do_not_depend_on_how_many_are_made_at_once(count: int) -> None:
    """Larger tensors are made in parts: entry k is the same in every shape that has it."""
    three = Noise.of(0, ("a", "b", "c"))
    assert torch.equal(three.uniform("x", (count,))[:, :1], three.uniform("x", (1,)))
    assert torch.equal(three.uniform("x", (count,))[:, -1], three.uniform("x", (count + 3,))[:, count - 1])


def test_whole_numbers_reach_both_ends_and_2_to_the_31() -> None:
    many = Noise.of(0, tuple(map(str, range(64))))
    drawn = many.integers("n", (500,), low=-2, high=3)
    assert sorted(drawn.unique().tolist()) == [-2, -1, 0, 1, 2]
    widest = many.integers("n", (500,), low=0, high=1 << 31)
    assert int(widest.min()) >= 0
    assert (1 << 31) * 0.999 < int(widest.max()) < 1 << 31
    assert float(widest.double().mean()) == pytest.approx((1 << 30), rel=4 / math.sqrt(3 * 32_000))
    with pytest.raises(AssertionError, match="empty or too wide"):
        many.integers("n", (1,), low=0, high=(1 << 31) + 1)
    with pytest.raises(AssertionError, match="empty or too wide"):
        many.integers("n", (1,), low=2, high=2)
    assert bool((many.integers("n", (5,), low=4, high=5) == 4).all())
