from __future__ import annotations

import colorsys
import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast import conformance
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.datasets import environments, load, textures
from holdfast.datasets.diagvib import GREY, LIGHTNESSES, SCALES, SIDE, diagvib, outline, rgb
from holdfast.datasets.environments import Factors, seen_shapes
from holdfast.datasets.uci_digits import bounding_box, fitted, resampled

SOURCE = "fashion-mnist-2k"
ROUNDING = 2.0  # degrees: colours are kept in 8 bits


def images(env: str | tuple[int, ...], *, n: int = 12, **options: object) -> NDArray[np.uint8]:
    return diagvib(SOURCE, env=env, n=n, **options).images(range(n)).pixels.numpy()  # type: ignore[arg-type]


def colours(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Hue in degrees and lightness of every pixel that is not background."""
    inside = (pixels != GREY).any(axis=1)
    listed = pixels.transpose(0, 2, 3, 1)[inside] / 255
    hls = np.array([colorsys.rgb_to_hls(*colour) for colour in listed])
    return np.stack([360 * hls[:, 0], hls[:, 1]], axis=1)


def extent(pixels: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last row and column that any image uses, as (top, left), (bottom, right)."""
    used = (pixels != GREY).any(axis=(0, 1))
    rows, columns = np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))
    return np.array([rows[0], columns[0]]), np.array([rows[-1], columns[-1]])


@pytest.mark.parametrize("hue", range(6))
@pytest.mark.parametrize("texture", [0, 4])
def test_every_pixel_has_the_hue_of_its_name_within_15_degrees(hue: int, texture: int) -> None:
    found = colours(images((hue, 2, texture, 4, 2)))[:, 0]
    off = (found - 60 * hue + 180) % 360 - 180
    assert np.abs(off).max() <= 15 + ROUNDING
    assert off.max() - off.min() > 15  # drawn from the whole range


@pytest.mark.parametrize("texture", [0, 1])
def test_lightness_is_in_the_order_of_its_names(texture: int) -> None:
    found = [colours(images((0, level, texture, 4, 2)))[:, 1] for level in range(4)]
    assert all(one.max() < other.min() for one, other in itertools.pairwise(found))
    for level, (low, high) in zip(found, LIGHTNESSES, strict=True):
        assert low - 0.01 <= level.min() <= level.max() <= high + 0.03  # two hues blend to slightly lighter


@pytest.mark.parametrize("position", range(9))
def test_a_shape_lies_in_the_middle_of_its_cell(position: int) -> None:
    first, last = extent(images((0, 2, 0, position, 4), n=80, shapes=(8,)))
    centre = np.array([divmod(position, 3)]) * SIDE / 3 + SIDE / 6
    assert np.abs((first + last + 1) / 2 - centre).max() <= 1.5  # rounded to pixels, twice
    assert (first >= centre - SIDE / 6 - 1).all()
    assert (last <= centre + SIDE / 6 + 1).all()


def test_the_longer_side_of_a_shape_is_40_over_root_2_times_its_scale() -> None:
    block = np.zeros((28, 28), dtype=np.uint8)
    block[4:24, 8:18] = 255
    for scale, factor in enumerate(SCALES):
        made = outline(block, Factors(0, 0, 0, 4, scale))
        assert made is not None
        rows, columns = np.flatnonzero(made.any(axis=1)), np.flatnonzero(made.any(axis=0))
        assert abs(len(rows) - 40 / 2**0.5 * factor) <= 0.5
        assert abs(len(columns) - 20 / 2**0.5 * factor) <= 0.5
        assert abs(rows.mean() - (len(made) - 1) / 2) <= 0.5  # centred
    assert list(SCALES) == sorted(SCALES)


def test_the_background_is_grey_and_the_shape_has_hard_edges() -> None:
    pixels = images("test0", n=3)
    assert pixels.shape == (3, 3, 128, 128)
    for image in pixels:
        assert len(np.unique(image.reshape(3, -1), axis=1).T) == 2  # blank: background and one colour


def test_fully_saturated_colours_are_those_of_the_standard_library() -> None:
    hue, lightness = np.arange(-30.0, 360.0, 7.0), np.linspace(0.1, 0.9, 56)
    expected = [colorsys.hls_to_rgb(h / 360 % 1, level, 1) for h, level in zip(hue, lightness, strict=True)]
    assert np.allclose(rgb(hue, lightness), expected)


