"""A contact sheet: images under every severity of a corruption, or every strength of attacks, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.noise import Noise
from holdfast.core.refs import parse_ref
from holdfast.core.registry import registry
from holdfast.core.suites import load_suite, suites
from holdfast.core.types import Batch, Changed, Classifier
from holdfast.core.values import split
from holdfast.datasets import load
from holdfast.engine.jobs import ModelLoader, as_holdfast_error
from holdfast.engine.on_arrays import attack
from holdfast.models.classifier import load as load_model

DATASET = "scenes"
GAP, HEADER = 4, 16  # pixels
ACROSS = 8  # images of a dataset side by side
SEARCHED = 100  # images among which those to attack are sought
FORMATS = (".png", ".jpg", ".jpeg", ".webp")


def severities(name: str) -> tuple[int, ...]:
    """The severities that a corruption has, mildest first."""
    levels: list[int] = []
    while True:
        try:
            registry.build(registry.bind("corruption", f"{name}:severity={len(levels) + 1}"))
        except Misuse:
            return tuple(levels)
        levels.append(len(levels) + 1)


def contact_sheet(ref: str, *, dataset: str = DATASET, images: int = 4, tile: int | None = None) -> Image.Image:
    """Rows of images, columns of severities, the original first; `tile` is the side at which they are shown.

    Small images are shown larger, by whole factors. A ref may give the corruption's other arguments, but no severity.
    """
    parsed = parse_ref(ref)
    if parsed.name not in registry.entries("corruption"):
        registry.entry("corruption", parsed.name)  # raises with the closest names
    if "severity" in parsed.keywords:
        raise Misuse("a contact sheet shows every severity", hint=f"leave it out: `holdfast show {parsed.name}`")
    if images < 1:
        raise Misuse(f"`--images` must be at least 1, got {images}")
    batch = _samples(dataset, images)
    rungs = severities(parsed.name)
    columns = [batch.images, *(_corrupted(ref, severity, batch) for severity in rungs)]
    shown = [[_tile(image.numpy(), tile) for image in column] for column in columns]
    return _laid_out(shown, ["original", *map(str, rungs)])


def dataset_sheet(ref: str, *, images: int = 4, tile: int | None = None) -> Image.Image:
    """Images of a dataset in rows of eight, each class in turn, under their classes."""
    if images < 1:
        raise Misuse(f"`--images` must be at least 1, got {images}")
    data = load(ref)
    chosen = _in_turn([int(label) for label in data.labels], images)
    batch = _samples(ref, images, chosen)
    tiles = [_tile(image.numpy(), tile) for image in batch.images]
    side = max(each.width for each in tiles)
    classes = data.card.classes  # none where there are no labels
    names = [str(classes[int(label)]) if classes else "" for label in batch.labels]
    across = min(ACROSS, len(tiles))
    titles = [name[: max(4, side // 7)] for name in names]
    return _captioned(tiles, titles, across)


def _in_turn(labels: Sequence[int], count: int) -> list[int]:
    """The first sample of every class, then the second of each, up to `count`."""
    seen: dict[int, int] = {}
    turns = []
    for i, label in enumerate(labels):
        seen[label] = seen.get(label, 0) + 1
        turns.append((seen[label], label, i))
    return [i for _, _, i in sorted(turns)[:count]]


def _captioned(tiles: Sequence[Image.Image], titles: Sequence[str], across: int) -> Image.Image:
    width, height = (max(sides) for sides in zip(*(each.size for each in tiles), strict=True))
    rows = -(-len(tiles) // across)
    sheet = Image.new("RGB", (GAP + across * (width + GAP), rows * (HEADER + height + GAP)), "white")
    pen = ImageDraw.Draw(sheet)
    for i, (image, title) in enumerate(zip(tiles, titles, strict=True)):
        left, top = GAP + (i % across) * (width + GAP), (i // across) * (HEADER + height + GAP)
        pen.text((left + width / 2, top + HEADER / 2), title, fill="black", anchor="mm")
        sheet.paste(image, (left, top + HEADER))
    return sheet


def attack_sheet(
    texts: Mapping[str, str],
    *,
    model: str,
    dataset: str,
    images: int = 1,
    tile: int | None = None,
    tell: Callable[[str], object] = str,
) -> Image.Image:
    """A row per attack and image, a column per strength of its sweep, the original first; under each its strength.

    `texts` are sweeps (`sweep:attack=(pgd-linf),radii=[…]`) by the name of their row. The images are the first of the
    dataset that the model has right: an attack leaves others as they are. One of several that cannot be made, as of
    colours on grey images, is left out, and `tell` hears why.
    """
    if images < 1:
        raise Misuse(f"`--images` must be at least 1, got {images}")
    if not texts:
        raise Misuse("there is no sweep to draw", hint="such as sweep:attack=(pgd-linf),radii=[2/255,8/255]")
    classifier = ModelLoader(torch.device("cpu"), None).answering(load_model(model), load(dataset))
    batch = _right(_samples(dataset, SEARCHED), classifier, images, f"`{model}` on `{dataset}`")
    rows: list[ImageRow] = []
    for name, text in texts.items():
        inner, radii = _sweep(text)
        refs = [f"{inner}{',' if ':' in inner else ':'}radius={radius!r}" for radius in radii]
        try:
            attacked = [attack(classifier, batch.images, batch.labels, ref, ids=batch.ids).images for ref in refs]
        except HoldfastError as error:
            if len(texts) == 1:
                raise
            tell(f"{name} is left out: {error.problem}")
            continue
        made = [batch.images, *attacked]
        for i in range(len(batch)):
            titles = ("original", *(f"{radius:g}" for radius in radii))
            rows.append(ImageRow(name, titles, [_tile(column[i].numpy(), tile) for column in made]))
    if not rows:
        raise Misuse(f"no attack can be made on `{dataset}`", hint="choose another dataset")
    return _rows_laid_out(rows)


def sweeps_of(ref: str, dataset: str | None) -> dict[str, str]:
    """The sweeps of a suite by the name that each has in published results, or the one that a ref is."""
    name = ref.removeprefix("suite:")
    if name not in suites() and name == ref and not name.endswith(".toml"):
        return {str(parse_ref(_last(ref)).keywords.get("attack", ref)).strip("()"): ref}
    suite = load_suite(name, dataset=dataset)
    settings = {text: title for part in suite.parts for text, title in zip(part.scenarios, part.settings, strict=False)}
    sweeps = {text: _last(text) for text in suite.scenarios if _last(text).startswith("sweep:")}
    if not sweeps:
        raise Misuse(f"suite `{suite.name}` has no sweep over strengths of an attack", hint="suite:multirobustbench")
    return {settings.get(text, sweep): sweep for text, sweep in sweeps.items()}


def save_sheet(sheet: Image.Image, path: Path) -> None:
    """Writes the sheet in the format of the file's name."""
    if path.suffix.lower() not in FORMATS:
        raise Misuse(f"a contact sheet is {', '.join(FORMATS)}, got {path}", hint="--out sheet.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path, optimize=True, quality=80)  # a PNG has no quality and ignores it


class ImageRow(NamedTuple):
    """A line of a sheet: what it is of, and its images with a title each."""

    name: str
    titles: tuple[str, ...]
    images: list[Image.Image]


def _last(scenario: str) -> str:
    return split(scenario, "+")[-1]


def _sweep(text: str) -> tuple[str, list[float]]:
    """The attack of a sweep and its strengths, weakest first."""
    keywords = parse_ref(text).keywords
    inner, radii = keywords.get("attack"), keywords.get("radii")
    if not isinstance(inner, str) or not isinstance(radii, tuple):
        raise Misuse(
            f"`{text}` is no sweep with an attack and radii", hint="sweep:attack=(pgd-linf),radii=[2/255,8/255]"
        )
    registry.bind("attack", text)  # says what is wrong in it
    return inner.removeprefix("(").removesuffix(")"), sorted(float(str(radius)) for radius in radii)


def _right(batch: Batch, classifier: Classifier, images: int, where: str) -> Batch:
    """The first images that the classifier has right."""
    try:
        with torch.no_grad():
            right = (classifier(batch.images).argmax(1) == batch.labels).nonzero().flatten()[:images]
    except (Exception, SystemExit) as error:
        raise as_holdfast_error(error) from error
    if len(right) < images:
        raise Misuse(f"{where} is right on {len(right)} of the first {len(batch)} images, and {images} are asked for")
    return Batch(batch.images[right], batch.labels[right], tuple(batch.ids[i] for i in right.tolist()))


def _rows_laid_out(rows: Sequence[ImageRow]) -> Image.Image:
    """Names at the left, each image over its title; rows may differ in length."""
    width, height = rows[0].images[0].size
    beside = max(ImageDraw.Draw(Image.new("RGB", (1, 1))).textlength(row.name) for row in rows)
    left = 2 * GAP + int(beside)
    longest = max(len(row.images) for row in rows)
    sheet = Image.new("RGB", (left + longest * (width + GAP), GAP + len(rows) * (height + HEADER)), "white")
    pen = ImageDraw.Draw(sheet)
    for j, row in enumerate(rows):
        top = GAP + j * (height + HEADER)
        pen.text((GAP, top + height / 2), row.name, fill="black", anchor="lm")
        for i, (image, title) in enumerate(zip(row.images, row.titles, strict=True)):
            x = left + i * (width + GAP)
            sheet.paste(image, (x, top))
            pen.text((x + width / 2, top + height + HEADER / 2), title, fill="black", anchor="mm")
    return sheet


def _samples(dataset: str, images: int, chosen: Sequence[int] | None = None) -> Batch:
    data = load(dataset)
    indices = list(range(min(images, len(data.ids)))) if chosen is None else list(chosen)
    pixels, failed = data.images(indices)
    if failed:
        raise Misuse(next(iter(failed.values())), hint="choose another dataset, or fewer images")
    floats = pixels.to(torch.float32) / 255 if pixels.dtype == torch.uint8 else pixels
    return Batch(floats, torch.from_numpy(data.labels[indices]), tuple(data.ids[index] for index in indices))


def _corrupted(ref: str, severity: int, batch: Batch) -> torch.Tensor:
    text = f"{ref}{',' if ':' in ref else ':'}severity={severity}"
    change = registry.build(registry.bind("corruption", text))
    made: Changed = change(None, batch, Noise.of(0, batch.ids), width=len(batch))
    return made.images


def _tile(image: NDArray[np.float32], side: int | None) -> Image.Image:
    pixels = np.rint(image.clip(0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)
    made = Image.fromarray(pixels.repeat(3, axis=2) if pixels.shape[2] == 1 else pixels)
    if side is None:  # small images are hard to see: enlarge them by a whole factor, so that pixels stay pixels
        factor = max(1, 96 // max(made.size))
        return made.resize((made.width * factor, made.height * factor), Image.Resampling.NEAREST)
    return made.resize((side, side), Image.Resampling.LANCZOS if side < made.width else Image.Resampling.NEAREST)


def _laid_out(columns: Sequence[Sequence[Image.Image]], titles: Sequence[str]) -> Image.Image:
    width, height = columns[0][0].size
    size = (GAP + len(columns) * (width + GAP), HEADER + len(columns[0]) * (height + GAP))
    sheet = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(sheet)
    for i, (column, title) in enumerate(zip(columns, titles, strict=True)):
        left = GAP + i * (width + GAP)
        pen.text((left + width / 2, HEADER / 2), title, fill="black", anchor="mm")
        for j, image in enumerate(column):
            sheet.paste(image, (left, HEADER + j * (height + GAP)))
    return sheet
