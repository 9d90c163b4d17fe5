"""Threats other than norm balls at the places where a small slip would go unseen: starts, sizes, ends, constants."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from holdfast.attacks.perceptual.lpa import lpa
from holdfast.attacks.perceptual.lpips import apart, features
from holdfast.attacks.perceptual.lpips_attack import ppgd
from holdfast.attacks.perceptual.lpips_stages import own_stages
from holdfast.attacks.recipes.uar import FarFirstPass, StepsInRadii, share_of
from holdfast.attacks.shapes import length, mean_tensor, parts_of
from holdfast.attacks.steps import Point, Steepest
from holdfast.attacks.threat import Scene, Threat, scene_of
from holdfast.attacks.threats.balls import L1, Linf
from holdfast.attacks.threats.elastic import Elastic, smoothed
from holdfast.attacks.threats.flow import Flow, halves, pixel_centres
from holdfast.attacks.threats.fog_threat import FogThreat
from holdfast.attacks.threats.gabor import Gabor
from holdfast.attacks.threats.jpeg_threat import BlockLayout, FrankWolfe, JpegThreat
from holdfast.attacks.threats.recolor import Recolour, table_of, to_rgb
from holdfast.attacks.threats.snow_threat import FlakeSteps, SnowThreat
from holdfast.attacks.threats.warps import warped
from holdfast.core.noise import Noise
from holdfast.corruptions.plasma import plasma
from holdfast.models import wrap

IDS = tuple("abc")
NOISE, DRAW = Noise.of(0, IDS), torch.zeros(len(IDS), dtype=torch.int64)


def images_of(channels: int = 3, height: int = 8, width: int = 8) -> Tensor:
    return 0.2 + 0.6 * NOISE.uniform("images", (channels, height, width))


def scene_for(threat: Threat, images: Tensor, radius: float) -> Scene:
    return scene_of(threat, images, torch.full((len(images),), radius), NOISE, DRAW)


def point_at(threat: Threat, scene: Scene, variable: Tensor, gradient: Tensor, taken: int = 0) -> Point:
    nothing = torch.zeros(len(scene))
    count = torch.full((len(scene),), taken)
    return Point(threat, scene, variable, gradient, nothing, nothing > 0, count, variable, nothing)


# starts and sizes


@pytest.mark.parametrize("threat", [Elastic(), FogThreat(), JpegThreat(Linf())], ids=lambda threat: threat.name)
def test_a_start_is_uniform_from_minus_the_radius_to_the_radius(threat: Elastic | FogThreat | JpegThreat) -> None:
    """The uniform draw u stands for (2u - 1) times the radius, not for its mirror image."""
    images = images_of()
    scene = scene_for(threat, images, 0.3)
    drawn = NOISE.uniform("start", threat.shape(images), draw=DRAW)
    torch.testing.assert_close(threat.start(scene, NOISE, DRAW), 0.3 * (2 * drawn - 1))
    far = threat.start(scene, NOISE, DRAW, border=True)
    torch.testing.assert_close(far.flatten(1).abs().amax(dim=1), torch.full((3,), 0.3))


def test_a_start_of_a_flow_looks_at_no_place_outside_the_image() -> None:
    images = images_of(1, 4, 6)
    start = Flow().start(scene_for(Flow(), images, 1.5), NOISE, DRAW)
    at = pixel_centres(images) + start * torch.tensor([3.0, 2.0]).view(2, 1, 1)
    for axis, side in ((0, 6), (1, 4)):
        assert float(at[:, axis].min()) >= -0.5 - 1e-5
        assert float(at[:, axis].max()) <= side - 0.5 + 1e-5
    assert float(start.abs().max()) > 1.0, "the radius is used where the image allows"


@pytest.mark.parametrize("threat", [Elastic(), Flow(), FogThreat(), Gabor(), JpegThreat(Linf()), Recolour()])
def test_the_size_of_a_latent_change_is_its_largest_entry(threat: Elastic) -> None:
    images = images_of()
    scene = scene_for(threat, images, 2.0)
    variable = torch.zeros(3, *threat.shape(images))
    rows = variable.view(3, -1)
    rows[0, 5], rows[1, 7], rows[1, 8] = -0.3, 0.1, 0.2
    torch.testing.assert_close(threat.size(scene, variable), torch.tensor([0.3, 0.2, 0.0]))


@pytest.mark.parametrize("threat", [FogThreat(published=True), Gabor(published=True), SnowThreat(published=True)])
def test_published_weather_has_the_size_of_its_radius_whatever_the_variable(threat: FogThreat) -> None:
    images = images_of()
    scene = scene_for(threat, images, 0.7)
    assert threat.size(scene, torch.zeros(3, *threat.shape(images))).tolist() == pytest.approx([0.7] * 3)


def test_a_sum_over_jpeg_coefficients_is_its_size_in_l1() -> None:
    threat = JpegThreat(L1(), 2.0)
    scene = scene_for(threat, images_of(1), 9.0)
    variable = torch.zeros(3, 64)
    variable[0, :2], variable[1, 3] = torch.tensor([1.0, -1.5]), -0.25
    torch.testing.assert_close(threat.size(scene, variable), torch.tensor([2.5, 0.25, 0.0]))


# flow and elastic


def test_a_smoothed_field_is_a_weighted_mean_of_mirrored_neighbours() -> None:
    sigma = 0.6
    reach = 3  # four sigmas, rounded up
    field = NOISE.normal("field", (2, 5, 6)).double()
    weights = [math.exp(-0.5 * (k / sigma) ** 2) for k in range(-reach, reach + 1)]
    made = smoothed(field, sigma=sigma)

    def mirrored(i: int, side: int) -> int:
        i = abs(i)
        return i if i < side else 2 * (side - 1) - i

    for row, column in ((0, 0), (4, 5), (2, 3), (1, 5)):
        total = torch.zeros(3, 2, dtype=torch.float64)
        for i, one in enumerate(weights):
            for j, other in enumerate(weights):
                down, across = mirrored(row + i - reach, 5), mirrored(column + j - reach, 6)
                total += one * other * field[:, :, down, across]
        torch.testing.assert_close(made[:, :, row, column], total / sum(weights) ** 2)


def test_the_width_of_elastic_smoothing_goes_by_the_shorter_side() -> None:
    """3 of 224 pixels: at a shorter side of 112 it is 1.5, whatever the longer side is."""
    images = torch.linspace(0, 1, 120).expand(3, 1, 112, 120).contiguous()
    flow = torch.zeros(3, 2, 112, 120)
    flow[:, 0, 60, 60] = 1.0
    made = Elastic().render(scene_for(Elastic(), images, 1.0), flow)
    moved = (made - images)[0, 0, 60, 56:65] * 119
    shape = torch.tensor([math.exp(-0.5 * (k / 1.5) ** 2) for k in range(-4, 5)])
    torch.testing.assert_close(moved / moved[4], shape, rtol=0, atol=1e-3)


def test_halves_are_those_of_width_and_height_in_that_order() -> None:
    assert halves(torch.zeros(1, 1, 4, 6)).flatten().tolist() == [3.0, 2.0]
    assert pixel_centres(torch.zeros(1, 1, 2, 3)).tolist() == [[[0, 1, 2], [0, 1, 2]], [[0, 0, 0], [1, 1, 1]]]


def test_a_warp_counts_pixels_from_the_first_and_a_place_at_the_horizon_is_finite() -> None:
    images = images_of(1, 4, 4)
    change = torch.zeros(3, 3, 3)
    change[:, 2, 0] = 0.5  # depth 1 + x/2: from the inverse, x' = x / (1 - x/2), at x = 2 nowhere
    made = warped(images, change.flatten(1))
    assert bool(made.isfinite().all())
    torch.testing.assert_close(made[:, :, 0, 0], images[:, :, 0, 0], rtol=0, atol=1e-5)
    torch.testing.assert_close(made[:, :, 0, 1], images[:, :, 0, 2], rtol=0, atol=1e-5)
    assert float(made[..., 2].abs().max()) == 0


# weather


def even_clouds(share: float, side: int = 32) -> tuple[Tensor, Tensor, Tensor]:
    """Clouds of wibbles that are all this share of what makes the highest over an image; the plain ones; the share."""
    threat, shares = FogThreat(published=True), torch.tensor([share], requires_grad=True)
    scene = Scene(torch.zeros(1, 1, side, side), torch.full((1,), 25.0))
    plain = plasma(torch.ones(1, 64, 64), decay=2.0, away=2)
    top = (64 - side) // 2
    scale = plain[:, top : top + side, top : top + side].amax() / plain.amax()
    return threat._clouds(scene, 25.0 * shares * scale * torch.ones(1, 64, 64)), plain * scale, shares


def test_published_clouds_lie_between_the_ends_that_clouds_over_an_image_can_have() -> None:
    """Plasma is linear in its wibbles, so that equal ones make clouds of their share of the highest."""
    for share in (1.0, 0.9, 0.5):
        made, _, _ = even_clouds(share)
        assert made.max().item() == pytest.approx((1 + share) / 2, abs=1e-5)
        inverse, _, _ = even_clouds(-share)
        assert inverse.min().item() == pytest.approx((1 - share) / 2, abs=1e-5)


@pytest.mark.parametrize(("share", "weight"), [(1.0, 25.0), (0.9995, 25.0), (0.999, 0.0), (0.5, 0.0)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_published_clouds_at_an_end_have_the_gradients_of_a_batch_at_that_end(
    share: float, weight: float, sign: float
) -> None:
    made, plain, shares = even_clouds(sign * share)
    (got,) = torch.autograd.grad(made.sum(), shares)
    peak = float(plain.max())
    clouds = share * plain
    moved = plain.sum() / (2 * peak)  # within the range, which is 2 peaks
    stretched_by = weight * (clouds + peak).sum() * peak / (4 * peak**2)  # by the end, which goes up
    assert got.item() == pytest.approx(float(moved - stretched_by), rel=1e-4)


@pytest.mark.parametrize(
    "threat",
    [SnowThreat(), Gabor(), JpegThreat(Linf()), Recolour(), FogThreat()],
    ids=lambda threat: threat.name,
)
@pytest.mark.parametrize("grey", [0.0, 1.0])
def test_black_and_white_images_stay_valid_while_they_are_changed(threat: SnowThreat, grey: float) -> None:
    images = torch.full((3, 3, 16, 16), grey)
    scene = scene_for(threat, images, 0.9)
    made = threat.render(scene, threat.start(scene, NOISE, DRAW))
    assert float(made.min()) >= 0
    assert float(made.max()) <= 1 + 1e-6


def test_published_steps_are_a_share_of_the_square_of_the_radius() -> None:
    """A variable of range 1 that moves by share · radius is one of range radius that moves by share · radius²."""
    threat = FogThreat(published=True)
    scene = Scene(torch.zeros(3, 1, 8, 8), torch.tensor([0.5, 2.0, 0.1]))
    gradient = torch.ones(3, *threat.shape(scene.images))
    gradient[:, 0] = -2.0
    moved = StepsInRadii(0.2).advance(point_at(threat, scene, torch.zeros_like(gradient), gradient), {})
    for i, step in enumerate((0.05, 0.8, 0.002)):
        assert moved[i, 1].tolist() == pytest.approx([step] * len(moved[i, 1]))
        assert moved[i, 0].tolist() == pytest.approx([-step] * len(moved[i, 0]))
    far = StepsInRadii(3.0).advance(point_at(threat, scene, torch.zeros_like(gradient), gradient), {})
    assert far[:, 1, 0].tolist() == pytest.approx([0.5, 2.0, 0.03]), "but not beyond the radius"


def test_flakes_below_zero_go_the_other_way_and_are_dimmed_a_step_late() -> None:
    threat = SnowThreat(published=True)
    scene = Scene(torch.zeros(1, 1, 32, 32), torch.tensor([0.5]))
    variable = torch.full((1, 7, 8, 8), 0.1)
    variable[0, 0] = -0.1
    step = FlakeSteps(0.4)
    state = step.fresh(threat, scene, variable)
    moved = step.advance(point_at(threat, scene, variable, torch.ones_like(variable)), state)
    # 0.4 · 0.5² = 0.1 further along the gradient of the brightness, which is even
    assert float(moved[0, 0].max()) == pytest.approx(-0.2)
    assert float(moved[0, 1].min()) == pytest.approx(0.2)
    # the budget is a fifth of 0.5: blocks of 0.2 are dimmed to 0.1, and none is below zero
    assert float(state["dimmed"][0, 0].abs().max()) == 0.0
    assert state["dimmed"][0, 1].flatten().tolist() == pytest.approx([0.1] * 64)


def test_dimming_cuts_flakes_to_the_radius_first_and_leaves_partial_blocks() -> None:
    threat = SnowThreat(published=True)
    scene = Scene(torch.zeros(1, 1, 40, 40), torch.tensor([0.5]))
    variable = torch.zeros(1, 7, 10, 10)
    variable[0, 0, :8, :8], variable[0, 1, 0, 0], variable[0, 2, 9, 9] = 0.9, 0.7, 0.6
    made = threat.dimmed(scene, variable)
    assert made[0, 0, :8, :8].flatten().tolist() == pytest.approx([0.1] * 64)
    assert float(made[0, 1, 0, 0]) == pytest.approx(0.5), "one bright flake of 64 keeps the budget"
    assert float(made[0, 2, 9, 9]) == pytest.approx(0.5)
    assert float(made.sum()) == pytest.approx(64 * 0.1 + 1.0, rel=1e-5)


def test_the_start_of_snow_has_few_bright_flakes() -> None:
    """e^(-u / 0.2) times the radius, as drawn; what is over the budget is then taken away."""
    images = images_of(1, 32, 32)
    threat = SnowThreat(published=True)
    start = threat.start(scene_for(threat, images, 0.1), NOISE, DRAW)
    drawn = NOISE.uniform("start", threat.shape(images), draw=DRAW)
    torch.testing.assert_close(start, 0.1 * (-drawn / 0.2).exp())
    torch.testing.assert_close(
        SnowThreat().start(scene_for(SnowThreat(), images, 0.1), NOISE, DRAW),
        SnowThreat().project(scene_for(SnowThreat(), images, 0.1), start),
    )


def test_gabor_noise_is_that_of_its_specks_alone() -> None:
    threat = Gabor()
    scene = scene_for(threat, images_of(1, 12, 12), 5.0)
    wild = NOISE.normal("wild", (12, 12))
    torch.testing.assert_close(threat.render(scene, wild), threat.render(scene, wild * scene.props["specks"]))
    start = threat.start(scene, NOISE, DRAW)
    drawn = NOISE.uniform("start", (12, 12), draw=DRAW)
    torch.testing.assert_close(start, 5.0 * (2 * drawn - 1) * scene.props["specks"])


# JPEG and colours


@pytest.mark.parametrize(
    ("shape", "luma", "chroma", "size"),
    [
        ((3, 16, 16), (2, 2), (1, 1), 6 * 64),
        ((3, 17, 16), (4, 2), (2, 1), 12 * 64),
        ((1, 16, 9), (2, 2), None, 4 * 64),
        ((1, 8, 8), (1, 1), None, 64),
    ],
)
def test_blocks_cover_the_image(
    shape: tuple[int, int, int], luma: tuple[int, int], chroma: tuple[int, int] | None, size: int
) -> None:
    layout = BlockLayout.of(torch.zeros(1, *shape))
    assert (layout.luma, layout.chroma, layout.size) == (luma, chroma, size)


def test_a_coefficient_of_luma_brightens_all_channels_of_a_colour_image_alike() -> None:
    """The first one of a block is worth 16 / 8 levels, half of which a variable of 1 adds; chroma stays."""
    images = torch.full((3, 3, 16, 16), 0.5)
    threat = JpegThreat(Linf())
    scene = scene_for(threat, images, 1.0)
    variable = threat.identity(scene)
    variable[0, 0], variable[1, 64], variable[2, 128] = 1.0, -1.0, 1.0  # blocks go along the first row, then the next
    change = (threat.render(scene, variable) - images) * 255
    for sample, (rows, columns), sign in ((0, (0, 0), 1), (1, (0, 8), -1), (2, (8, 0), 1)):
        expected = torch.zeros(3, 16, 16)
        expected[:, rows : rows + 8, columns : columns + 8] = sign * 16 / 8 / 2
        torch.testing.assert_close(change[sample], expected, rtol=0, atol=1e-3)


def test_corners_of_jpeg_end_at_the_cap_or_the_radius() -> None:
    gradient = torch.zeros(3, 64)
    gradient[:, :3] = torch.tensor([3.0, -2.0, 1.0])
    threat = JpegThreat(L1(), 2.0)
    scene = scene_for(threat, images_of(1), 5.0)
    made = FrankWolfe().advance(point_at(threat, scene, torch.ones(3, 64), gradient), {})  # the first leaves the start
    assert made[0, :3].tolist() == pytest.approx([2.0, -2.0, 1.0])


def test_the_nodes_of_the_table_lie_evenly_from_end_to_end() -> None:
    nodes = table_of(torch.zeros(1))
    assert nodes.shape == (3, 16, 32, 32)
    assert nodes[:, 0, 0, 0].tolist() == [0, 0, 0]
    assert nodes[:, -1, -1, -1].tolist() == [1, 1, 1]
    assert nodes[:, 1, 2, 3].tolist() == pytest.approx([1 / 15, 2 / 31, 3 / 31])


def test_colours_that_no_eye_sees_are_cut_to_the_least_v() -> None:
    """At L = 10, v' = v / 130 + 0.4683 would be negative from v = -60.9 on; from 0.01 on it is held."""

    def colour(v: float) -> Tensor:
        return to_rgb(torch.tensor([0.1, 0.5, v / 200 + 0.5]).view(1, 3, 1, 1))

    least = 130 * (0.01 - 0.4683)
    torch.testing.assert_close(colour(-100.0), colour(least), rtol=0, atol=1e-5)
    assert not torch.allclose(colour(0.5 * least), colour(least), atol=1e-3)


