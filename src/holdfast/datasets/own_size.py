"""Any dataset at the size and crop that the evaluated model is used with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from holdfast.core.errors import Misuse
from holdfast.core.refs import Ref
from holdfast.core.registry import register, registry
from holdfast.core.types import Dataset, ModelCard
from holdfast.datasets.subsample import ChosenSamples

OWN_SIZE = "own-size"
USUAL_CROP = 0.875  # of the shorter side, where a model's card does not say


@register("dataset", OWN_SIZE, tags=("built",))
def own_size(dataset: str, *, size: int | None = None, resize: int | None = None) -> ChosenSamples:
    """A dataset at the size of the evaluated model, resized and cropped as its card says: `own-size:imagenet-a`.

    `holdfast evaluate` fills in `size` and `resize` from the card of each model: shorter side to `resize`, then the
    centre. Without a model, or for a dataset whose images have one size, it is the dataset itself. One that is stored
    cropped (ImageNet-C) is only resized.
    """
    inner = registry.bind("dataset", dataset)
    args = dict(inner.args)
    if resize is not None and (size is None or resize < size):
        raise Misuse(
            f"`resize={resize}` must be at least `size`, got size={size or 'none'}", hint="resize=256,size=224"
        )
    if size is not None and "size" in args:
        args["size"] = size
        if args.get("resize") is not None:
            args["resize"] = max(size, round(size / USUAL_CROP)) if resize is None else resize
        inner = replace(inner, args=tuple(args.items()))
    whole: Dataset = registry.build(inner)
    framing = "" if size is None else f"@{args.get('size')}/{args.get('resize')}"
    reference = f"{OWN_SIZE}:({whole.card.reference})" if whole.card.reference else ""
    card = replace(whole.card, fingerprint=f"{whole.card.fingerprint}{framing}", reference=reference)
    return ChosenSamples(card, whole.ids, whole.labels, whole, np.arange(len(whole.ids)))


def sized_for(ref: Ref, card: ModelCard) -> Ref:
    """The dataset as it is built for a model: `own-size` with what the model's card says."""
    if ref.name != OWN_SIZE or ref.arg("size") is not None or card.size is None:
        return ref
    args = dict(ref.args) | {"size": card.size, "resize": card.resize}
    return replace(ref, args=tuple(args.items()))
