"""Parts of attacks where few tests looked: starts of Square, joined cascades, lattices of snow, tables of JPEG."""

from __future__ import annotations

import io
import itertools
import math

import numpy as np
import pytest
import torch
from PIL import Image

from holdfast.attacks.attack import AttackResult
from holdfast.attacks.perceptual.lpips_stages import _resolution_of_map
from holdfast.attacks.recipes.automatic import Sparse
from holdfast.attacks.recipes.cascade import _joined, cascade_of
from holdfast.attacks.recipes.square import Bumps, Sides, bump
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats import jpeg_threat
from holdfast.attacks.threats.balls import L1
from holdfast.attacks.threats.recolor import to_luv
from holdfast.attacks.threats.snow_threat import REACH, SPACING, _placed
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.types import ModelCard


def test_a_sparse_attack_begins_with_the_entries_that_its_start_changes() -> None:
    """Ten entries of which two are changed; inside a set that is not left, all ten and a fifth of them."""
    variable = torch.zeros(1, 10)
    variable[0, :2] = 0.1
    scene = Scene(torch.full((1, 10), 0.5), torch.tensor([1.2]), {})
    state = Sparse(10).fresh(L1(), scene, variable)
    assert [float(state[name]) for name in ("used", "share", "length")] == pytest.approx([2, 2 / 10 / 1.5, 3 * 1.2])
    state = Sparse(10, inwards=False).fresh(L1(), scene, variable)
    assert [float(state[name]) for name in ("used", "share", "length")] == pytest.approx([10, 0.2, 1.2])


def test_tiles_of_square_stand_upright_or_lie_each_with_its_own_sign() -> None:
    """Five tiles a side in the middle of the image; whether one lies is the same for its channels, its sign is not."""
    ids = tuple(map(str, range(12)))
    noise, draw = Noise.of(0, ids), torch.zeros(len(ids), dtype=torch.int64)
    scene = Scene(torch.full((12, 2, 22, 27), 0.5), torch.ones(12), {})
    made = Bumps(Sides(0.2, 100, least=3, odd=True), 2, 2)._tiles(scene, noise, draw).numpy()  # type: ignore[arg-type]
    bumps = dict(zip(("upright", "lying"), bump(4, power=2, fall=2).numpy(), strict=True))
    seen = set()
    for i in range(12):
        for row in range(5):
            for column in range(6):
                top, left = 1 + 4 * row, 1 + 4 * column
                tiles = made[i, :, top : top + 4, left : left + 4]
                (kind,) = (name for name, one in bumps.items() if (abs(tiles) == abs(one)).all())
                seen |= {(kind, channel, float((tiles[channel] / bumps[kind]).flat[0])) for channel in (0, 1)}
    assert seen == set(itertools.product(bumps, (0, 1), (1.0, -1.0)))
    assert not made[:, :, 0].any(), "one row above is left, and one below"
    assert not made[:, :, 21].any()


# cascades


def result_of(broken: list[bool], size: float, reasons: dict[int, str]) -> AttackResult:
    n = len(broken)
    count = torch.arange(1, n + 1)
    images = torch.full((n, 1, 1, 2), size)
    return AttackResult(
        images, size=torch.full((n,), size), broken=torch.tensor(broken), forwards=count, backwards=10 * count,
        reasons=reasons,
    )  # fmt: skip


def test_what_a_later_attack_breaks_is_taken_from_it_and_its_passes_are_added() -> None:
    """Of five samples the first attack broke the second; the later one is run on the other four and breaks two."""
    whole = result_of([False, True, False, False, False], 0.1, {0: "no gradient", 2: "no gradient"})
    later = result_of([True, False, True, False], 0.2, {1: "left its set", 3: "left its set"})
    made = _joined(whole, later, torch.tensor([0, 2, 3, 4]))
    assert made.broken.tolist() == [True, True, False, True, False]
    assert made.size.tolist() == pytest.approx([0.2, 0.1, 0.1, 0.2, 0.1])
    assert made.images[:, 0, 0, 0].tolist() == pytest.approx([0.2, 0.1, 0.1, 0.2, 0.1])
    assert made.forwards.tolist() == [1 + 1, 2, 3 + 2, 4 + 3, 5 + 4]
    assert made.backwards.tolist() == [10 + 10, 20, 30 + 20, 40 + 30, 50 + 40]
    assert made.reasons == {2: "no gradient", 4: "left its set"}, "the first reason, of samples that still stand"


def test_a_cascade_refuses_what_one_of_its_attacks_refuses() -> None:
    cascade = cascade_of(["fgsm:radius=0.1", "fab-linf:radius=0.1"])
    few, many = (ModelCard(name="m", source="m", classes=classes) for classes in (10, 100_000))
    cascade.refuse(few)
    with pytest.raises(Misuse, match="100000 classes"):
        cascade.refuse(many)


# threats


def test_tables_of_jpeg_threat_are_those_that_pillow_writes_at_quality_50() -> None:
    """ITU-T T.81, K.1 and K.2: at quality 50 the tables stand in the file as they are."""
    file = io.BytesIO()
    Image.new("RGB", (16, 16), (200, 30, 90)).save(file, "JPEG", quality=50)
    file.seek(0)
    with Image.open(file) as image:
        luma, chroma = (np.array(image.quantization[i]).reshape(8, 8) for i in (0, 1))
    np.testing.assert_array_equal(jpeg_threat.LUMA, luma)
    np.testing.assert_array_equal(jpeg_threat.CHROMA, chroma)


@pytest.mark.parametrize("grey", [0.0, 0.01, 0.04, 0.09, 0.11, 0.3, 1.0])
def test_lightness_of_grey_is_linear_below_a_luminance_of_0_00886_and_a_cube_root_above(grey: float) -> None:
    """CIE 15: L = (29/3)³ Y up to Y = (6/29)³, then 116 ∛Y - 16; 0.0031308 of sRGB is where its own line ends."""
    luminance = grey / 12.92 if grey < 0.04045 else ((grey + 0.055) / 1.055) ** 2.4
    lightness = (29 / 3) ** 3 * luminance if luminance < (6 / 29) ** 3 else 116 * math.cbrt(luminance) - 16
    made = to_luv(torch.full((1, 3, 1, 1), grey, dtype=torch.float64))
    assert float(made[0, 0]) == pytest.approx(lightness / 100, abs=2e-5)


def test_kinds_of_snow_have_their_first_flakes_along_the_first_row_and_column_of_a_lattice_of_four() -> None:
    kernels = torch.zeros(1, 7, 2 * REACH + 1, 2 * REACH + 1)
    kernels[:, :, REACH, REACH] = 1.0  # no streak: a flake of one pixel
    placed = _placed(kernels)[0]
    assert placed.shape == (7, 2 * REACH + SPACING, 2 * REACH + SPACING)
    corners = [tuple(int(x) - REACH for x in flake.nonzero()[0]) for flake in placed]
    assert corners == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0)]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2, 8, 4, 5), (4, 5)),
        ((2, 8, 1, 5), (1, 5)),  # a strip has places to compare, one pixel has not
        ((2, 8, 1, 1), None),
        ((2, 7, 8), (7,)),
        ((2, 1, 8), None),
        ((2, 8), None),
    ],
)
def test_what_is_a_map_of_activations(shape: tuple[int, ...], expected: tuple[int, ...] | None) -> None:
    assert _resolution_of_map(torch.zeros(shape)) == expected
    assert _resolution_of_map("no tensor") is None
