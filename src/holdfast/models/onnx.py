"""Models exported to ONNX: forward only, so for corruptions, shifts and attacks that look at logits alone."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.classifier import Numbers, described
from holdfast.models.extras import optional
from holdfast.models.programs import FileNet, existing_file

PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")  # TensorRT would compile for minutes
ELEMENTS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
LOCATION = re.compile(rb"\x0a\x08location\x12(.)", re.DOTALL)  # how protobuf writes where external weights lie


@register("model", "onnx", source="https://onnxruntime.ai")
def onnx_model(
    path: str,
    *,
    classes: int | None = None,
    size: int | None = None,
    mean: Numbers = None,
    std: Numbers = None,
) -> Classifier:
    """A forward-only model: `onnx:model.onnx`; attacks that follow gradients refuse it.

    The first input takes images (NCHW), the first output gives logits. A size fixed in the file is used.
    """
    runtime = optional("onnxruntime", extra="onnx")
    file = existing_file(path, "ONNX file")
    try:
        available = runtime.get_available_providers()
        session = runtime.InferenceSession(str(file), providers=[name for name in PROVIDERS if name in available])
    except Exception as error:
        why = str(error).splitlines()[0]
        raise HoldfastError(f"`{path}` cannot be read as ONNX: {why}", hint="export or download it again") from error
    net = OnnxNet(session, file)
    return described(
        net,
        name=file.stem,
        classes=classes,
        channels=net.channels,
        size=size or net.size,
        mean=mean,
        std=std,
        differentiable=False,
    )


class OnnxNet(FileNet):
    """An ONNX session as a module."""

    def __init__(self, session: Any, path: Path) -> None:
        super().__init__(_file_digest(path))
        self.session = session
        first = session.get_inputs()[0]
        if len(first.shape) != 4 or first.type not in ELEMENTS:
            raise HoldfastError(
                f"`{path}` takes {first.type} of shape {first.shape}, not images",
                hint="its first input must be floating-point images: (batch, channels, height, width)",
            )
        self.entrance = first.name
        self.exit = session.get_outputs()[0].name
        self.element = ELEMENTS[first.type]
        batch, channels, height, width = (item if isinstance(item, int) else None for item in first.shape)
        self.batch, self.channels = batch, channels
        self.size = height if height == width else None

    def logits(self, images: Tensor) -> Tensor:
        pixels = images.detach().cpu().numpy().astype(self.element, copy=False)
        logits: np.ndarray[Any, Any] = self.session.run([self.exit], {self.entrance: pixels})[0]
        return torch.from_numpy(logits.astype(np.float32, copy=False)).to(images.device)


def _file_digest(path: Path) -> bytes:
    """sha256 of the file and of the weight files it points to."""
    content = path.read_bytes()
    total = hashlib.sha256(content)
    names = {content[match.end() : match.end() + match[1][0]] for match in LOCATION.finditer(content)}
    for name in sorted(names):
        beside = path.parent / name.decode(errors="replace")
        if beside.is_file():
            total.update(beside.read_bytes())
    return total.digest()
