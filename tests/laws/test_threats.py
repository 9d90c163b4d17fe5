"""What every threat keeps to. They are found through the attacks that use them: a new one needs no edit here."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from holdfast.attacks.attack import Attack
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.threat import Scene, Threat, scene_of
from holdfast.core.noise import Noise
from holdfast.core.registry import registry

IDS = tuple("abcde")


@dataclass(frozen=True)
class Case:
    name: str
    threat: Threat
    radius: float
    channels: int


def cases() -> list[Case]:
    """One case per threat: the first attack that uses it, at its own radius."""
    found: dict[str, Case] = {}
    for name, entry in registry.entries("attack").items():
        if any(parameter.required for parameter in entry.parameters):
            continue
        attack = registry.build(registry.bind("attack", name))
        if isinstance(attack, Attack) and isinstance(attack, GradientAttack):
            threat = attack.threat
            radius = attack.radius if attack.radius < float("inf") else 0.5
            found.setdefault(threat.name, Case(name, threat, radius, 3 if "colour" in entry.tags else 1))
    return list(found.values())


each = pytest.mark.parametrize("case", cases(), ids=lambda case: case.threat.name)


def images_for(case: Case, *, size: int = 32, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Smooth images away from the borders of the box, so that clamping does not hide a gradient."""
    coarse = torch.rand(len(IDS), case.channels, 6, 6, generator=torch.Generator().manual_seed(3))
    smooth = torch.nn.functional.interpolate(coarse, (size, size), mode="bicubic").clamp(0, 1)
    return (0.2 + 0.6 * smooth).to(dtype)


def scene_for(case: Case, radius: float | None = None) -> tuple[Scene, Noise, torch.Tensor]:
    images, noise = images_for(case), Noise.of(0, IDS)
    draw = torch.zeros(len(IDS), dtype=torch.int64)
    reach = torch.full((len(IDS),), case.radius if radius is None else radius)
    return scene_of(case.threat, images, reach, noise, draw), noise, draw


def inside(size: torch.Tensor, radius: torch.Tensor) -> bool:
    return bool((size <= radius * (1 + 1e-4) + 1e-6).all())


@each
def test_the_identity_changes_nothing(case: Case) -> None:
    scene, _, _ = scene_for(case, radius=0.0)
    threat = case.threat
    rendered = threat.render(scene, threat.identity(scene))
    if not threat.change_at_zero:
        torch.testing.assert_close(rendered, scene.images, rtol=0, atol=2e-6)
    assert inside(threat.size(scene, threat.identity(scene)), scene.radius)


@each
def test_at_radius_zero_nothing_is_left_to_choose(case: Case) -> None:
    scene, noise, draw = scene_for(case, radius=0.0)
    threat = case.threat
    still = threat.render(scene, threat.identity(scene))
    wild = threat.start(scene_for(case)[0], noise, draw)
    for variable in (threat.start(scene, noise, draw), threat.project(scene, wild)):
        assert inside(threat.size(scene, variable), scene.radius)
        torch.testing.assert_close(threat.render(scene, variable), still, rtol=0, atol=1e-5)


@each
@pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
def test_a_projection_stays_in_the_set_and_repeats(case: Case, factor: float) -> None:
    scene, noise, draw = scene_for(case)
    threat = case.threat
    start = threat.start(scene, noise, draw)
    wild = start + factor * case.radius * Noise.of(1, IDS).normal("wild", start.shape[1:])
    once = threat.project(scene, wild)
    assert inside(threat.size(scene, once), scene.radius)
    torch.testing.assert_close(threat.project(scene, once), once, rtol=1e-4, atol=1e-5 * max(1.0, case.radius))
    rendered = threat.render(scene, once)
    assert rendered.shape == scene.images.shape
    assert bool(rendered.isfinite().all())


@each
def test_a_start_lies_inside_and_depends_on_the_draw_alone(case: Case) -> None:
    scene, noise, draw = scene_for(case)
    threat = case.threat
    for border in (False, True):
        start = threat.start(scene, noise, draw, border=border)
        assert inside(threat.size(scene, start), scene.radius)
        assert torch.equal(start, threat.start(scene, noise, draw, border=border))


@each
def test_a_sample_does_not_depend_on_its_neighbours(case: Case) -> None:
    scene, noise, draw = scene_for(case)
    threat = case.threat
    start = threat.start(scene, noise, draw)
    moved = threat.project(scene, start * 1.5)
    way = threat.ascent(scene, moved, torch.sin(moved * 7.0) + 0.1)
    image = threat.render(scene, moved)
    some = torch.tensor([3, 1])
    part = scene_of(threat, scene.images[some], scene.radius[some], noise.take(some), draw[some])
    close = {"rtol": 1e-4, "atol": 1e-5}
    for name, prop in part.props.items():
        torch.testing.assert_close(prop, scene.props[name][some], **close)
    torch.testing.assert_close(threat.start(part, noise.take(some), draw[some]), start[some], **close)
    torch.testing.assert_close(threat.project(part, start[some] * 1.5), moved[some], **close)
    again = threat.ascent(part, moved[some], torch.sin(moved[some] * 7.0) + 0.1)
    torch.testing.assert_close(again, way[some], **close)
    torch.testing.assert_close(threat.render(part, moved[some]), image[some], **close)


@each
def test_gradients_match_finite_differences(case: Case) -> None:
    """In double precision, along a random direction, from a random point inside the set."""
    scene, noise, draw = scene_for(case)
    threat = case.threat
    variable = (threat.project(scene, threat.start(scene, noise, draw)) * 0.7).double()
    props = {name: prop.double() if prop.is_floating_point() else prop for name, prop in scene.props.items()}
    scene = Scene(scene.images.double(), scene.radius.double(), props)
    way = Noise.of(2, IDS).normal("way", variable.shape[1:]).double()
    weights = Noise.of(3, IDS).normal("weights", scene.images.shape[1:]).double()

    def value(at: torch.Tensor) -> torch.Tensor:
        return (threat.render(scene, at) * weights).flatten(1).sum(1)

    at = variable.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(at).sum(), at)
    slope = (gradient * way).flatten(1).sum(1)
    assert bool((slope != 0).any()), "the test says nothing where every slope is zero"
    # bilinear lookups have kinks: a small step crosses few of them
    step = 1e-7 * case.radius
    with torch.no_grad():
        measured = (value(variable + step * way) - value(variable - step * way)) / (2 * step)
    torch.testing.assert_close(slope, measured, rtol=1e-3, atol=1e-4 * float(slope.abs().max()))
