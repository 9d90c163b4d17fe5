"""Coloured, textured and placed shapes whose every factor is known, drawn from any set of grey shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.noise import Noise
from holdfast.core.refs import digest, parse_ref
from holdfast.core.registry import register, registry
from holdfast.core.types import Dataset, DatasetCard, Images
from holdfast.core.values import value_text
from holdfast.datasets import environments, textures
from holdfast.datasets.environments import Factors, Opportunity, Shortcut, Split
from holdfast.datasets.in_memory import numbered
from holdfast.datasets.uci_digits import bounding_box, fitted

VERSION = 1
SOURCE = "Posterior agreement, after Eulig et al. 2021 (DiagViB-6), arXiv:2108.05779"
SIDE = 128
CANVAS = 40  # pixels of the square that a shape of normal scale is drawn on
BOX_ABOVE, SOLID_ABOVE = 100, 150
GREY = 127
HUE_STEP, HUE_SPREAD = 60.0, 15.0  # degrees
LIGHTNESSES = ((0.12, 0.28), (0.32, 0.48), (0.52, 0.68), (0.72, 0.88))  # of the two colours of a shape, in HSL
SCALES = (0.5, 0.75, 1.0, 1.25, 1.5)  # the largest shape just fits its cell: 1.5 x 40/√2 < 128/3
SHARES: dict[Split, tuple[float, float]] = {"train": (0.0, 0.64), "val": (0.64, 0.8), "test": (0.8, 1.0)}


@dataclass(slots=True, eq=False)
class DiagViB:
    """Images drawn when they are asked for; outlines of shapes are kept."""

    card: DatasetCard
    ids: Sequence[str]
    labels: NDArray[np.int64]
    source: Dataset
    shapes: NDArray[np.int64]
    factors: Factors
    seed: int
    outlines: dict[int, NDArray[np.bool_] | str] = field(default_factory=dict)

    def images(self, index: Sequence[int]) -> Images:
        import torch

        positions = np.asarray(index, dtype=np.int64)
        outlines = self._outlines(self.shapes[positions].tolist())
        failed = {i: outline for i, outline in enumerate(outlines) if isinstance(outline, str)}
        nothing = np.zeros((canvas_side(self.factors),) * 2, dtype=bool)
        masks = np.stack([nothing if isinstance(outline, str) else outline for outline in (*outlines, nothing)])[:-1]
        noise = Noise.of(self.seed, [self.ids[environment] for environment in positions])
        return Images(torch.from_numpy(draw_shapes(masks, self.factors, noise)), failed)

    def _outlines(self, shapes: list[int]) -> list[NDArray[np.bool_] | str]:
        new = [shape for shape in dict.fromkeys(shapes) if shape not in self.outlines]
        if new:
            pixels, failed = self.source.images(new)
            if pixels.is_floating_point():
                pixels = (pixels * 255).round().byte()
            for i, shape in enumerate(new):
                self.outlines[shape] = failed.get(i) or self._outline(self.source.ids[shape], pixels[i, 0].numpy())
        return [self.outlines[shape] for shape in shapes]

    def _outline(self, name: str, image: NDArray[np.uint8]) -> NDArray[np.bool_] | str:
        made = outline(image, self.factors)
        return f"{name} has no pixel brighter than {BOX_ABOVE}" if made is None else made


@register("dataset", "diagvib", source=SOURCE, version=VERSION, tags=("built", "colour"))
def diagvib(
    source: str = "mnist",
    *,
    env: str | tuple[int, ...] = "test0",
    split: Split = "test",
    shapes: tuple[int, ...] = (),
    n: int | None = None,
    opportunity: Opportunity = "zso",
    shortcut: Shortcut = "hue",
    seed: int = 0,
) -> DiagViB:
    """Digits with a known hue, lightness, texture, position and scale, 128x128 in colour, from any MNIST-like source.

    `env` is an environment of the posterior agreement paper: train0, train1, val0, val1, test0 … test5 (each test
    shifts one factor more), select-train0|1 and the validation variants zero, idval, mixval, maxmixval, oodval, each
    with 0 or 1 and optionally `-npair`; or five indices [hue,lightness,texture,position,scale], with `split`. Sample i
    of val0 and val1, and of every test environment, shows the same digit under the same id; train0 and train1, and the
    `-npair` variants, draw digits of their own. `n` defaults to 40,000, 20,000 or 10,000. `shapes` are labels of the
    source: [4,9], or [1,4,7,9] in the environments of model selection. `opportunity` (zgo, 1-cgo, 2-cgo, 3-cgo, zso)
    is how many shapes stand in both of the environments 0 and 1; they differ in `shortcut`.

    Differs from the published code: built from the description alone. Textures are made by formula, the original crops
    images; lightness, scale and the cells of positions are our numbers in the published order. Shapes and
    textures are drawn by keyed noise.
    """
    environment = (
        environments.named_environment(env, shortcut=shortcut)
        if isinstance(env, str)
        else environments.custom(env, split)
    )
    chosen = shapes or environment.shapes
    if len(set(chosen)) != len(chosen):
        raise Misuse(f"`shapes` names one twice: {list(chosen)}")
    count = environments.SIZES[environment.split] if n is None else n
    if count < 1:
        raise Misuse(f"`n` must be at least 1, got {count}")
    data, whole = _source(source, environment.split)
    pools = {shape: _pool(data, shape, environment.split, whole=whole) for shape in chosen}
    seen = environments.seen_shapes(chosen, environment.side, opportunity)
    names = numbered(range(count), width=5, prefix=f"{environment.draw}-")
    digits = _in_turn([pools[shape] for shape in seen], Noise.of(seed, names))
    facts = [
        VERSION,
        data.card.fingerprint,
        list(environment.factors),
        list(chosen),
        list(seen),
        environment.draw,
        whole,
    ]
    card = DatasetCard(
        name=f"diagvib-{env}" if isinstance(env, str) else f"diagvib-{environment.split}",
        classes=tuple(data.card.classes[shape] for shape in chosen),
        channels=3,
        size=(SIDE, SIDE),
        fingerprint=digest([*facts, count, seed]),
        licence=data.card.licence,
        source=f"{data.card.name}: {environment.factors}",
        reference=_reference(source, env, chosen, n, seed),
    )
    ids = tuple(f"{name}/{data.ids[digit]}" for name, digit in zip(names, digits, strict=True))
    labels = np.array([chosen.index(shape) for shape in data.labels[digits]], dtype=np.int64)
    return DiagViB(card, ids, labels, data, digits, environment.factors, seed)


def outline(image: NDArray[np.uint8], factors: Factors) -> NDArray[np.bool_] | None:
    """Where the shape is, on its square canvas: its bounding box, made to fit the circle of the canvas, centred."""
    if (box := bounding_box(image, above=BOX_ABOVE)) is None:
        return None
    shape = fitted(box, CANVAS / math.sqrt(2) * SCALES[factors.scale])
    canvas = np.zeros((canvas_side(factors),) * 2, dtype=bool)
    top, left = ((side - length) // 2 for side, length in zip(canvas.shape, shape.shape, strict=True))
    canvas[top : top + shape.shape[0], left : left + shape.shape[1]] = shape > SOLID_ABOVE
    return canvas


def draw_shapes(masks: NDArray[np.bool_], factors: Factors, noise: Noise) -> NDArray[np.uint8]:
    """The images of some outlines: two colours blended by a crop of texture, on grey."""
    side = masks.shape[1]
    chance = noise.uniform("hue", (2,)).double().numpy()
    hues = HUE_STEP * factors.hue + HUE_SPREAD * (2 * chance - 1)
    colours = rgb(hues, np.array(LIGHTNESSES[factors.lightness]))
    corner = noise.integers("texture", (2,), low=0, high=textures.SIDE).numpy()
    blend = textures.crops(environments.TEXTURES[factors.texture], corner[:, 0], corner[:, 1], side)[:, None]
    dark, light = (colours[:, i, :, None, None].astype(np.float32) * 255 for i in (0, 1))
    coloured = np.rint(dark + (light - dark) * blend).astype(np.uint8)
    pixels = np.full((len(masks), 3, SIDE, SIDE), GREY, dtype=np.uint8)
    top, left = (round((cell + 0.5) * SIDE / 3 - side / 2) for cell in divmod(factors.position, 3))
    rows, columns = (slice(max(0, start), min(SIDE, start + side)) for start in (top, left))
    inner = (..., slice(rows.start - top, rows.stop - top), slice(columns.start - left, columns.stop - left))
    pixels[:, :, rows, columns] = np.where(masks[:, None], coloured, np.uint8(GREY))[inner]
    return pixels


def canvas_side(factors: Factors) -> int:
    """Pixels of the square that a shape is drawn on."""
    return round(CANVAS * SCALES[factors.scale])


def rgb(hue: NDArray[np.float64], lightness: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fully saturated HSL colours as RGB in [0, 1], along a new last axis; hue in degrees."""
    turn = (np.array([0.0, 8.0, 4.0]) + hue[..., None] / 30) % 12
    reach = np.minimum(lightness, 1 - lightness)[..., None]
    return np.asarray(lightness[..., None] - reach * np.clip(np.minimum(turn - 3, 9 - turn), -1, 1))


