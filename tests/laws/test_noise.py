"""Keyed noise: a function of (seed, id, purpose, draw), and distributed as it says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from holdfast.core.noise import CHUNK, GOLDEN, Noise, _hash64

MASK = (1 << 64) - 1
ids = st.lists(st.text(max_size=8), min_size=1, max_size=12, unique=True)


def draws(noise: Noise, shape: tuple[int, ...] = (3, 5, 7)) -> list[torch.Tensor]:
    return [noise.uniform("a", shape), noise.normal("a", shape), noise.integers("a", shape, low=-4, high=9)]


@given(ids, st.integers(0, 2**32), st.randoms())
def test_a_sample_draws_the_same_alone_in_any_batch_and_any_order(names: list[str], seed: int, random: object) -> None:
    whole = draws(Noise.of(seed, names))
    shuffled = list(range(len(names)))
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for together, mixed in zip(whole, draws(Noise.of(seed, [names[i] for i in shuffled])), strict=True):
        assert torch.equal(together[shuffled], mixed)
    for i, name in enumerate(names):
        for together, alone in zip(whole, draws(Noise.of(seed, [name])), strict=True):
            assert torch.equal(together[i : i + 1], alone)


def test_normal_draws_do_not_depend_on_where_in_memory_they_lie() -> None:
    """Sizes around vector widths and chunk borders: torch's own functions differ in the last bit there."""
    big = Noise.of(0, ["x", "y"]).normal("a", (3, 113, 113))
    for name, row in zip(["x", "y"], big, strict=True):
        assert torch.equal(Noise.of(0, [name]).normal("a", (3, 113, 113))[0], row)
    long = Noise.of(0, ["x"]).normal("a", (1001,))[0]
    for n in (1, 7, 8, 9, 31, 33, 1000):
        assert torch.equal(Noise.of(0, ["x"]).normal("a", (n,))[0], long[:n])


def test_the_bits_are_splitmix64_of_the_documented_key() -> None:
    def mix(z: int) -> int:
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    assert GOLDEN == 0x9E3779B97F4A7C15, "2^64 over the golden ratio, as Steele et al. have it"
    key = mix((_hash64("5\0name") ^ _hash64("purpose")) & MASK)
    key = mix((key + 3 * GOLDEN) & MASK)
    bits = [mix((key + (i + 1) * GOLDEN) & MASK) for i in range(100)]
    expected = torch.tensor([((b >> 41) * 2 + 1) / 2**24 for b in bits])
    assert torch.equal(Noise.of(5, ["name"]).uniform("purpose", (100,), draw=3)[0], expected)


def test_draws_may_differ_from_sample_to_sample() -> None:
    noise = Noise.of(0, ["a", "b", "c"])
    mixed = noise.uniform("p", (4,), draw=torch.tensor([0, 5, 2]))
    for i, draw in enumerate([0, 5, 2]):
        assert torch.equal(mixed[i], noise.uniform("p", (4,), draw=draw)[i])


def test_seeds_ids_purposes_draws_and_scopes_are_independent() -> None:
    first = Noise.of(0, ["a"]).uniform("p", (20000,))[0]
    others = {
        "seed": Noise.of(1, ["a"]).uniform("p", (20000,))[0],
        "id": Noise.of(0, ["b"]).uniform("p", (20000,))[0],
        "purpose": Noise.of(0, ["a"]).uniform("q", (20000,))[0],
        "draw": Noise.of(0, ["a"]).uniform("p", (20000,), draw=1)[0],
        "scope": Noise.of(0, ["a"]).scope("s").uniform("p", (20000,))[0],
    }
    for name, other in others.items():
        # 20,000 independent pairs: |r| > 0.04 has probability about 1e-8
        assert abs(np.corrcoef(first, other)[0, 1]) < 0.04, name


@pytest.fixture(scope="module")
def many() -> Noise:
    return Noise.of(7, [f"{i}" for i in range(200)])


def test_uniform_is_uniform_and_never_0_or_1(many: Noise) -> None:
    drawn = many.uniform("u", (5000,)).numpy().ravel()
    assert drawn.min() > 0
    assert drawn.max() < 1
    assert stats.kstest(drawn, "uniform").pvalue > 1e-4


def test_normal_is_the_normal_quantile_of_uniform(many: Noise) -> None:
    exact = special.ndtri(many.uniform("n", (5000,)).double().numpy())
    drawn = many.normal("n", (5000,)).double().numpy()
    # Giles' single-precision polynomial: a few units in the last place
    np.testing.assert_allclose(drawn, exact, rtol=2e-6, atol=1e-6)
    assert stats.kstest(drawn.ravel(), "norm").pvalue > 1e-4


def test_samples_and_neighbouring_entries_are_uncorrelated(many: Noise) -> None:
    drawn = many.normal("c", (5000,)).double().numpy()
    across = np.corrcoef(drawn) - np.eye(len(drawn))
    assert np.abs(across).max() < 6 / np.sqrt(5000)  # 20,000 pairs, six standard errors
    along = (drawn[:, 1:] * drawn[:, :-1]).mean()
    assert abs(along) < 6 / np.sqrt(drawn.size)


@given(st.integers(-100, 100), st.integers(1, 1000))
def test_integers_fill_their_range(low: int, wide: int) -> None:
    drawn = Noise.of(0, ["a"]).integers("i", (2000,), low=low, high=low + wide)
    assert int(drawn.min()) >= low
    assert int(drawn.max()) < low + wide


def test_integers_are_even() -> None:
    drawn = Noise.of(0, ["a"]).integers("i", (70000,), low=3, high=10)[0].numpy()
    assert stats.chisquare(np.bincount(drawn - 3, minlength=7)).pvalue > 1e-4


def test_no_samples_and_scalar_shapes_are_fine() -> None:
    assert Noise.of(0, []).normal("a", (3, 2)).shape == (0, 3, 2)
    assert Noise.of(0, ["a", "b"]).uniform("a", ()).shape == (2,)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_draws_the_same_bits() -> None:
    names = [f"{i}" for i in range(16)]
    for here, there in zip(draws(Noise.of(0, names)), draws(Noise.of(0, names, "cuda")), strict=True):
        assert torch.equal(here, there.cpu())


def test_shapes_larger_than_a_chunk_and_empty_ones() -> None:
    noise = Noise.of(0, ["a", "b", "c"])
    long = noise.uniform("p", (CHUNK["cpu"] + 7,))
    assert long.shape == (3, CHUNK["cpu"] + 7)
    assert torch.equal(long[:, :100], noise.uniform("p", (100,)))
    assert len(torch.unique(long)) > 0.99 * CHUNK["cpu"]
    assert noise.uniform("p", (0,)).shape == (3, 0)
