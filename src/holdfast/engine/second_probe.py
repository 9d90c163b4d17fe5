"""What a model answers on probe images beside its logits: shares of its classes, and gradients.

Logits that are huge, as those of classes that are switched off, hide the others in a projection; shares show them. A
model may keep its answers and change its gradients, where a backward pass of one's own is mended: its rows under an
attack are others then. Both are kept with a run and compared like its first probe.
"""

from __future__ import annotations

import zlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.core.types import Classifier
from holdfast.engine.device import is_out_of_memory

Numbers = tuple[float, ...]
EACH = 3  # numbers of an image, in either part
FOLLOWED = 12  # images whose gradients are kept: every third or so
MOVED = 0.2  # of the length of a gradient: bends of a network move some of it from device to device
FEW = 2  # gradients that may be others: an image may lie at a bend


def second_probe(model: Classifier, images: Tensor) -> Numbers:
    """Of every image the size of its logits and projections of their softmax; of some the length of a gradient, and
    projections of it.
    """
    with torch.no_grad():
        shares = np.concatenate([_shares(model(part.clone())) for part in torch.split(images, 8)])
    some = images[:: max(1, len(images) // FOLLOWED)][:FOLLOWED]
    gradients = np.concatenate([_gradients(model, image[None]) for image in some])
    return tuple(float(value) for part in (shares, gradients) for value in part.ravel())


def second_alike(one: Numbers, other: Numbers, tolerance: float, *, images: int) -> bool:
    """Whether two probes of so many images are those of one behaviour; to runs of old, which have none, all fit."""
    if not one or not other:
        return True
    if len(one) != len(other) or len(one) % EACH:
        return False
    a, b = (np.array(each).reshape(-1, EACH) for each in (one, other))
    size = np.maximum(np.abs(a[:images, :1]), np.abs(b[:images, :1]))
    size = np.maximum(size, np.median(size))
    unit = np.concatenate([size, np.maximum(size, 1.0), np.maximum(size, 1.0)], axis=1)
    if (np.abs(a[:images] - b[:images]) > tolerance * unit).any():
        return False
    length = np.maximum(np.abs(a[images:, 0]), np.abs(b[images:, 0]))
    return int((np.abs(a[images:] - b[images:]).max(axis=1, initial=0.0) > MOVED * length).sum()) <= FEW


def gradient_words(probe: Numbers, images: int) -> list[str]:
    """The gradients of a probe, so roughly that another device has the same words."""
    rows = np.array(probe[EACH * images :]).reshape(-1, EACH)
    clear = np.where(np.abs(rows) > MOVED * np.abs(rows[:, :1]), np.sign(rows), 0.0).astype(int)
    return ["".join("0+-"[sign] for sign in row) for row in clear.tolist()]


def _shares(logits: Tensor) -> NDArray[np.float64]:
    values = logits.detach().to("cpu", torch.float64)
    values = torch.nan_to_num(values, nan=-np.inf, posinf=np.finfo(np.float64).max / 4, neginf=-np.inf)
    top = values.topk(min(2, values.shape[1]), dim=1).values
    size = torch.where(top.isfinite(), top, 0.0).abs().sum(1)
    shares = torch.nan_to_num(values.softmax(dim=1), nan=0.0)
    return np.column_stack([size.numpy(), shares.numpy() @ _signs(values.shape[1])])


def _gradients(model: Classifier, image: Tensor) -> NDArray[np.float64]:
    """Length and two projections of the gradient of a keyed sum of logits; zeros where there is none."""
    nothing = np.zeros((1, EACH))
    if not model.card.differentiable:
        return nothing
    leaf = image.detach().clone().requires_grad_()
    try:
        with torch.enable_grad():
            logits = model(leaf)
            signs = torch.from_numpy(_signs(logits.shape[1])[:, 0]).to(logits.device, torch.float32)
            gradient: Tensor | None = torch.autograd.grad((logits.float() * signs).sum(), leaf, allow_unused=True)[0]
    except Exception as error:
        if is_out_of_memory(error):
            raise
        return nothing
    if gradient is None:
        return nothing
    values = gradient.detach().to("cpu", torch.float64).flatten().numpy()
    if not np.isfinite(values).all():
        return np.array([[-1.0, 0.0, 0.0]])
    return np.concatenate([[np.linalg.norm(values)], values @ _signs(len(values))])[None]


def _signs(count: int) -> NDArray[np.float64]:
    return np.random.default_rng(zlib.crc32(b"second probe")).choice([-1.0, 1.0], (count, EACH - 1))