def _in_turn(pools: Sequence[NDArray[np.int64]], noise: Noise) -> NDArray[np.int64]:
    """One image of each pool in turn, drawn with replacement."""
    turns = np.arange(len(noise)) % len(pools)
    chance = noise.uniform("shape", ()).double().numpy()
    which = (chance * np.array([len(pool) for pool in pools])[turns]).astype(np.int64)
    return np.array([pools[turn][number] for turn, number in zip(turns.tolist(), which.tolist(), strict=True)])


def _reference(source: str, env: str | tuple[int, ...], shapes: tuple[int, ...], n: int | None, seed: int) -> str:
    """The unshifted environment with the same digits, for the test environments."""
    if not isinstance(env, str) or not env.startswith("test") or env == "test0":
        return ""
    count = "" if n is None else f",n={n}"
    text = f"diagvib:{value_text(source)},env=test0,shapes={value_text(shapes)}{count},seed={seed}"
    return str(registry.bind("dataset", text))


def _source(text: str, split: Split) -> tuple[Dataset, bool]:
    """The grey images to draw from, and whether they are the whole of a set that is split nowhere else."""
    parsed = parse_ref(text)
    entry = registry.entry("dataset", parsed.name)
    whole = all(parameter.name != "split" for parameter in entry.parameters) or "split" in parsed.keywords
    split_name = "test" if split == "test" else "train"
    full = text if whole else f"{text}{',' if ':' in text else ':'}split={split_name}"
    data: Dataset = registry.build(registry.bind("dataset", full))
    if data.card.channels != 1:
        raise Misuse(f"`diagvib` draws from grey images, those of `{text}` have {data.card.channels} channels")
    return data, whole


def _pool(data: Dataset, shape: int, split: Split, *, whole: bool) -> NDArray[np.int64]:
    """Positions of a shape's images for a split. Of each class the first 80 % of a training set train, the rest
    validate; a set without a split is parted 64 : 16 : 20. No image stands in two splits."""
    if not 0 <= shape < len(data.card.classes):
        raise Misuse(f"`shapes` are labels of the source, 0 to {len(data.card.classes) - 1}, got {shape}")
    members = np.flatnonzero(data.labels == shape)
    shares = SHARES[split] if whole else {"train": (0.0, 0.8), "val": (0.8, 1.0), "test": (0.0, 1.0)}[split]
    start, stop = (int(share * len(members)) for share in shares)
    if start == stop:
        raise HoldfastError(f"`{data.card.name}` has too few images of `{data.card.classes[shape]}` to {split} with")
    return members[start:stop]
