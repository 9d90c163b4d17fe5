"""Spatter by plain loops: Canny's edges, chamfer distances, even histograms and reliefs as OpenCV defines them."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor

from holdfast.core.noise import Noise
from holdfast.corruptions.spatter import Drops, Spatter, box_mean, distances, edges, equalised, relief

Plane = NDArray[np.float64]
EMBOSS = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])


class Given(Noise):
    """Noise with chosen normal numbers."""

    def __init__(self, normal: Tensor) -> None:
        super().__init__(torch.zeros(len(normal), dtype=torch.int64))
        self.chosen = normal

    def normal(self, purpose: str, shape: Sequence[int], *, draw: int | Tensor = 0) -> Tensor:
        assert tuple(shape) == self.chosen.shape[1:]
        return self.chosen


def canny(layer: Plane, low: float, high: float) -> NDArray[np.bool_]:
    """Canny's edges pixel by pixel: 3x3 Sobel on replicated borders, |gx| + |gy|, thinned, grown from the strong."""
    height, width = layer.shape
    wide = np.pad(layer, 1, mode="edge")
    across, down = np.zeros_like(layer), np.zeros_like(layer)
    for y, x in np.ndindex(height, width):
        a, b, c, d, f, g, h, i = (float(v) for v in np.delete(wide[y : y + 3, x : x + 3].ravel(), 4))
        across[y, x] = (c + 2 * f + i) - (a + 2 * d + g)
        down[y, x] = (g + 2 * h + i) - (a + 2 * b + c)
    sizes = np.pad(abs(across) + abs(down), 1)
    kept = np.zeros(layer.shape)
    for y, x in np.ndindex(height, width):
        gx, gy, m = across[y, x], down[y, x], sizes[y + 1, x + 1]
        around = sizes[y : y + 3, x : x + 3]
        if abs(gy) < abs(gx) * math.tan(math.pi / 8):
            thin = m > around[1, 0] and m >= around[1, 2]
        elif abs(gy) > abs(gx) * math.tan(3 * math.pi / 8):
            thin = m > around[0, 1] and m >= around[2, 1]
        elif gx * gy < 0:
            thin = m > around[0, 2] and m > around[2, 0]
        else:
            thin = m > around[0, 0] and m > around[2, 2]
        if thin and m > low:
            kept[y, x] = 2 if m > high else 1
    found = kept == 2
    waiting = list(zip(*np.nonzero(found), strict=True))
    while waiting:
        y, x = waiting.pop()
        for v, u in itertools.product(range(y - 1, y + 2), range(x - 1, x + 2)):
            if 0 <= v < height and 0 <= u < width and kept[v, u] and not found[v, u]:
                found[v, u] = True
                waiting.append((v, u))
    return found


def chamfer(marks: NDArray[np.bool_], most: float) -> Plane:
    """The shortest way to a mark in steps of 1, 1.4 (diagonal) and 2.1969 (a knight's), cut off at `most`."""
    lengths = {(0, 1): 1.0, (1, 1): 1.4, (1, 2): 2.1969}
    found = np.full(marks.shape, most)
    heap = [(0.0, int(y), int(x)) for y, x in zip(*np.nonzero(marks), strict=True)]
    while heap:
        so_far, y, x = heapq.heappop(heap)
        if so_far >= found[y, x]:
            continue
        found[y, x] = so_far
        for v, u in itertools.product(range(-2, 3), repeat=2):
            length = lengths.get((min(abs(v), abs(u)), max(abs(v), abs(u))))
            if length is not None and 0 <= y + v < marks.shape[0] and 0 <= x + u < marks.shape[1]:
                heapq.heappush(heap, (so_far + length, y + v, x + u))
    return found


def even(layer: Plane) -> Plane:
    """Histogram equalisation: each shade by its place among all pixels, the darkest at 0."""
    values = layer.ravel()
    darkest = np.count_nonzero(values == values.min())
    if darkest == values.size:
        return layer
    places = np.array([np.count_nonzero(values <= value) for value in values])
    return ((places - darkest) * 255 / (values.size - darkest)).reshape(layer.shape)


