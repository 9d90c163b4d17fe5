"""Projections: feasible, idempotent, and the nearest point; starts and steps stay inside."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize

from holdfast.attacks.threats import L2, Linf, Threat
from holdfast.core.noise import Noise

THREATS = [Linf(), L2()]
unit = hnp.arrays(np.float32, (3, 1, 2, 3), elements=st.floats(0, 1, width=32))
moves = hnp.arrays(np.float32, (3, 1, 2, 3), elements=st.floats(-4, 4, width=32))
radii = hnp.arrays(np.float32, (3,), elements=st.floats(0, 3, width=32))
each = pytest.mark.parametrize("threat", THREATS, ids=lambda threat: threat.name)


@each
@given(unit, moves, radii)
def test_a_projection_is_feasible(threat: Threat, images: np.ndarray, moved: np.ndarray, radius: np.ndarray) -> None:
    x, r = torch.from_numpy(images), torch.from_numpy(radius)
    inside = threat.project(x, torch.from_numpy(moved), r)
    assert bool((threat.size(x, x + inside) <= r * (1 + 1e-5) + 1e-6).all())
    assert float((x + inside).min()) >= -1e-6
    assert float((x + inside).max()) <= 1 + 1e-6


@each
@given(unit, moves, radii)
def test_a_projection_is_idempotent(threat: Threat, images: np.ndarray, moved: np.ndarray, radius: np.ndarray) -> None:
    x, r = torch.from_numpy(images), torch.from_numpy(radius)
    once = threat.project(x, torch.from_numpy(moved), r)
    torch.testing.assert_close(threat.project(x, once, r), once, rtol=0, atol=2e-6)


@each
@given(unit, moves, radii)
def test_a_projection_is_the_nearest_point(
    threat: Threat, images: np.ndarray, moved: np.ndarray, radius: np.ndarray
) -> None:
    """Against the optimality condition: (moved - nearest) · (z - nearest) ≤ 0 for every feasible z."""
    x, r = torch.from_numpy(images).double(), torch.from_numpy(radius).double()
    target = torch.from_numpy(moved).double()
    nearest = threat.project(x, target, r)
    noise = Noise.of(0, ["a", "b", "c"])
    for draw in range(20):
        wild = noise.normal("z", (1, 2, 3), draw=draw).double() * (1 + draw % 4)
        feasible = threat.project(x, wild, r)
        slope = ((target - nearest) * (feasible - nearest)).flatten(1).sum(1)
        assert float(slope.max()) <= 1e-5


def test_the_l2_projection_agrees_with_a_general_solver() -> None:
    images = torch.tensor([0.9, 0.1, 0.5, 0.95, 0.02, 0.6], dtype=torch.float64).view(1, 1, 2, 3)
    moved = torch.tensor([2.0, -1.5, 0.3, 0.4, -0.9, 1.1], dtype=torch.float64).view(1, 1, 2, 3)
    radius = torch.tensor([0.7], dtype=torch.float64)
    x, y = images.numpy().ravel(), moved.numpy().ravel()
    solved = optimize.minimize(
        lambda d: ((d - y) ** 2).sum(),
        np.zeros(6),
        bounds=list(zip(-x, 1 - x, strict=True)),
        constraints={"type": "ineq", "fun": lambda d: 0.49 - (d**2).sum()},
        options={"ftol": 1e-12},
    )
    ours = L2().project(images, moved, radius).numpy().ravel()
    np.testing.assert_allclose(ours, solved.x, atol=1e-5)


@each
def test_a_start_lies_inside_and_repeats(threat: Threat) -> None:
    ids = [f"{i}" for i in range(64)]
    images, radius = torch.rand(64, 1, 5, 5), torch.full((64,), 0.3)
    draw = torch.zeros(64, dtype=torch.int64)
    start = threat.start(images, radius, Noise.of(0, ids), draw)
    assert bool((threat.size(images, images + start) <= 0.3 * (1 + 1e-5)).all())
    assert torch.equal(start, threat.start(images, radius, Noise.of(0, ids), draw))
    assert not torch.equal(start, threat.start(images, radius, Noise.of(0, ids), draw + 1))


@each
@given(moves)
def test_the_ascent_direction_has_size_one_and_is_the_steepest(threat: Threat, gradient: np.ndarray) -> None:
    g = torch.from_numpy(gradient).double()
    way = threat.ascent(g)
    flat = g.flatten(1)
    # the dual norm: what a step of size one can gain at most
    gain = flat.abs().sum(1) if threat.name == "linf" else flat.norm(dim=1)
    torch.testing.assert_close((way * g).flatten(1).sum(1), gain, rtol=1e-5, atol=1e-6)
    assert float(threat.size(torch.zeros_like(g), way).max()) <= 1 + 1e-6


@each
def test_radius_zero_is_the_identity(threat: Threat) -> None:
    images, noise = torch.rand(4, 1, 5, 5), Noise.of(0, list("abcd"))
    zero, draw = torch.zeros(4), torch.zeros(4, dtype=torch.int64)
    assert torch.equal(threat.start(images, zero, noise, draw), torch.zeros_like(images))
    assert torch.equal(threat.project(images, torch.randn(4, 1, 5, 5), zero), torch.zeros_like(images))
    assert torch.equal(threat.render(images, threat.identity(images)), images)