# what they share


def test_frank_wolfe_follows_a_gradient_that_is_nowhere_positive() -> None:
    scene = Scene(torch.full((2, 1, 1, 2), 0.5), torch.tensor([0.4, 0.4]))
    gradient = torch.tensor([[-2.0, -1.0], [0.0, 0.0]]).view(2, 1, 1, 2)
    start = torch.full((2, 1, 1, 2), 0.1)
    moved = FrankWolfe().advance(point_at(JpegThreat(L1(), 0.5), scene, start, gradient, taken=1), {})
    assert moved[0].flatten().tolist() == pytest.approx([(0.1 - 0.4) / 2, 0.1 / 2])
    assert torch.equal(moved[1], start[1])


def test_a_published_first_pass_without_a_radius_is_finite() -> None:
    threat = JpegThreat(Linf(), published=True)
    scene = scene_for(threat, images_of(1), 0.0)
    moved = FarFirstPass(Steepest(0.5)).advance(point_at(threat, scene, torch.zeros(3, 64), torch.ones(3, 64)), {})
    assert float(moved.abs().max()) == 0


def test_a_step_is_one_over_the_root_of_their_number_unless_said() -> None:
    assert [share_of(steps, None) for steps in (0, 1, 4, 100)] == pytest.approx([1.0, 1.0, 0.5, 0.1])
    assert share_of(4, 0.3) == 0.3


