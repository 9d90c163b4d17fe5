"""The attacks of advex-uar: what they do to an image in closed form, and how close they come to the best there is."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import fft, optimize
from torch import Tensor

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.steps import Point
from holdfast.attacks.threat import Scene, Threat, scene_of
from holdfast.attacks.threats.balls import L1, L2, Ball, Linf, farthest_in_l1
from holdfast.attacks.threats.elastic import Elastic, smoothed
from holdfast.attacks.threats.jpeg_threat import CHROMA, LUMA, FrankWolfe, JpegThreat
from holdfast.attacks.threats.snow_threat import SnowThreat
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.models import TorchClassifier

IDS = tuple("abcd")
NOISE, DRAW = Noise.of(0, IDS), torch.zeros(len(IDS), dtype=torch.int64)
UNFORESEEN = {
    "elastic": 0.5,
    "jpeg-linf": 0.1,
    "jpeg-l2": 2.0,
    "jpeg-l1": 10.0,
    "fog-attack": 25.0,
    "snow-attack": 0.05,
    "gabor-attack": 5.0,
}


def images_of(channels: int = 3, height: int = 32, width: int = 32) -> Tensor:
    return NOISE.uniform("images", (channels, height, width)) * 0.6 + 0.2


def scene_for(threat: Threat, images: Tensor, radius: float) -> Scene:
    return scene_of(threat, images, torch.full((len(images),), radius), NOISE, DRAW)


def built(text: str) -> GradientAttack:
    attack = registry.build(registry.bind("attack", text))
    assert isinstance(attack, GradientAttack)
    return attack


@pytest.mark.parametrize(("name", "radius"), UNFORESEEN.items())
def test_defaults_are_those_of_multirobustbench(name: str, radius: float) -> None:
    attack = built(name)
    assert attack.radius == radius
    assert attack.steps == 20
    assert attack.start == "inside"
    if name != "jpeg-l1":
        assert attack.step.share == pytest.approx(1 / math.sqrt(20))
    assert attack.cost.backwards == 20


def test_settings_without_sense_are_refused() -> None:
    for text in ("fog-attack:steps=0", "elastic:share=0.0", "gabor-attack:density=0.0", "gabor-attack:density=1.5"):
        with pytest.raises(Misuse):
            built(text)
    for threat in (SnowThreat(), JpegThreat(Linf())):
        with pytest.raises(HoldfastError, match="grey or colour images, these have 2 channels"):
            scene_for(threat, images_of(channels=2), 0.1)


# the geometry that they share with the norm balls

WILD = Noise.of(1, [str(i) for i in range(40)]).normal("z", (7,)).double()
gradients = hnp.arrays(np.float64, (2, 7), elements=st.floats(-2, 2, width=32))
ends = hnp.arrays(np.float64, (2, 7), elements=st.floats(0.0625, 1, width=32))


@given(gradients, ends, ends, st.floats(0.125, 3, width=32))
def test_the_farthest_point_of_the_l1_ball_in_a_box_gains_most(
    gradient: np.ndarray, low: np.ndarray, high: np.ndarray, radius: float
) -> None:
    ball = L1()
    g, below, above = torch.from_numpy(gradient), -torch.from_numpy(low), torch.from_numpy(high)
    reach = torch.full((2,), radius, dtype=torch.float64)
    far = farthest_in_l1(g, reach, below, above)
    assert bool((ball.norm(far) <= radius * (1 + 1e-6)).all())
    assert bool(((far >= below - 1e-9) & (far <= above + 1e-9)).all())
    gain = (g * far).sum(1)
    g, below, above, reach, gain = (part.repeat_interleave(20, dim=0) for part in (g, below, above, reach, gain))
    wild = 4 * WILD + g * torch.arange(40)[:, None].remainder(5)
    assert bool(((g * ball.nearest(wild, reach, below, above)).sum(1) <= gain + 1e-5 * (1 + gain)).all())


def test_the_farthest_point_of_the_l1_ball_solves_the_linear_programme() -> None:
    g, high, radius = np.array([3.0, -2.0, 1.5, 0.5, -0.1]), np.array([0.4, 0.3, 0.9, 1.0, 1.0]), 1.0
    solved = optimize.linprog(
        -np.concatenate([g, -g]), A_ub=np.ones((1, 10)), b_ub=[radius], bounds=[(0, e) for e in np.tile(high, 2)]
    )
    box = torch.from_numpy(high)[None]
    far = farthest_in_l1(torch.from_numpy(g)[None], torch.ones(1, dtype=torch.float64), -box, box)
    np.testing.assert_allclose(far[0].numpy(), [0.4, -0.3, 0.3, 0, 0], atol=1e-12)
    assert float((far[0] * torch.from_numpy(g)).sum()) == pytest.approx(-solved.fun)


def test_frank_wolfe_averages_corners_and_stays_where_nothing_leads() -> None:
    scene, step, threat = Scene(torch.zeros(2, 1, 1, 4), torch.tensor([0.8, 0.8])), FrankWolfe(), JpegThreat(L1(), 0.5)
    corners = torch.tensor([[0.5, 0.3, 0, 0], [0, 0, 0.5, 0.3], [0.5, 0, 0, -0.3]]).view(3, 1, 1, 4)
    slopes = torch.tensor([[9.0, 5, 1, 0], [0, 1, 9, 5], [9, 1, 0, -5]]).view(3, 1, 1, 4)
    here = torch.full((2, 1, 1, 4), 0.1)
    state = step.fresh(threat, scene, here)
    for t in range(3):
        slope = torch.stack((slopes[t], torch.zeros(1, 1, 4)))
        nothing, taken = torch.zeros(2), torch.full((2,), t)
        here = step.advance(Point(threat, scene, here, slope, nothing, nothing > 0, taken, here, nothing), state)
        torch.testing.assert_close(here[0], corners[: t + 1].mean(dim=0))
        assert bool((here[1] == 0.1).all())


@pytest.mark.parametrize(
    ("name", "dual"),
    [
        ("jpeg-linf", lambda g, r: r * g.abs().sum(1)),
        ("jpeg-l2", lambda g, r: r * g.norm(dim=1)),
        # each coefficient may move by 2: the two steepest take all
        ("jpeg-l1", lambda g, r: 2 * g.abs().topk(2, dim=1).values.sum(1)),
    ],
)
def test_jpeg_attacks_reach_the_attainable_margin_of_a_linear_model(
    name: str,
    dual: Callable[[Tensor, float], Tensor],
    linear: Callable[..., TorchClassifier],
    batch_for: Callable[..., Batch],
) -> None:
    """The margin is linear in the coefficients, so what a ball of them can gain is the dual norm of its slope."""
    model = linear(size=16)
    batch = batch_for(model, n=40, size=16, spread=0.5)
    radius = {"jpeg-linf": 0.05, "jpeg-l2": 0.5, "jpeg-l1": 4.0}[name]
    attack = built(f"{name}:radius={radius},steps=40")

    def margin(images: Tensor) -> Tensor:
        logits = model(images)
        return (logits * (2 * F.one_hot(batch.labels, 2) - 1)).sum(1)

    threat = attack.threat
    scene = Scene(batch.images, torch.full((40,), radius))
    at = threat.identity(scene).requires_grad_()
    (slope,) = torch.autograd.grad(margin(threat.render(scene, at)).sum(), at)
    limit = dual(slope, radius)
    firm = margin(batch.images) > 1.01 * limit  # these cannot be broken, so they take every step
    assert int(firm.sum()) >= 5
    changed = attack(model, batch, Noise.of(0, batch.ids), width=16)
    gained = (margin(batch.images) - margin(changed.images)) / limit
    assert float(gained[firm].min()) >= 0.95
    assert float(gained[firm].max()) <= 1 + 1e-3
    broken = model(changed.images).argmax(1) != batch.labels
    assert bool(broken[margin(batch.images) < 0.95 * limit].all())


# elastic


def test_a_flow_of_one_pixel_shifts_the_image_by_one_pixel() -> None:
    images = images_of(height=32, width=20)
    scene = scene_for(Elastic(), images, 1.0)
    flow = torch.zeros(4, 2, 32, 20)
    flow[:, 0] = 1.0
    shifted = Elastic().render(scene, flow)
    torch.testing.assert_close(shifted[..., :-1], images[..., 1:], rtol=0, atol=1e-5)
    assert float(shifted[..., -1].abs().max()) < 1e-4, "outside the image it is black"
    flow = flow.flip(1)
    torch.testing.assert_close(Elastic().render(scene, flow)[:, :, :-1], images[:, :, 1:], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("side", "kernel"), [(32, 5), (224, 25)])
def test_the_blur_has_the_published_size(side: int, kernel: int) -> None:
    dot = torch.zeros(1, 1, side, side)
    dot[0, 0, side // 2, side // 2] = 1.0
    seen = smoothed(dot, sigma=3 / 224 * side)
    assert int((seen[0, 0] > 0).any(dim=0).sum()) == kernel
    assert float(seen.sum()) == pytest.approx(1, abs=1e-5)
    assert float(seen[0, 0, side // 2].square().sum() / seen.amax() ** 2) > 1
    beside = float(seen[0, 0, side // 2, side // 2 + 1] / seen.amax())
    assert beside == pytest.approx(math.exp(-0.5 / (3 / 224 * side) ** 2), rel=1e-4)


def test_the_published_grid_places_pixels_by_another_rule_than_it_fetches_them() -> None:
    images = images_of()
    line = torch.linspace(-1, 1, 32)
    grid = torch.stack(torch.meshgrid(line, line, indexing="xy"), dim=-1).expand(4, -1, -1, -1)
    threat = Elastic(published_grid=True)
    scene = scene_for(threat, images, 0.5)
    expected = F.grid_sample(images, grid, align_corners=False)
    torch.testing.assert_close(threat.render(scene, threat.identity(scene)), expected, rtol=0, atol=1e-5)
    assert float((expected - images).abs().mean()) > 0.05, "it changes the image, which is what is said of it"
    assert threat.change_at_zero
    assert not Elastic().change_at_zero


# JPEG


@pytest.mark.parametrize("ball", [Linf(), L2(), L1()], ids=lambda ball: ball.name)
def test_half_a_variable_is_added_to_the_quantised_coefficients(ball: Ball) -> None:
    images = images_of(channels=1, height=16, width=24)
    threat = JpegThreat(ball)
    scene = scene_for(threat, images, 0.2)
    variable = threat.start(scene, NOISE, DRAW) * 0.5
    made = threat.render(scene, variable).double()
    blocks = (made - images).mul(255).view(4, 2, 8, 3, 8).transpose(2, 3).numpy()
    coefficients = fft.dctn(blocks, axes=(3, 4), norm="ortho") / np.array(LUMA)
    np.testing.assert_allclose(coefficients.reshape(4, -1), variable.numpy() / 2, atol=2e-5)


def test_a_constant_of_chroma_colours_sixteen_pixels_square() -> None:
    images = torch.full((4, 3, 32, 32), 0.5)
    threat = JpegThreat(Linf())
    variable = threat.identity(scene_for(threat, images, 1.0))
    blue, red = 1024, 1024 + 4 * 64  # the first coefficients of either plane
    variable[0, blue], variable[1, red] = 1.0, 1.0
    made = (threat.render(scene_for(threat, images, 1.0), variable) - images) * 255
    moved = CHROMA[0][0] / 2 / 8
    for sample, weights in ((0, (0.0, -0.344136, 1.772)), (1, (1.402, -0.714136, 0.0))):
        expected = torch.tensor(weights)[:, None, None] * moved
        torch.testing.assert_close(made[sample, :, :16, :16], expected.expand(3, 16, 16), rtol=0, atol=1e-3)
        assert float(made[sample, :, 16:].abs().max()) < 1e-3
        assert float(made[sample, :, :, 16:].abs().max()) < 1e-3


def test_without_a_change_colour_keeps_its_luma_and_half_its_chroma() -> None:
    images = images_of(height=20, width=35)
    threat = JpegThreat(Linf())
    scene = scene_for(threat, images, 0.0)
    made = threat.render(scene, threat.identity(scene))
    luma = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)
    inside = ((made > 0) & (made < 1)).all(dim=1)  # clipping moves luma
    difference = ((made - images) * luma).sum(dim=1)
    assert float(inside.float().mean()) > 0.9
    assert float(difference[inside].abs().max()) < 1e-5
    redness = (made - (made * luma).sum(dim=1, keepdim=True))[:, 0]
    pairs = redness[:, :20, :34].reshape(4, 10, 2, 17, 2)
    whole = inside[:, :20, :34].reshape(4, 10, 2, 17, 2).all(dim=4).all(dim=2)
    flat = (pairs.amax(dim=(2, 4)) - pairs.amin(dim=(2, 4)))[whole]
    assert float(flat.max()) < 1e-5


def test_an_image_of_any_size_is_continued_by_its_last_rows_and_columns() -> None:
    images = images_of(height=20, width=35)
    padded = F.pad(images, (0, 13, 0, 12), mode="replicate")
    threat = JpegThreat(Linf())
    scene, large = scene_for(threat, images, 0.3), scene_for(threat, padded, 0.3)
    variable = threat.start(scene, NOISE, DRAW)
    assert torch.equal(threat.render(scene, variable), threat.render(large, variable)[:, :, :20, :35])


@pytest.mark.parametrize("ball", [L2(), L1()], ids=lambda ball: ball.name)
def test_no_coefficient_moves_by_more_than_two(ball: Ball) -> None:
    threat = JpegThreat(ball, 2.0)
    scene = scene_for(threat, images_of(), 60.0)
    wild = 40 * NOISE.normal("wild", threat.shape(scene.images)).pow(3)
    inside = threat.project(scene, wild)
    assert float(inside.abs().max()) <= 2 + 1e-6
    torch.testing.assert_close(ball.norm(inside), scene.radius, rtol=1e-4, atol=0)