def test_test_environments_shift_one_factor_more_each_time() -> None:
    tests = [environments.named_environment(f"test{i}").factors for i in range(6)]
    assert [sum(a != b for a, b in zip(tests[0], shifted, strict=True)) for shifted in tests] == [0, 1, 2, 3, 4, 5]
    assert str(tests[0]) == "red, bright, blank, centre, normal"
    assert str(tests[5]) == "blue, brighter, tiles, lower centre, larger"
    assert [environments.named_environment(f"train{i}").factors for i in (0, 1)] == tests[:2]


def test_paired_environments_show_the_same_digit_under_the_same_id() -> None:
    shown = [diagvib(SOURCE, env=f"test{i}", n=40) for i in range(6)]
    assert all(tuple(other.ids) == tuple(shown[0].ids) for other in shown)
    assert all((other.shapes == shown[0].shapes).all() for other in shown)
    assert len({other.card.fingerprint for other in shown}) == 6
    assert tuple(load(shown[3].card.reference).ids) == tuple(shown[0].ids)
    one, other = (diagvib(SOURCE, env=f"idval{i}", n=40) for i in (0, 1))
    assert tuple(one.ids) == tuple(other.ids)


@pytest.mark.parametrize("pair", [("train0", "train1"), ("idval0-npair", "idval1-npair")])
def test_unpaired_environments_draw_digits_of_their_own(pair: tuple[str, str]) -> None:
    one, other = (diagvib(SOURCE, env=env, n=40) for env in pair)
    assert not set(one.ids) & set(other.ids)
    assert (one.shapes != other.shapes).any()


def test_a_smaller_n_is_the_beginning_of_a_larger_one() -> None:
    few, many = diagvib(SOURCE, n=10), diagvib(SOURCE, n=30)
    assert tuple(few.ids) == tuple(many.ids[:10])
    assert (few.images(range(10)).pixels == many.images(range(10)).pixels).all()
    assert np.bincount(many.labels).tolist() == [15, 15]


def test_no_digit_stands_in_two_splits() -> None:
    drawn = {env: set(diagvib(SOURCE, env=env, n=3000).shapes.tolist()) for env in ("train0", "val0", "test0")}
    assert not drawn["train0"] & drawn["val0"]
    assert not (drawn["train0"] | drawn["val0"]) & drawn["test0"]
    assert [len(found) for found in drawn.values()] == [2 * 128, 2 * 32, 2 * 40]


def test_another_seed_draws_other_images_and_the_default_sizes_are_those_of_the_paper() -> None:
    assert diagvib(SOURCE, seed=1, n=20).ids != diagvib(SOURCE, n=20).ids
    assert [len(diagvib(SOURCE, env=env).ids) for env in ("train0", "val1", "test2")] == [40_000, 20_000, 10_000]


@pytest.mark.parametrize(
    ("opportunity", "shown"),
    [
        ("zgo", [(1, 4), (7, 9)]),
        ("1-cgo", [(1, 4), (1, 7, 9)]),
        ("2-cgo", [(1, 4, 7), (1, 7, 9)]),
        ("3-cgo", [(1, 4, 7), (1, 4, 7, 9)]),
        ("zso", [(1, 4, 7, 9), (1, 4, 7, 9)]),
    ],
)
def test_an_opportunity_is_a_number_of_shapes_in_both_environments(opportunity: str, shown: list[tuple]) -> None:
    assert [seen_shapes((1, 4, 7, 9), side, opportunity) for side in (0, 1)] == shown  # type: ignore[arg-type]
    for side in (0, 1):
        made = diagvib(SOURCE, env=f"select-train{side}", opportunity=opportunity, n=24)  # type: ignore[arg-type]
        assert made.card.classes == ("Trouser", "Coat", "Sneaker", "Ankle boot")
        assert sorted({(1, 4, 7, 9)[label] for label in made.labels}) == list(shown[side])


def test_the_shortcut_is_the_factor_in_which_the_source_environments_differ() -> None:
    for shortcut in ("hue", "position"):
        pair = [environments.named_environment(f"idval{i}", shortcut=shortcut).factors for i in (0, 1)]  # type: ignore[arg-type]
        assert [field for field in Factors._fields if getattr(pair[0], field) != getattr(pair[1], field)] == [shortcut]
    most = [environments.named_environment(f"maxmixval{i}").factors for i in (0, 1)]
    assert all(a != b for a, b in zip(*most, strict=True))


