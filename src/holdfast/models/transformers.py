"""Image classifiers of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.classifier import described
from holdfast.models.extras import optional


@register("model", "transformers", source="https://huggingface.co/models?pipeline_tag=image-classification")
def transformers_model(name: str) -> Classifier:
    """An image classifier of the hub: `transformers:google/vit-base-patch16-224`; its processor's numbers are inside.

    Differs from the processor: images of another size are resized bilinearly to the final size, without a crop.
    """
    transformers = optional("transformers", extra="transformers")
    try:
        processor = transformers.AutoImageProcessor.from_pretrained(name)
        net = transformers.AutoModelForImageClassification.from_pretrained(name)
    except Exception as error:
        hint = "the name is that of a page on huggingface.co/models; without a network it must be in the HF cache"
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
