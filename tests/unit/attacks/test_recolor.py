"""CIELUV, the table of colours, and ReColor where its optimum is known."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.attacks.threat import Scene, scene_of
from holdfast.attacks.threats.recolor import TABLE, Recolour, table_of, to_luv, to_rgb
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.models import wrap


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def scene(images: Tensor, radius: float = 0.06) -> Scene:
    n = len(images)
    return scene_of(
        Recolour(), images, torch.full((n,), radius), Noise.of(0, [str(i) for i in range(n)]), torch.zeros(n)
    )


def pixel(red: float, green: float, blue: float) -> Tensor:
    return torch.tensor([red, green, blue]).view(1, 3, 1, 1)


CORNERS = torch.tensor(list(itertools.product((0.0, 1.0), repeat=3))).T.reshape(1, 3, 2, 4).contiguous()


# L, u and v of the primaries of sRGB under D65 as tables of colour give them, to their last digit
@pytest.mark.parametrize(
    ("colour", "known"),
    [
        ((1, 1, 1), (100.0, 0.0, 0.0)),
        ((1, 0, 0), (53.2, 175.0, 37.8)),
        ((0, 1, 0), (87.7, -83.1, 107.4)),
        ((0, 0, 1), (32.3, -9.4, -130.3)),
        ((0.5, 0.5, 0.5), (53.4, 0.0, 0.0)),
        ((0, 0, 0), (0.0, 0.0, 0.0)),
    ],
)
def test_luv_has_the_known_values(colour: tuple[float, float, float], known: tuple[float, float, float]) -> None:
    scaled = to_luv(pixel(*colour)).flatten()
    values = scaled * torch.tensor([100.0, 200.0, 200.0]) - torch.tensor([0.0, 100.0, 100.0])
    torch.testing.assert_close(values, torch.tensor(known), rtol=0, atol=0.1)


def test_the_way_to_luv_and_back_changes_nothing() -> None:
    for images in (noise(4, 3, 64, 64), noise(4, 3, 64, 64) ** 8, CORNERS):
        levels = images.mul(255).round().div(255)
        torch.testing.assert_close(to_rgb(to_luv(levels)), levels, rtol=0, atol=2e-5)


@pytest.mark.parametrize("images", [CORNERS, noise(2, 3, 9, 5)])
def test_an_empty_table_changes_no_colour_not_even_outside_it(images: Tensor) -> None:
    where = scene(images)
    still = Recolour().identity(where)
    torch.testing.assert_close(Recolour().render(where, still), images, rtol=0, atol=1e-6)
    assert torch.equal(Recolour().project(where, still), still)


def test_a_table_of_one_move_moves_every_colour_by_it() -> None:
    images, move = 0.3 + 0.3 * noise(2, 3, 8, 8), torch.tensor([0.03, -0.02, 0.01]).view(1, 3, 1, 1)
    made = Recolour().render(scene(images), move[..., None].expand(2, 3, *TABLE).contiguous())
    torch.testing.assert_close(to_luv(made) - to_luv(images), move.expand_as(images), rtol=0, atol=1e-4)


def test_moves_between_nodes_are_trilinear() -> None:
    images = 0.3 + 0.3 * noise(1, 3, 4, 4)
    where, table = scene(images), 0.02 * (noise(1, 3, *TABLE, seed=1) - 0.5)
    made = to_luv(Recolour().render(where, table)) - to_luv(images)
    for row, column in itertools.product(range(4), repeat=2):
        at = to_luv(images)[0, :, row, column] * (torch.tensor(TABLE) - 1)
        low = at.floor().long()
        move = torch.zeros(3)
        for corner in itertools.product((0, 1), repeat=3):
            share = torch.where(torch.tensor(corner) == 1, at - low, 1 - (at - low)).prod()
            move += share * table[(0, slice(None), *(low + torch.tensor(corner)).tolist())]
        torch.testing.assert_close(made[0, :, row, column], move, rtol=0, atol=1e-4)


def test_a_colour_outside_the_table_moves_with_its_nearest_neighbour() -> None:
    """Pure red has u = 175, the table ends at 100."""
    red = pixel(1.0, 0.0, 0.0)
    where = scene(red)
    table = torch.zeros(1, 3, *TABLE)
    table[:, 1, :, -1] = -0.05
    made = Recolour().render(where, table)
    moved = to_luv(red) + torch.tensor([0.0, -0.05, 0.0]).view(1, 3, 1, 1)
    torch.testing.assert_close(made, to_rgb(moved), rtol=0, atol=2e-5)
    assert float((made - red).abs().max()) > 0.05


def test_pixels_of_one_colour_stay_of_one_colour() -> None:
    images = noise(1, 3, 1, 5)[..., torch.tensor([0, 1, 0, 2, 1])]
    made = Recolour().render(scene(images), 0.1 * (noise(1, 3, *TABLE) - 0.5))
    assert torch.equal(made[..., 0], made[..., 2])
    assert torch.equal(made[..., 1], made[..., 4])


def test_a_projected_table_keeps_to_the_radius_and_to_its_colours() -> None:
    where = scene(noise(2, 3, 2, 2), radius=0.06)
    table = Recolour().project(where, noise(2, 3, *TABLE) - 0.5)
    assert float(table.abs().max()) <= 0.06
    colours = table + table_of(table)
    assert float(colours.min()) >= 0
    assert float(colours.max()) <= 1
    assert float(table.abs().max()) == pytest.approx(0.06), "the radius is used"


@pytest.mark.parametrize("images", [CORNERS, torch.zeros(1, 3, 2, 2)])
def test_gradients_are_finite_at_the_ends_of_the_gamut(images: Tensor) -> None:
    where = scene(images)
    for table in (torch.zeros(1, 3, *TABLE), Recolour().start(where, Noise.of(0, ["0"]), torch.zeros(1))):
        table.requires_grad_()
        (gradient,) = torch.autograd.grad(Recolour().render(where, table).sum(), table)
        assert bool(gradient.isfinite().all())
        assert float(gradient.abs().max()) < 100


class Lightness(nn.Module):
    """Two classes by how light the image is, steep enough to outweigh any price on roughness."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, images: Tensor) -> Tensor:
        over = 1000 * (to_luv(images)[:, 0].mean(dim=(1, 2)) - self.limit)
        return torch.stack([torch.zeros_like(over), over], dim=1)