def test_the_environments_of_model_selection_are_those_of_the_paper() -> None:
    """Tables 1 and 3 of the paper, in the words of its factors."""
    source = {"select-train0": "red", "select-train1": "blue", "zero1": "red", "idval1": "blue", "mixval1": "magenta"}
    for name, hue in (source | {"oodval0": "yellow", "oodval1": "magenta"}).items():
        assert str(environments.named_environment(name).factors) == f"{hue}, dark, blank, centre, large"
    assert str(environments.named_environment("maxmixval1").factors) == "green, bright, tiles, upper left, small"
    tests = [environments.named_environment(f"select-test{i}") for i in range(1, 6)]
    before = environments.named_environment("select-train0").factors
    for test, field in zip(tests, ("hue", "lightness", "texture", "position", "scale"), strict=True):
        assert [name for name in Factors._fields if getattr(before, name) != getattr(test.factors, name)] == [field]
        assert (test.split, test.shapes) == ("test", (1, 4, 7, 9))
        before = test.factors


@pytest.mark.parametrize("name", environments.TEXTURES)
def test_a_texture_fills_its_range_and_repeats_without_a_seam(name: str) -> None:
    field = textures.texture(name)
    assert field.shape == (textures.SIDE, textures.SIDE)
    if name == "blank":
        assert (field == 0.5).all()
        return
    assert (field.min(), field.max()) == (0, 1)
    assert field.std() > 0.05
    crop = textures.crops(name, np.array([250]), np.array([3]), 20)[0]
    assert (crop[:6] == field[250:, 3:23]).all()
    assert (crop[6:] == field[:14, 3:23]).all()


def test_resampling_keeps_a_constant_and_a_ramp() -> None:
    assert np.allclose(resampled(np.full((7, 5), 9.0), (20, 3)), 9)
    ramp = np.tile(np.arange(20.0), (20, 1))
    assert np.allclose(resampled(ramp, (20, 40))[:, 12:28], (np.arange(12, 28) - 0.5) / 2, atol=0.02)
    assert fitted(np.full((10, 5), 200), 28.3).shape == (28, 14)
    assert bounding_box(np.zeros((4, 4)), above=0) is None


def test_diagvib_conforms_and_reads_as_a_ref() -> None:
    dataset = load(f"diagvib:{SOURCE},env=[4,2,1,7,3],n=9")
    conformance.check_dataset(dataset)
    conformance.check_round_trip("dataset", f"diagvib:({SOURCE}),env=idval1-npair,opportunity=1-cgo,shapes=[1,4,7,9]")
    assert dataset.images([]).pixels.shape == (0, 3, 128, 128)


def test_a_shape_without_bright_pixels_is_a_failed_sample(tmp_path) -> None:
    dim = np.full((20, 28, 28), 90, dtype=np.uint8)
    np.savez(tmp_path / "dim.npz", images=dim, labels=np.arange(20) % 2)
    made = load(f"diagvib:(arrays:{tmp_path}/dim.npz),shapes=[0,1],n=4").images(range(4))
    assert len(made.failed) == 4
    assert "no pixel brighter than 100" in made.failed[0]
    assert (made.pixels == GREY).all()


def test_a_source_of_floats_gives_the_images_of_its_bytes(tmp_path) -> None:
    whole = load(SOURCE)
    pixels = whole.images(range(400)).pixels[:, 0].numpy()
    for name, images in {"bytes": pixels, "floats": pixels.astype(np.float32) / 255}.items():
        np.savez(tmp_path / f"{name}.npz", images=images, labels=whole.labels[:400])
    made = [load(f"diagvib:(arrays:{tmp_path}/{name}.npz),n=12").images(range(12)) for name in ("bytes", "floats")]
    assert (made[0].pixels == made[1].pixels).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("env=test7", "no environment of diagvib named `test7`"),
        ("env=[1,2,3]", "five indices"),
        ("env=[9,0,0,0,0]", "hue 0 to 5"),
        ("shapes=[4,4]", "names one twice"),
        ("shapes=[4,12]", "labels of the source"),
        ("n=0", "at least 1"),
        ("opportunity=1-cgo,env=test3", "environments 0 and 1"),
        ("opportunity=2-cgo", "even number of shapes, more than 2"),
    ],
)
def test_what_cannot_be_is_misuse(options: str, message: str) -> None:
    with pytest.raises(Misuse, match=message):
        load(f"diagvib:{SOURCE},{options}")


def test_colour_sources_and_tiny_ones_are_refused(tmp_path) -> None:
    np.savez(tmp_path / "x.npz", images=np.zeros((4, 8, 8, 3), np.uint8), labels=np.arange(4))
    with pytest.raises(Misuse, match="grey images"):
        load(f"diagvib:(arrays:{tmp_path}/x.npz),shapes=[0,1]")
    np.savez(tmp_path / "y.npz", images=np.zeros((2, 8, 8), np.uint8), labels=np.arange(2))
    with pytest.raises(HoldfastError, match="too few images of `0` to train"):
        load(f"diagvib:(arrays:{tmp_path}/y.npz),shapes=[0,1],env=train0")
