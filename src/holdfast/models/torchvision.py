"""Networks of torchvision, with or without its weights."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from torch import nn

from holdfast.core.errors import unknown
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.classifier import described
from holdfast.models.extras import made_by, optional


@register("model", "torchvision", source="https://pytorch.org/vision/stable/models.html")
def torchvision_model(name: str, *, weights: str = "DEFAULT") -> Classifier:
    """A pretrained torchvision classifier: `torchvision:resnet50,weights=IMAGENET1K_V1`; its transforms are inside.

    Differs from torchvision's own evaluation: images of another size are resized to the crop size, without a crop;
    `own-size:DATASET` resizes and crops as it does.
    """
    models = optional("torchvision.models", extra="torchvision")
    _must_exist(models, name)
    choices = models.get_model_weights(name)
    if weights not in choices.__members__:
        raise unknown(f"weights of `{name}`", weights, choices.__members__)
    chosen = choices[weights]
    transforms = chosen.transforms()
    net = _created(models, name, weights=chosen)
    return described(
        net,
        name=name,
        classes=len(chosen.meta["categories"]),
        channels=3,
        size=int(transforms.crop_size[0]),
        mean=tuple(transforms.mean),
        std=tuple(transforms.std),
        resize=int(transforms.resize_size[0]),
        paper=str(chosen.meta.get("recipe", "")),
        notes=f"weights {chosen.name}",
    )


@register("architecture", "torchvision", source="https://pytorch.org/vision/stable/models.html")
def torchvision_architecture(name: str, *, classes: int | None = None) -> nn.Module:
    """A torchvision network without weights: `file:w.pth,architecture=torchvision:resnet50`."""
    models = optional("torchvision.models", extra="torchvision")
    _must_exist(models, name)
    return _created(models, name, weights=None, classes=classes)


def _must_exist(models: ModuleType, name: str) -> None:
    known = models.list_models(module=models)
    if name not in known:
        raise unknown("torchvision classifier", name, known)


def _created(models: ModuleType, name: str, *, weights: Any, classes: int | None = None) -> nn.Module:
    options = {} if classes is None else {"num_classes": classes}
    hint = "without a network, put the weights in the folder of torch.hub.get_dir()"
    return made_by("torchvision", name, lambda: models.get_model(name, weights=weights, **options), hint=hint)
