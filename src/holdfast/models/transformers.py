"""Image classifiers of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.classifier import described
from holdfast.models.extras import optional


@register("model", "transformers", source="https://huggingface.co/models?pipeline_tag=image-classification")
def transformers_model(name: str) -> Classifier:
    """An image classifier of the hub: `transformers:google/vit-base-patch16-224`; its processor's numbers are inside.

    Differs from the processor: images of another size are resized bilinearly to the final size, without a crop.
    """
    return pretrained_classifier(name)


def pretrained_classifier(name: str, *, revision: str | None = None) -> Classifier:
    """The classifier of a page of the hub or of a folder, at a revision where one is given."""
    source = _folder_or_name(name)
    transformers = optional("transformers", extra="transformers")
    pinned = {} if revision is None else {"revision": revision}
    try:
        processor = transformers.AutoImageProcessor.from_pretrained(source, **pinned)
        net = transformers.AutoModelForImageClassification.from_pretrained(source, **pinned)
    except Exception as error:
        hint = "the name is that of a page on huggingface.co/models; without a network it must be in the HF cache"
        if not Path(source).is_dir():
            hint = f"there is no folder `{name}` here, so it is taken for a page of huggingface.co/models; {hint}"
        raise HoldfastError(f"transformers cannot load `{name}`: {error}", hint=hint) from error
    if getattr(processor, "rescale_offset", False):
        problem = f"the processor of `{name}` moves pixels by an offset before normalising, which is not supported"
        raise HoldfastError(problem, hint="use python:module:factory with the preprocessing in the module")
    normalises = getattr(processor, "do_normalize", True)
    return described(
        Logits(net.eval()),
        name=name,
        classes=net.config.num_labels,
        channels=int(getattr(net.config, "num_channels", 3)),
        size=_size(processor),
        mean=tuple(processor.image_mean) if normalises else None,
        std=tuple(processor.image_std) if normalises else None,
    )


def _folder_or_name(name: str) -> str:
    """What to load: a folder of this machine, or the hub's name.

    A name of the hub is `OWNER/NAME` or `NAME`; whatever else is a folder of this machine, which must be there.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            problem = f"the folder {folder} holds no model of transformers: there is no config.json in it"
            raise HoldfastError(problem, hint="`model.save_pretrained(FOLDER)` writes one")
    elif name.startswith((".", "/", "~")) or name.count("/") > 1 or name.endswith("/"):
        kind = "is a file, not a folder" if folder.is_file() else "does not exist"
        raise Misuse(f"the folder {folder} {kind}", hint="give the folder that `save_pretrained` wrote, or OWNER/NAME")
    return str(folder) if folder.is_dir() else name


class Logits(nn.Module):
    """A network of the transformers library that returns its logits alone."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.training = net.training

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.net(pixel_values=images).logits
        return logits


def _size(processor: Any) -> int | None:
    """Pixels on a side after the processor is done; its versions write them as a number, a dict or a record."""
    crops = getattr(processor, "do_center_crop", False) and getattr(processor, "crop_size", None)
    size = processor.crop_size if crops else getattr(processor, "size", None)
    if isinstance(size, int):
        return size
    for name in ("height", "shortest_edge"):
        side = size.get(name) if isinstance(size, Mapping) else getattr(size, name, None)
        if side is not None:
            return int(side)
    return None
