"""`published=true`: the strength of the published code, and keys of the default that stay as they were."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.perceptual.lpips_ball import LpipsBall
from holdfast.attacks.recipes.uar import FarFirstPass
from holdfast.attacks.steps import Point, Steepest
from holdfast.attacks.threat import Scene, Threat
from holdfast.attacks.threats.balls import L1, L2, Linf
from holdfast.attacks.threats.elastic import Elastic
from holdfast.attacks.threats.fog_threat import FogThreat
from holdfast.attacks.threats.gabor import Gabor, evened, gain_of, with_constant_range
from holdfast.attacks.threats.jpeg_threat import CAP, FrankWolfe, JpegThreat
from holdfast.attacks.threats.snow_threat import FlakeSteps, SnowThreat
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, ModelCard
from holdfast.corruptions.plasma import plasma, stretched
from holdfast.models import TorchClassifier

SWITCHED = sorted(name for name, entry in registry.entries("attack").items() if "published" in entry.later)
STEPS = 3


def built(text: str) -> object:
    return registry.build(registry.bind("attack", text))


class Small(nn.Module):
    """A network with stages to measure LPIPS by, small enough for every attack."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.head = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU()), nn.Linear(4 * 49, 4)
        self.float().eval().requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.stem(images).flatten(1))


@pytest.fixture(scope="module")
def model() -> TorchClassifier:
    return TorchClassifier(Small(), ModelCard("small", "test", classes=4, channels=3, size=16))