def around_mean(layer: Plane) -> Plane:
    wide = np.pad(layer, 1, mode="reflect")
    return np.array([[wide[y : y + 3, x : x + 3].mean() for x in range(layer.shape[1])] for y in range(layer.shape[0])])


def lit(layer: Plane) -> Plane:
    """The relief of a layer, one published step after the other."""
    distance = np.floor(around_mean(chamfer(canny(layer, 50, 150), 20.0)) + 1e-6)
    wide = np.pad(np.round(even(distance)), 1, mode="reflect")
    raised = np.zeros_like(layer)
    for y, x in np.ndindex(*layer.shape):
        raised[y, x] = min(255.0, max(0.0, float((wide[y : y + 3, x : x + 3] * EMBOSS).sum())))
    return np.round(around_mean(raised))


def layers(seed: int, shades: Sequence[float], height: int = 9, width: int = 11) -> Plane:
    """A layer of few shades, so that gradients often tie."""
    return np.random.default_rng(seed).choice(np.array(shades, dtype=np.float64), (height, width))


@given(
    st.integers(0, 2**31),
    st.sampled_from([(0, 10, 20, 40), (0, 100), (0, 12.5, 37.5), (0, 180, 200, 255), (0, 0, 0, 0, 0, 30, 90)]),
)
def test_edges_are_those_of_canny_pixel_by_pixel(seed: int, shades: tuple[float, ...]) -> None:
    """Shades of which gradients are often equal to each other and to the thresholds."""
    layer = layers(seed, shades)
    found = edges(torch.from_numpy(layer).float()[None, None], 50.0, 150.0)[0, 0]
    np.testing.assert_array_equal(found.numpy(), canny(layer, 50.0, 150.0))


@pytest.mark.parametrize("flip", [(), (2,), (3,), (2, 3)])
@pytest.mark.parametrize("slope", [0.0, 0.3, 0.5, 1.0, 2.0, 3.0])
def test_edges_of_slanted_steps_are_those_of_canny(slope: float, flip: tuple[int, ...]) -> None:
    """A soft step across the plane, at angles between all the sectors, both ways."""
    y, x = torch.meshgrid(torch.arange(14.0), torch.arange(14.0), indexing="ij")
    layer = ((slope * (y - 7) + (x - 7)) * 25 + 100).clamp(0, 200).round()[None, None].flip(flip)
    found = edges(layer, 50.0, 150.0)[0, 0]
    np.testing.assert_array_equal(found.numpy(), canny(layer[0, 0].double().numpy(), 50.0, 150.0))
    assert bool(found.any())


def test_an_edge_has_to_exceed_its_thresholds() -> None:
    """A step of s has a gradient of 4 s: 152 exceeds 148 and 151, not 152."""
    step = torch.zeros(1, 1, 6, 8)
    step[..., 4:] = 38.0
    assert bool(edges(step, 50.0, 148.0).any())
    assert not bool(edges(step, 50.0, 152.0).any())
    assert bool(edges(step, 151.0, 151.0).any())
    assert not bool(edges(step, 152.0, 100.0).any())


@given(st.integers(0, 2**31), st.sampled_from([0.01, 0.05, 0.3]), st.sampled_from([3.0, 6.0, 20.0]))
def test_distances_are_shortest_ways(seed: int, share: float, most: float) -> None:
    marks = np.random.default_rng(seed).random((12, 9)) < share
    found = distances(torch.from_numpy(marks)[None, None], most)[0, 0]
    np.testing.assert_allclose(found.numpy(), chamfer(marks, most), atol=1e-4)


