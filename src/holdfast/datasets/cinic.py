"""Sets in the classes of CIFAR-10 that come as folders of PNG files: CINIC-10, and CIFAR10-R made from ImageNet-R."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from PIL import Image

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.core.types import DatasetCard
from holdfast.datasets.cifar import CLASSES, SIDE, CifarClassMap, cifar_label_map, cifar_reference
from holdfast.datasets.class_folders import (
    ImageFile,
    Selection,
    checked_dataset,
    image_files_in,
    locate_images,
)
from holdfast.datasets.downloads import Mirror, builder, form, register_download
from holdfast.datasets.image_files import DAMAGE, Framing, ImageFiles, in_parallel
from holdfast.datasets.imagenet_classes import groups

CINIC_SOURCE = "arXiv:1810.03505"
LABELS = {name: label for label, name in enumerate(CLASSES)}
ABSENT = ("airplane", "horse")  # ImageNet-R has none of their classes

CINIC10 = register_download(
    "cinic10",
    form(
        {"CINIC-10.tar": ""},
        Mirror(
            "https://datashare.ed.ac.uk/bitstream/handle/10283/3192/{name}.gz",
            checksum="md5:6ee4d0c996905fe93221de577967a372",
        ),
    ),
    megabytes=690,
    licence="CC BY 4.0 (the collection)",
    folders=("test", "CINIC-10/test"),
)
CIFAR10_R = register_download(
    "cifar10-r",
    megabytes=16,
    licence="as ImageNet-R",
    folders=(*(name for name in CLASSES if name not in ABSENT), "cifar-10-r"),
    by_hand="make it from ImageNet-R: `holdfast data build cifar10-r --from FOLDER_OR_TAR`",
)


@register("dataset", "cinic10", source=CINIC_SOURCE, tags=("natural", "colour"))
def cinic10(
    *,
    part: Literal["imagenet", "cifar", "all"] = "imagenet",
    split: Literal["test", "train", "valid"] = "test",
    answers: CifarClassMap = "cifar10",
    ids: str | None = None,
    first: int | None = None,
) -> ImageFiles:
    """CINIC-10: ImageNet's images at 32x32 in the classes of CIFAR-10, 70,000 per split.

    `part=cifar` are the 20,000 images that a split has from CIFAR-10 itself. OODRobustBench takes the first 10,000 of
    a list of its own: `ids=FILE,first=10000`.
    """
    path = locate_images(CINIC10, ("CINIC-10", split, f"CINIC-10/{split}"), [*CLASSES, f"{split}/{CLASSES[0]}"])
    inside = split if path.is_file() or (path / split).is_dir() else ""
    prefix = {"imagenet": "n", "cifar": "cifar10-", "all": ""}[part]
    files = [file for file in image_files_in(path, inside) if file.name.startswith(prefix)]
    card = _card(f"cinic10-{split} {part}", answers, CINIC_SOURCE, CINIC10.licence)
    return checked_dataset(card, LABELS, files, path, Selection(ids, first), framing=Framing(3))


@register("dataset", "cifar10-r", source="arXiv:2310.12793", tags=("natural", "colour"))
def cifar10_r(*, answers: CifarClassMap = "cifar10", ids: str | None = None, first: int | None = None) -> ImageFiles:
    """CIFAR10-R: the renditions of ImageNet-R in eight classes of CIFAR-10, at 32x32; no airplanes, no horses.

    Labels are those of CIFAR-10, and a model may answer with all ten.
    """
    path = locate_images(CIFAR10_R, ("cifar-10-r",), CIFAR10_R.folders[:-1])
    card = _card("cifar10-r", answers, "arXiv:2310.12793", CIFAR10_R.licence)
    labels = {name: label for name, label in LABELS.items() if name not in ABSENT}
    return checked_dataset(card, labels, image_files_in(path), path, Selection(ids, first), framing=Framing(3))


def _card(name: str, answers: CifarClassMap, source: str, licence: str) -> DatasetCard:
    label_map, compared_with = cifar_label_map(answers), cifar_reference(answers)
    return DatasetCard(name, CLASSES, 3, (SIDE, SIDE), "", licence, source, answers=label_map, reference=compared_with)


@builder("cifar10-r")
def build_cifar10_r(source: Path, target: Path) -> int:
    """CIFAR10-R from the folder or tar of ImageNet-R: its classes that CINIC-10 knows, box-downscaled to 32x32.

    Files are named as in OODRobustBench, `dog/n02085620_misc_36.png`. Differs from CINIC-10 in nothing but the source.
    """
    meaning = {wnid: name for name, wnids in groups("cifar10").items() for wnid in wnids}
    if not source.exists():
        raise Misuse(f"there is nothing at {source}", hint="give the folder or the tar of ImageNet-R")
    files = [file for file in image_files_in(source) if file.folder in meaning]
    gone = [name for name in CLASSES if name not in ABSENT and name not in {meaning[file.folder] for file in files}]
    if gone:
        raise HoldfastError(
            f"{source} has no images for `{gone[0]}`", hint="give the folder or tar that holds n01443537, n01484850, …"
        )
    for name in set(meaning.values()) - set(ABSENT):
        (target / name).mkdir(parents=True, exist_ok=True)

    def shrink(file: ImageFile) -> None:
        small_file = target / meaning[file.folder] / f"{file.folder}_{Path(file.name).stem}.png"
        try:
            with Image.open(file.opened()) as image:
                small(image).save(small_file)
        except DAMAGE as damage:
            raise HoldfastError(f"{file.id} of {source} cannot be read: {damage}", hint="get it again") from damage

    in_parallel(shrink, files)
    return len(files)


def small(image: Any) -> Any:
    """An image at 32x32 by the box filter, its sides squeezed to a square, as CINIC-10's are."""
    return image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BOX)
