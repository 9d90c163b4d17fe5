"""Models that give no gradients: found by one backward pass on one image, before an attack would need them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.core.errors import HoldfastError
from holdfast.core.refs import Ref
from holdfast.core.types import Change, Classifier, Dataset
from holdfast.engine.loading import on_device

TRIED = 8  # images looked at for one that can be read


class ForwardOnly:
    """Refuses attacks that follow gradients where a model gives none; each model is tried once per size of images."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.tried: dict[tuple[int, tuple[int, int]], bool] = {}

    def refuse(self, model: Classifier, dataset: Dataset, changes: Sequence[tuple[Ref, Change]]) -> None:
        """An error where one of the changes needs gradients that the model does not give."""
        needs = [ref for ref, change in changes if change.cost.backwards]
        if not needs or (model.card.differentiable and self._flows(model, dataset)):
            return
        raise HoldfastError(
            f"`{model.card.name}` gives no gradients, which `{needs[0].name}` needs",
            hint="use corruptions and black-box attacks such as `square-linf`, or a model in which nothing (numpy, "
            "detach, no_grad) cuts the way from logits to images, such as `file:`, `python:` with plain torch",
        )

    def forget(self) -> None:
        self.tried.clear()

    def _flows(self, model: Classifier, dataset: Dataset) -> bool:
        place = (id(model), dataset.card.size)
        if place not in self.tried:
            image = _readable(dataset, self.device)
            self.tried[place] = image is None or gives_gradients(model, image)
        return self.tried[place]


def gives_gradients(model: Classifier, images: Tensor) -> bool:
    """Whether a gradient of the logits reaches the images; a model that answers in no way is left to fail later."""
    leaf = images.detach().clone().requires_grad_()
    try:
        with torch.enable_grad():
            logits = model(leaf)
            if not logits.requires_grad:
                return False
            (gradient,) = torch.autograd.grad(logits.float().sum(), leaf, allow_unused=True)
    except Exception:  # noqa: BLE001 - other people's code; numpy refuses what has a gradient
        return not _answers(model, images)
    return gradient is not None


def _answers(model: Classifier, images: Tensor) -> bool:
    try:
        with torch.no_grad():
            model(images)
    except Exception:  # noqa: BLE001 - other people's code
        return False
    return True


def _readable(dataset: Dataset, device: torch.device) -> Tensor | None:
    """The first image that can be read."""
    for place in range(min(TRIED, len(dataset.ids))):
        found = dataset.images([place])
        if not found.failed:
            return on_device(found.pixels, device)
    return None