def test_means_lengths_and_parts() -> None:
    one, two = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[3.0, 2.0], [1.0, 0.0]])
    assert mean_tensor([one, two]).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert mean_tensor([one]) is one
    assert length(torch.tensor([[[3.0], [4.0]], [[0.0], [-2.0]]])).tolist() == [5.0, 2.0]
    assert [part.tolist() for part in parts_of(torch.arange(5), 2)] == [[0, 1], [2, 3], [4]]
    assert parts_of(torch.arange(0), 2) == []


def test_an_activation_is_divided_by_its_length_and_a_little_more() -> None:
    """x / (|x| + 1e-10), so that 1e-10 becomes a half; and by the root of the number of places."""
    faint = torch.tensor([1e-10, 3.0, 0.0, 0.0], dtype=torch.float64).view(1, 1, 2, 2)
    assert features(lambda images: [images], faint).flatten().tolist() == pytest.approx([0.25, 0.5, 0, 0])
    assert apart(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 4.0]])).tolist() == [5.0]


def test_a_map_of_one_pixel_is_no_stage() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 5, 1), nn.Flatten(), nn.Linear(5, 2))
    model = wrap(net, name="pooled", classes=2, channels=3)
    assert [call.name for call in own_stages(model, images_of()).calls] == ["0"]


