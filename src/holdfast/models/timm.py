"""Networks of the timm library, with or without its weights."""

from __future__ import annotations

import math
from types import ModuleType

from torch import nn

from holdfast.core.errors import unknown
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.classifier import described
from holdfast.models.extras import made_by, optional

HUB = ("hf-hub:", "hf_hub:", "local-dir:")  # names that timm takes from elsewhere


@register("model", "timm", source="https://github.com/huggingface/pytorch-image-models")
def timm_model(name: str) -> Classifier:
    """A pretrained timm model: `timm:resnet50.a1_in1k`; mean, std and size of its config are inside.

    Differs from timm's own evaluation: images of another size are resized to the model's, without its central crop;
    `own-size:DATASET` crops as it does.
    """
    timm = optional("timm", extra="timm")
    data = optional("timm.data", extra="timm")
    net = _created(timm, name, pretrained=True)
    config = data.resolve_model_data_config(net)
    channels, size, _ = config["input_size"]
    facts = getattr(net, "pretrained_cfg", None) or {}
    return described(
        net,
        name=name,
        classes=getattr(net, "num_classes", None),
        channels=channels,
        size=size,
        mean=config["mean"],
        std=config["std"],
        resize=math.floor(size / config["crop_pct"]),
        licence=str(facts.get("license") or ""),
        paper=str(facts.get("paper_ids") or ""),
    )


@register("architecture", "timm", source="https://github.com/huggingface/pytorch-image-models")
def timm_architecture(name: str, *, classes: int | None = None, channels: int = 3) -> nn.Module:
    """A timm network without weights: `file:w.safetensors,architecture=timm:resnet50`."""
    return _created(optional("timm", extra="timm"), name, pretrained=False, classes=classes, channels=channels)


def _created(
    timm: ModuleType, name: str, *, pretrained: bool, classes: int | None = None, channels: int = 3
) -> nn.Module:
    if not name.startswith(HUB) and not timm.is_model(name):
        raise unknown("timm model", name, timm.list_models(), otherwise="timm.list_models() names them all")
    asked = {"num_classes": classes, "in_chans": None if channels == 3 else channels}
    options = {name: value for name, value in asked.items() if value is not None}
    hint = "a name with its tag has weights: timm.list_pretrained(); without a network, put them in the HF cache"
    return made_by("timm", name, lambda: timm.create_model(name, pretrained=pretrained, **options), hint=hint)
