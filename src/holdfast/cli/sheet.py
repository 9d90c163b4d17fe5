"""A contact sheet: sample images under every severity of a corruption, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.errors import Misuse
from holdfast.core.refs import parse_ref
from holdfast.core.registry import registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image
    from torch import Tensor

    from holdfast.core.types import Batch, Changed

DATASET = "scenes"
GAP, HEADER = 4, 16  # pixels
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


def contact_sheet(ref: str, *, dataset: str = DATASET, images: int = 4, tile: int | None = None) -> Image:
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


def save_sheet(sheet: Image, path: Path) -> None:
    """Writes the sheet in the format of the file's name."""
    if path.suffix.lower() not in FORMATS:
        raise Misuse(f"a contact sheet is {', '.join(FORMATS)}, got {path}", hint="--out sheet.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path, optimize=True, quality=80)  # a PNG has no quality and ignores it


def _samples(dataset: str, images: int) -> Batch:
    import torch

    from holdfast.core.types import Batch
    from holdfast.datasets import load

    data = load(dataset)
    indices = list(range(min(images, len(data.ids))))
    pixels, failed = data.images(indices)
    if failed:
        raise Misuse(next(iter(failed.values())), hint="choose another dataset, or fewer images")
    floats = pixels.to(torch.float32) / 255 if pixels.dtype == torch.uint8 else pixels
    return Batch(floats, torch.from_numpy(data.labels[indices]), tuple(data.ids[index] for index in indices))


def _corrupted(ref: str, severity: int, batch: Batch) -> Tensor:
    from holdfast.core.noise import Noise

    text = f"{ref}{',' if ':' in ref else ':'}severity={severity}"
    change = registry.build(registry.bind("corruption", text))
    made: Changed = change(None, batch, Noise.of(0, batch.ids), width=len(batch))
    return made.images


def _tile(image: NDArray[np.float32], side: int | None) -> Image:
    import numpy as np
    from PIL import Image

    pixels = np.rint(image.clip(0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)
    made = Image.fromarray(pixels.repeat(3, axis=2) if pixels.shape[2] == 1 else pixels)
    if side is None:  # small images are hard to see: enlarge them by a whole factor, so that pixels stay pixels
        factor = max(1, 96 // max(made.size))
        return made.resize((made.width * factor, made.height * factor), Image.Resampling.NEAREST)
    return made.resize((side, side), Image.Resampling.LANCZOS if side < made.width else Image.Resampling.NEAREST)


def _laid_out(columns: Sequence[Sequence[Image]], titles: Sequence[str]) -> Image:
    from PIL import Image, ImageDraw

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