@given(st.integers(0, 2**31), st.sampled_from([(0, 255), (0, 1, 2, 3, 4, 5, 6, 7), (7, 9, 255), (3,)]))
def test_an_even_histogram_puts_shades_by_their_place(seed: int, shades: tuple[float, ...]) -> None:
    made = [layers(seed, shades), layers(seed + 1, shades)]  # two layers at once do not mix
    found = equalised(torch.from_numpy(np.stack(made))[:, None].float())
    for layer, result in zip(made, found[:, 0].double().numpy(), strict=True):
        np.testing.assert_allclose(result, even(layer), rtol=0, atol=0.5001)  # a place half way may round either way
        assert np.array_equal(result, np.round(result))


def test_a_single_darkest_pixel_is_at_0() -> None:
    """Places 1, 3, 3 and 4 of four, less the darkest: 0, 2/3 and 1."""
    layer = torch.tensor([3.0, 5.0, 5.0, 9.0]).view(1, 1, 2, 2)
    assert equalised(layer).flatten().tolist() == [0.0, 170.0, 170.0, 255.0]


def test_a_mean_over_nine_pixels_mirrors_the_border() -> None:
    layer = layers(3, range(200))
    np.testing.assert_allclose(
        box_mean(torch.from_numpy(layer).float()[None, None])[0, 0].numpy(), around_mean(layer), rtol=1e-5
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_relief_takes_the_published_steps(seed: int) -> None:
    layer = np.zeros((24, 26))
    draw = np.random.default_rng(seed)
    for _ in range(3):
        top, left, high, wide = draw.integers((2, 2, 3, 3), (14, 14, 9, 10))
        layer[top : top + high, left : left + wide] = draw.integers(170, 256)
    found = relief(torch.from_numpy(layer).float()[None, None])[0, 0].double().numpy()
    np.testing.assert_allclose(found, lit(layer), atol=1.01)  # a mean just between two shades
    assert np.mean(found == lit(layer)) > 0.98
    assert lit(layer).max() > 100


def test_a_relief_has_rims_where_gradients_exceed_150_and_along_them_50() -> None:
    """Steps of 37 and 38 have gradients of 148 and 152; one of 13, of 52, counts beside a step of 60, one of 12 not."""
    for step, has_rim in ((37.0, False), (38.0, True)):
        layer = torch.zeros(1, 1, 10, 12)
        layer[..., 6:] = step
        assert bool((relief(layer) != 20).any()) == has_rim
    found = []
    for weak in (12.0, 13.0):
        layer = torch.zeros(1, 1, 12, 24)
        layer[..., 6:, :5] = 60.0
        layer[..., 6:, 5:] = weak
        found.append(relief(layer)[0, 0].double().numpy())
        np.testing.assert_allclose(found[-1], lit(layer[0, 0].double().numpy()), atol=1.01)
    assert not np.array_equal(*found)


def test_the_relief_of_nothing_is_flat() -> None:
    """Far from every edge: 20 everywhere, an even histogram leaves that, and the kernel's sum is 1."""
    assert torch.equal(relief(torch.zeros(1, 1, 8, 8)), torch.full((1, 1, 8, 8), 20.0))


def test_water_is_the_layer_times_its_relief_up_to_its_strength() -> None:
    """Two samples, each by its own brightest; what lies below the threshold is dry, what lies on it is wet."""
    draw = torch.Generator().manual_seed(4)
    normal = torch.nn.functional.interpolate(torch.randn(2, 1, 5, 5, generator=draw), size=(20, 18), mode="bicubic")
    mean, spread, sigma, threshold, strength = 0.65, 0.3, 1.0, 0.69, 0.6
    drops = Spatter().draw(torch.zeros(2, 3, 20, 18), (mean, spread, sigma, threshold, strength, 0), Given(normal))
    assert not drops.mud
    for sample, cover in zip(normal[:, 0].double().numpy(), drops.cover[:, 0].double().numpy(), strict=True):
        liquid = ndimage.gaussian_filter(sample * spread + mean, sigma, mode="nearest", truncate=4.0)
        liquid[liquid < threshold] = 0
        layer = np.minimum(255, np.floor(liquid * 255))
        shine = layer * lit(layer)
        np.testing.assert_allclose(cover, shine / shine.max() * strength, atol=0.01)
        assert cover.max() == pytest.approx(strength)
        assert 0.1 < np.mean(cover > 0) < 0.9


def test_liquid_on_the_threshold_is_wet_and_counts_up_to_white() -> None:
    """A flat layer of 0.75 at a threshold of 0.75 shines everywhere, and so does one of 3, which is white."""
    flat = Given(torch.zeros(1, 1, 6, 6))
    images = torch.zeros(1, 3, 6, 6)
    for mean in (0.75, 3.0):
        cover = Spatter().draw(images, (mean, 0.3, 0.1, 0.75, 0.5, 0), flat).cover
        torch.testing.assert_close(cover, torch.full((1, 1, 6, 6), 0.5))
    step = torch.tensor([4.0, 10.0]).repeat_interleave(3).expand(1, 1, 6, 6)  # both beyond white: no edge between them
    cover = Spatter().draw(images, (0.0, 1.0, 0.1, 0.5, 0.5, 0), Given(step)).cover
    torch.testing.assert_close(cover, torch.full((1, 1, 6, 6), 0.5))


def test_liquid_counts_in_whole_levels_that_are_full() -> None:
    """Without an edge the relief is flat: 0.7 and 0.75 have 178.5 and 191.25 levels, so 178 and 191."""
    normal = torch.tensor([0.7, 0.75]).repeat_interleave(3).expand(1, 1, 6, 6)
    cover = Spatter().draw(torch.zeros(1, 3, 6, 6), (0.0, 1.0, 0.1, 0.5, 0.5, 0), Given(normal)).cover
    assert cover[0, 0, 2].tolist() == pytest.approx([0.5 * 178 / 191] * 3 + [0.5] * 3, rel=1e-5)


def test_where_nothing_is_wet_nothing_changes() -> None:
    images = torch.full((1, 3, 6, 6), 0.4)
    for level in ((0.2, 0.1, 0.1, 0.7, 0.5, 0), (0.2, 0.1, 0.1, 0.7, 0.6, 1), (0.75, 0.1, 0.1, 0.75, 0.6, 1)):
        drops = Spatter().draw(images, level, Given(torch.zeros(1, 1, 6, 6)))  # mud has to exceed the threshold
        assert torch.equal(drops.cover, torch.zeros(1, 1, 6, 6))
        assert drops.mud == bool(level[-1])
        assert torch.equal(Spatter().apply(images, drops), images)


def test_mud_is_a_blurred_mask_without_its_thin_rim() -> None:
    normal = torch.full((1, 1, 12, 12), -1.0)
    normal[..., 3:9, 4:11] = 1.0
    mask = (normal[0, 0] > 0).double().numpy()
    soft = ndimage.gaussian_filter(mask, 0.6, mode="nearest", truncate=4.0)
    cover = Spatter().draw(torch.zeros(1, 3, 12, 12), (0.65, 0.1, 0.1, 0.69, 0.6, 1), Given(normal)).cover
    np.testing.assert_allclose(cover[0, 0].numpy(), np.where(soft < 0.8, 0.0, soft), atol=1e-6)
    assert ((soft > 0.7) & (soft < 0.9)).any()


def test_full_cover_has_the_published_colours() -> None:
    images = torch.full((1, 3, 1, 1), 0.1)
    cover = torch.ones(1, 1, 1, 1)
    mud = Spatter().apply(images, Drops(cover, mud=True)).flatten() * 255
    assert mud.tolist() == pytest.approx([63, 42, 20], abs=1e-3)
    water = (Spatter().apply(images, Drops(cover, mud=False)).flatten() - 0.1) * 255
    assert water.tolist() == pytest.approx([175, 238, 238], abs=1e-3)
    grey = Spatter().apply(images[:, :1], Drops(cover, mud=True)).item() * 255
    assert grey == pytest.approx(0.299 * 63 + 0.587 * 42 + 0.114 * 20, abs=1e-3)
