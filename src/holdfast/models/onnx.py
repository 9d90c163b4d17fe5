"""Models exported to ONNX: forward only, so for corruptions, shifts and attacks that look at logits alone."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.classifier import Numbers, described
from holdfast.models.extras import optional

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
    file = Path(path).expanduser()
    if not file.is_file():
        raise Misuse(f"there is no ONNX file `{path}`", hint="a relative path starts at the current folder")
    try:
        available = runtime.get_available_providers()
        session = runtime.InferenceSession(str(file), providers=[name for name in PROVIDERS if name in available])
    except Exception as error:
        why = str(error).splitlines()[0]
        raise HoldfastError(f"`{path}` cannot be read as ONNX: {why}", hint="export or download it again") from error
    net = OnnxNet(session, file)
    classifier = described(
        net, name=file.stem, classes=classes, channels=net.channels, size=size or net.size, mean=mean, std=std
    )
    classifier.card = replace(classifier.card, differentiable=False)
    return classifier


class OnnxNet(nn.Module):
    """An ONNX session as a module; the digest of its file stands for its weights.

    Where the file fixes the batch size, batches are cut and filled up to it.
    """

    def __init__(self, session: Any, path: Path) -> None:
        super().__init__()
        self.session = session
        self.training = False
        self.register_buffer("file", torch.tensor(list(_file_digest(path)), dtype=torch.uint8))
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
        self.batch = batch
        self.channels = channels
        self.size = height if height == width else None

    def forward(self, images: Tensor) -> Tensor:
        pixels = images.detach().cpu().numpy().astype(self.element, copy=False)
        width = self.batch or len(pixels) or 1
        parts = [self._logits(pixels[start : start + width]) for start in range(0, len(pixels), width)]
        return torch.from_numpy(np.concatenate(parts).astype(np.float32, copy=False)).to(images.device)

    def _logits(self, pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        count = len(pixels)
        if self.batch is not None and count < self.batch:
            pixels = np.concatenate([pixels, np.repeat(pixels[-1:], self.batch - count, axis=0)])
        logits: np.ndarray[Any, Any] = self.session.run([self.exit], {self.entrance: pixels})[0]
        return logits[:count]


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