@pytest.mark.parametrize(("share", "broken"), [(0.95, True), (1.01, False)])
def test_recolor_reaches_the_lightness_that_the_radius_allows(share: float, broken: bool) -> None:
    images = (0.3 + 0.2 * noise(1, 3, 6, 6)).expand(3, 3, 6, 6).contiguous()
    radius = 0.04
    limit = float(to_luv(images)[0, 0].mean()) + share * radius
    model = wrap(Lightness(limit), name="lightness", classes=2, channels=3)
    batch = Batch(images, torch.zeros(3, dtype=torch.int64), tuple("abc"))
    attack = registry.build(registry.bind("attack", f"recolor:radius={radius},steps=30,rate=none"))
    changed = attack(model, batch, Noise.of(0, batch.ids), width=2)
    assert (model(changed.images).argmax(1) == 1).tolist() == [broken] * 3
    assert float(changed.size.max()) <= radius * (1 + 1e-4)


def test_grey_images_are_refused() -> None:
    model = wrap(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), name="grey", classes=2, channels=1)
    batch = Batch(noise(2, 1, 4, 4), torch.zeros(2, dtype=torch.int64), tuple("ab"))
    attack = registry.build(registry.bind("attack", "recolor"))
    with pytest.raises(Misuse, match="images with 1 channel"):
        attack(model, batch, Noise.of(0, batch.ids), width=2)


@pytest.mark.parametrize("attack", ["recolor:steps=5", "stadv:steps=5"])
def test_a_penalty_does_not_make_an_objective_flat(attack: str) -> None:
    """The margin rises in every step; what is climbed, the margin less the roughness, never does."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 3))
    with torch.no_grad():
        net[1].weight.mul_(1e-2)
        net[1].bias.copy_(torch.tensor([5.0, 0.0, 0.0]))
    model, images = wrap(net, name="faint", classes=3, channels=3), F.interpolate(noise(6, 3, 3, 3), 8, mode="bilinear")
    batch = Batch(images, torch.zeros(6, dtype=torch.int64), tuple("abcdef"))
    made = registry.build(registry.bind("attack", attack))(model, batch, Noise.of(0, batch.ids), width=6)
    assert made.tallies["climbs"] == 6
    assert made.tallies["flat climbs"] == 0
