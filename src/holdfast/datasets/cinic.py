"""Sets in the classes of CIFAR-10 that come as folders of PNG files: CINIC-10, and CIFAR10-R made from ImageNet-R."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.datasets.cifar import CLASSES, SIDE, CifarAnswers, cifar_answers, cifar_reference
from holdfast.datasets.class_folders import Choice, Piece, Plan, pictures, pieces_in, place_of
from holdfast.datasets.downloads import Download, File, Form, Mirror, builder, published
from holdfast.datasets.image_files import DAMAGE, Encoded, Framing, in_parallel
from holdfast.datasets.imagenet_classes import groups

CINIC_SOURCE = "arXiv:1810.03505"
ABSENT = ("airplane", "horse")  # ImageNet-R has none of their classes

CINIC10 = published(
    Download(
        "cinic10",
        (
            Form(
                (File("CINIC-10.tar", ""),),
                (
                    Mirror(
                        "https://datashare.ed.ac.uk/bitstream/handle/10283/3192/{name}.gz",
                        checksum="md5:6ee4d0c996905fe93221de577967a372",
                    ),
                ),
            ),
        ),
        megabytes=690,
        licence="CC BY 4.0 (the collection)",
        folders=("test", "CINIC-10/test"),
    )
)
CIFAR10_R = published(
    Download(
        "cifar10-r",
        (),
        megabytes=16,
        licence="as ImageNet-R",
        folders=(*(name for name in CLASSES if name not in ABSENT), "cifar-10-r"),
        by_hand="make it from ImageNet-R: `holdfast data build cifar10-r --from FOLDER_OR_TAR`",
    )
)


@register("dataset", "cinic10", source=CINIC_SOURCE, tags=("natural", "colour"))
def cinic10(
    *,
    part: Literal["imagenet", "cifar", "all"] = "imagenet",
    split: Literal["test", "train", "valid"] = "test",
    answers: CifarAnswers = "cifar10",
    ids: str | None = None,
    first: int | None = None,
) -> Encoded:
    """CINIC-10: ImageNet's images at 32x32 in the classes of CIFAR-10, 70,000 per split.

    `part=cifar` are the 20,000 images that a split has from CIFAR-10 itself. OODRobustBench takes the first 10,000 of
    a list of its own: `ids=FILE,first=10000`.
    """
    place = place_of(CINIC10, ("CINIC-10", split, f"CINIC-10/{split}"), [*CLASSES, f"{split}/{CLASSES[0]}"])
    inside = split if place.is_file() or (place / split).is_dir() else ""
    wanted: dict[str, Callable[[Piece], bool]] = {
        "imagenet": lambda piece: piece.name.startswith("n"),
        "cifar": lambda piece: piece.name.startswith("cifar10-"),
        "all": lambda piece: True,  # noqa: ARG005
    }
    pieces = [piece for piece in pieces_in(place, inside) if wanted[part](piece)]
    plan = _plan(f"cinic10-{split} {part}", answers, CINIC_SOURCE, CINIC10.licence)
    return pictures(plan, pieces, place, Choice(ids, first))


@register("dataset", "cifar10-r", source="arXiv:2310.12793", tags=("natural", "colour"))
def cifar10_r(*, answers: CifarAnswers = "cifar10", ids: str | None = None, first: int | None = None) -> Encoded:
    """CIFAR10-R: the renditions of ImageNet-R in eight classes of CIFAR-10, at 32x32; no airplanes, no horses.

    Labels are those of CIFAR-10, and a model may answer with all ten.
    """
    place = place_of(CIFAR10_R, ("cifar-10-r",), CIFAR10_R.folders[:-1])
    plan = _plan("cifar10-r", answers, "arXiv:2310.12793", CIFAR10_R.licence, absent=ABSENT)
    return pictures(plan, pieces_in(place), place, Choice(ids, first))


def _plan(name: str, answers: CifarAnswers, source: str, licence: str, *, absent: tuple[str, ...] = ()) -> Plan:
    return Plan(
        name=name,
        classes=CLASSES,
        labels={shown: label for label, shown in enumerate(CLASSES) if shown not in absent},
        framing=Framing(3),
        size=SIDE,
        answers=cifar_answers(answers),
        reference=cifar_reference(answers),
        licence=licence,
        source=source,
    )


@builder("cifar10-r")
def build_cifar10_r(source: Path, target: Path) -> int:
    """CIFAR10-R from the folder or tar of ImageNet-R: its classes that CINIC-10 knows, box-downscaled to 32x32.

    Files are named as in OODRobustBench, `dog/n02085620_misc_36.png`. Differs from CINIC-10 in nothing but the source.
    """
    meaning = {wnid: name for name, wnids in groups("cifar10").items() for wnid in wnids}
    if not source.exists():
        raise Misuse(f"there is nothing at {source}", hint="give the folder or the tar of ImageNet-R")
    pieces = [piece for piece in pieces_in(source) if piece.folder in meaning]
    gone = [name for name in CLASSES if name not in ABSENT and name not in {meaning[p.folder] for p in pieces}]
    if gone:
        raise HoldfastError(
            f"{source} has no images for `{gone[0]}`", hint="give the folder or tar that holds n01443537, n01484850, …"
        )
    for name in set(meaning.values()) - set(ABSENT):
        (target / name).mkdir(parents=True, exist_ok=True)

    def shrink(piece: Piece) -> None:
        made = target / meaning[piece.folder] / f"{piece.folder}_{Path(piece.name).stem}.png"
        try:
            with Image.open(piece.opened()) as image:
                small(image).save(made)
        except DAMAGE as damage:
            raise HoldfastError(f"{piece.id} of {source} cannot be read: {damage}", hint="get it again") from damage

    in_parallel(shrink, pieces)
    return len(pieces)


def small(image: Any) -> Any:
    """An image at 32x32 by the box filter, its sides squeezed to a square, as CINIC-10's are."""
    return image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BOX)
