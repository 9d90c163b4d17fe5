"""Projections: feasible, idempotent, and the nearest point; starts and steps stay inside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize

from holdfast.attacks.threat import Scene, Threat
from holdfast.attacks.threats.balls import L1, L2, Linf
from holdfast.core.noise import Noise

THREATS = [Linf(), L2(), L1()]
unit = hnp.arrays(np.float32, (3, 1, 2, 3), elements=st.floats(0, 1, width=32))
moves = hnp.arrays(np.float32, (3, 1, 2, 3), elements=st.floats(-4, 4, width=32))
radii = hnp.arrays(np.float32, (3,), elements=st.floats(0, 3, width=32))
each = pytest.mark.parametrize("threat", THREATS, ids=lambda threat: threat.name)


@each
@given(unit, moves, radii)
def test_a_projection_is_feasible(threat: Threat, images: np.ndarray, moved: np.ndarray, radius: np.ndarray) -> None:
    x, r = torch.from_numpy(images), torch.from_numpy(radius)
    inside = threat.project(Scene(x, r), torch.from_numpy(moved))
    assert bool((threat.size(Scene(x, r), inside) <= r * (1 + 1e-5) + 1e-6).all())
    assert float((x + inside).min()) >= -1e-6
    assert float((x + inside).max()) <= 1 + 1e-6


@each
@given(unit, moves, radii)
def test_a_projection_is_idempotent(threat: Threat, images: np.ndarray, moved: np.ndarray, radius: np.ndarray) -> None:
    x, r = torch.from_numpy(images), torch.from_numpy(radius)
    once = threat.project(Scene(x, r), torch.from_numpy(moved))
    torch.testing.assert_close(threat.project(Scene(x, r), once), once, rtol=0, atol=2e-6)


@each
@given(unit, moves, radii)
def test_a_projection_is_the_nearest_point(
    threat: Threat, images: np.ndarray, moved: np.ndarray, radius: np.ndarray
) -> None:
    """Against the optimality condition: (moved - nearest) · (z - nearest) ≤ 0 for every feasible z."""
    x, r = torch.from_numpy(images).double(), torch.from_numpy(radius).double()
    target = torch.from_numpy(moved).double()
    nearest = threat.project(Scene(x, r), target)
    noise = Noise.of(0, ["a", "b", "c"])
    for draw in range(20):
        wild = noise.normal("z", (1, 2, 3), draw=draw).double() * (1 + draw % 4)
        feasible = threat.project(Scene(x, r), wild)
        slope = ((target - nearest) * (feasible - nearest)).flatten(1).sum(1)
        assert float(slope.max()) <= 1e-5


@pytest.mark.parametrize(
    ("threat", "room"),
    [(L2(), lambda d: 0.49 - (d**2).sum()), (L1(), lambda d: 0.7 - (d[:6] + d[6:]).sum())],
    ids=["l2", "l1"],
)
def test_a_projection_agrees_with_a_general_solver(threat: Threat, room: Callable[[np.ndarray], float]) -> None:
    images = torch.tensor([0.9, 0.1, 0.5, 0.95, 0.02, 0.6], dtype=torch.float64).view(1, 1, 2, 3)
    moved = torch.tensor([2.0, -1.5, 0.3, 0.4, -0.9, 1.1], dtype=torch.float64).view(1, 1, 2, 3)
    radius = torch.tensor([0.7], dtype=torch.float64)
    x, y = images.numpy().ravel(), moved.numpy().ravel()
    if threat.name == "l2":
        start, bounds = np.zeros(6), list(zip(-x, 1 - x, strict=True))
    else:  # the parts above and below zero apart, so that the constraint is smooth
        start, bounds = np.zeros(12), [(0, 1 - value) for value in x] + [(0, value) for value in x]
    change = (lambda d: d) if threat.name == "l2" else (lambda d: d[:6] - d[6:])
    solved = optimize.minimize(
        lambda d: ((change(d) - y) ** 2).sum(),
        start,
        bounds=bounds,
        constraints={"type": "ineq", "fun": room},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    ours = threat.project(Scene(images, radius), moved).numpy().ravel()
    np.testing.assert_allclose(ours, change(solved.x), atol=1e-5)


@each
def test_a_start_lies_inside_and_repeats(threat: Threat) -> None:
    ids = [f"{i}" for i in range(64)]
    images, radius = torch.rand(64, 1, 5, 5), torch.full((64,), 0.3)
    draw = torch.zeros(64, dtype=torch.int64)
    scene = Scene(images, radius)
    for border in (True, False):
        start = threat.start(scene, Noise.of(0, ids), draw, border=border)
        assert bool((threat.size(scene, start) <= 0.3 * (1 + 1e-5)).all())
        assert torch.equal(start, threat.start(scene, Noise.of(0, ids), draw, border=border))
        assert not torch.equal(start, threat.start(scene, Noise.of(0, ids), draw + 1, border=border))


@each
@given(moves)
def test_the_ascent_direction_has_size_one_and_is_the_steepest(threat: Threat, gradient: np.ndarray) -> None:
    g = torch.from_numpy(gradient).double()
    scene = Scene(torch.full_like(g, 0.5), torch.ones(len(g)))
    way = threat.ascent(scene, torch.zeros_like(g), g)
    flat = g.flatten(1)
    # the dual norm: what a step of size one can gain at most; a hundredth of six entries is the largest alone
    gain = {"linf": flat.abs().sum(1), "l2": flat.norm(dim=1), "l1": flat.abs().amax(1)}[threat.name]
    torch.testing.assert_close((way * g).flatten(1).sum(1), gain, rtol=1e-5, atol=1e-6)
    assert float(threat.norm(way).max()) <= 1 + 1e-6


@each
def test_radius_zero_is_the_identity(threat: Threat) -> None:
    images, noise = torch.rand(4, 1, 5, 5), Noise.of(0, list("abcd"))
    scene, draw = Scene(images, torch.zeros(4)), torch.zeros(4, dtype=torch.int64)
    assert torch.equal(threat.start(scene, noise, draw), torch.zeros_like(images))
    assert torch.equal(threat.project(scene, torch.randn(4, 1, 5, 5)), torch.zeros_like(images))
    assert torch.equal(threat.render(scene, threat.identity(scene)), images)