def test_a_module_that_works_twice_is_seen_at_its_last_turn() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix, self.head = nn.Conv2d(3, 3, 1), nn.Linear(3, 2)

        def forward(self, images: Tensor) -> Tensor:
            once = self.mix(images)
            self.head(self.mix(torch.relu(once)).mean(dim=(2, 3)))
            return self.head(once.mean(dim=(2, 3)))

    net, images = Twice().requires_grad_(False), images_of()
    stages = own_stages(wrap(net, name="twice", classes=2, channels=3), images)
    (seen,) = stages(images)
    torch.testing.assert_close(seen, net.mix(torch.relu(net.mix(images))))


def test_the_most_passes_of_ppgd_on_itself() -> None:
    """Two steps, one run. The loop: the clean image and three points. The network: of three steps at most each the

    point, five directions and a projection of 16 looks; of two starts the clean image and a projection; the result.
    """
    attack = ppgd(steps=2)
    assert attack.cost.forwards == (1 + 3) + 3 * (1 + 5 + 16) + 2 * (1 + 16) + 1
    assert attack.cost.backwards == 2 + 1 + 3 * (5 + 5) + 2 * 5
    assert ppgd(steps=2, network="alexnet").cost.forwards == 1 + 3
    # as published: a look more at each step, and projections of 21 looks and 10 slopes
    published = ppgd(steps=2, published=True).cost
    assert published.forwards == 3 + 3 * (1 + 5 + 1 + 21) + 2 * (1 + 21) + 1
    assert published.backwards == 2 + 1 + 3 * (5 + 10) + 2 * 10


def test_the_most_passes_of_lpa_on_itself() -> None:
    """Of each step a point, its probe and a slope; the last one ends with a look and a projection."""
    cost = lpa(steps=2, rounds=3, restarts=2).cost
    assert cost.forwards == 1 + 2 * 7 + 2 * (7 * 2 + 1 + 16) + 3 * (1 + 16) + 1
    assert cost.backwards == 2 * 6 + 2 * (1 + 7 * 1 + 5) + 3 * 5