@pytest.fixture(scope="module")
def batch(model: TorchClassifier) -> Batch:
    """Six images, two of them with a wrong label."""
    images = torch.rand(6, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    labels = model(images).argmax(dim=1)
    labels[:2] = (labels[:2] + 1) % 4
    return Batch(images, labels, tuple(map(str, range(6))))


def test_every_attack_of_the_parity_page_that_is_stronger_has_the_switch() -> None:
    stronger = {"elastic", "fog-attack", "snow-attack", "gabor-attack", "jpeg-l1", "stadv", "ppgd", "lpa", "fast-lpa"}
    assert stronger | {"lpips", "recolor", "jpeg-linf", "jpeg-l2", "hue-attack", "affine"} <= set(SWITCHED)


@pytest.mark.parametrize("name", SWITCHED)
def test_without_the_switch_the_key_is_what_it_was(name: str) -> None:
    plain, off, on = (registry.bind("attack", f"{name}{more}") for more in ("", ":published=false", ":published=true"))
    assert "published" not in dict(plain.args)
    assert plain.key == off.key != on.key
    assert on == registry.bind("attack", str(on))


@pytest.mark.parametrize("name", [name for name in SWITCHED if name != "lpips"])
def test_every_sample_takes_every_step(name: str, model: TorchClassifier, batch: Batch) -> None:
    """Also one that is wrong from the start; and it stays in its set."""
    text = f"{name}:steps={STEPS}{',rounds=2' if name == 'lpa' else ''},published=true"
    result = built(text)(model, batch, Noise.of(0, batch.ids), width=4)  # type: ignore[operator]
    assert not result.reasons
    steps = STEPS * (2 if name == "lpa" else 1)
    assert (result.backwards >= steps).all()
    if name not in ("ppgd", "lpa", "fast-lpa"):
        assert result.backwards.tolist() == [steps] * 6
        assert result.forwards.tolist() == [steps + 1] * 6
    assert (result.images >= 0).all()
    assert (result.images <= 1).all()
    cost = built(text).cost  # type: ignore[attr-defined]
    assert (result.forwards <= cost.forwards).all()
    assert (result.backwards <= cost.backwards).all()


def test_elastic_takes_the_published_grid() -> None:
    attack = built("elastic:published=true")
    assert isinstance(attack, GradientAttack)
    assert attack.threat == Elastic(published_grid=True)
    assert (attack.keep, attack.stop_when_broken) == ("last", False)


def diamond_square(wibble: np.ndarray, decay: float) -> np.ndarray:
    """The published clouds point by point: one of two opposite neighbours of a diamond is two cells off."""
    side = len(wibble)
    field, step, weight = np.zeros((side, side)), side, 1.0
    while step >= 2:
        half = step // 2
        for i in range(0, side, step):
            for j in range(0, side, step):
                corners = [field[(i + a) % side, (j + b) % side] for a in (0, step) for b in (0, step)]
                field[i + half, j + half] = sum(corners) / 4 + weight * wibble[i + half, j + half]
        for i in range(0, side, step):
            for j in range(0, side, step):
                here = field[i, j] + field[i + half, j + half]
                above = field[(i + half - 2 * step) % side, j + half]
                field[i, j + half] = (here + field[i, (j + step) % side] + above) / 4 + weight * wibble[i, j + half]
                left = field[i + half, (j + half - 2 * step) % side]
                field[i + half, j] = (here + field[(i + step) % side, j] + left) / 4 + weight * wibble[i + half, j]
        step, weight = half, weight / decay
    return field


def test_published_clouds_take_neighbours_two_cells_off() -> None:
    wibble = torch.rand(2, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 2 - 1
    made = plasma(wibble, decay=2.0, away=2)
    for one, field in zip(wibble.numpy(), made.numpy(), strict=True):
        np.testing.assert_allclose(field, diamond_square(one, 2.0), atol=1e-12)


def test_a_published_step_of_fog_sends_every_wibble_to_an_end(model: TorchClassifier, batch: Batch) -> None:
    """Its size is the radius in grey levels, for wibbles of range one."""
    result = built("fog-attack:radius=25,steps=1,published=true")(model, batch, Noise.of(0, batch.ids), width=6)  # type: ignore[operator]
    inside = result.variable[:, 24:40, 24:40]  # of 64 x 64: where an image of 16 x 16 has its clouds
    assert (inside.abs() == 25).float().mean() > 0.8, "all but those without a gradient, near the border"
    assert result.size.tolist() == [25.0] * 6
    clouds = FogThreat(published=True)._clouds(Scene(batch.images, torch.full((6,), 25.0)), result.variable)
    assert clouds.min() >= 0
    assert clouds.max() <= 1


def test_a_published_block_of_snow_is_dimmed_as_a_whole() -> None:
    threat = SnowThreat(published=True)
    scene = Scene(torch.zeros(1, 3, 36, 32), torch.tensor([0.1]))
    flakes = torch.full((1, 7, 9, 8), 0.04)
    flakes[0, 0, 0, 0] = 0.5
    assert torch.equal(threat.project(scene, flakes), flakes), "dimming is the step's work"
    made = threat.dimmed(scene, flakes)
    mean = (63 * 0.04 + 0.1) / 64  # the bright one is cut to the radius first
    assert made[0, 0, 0, 0].item() == pytest.approx(0.1 * 0.02 / mean)
    assert made[0, 0, :8].mean().item() == pytest.approx(0.02)
    assert torch.equal(made[0, :, 8], flakes[0, :, 8]), "a block that is not whole is left alone"


def point_at(threat: Threat, scene: Scene, variable: Tensor, gradient: Tensor, taken: int) -> Point:
    low, count = torch.zeros(len(scene)), torch.full((len(scene),), taken)
    return Point(threat, scene, variable, gradient, low, low.bool(), count, variable, low)


def test_published_flakes_are_dimmed_one_step_late() -> None:
    """The gradient is taken where a step ended; the next one starts from flakes that were cut and dimmed."""
    threat, step = SnowThreat(published=True), FlakeSteps(0.5)
    scene = Scene(torch.zeros(1, 3, 32, 32), torch.tensor([0.1]))
    flakes = torch.full((1, 7, 8, 8), 0.02)
    flakes[0, :, 0, 0] = 0.001
    state = step.fresh(threat, scene, flakes)
    gradient = torch.ones_like(flakes)
    gradient[0, :, 0, 0] = -1.0
    far = step.advance(point_at(threat, scene, flakes, gradient, 0), state)
    stride = 0.5 * 0.1**2
    assert far[0, 0, 0, 0].item() == pytest.approx(0.001 - stride), "below zero, and seen there"
    assert far[0, 0, 1, 1].item() == pytest.approx(0.02 + stride)
    kept = (0.02 + stride) * 0.02 / (63 * (0.02 + stride) / 64)
    # below zero a brighter flake has the gradient's sign turned round: it goes up where the gradient says down
    again = step.advance(point_at(threat, scene, far, gradient, 1), state)
    assert again[0, 0, 1, 1].item() == pytest.approx(kept + stride)
    assert again[0, 0, 0, 0].item() == pytest.approx(stride), "from zero, where it was cut"


def test_the_published_first_pass_is_at_the_start_times_the_radius() -> None:
    """And the first step goes from the start itself."""
    scene, taken = Scene(torch.zeros(1, 1, 8, 8), torch.tensor([4.0])), FarFirstPass(Steepest(0.25))
    threat = JpegThreat(Linf(), published=True)
    noise, draw = Noise.of(0, ("a",)), torch.zeros(1, dtype=torch.int64)
    plain = JpegThreat(Linf()).start(scene, noise, draw)
    start = threat.start(scene, noise, draw)
    torch.testing.assert_close(start, 4 * plain)
    gradient = torch.ones_like(start)
    first = taken.advance(point_at(threat, scene, start, gradient, 0), {})
    torch.testing.assert_close(first, (plain + 1).clamp_max(4.0))
    second = taken.advance(point_at(threat, scene, first, gradient, 1), {})
    torch.testing.assert_close(second, (first + 1).clamp_max(4.0))


def test_published_jpeg_in_l2_is_scaled_to_the_ball_and_then_cut() -> None:
    scene, variable = Scene(torch.zeros(1, 1, 8, 8), torch.tensor([5.0])), torch.zeros(1, 64)
    variable[0, :2] = torch.tensor([6.0, 8.0])
    made = JpegThreat(L2(), CAP, published=True).project(scene, variable)
    assert made[0, :2].tolist() == pytest.approx([2.0, 2.0])  # (3, 4) cut to 2
    variable[0, :2] = torch.tensor([30.0, 1.0])
    made = JpegThreat(L2(), CAP, published=True).project(scene, variable)
    assert made[0, :2].tolist() == pytest.approx([2.0, 5 / math.hypot(30, 1)])
    assert JpegThreat(L2(), CAP).project(scene, variable)[0, 1].item() == pytest.approx(1.0), "the nearest keeps it"


def test_published_gabor_gradients_take_mean_and_range_as_constant() -> None:
    waves = torch.rand(1, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(4)).requires_grad_()
    made = with_constant_range(waves)
    torch.testing.assert_close(made, stretched(evened(waves)))
    (slope,) = torch.autograd.grad(made.sum(), waves)
    centred = (waves - waves.mean()).detach()
    even = evened(waves).detach()
    torch.testing.assert_close(slope, gain_of(centred) / (even.max() - even.min()))


@pytest.mark.parametrize("name", ["affine", "perspective"])
def test_published_warps_start_above_the_identity(name: str) -> None:
    noise, draw = Noise.of(0, tuple("abcdefgh")), torch.zeros(8, dtype=torch.int64)
    images, radius = torch.zeros(8, 3, 8, 8), torch.full((8,), 0.05)
    starts = []
    for published in ("true", "false"):
        attack = built(f"{name}:radius=0.05,published={published}")
        assert isinstance(attack, GradientAttack)
        starts.append(attack.threat.start(Scene(images, radius), noise, draw))
    assert (starts[0] >= 0).all()
    assert (starts[1] < 0).any()


def test_published_specks_are_everywhere_but_where_they_were_drawn() -> None:
    threat, images = Gabor(published=True, straight_through=True), torch.zeros(2, 3, 16, 16)
    noise, draw = Noise.of(0, ("a", "b")), torch.zeros(2, dtype=torch.int64)
    scene = Scene(images, torch.tensor([5.0, 5.0]), threat.props(images, noise, draw))
    start = threat.start(scene, noise, draw)
    assert ((start != 0) == scene.props["specks"]).all()
    assert ((threat.project(scene, torch.full_like(start, 9.0)) == 5.0) == ~scene.props["specks"]).all()


def test_a_published_corner_has_its_room_from_where_the_variable_stands() -> None:
    threat = JpegThreat(L1(), CAP, published=True)
    scene, variable = Scene(torch.zeros(1, 1, 8, 8), torch.tensor([5.0])), torch.zeros(1, 64)
    variable[0, :2] = torch.tensor([0.5, -0.5])
    gradient = torch.zeros(1, 64)
    gradient[0, :3] = torch.tensor([3.0, 2.0, -1.0])
    zero = torch.zeros(1)
    first = Point(threat, scene, variable, gradient, zero, zero > 0, zero, variable, zero)  # it leaves the start behind
    corner = FrankWolfe().advance(first, {})[0, :4].tolist()
    assert corner == pytest.approx([1.5, 2.5, -1.0, 0.0])  # 2 - 0.5, 2 + 0.5, and what is left of 5


def test_the_published_projection_aims_inside_by_a_tenth() -> None:
    """With features that are the pixels themselves a Newton step is exact: 1.1 times the excess and a tenth."""
    scene = Scene(torch.full((1, 1, 4, 4), 0.5), torch.tensor([0.2]))
    ball = LpipsBall(lambda images: (images,), published=True)
    scene.props.update(ball.props(scene.images, Noise.of(0, ("a",)), torch.zeros(1, dtype=torch.int64)))
    variable = torch.zeros(1, 1, 4, 4)
    variable[0, 0, 0, 0] = -0.49  # activations are scaled to length one, so only the sign of a pixel would count
    assert ball._excess(torch.tensor([0.5]), torch.tensor([0.2])).item() == pytest.approx(1.1 * 0.4)
    assert (ball.size(scene, ball.project(scene, variable)) <= 0.2 + 1e-6).all()


def test_a_published_projection_sums_the_slopes_of_its_steps() -> None:
    """Where the distance is a length times c, two slopes of c make a step half as long: followed step by step."""
    images, radius = torch.full((1, 1, 2, 2), 0.5), torch.tensor([0.01])
    bent = LpipsBall(lambda images: (torch.cat([torch.ones_like(images), (8 * images).sin()], dim=1),), published=True)
    scene = Scene(images, radius)
    scene.props.update(bent.props(images, Noise.of(0, ("a",)), torch.zeros(1, dtype=torch.int64)))
    variable = torch.tensor([[[[0.3, -0.2], [0.1, 0.25]]]])
    here, total = variable.clone(), torch.zeros_like(variable)
    for _ in range(10):
        at = here.clone().requires_grad_()
        far = bent.far(scene, at)
        if far.item() <= 0.01:
            break
        total = total + torch.autograd.grad(far.sum(), at)[0]
        here = here - 1.1 * (far.item() - 0.01 + 0.1) * total / total.square().sum()
        here = here.clamp(-0.5, 0.5)
    made = bent.project(scene, variable)
    if bent.far(scene, here).item() > 0.01:  # halvings follow, on the line to where the steps ended
        made, here = made / made.norm(), here / here.norm()
    torch.testing.assert_close(made, here, atol=1e-5, rtol=1e-4)


def test_a_settled_sample_takes_one_step_more_and_no_other() -> None:
    from holdfast.attacks.perceptual.lpa import Lagrange

    ball = LpipsBall(lambda images: (images * torch.tensor([1.0, 2.0]).view(1, 2, 1, 1),), published=True)
    images = torch.rand(2, 2, 4, 4, generator=torch.Generator().manual_seed(3)) * 0.5 + 0.2
    scene = Scene(images, torch.full((2,), 0.01))
    scene.props.update(ball.props(images, Noise.of(0, ("a", "b")), torch.zeros(2, dtype=torch.int64)))
    step = Lagrange(steps=4, rounds=2, stops=True)
    variable, wrong = torch.zeros_like(images), torch.tensor([True, False])  # both inside at first
    state = step.fresh(ball, scene, variable)
    seen = [variable]
    for taken in range(3):
        gradient = torch.ones_like(images)
        count, low = torch.full((2,), taken), torch.zeros(2)
        seen.append(step.advance(Point(ball, scene, seen[-1], gradient, low, wrong, count, seen[-1], low), state))
    moved = [[not torch.equal(a[i], b[i]) for a, b in itertools.pairwise(seen)] for i in range(2)]
    assert moved == [[True, False, False], [True, True, True]]
