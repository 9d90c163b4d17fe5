"""A classifier whose logits go through a dataset's label map, with gradients."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from holdfast.core.labels import LabelMap
from holdfast.core.refs import digest
from holdfast.core.types import Classifier, FastVersion, fast_version_of
from holdfast.models.classifier import TorchClassifier, at_side, device_of, in_training_mode, normalised

BELOW = 10.0  # logits between the lowest real logit and that of a class that the model does not know


def with_label_map(model: Classifier, label_map: LabelMap, *, side: int | None = None) -> Classifier:
    """The model with its logits mapped, and images brought to `side` first; layers of it where it is a network."""
    assert model.card.classes == label_map.known, "the label map is for another number of classes"
    if not isinstance(model, TorchClassifier):
        return LabelMapped(model, label_map, side)
    layer = LabelMapLayer(label_map).to(device_of(model) or torch.device("cpu"))
    inner = model.net if side is None else normalised(model.net, None, None, side).to(layer.members.device)
    net = inner if label_map.is_whole else nn.Sequential(inner, layer)
    net.training = inner.training = in_training_mode(model.net)
    mapped = TorchClassifier(net, replace(model.card, classes=label_map.classes))
    mapped.was_training = model.was_training
    mapped.live = model.live
    mapped.label_map = map_digest(label_map, model.label_map, side=side)
    return mapped


def map_digest(label_map: LabelMap, before: str = "", *, side: int | None = None) -> str:
    """What predictions depend on besides the model; `before`: of a map that comes first, `side`: of the images."""
    facts = [before, label_map.known, label_map.groups, label_map.other, label_map.merge]
    return digest(facts if side is None else [*facts, side])


class LabelMapLayer(nn.Module):
    """Logits of a model's classes to logits of a dataset's."""

    members: Tensor
    missing: Tensor
    unknown: Tensor
    rest: Tensor

    def __init__(self, label_map: LabelMap) -> None:
        super().__init__()
        widest = max(map(len, label_map.groups))
        # an empty group borrows class 0, so that no value is infinite on the way to being replaced
        padded = [[*group, *([0] * (widest - len(group)))] for group in label_map.groups]
        present = [[index < max(1, len(group)) for index in range(widest)] for group in label_map.groups]
        self.shape = (len(label_map.groups), widest)
        self.merge, self.other = label_map.merge, label_map.other
        self.some_unknown = not all(label_map.groups)
        self.register_buffer("members", torch.tensor(padded).flatten(), persistent=False)
        self.register_buffer("missing", ~torch.tensor(present), persistent=False)
        self.register_buffer("unknown", torch.tensor([not group for group in label_map.groups]), persistent=False)
        self.register_buffer("rest", torch.tensor(label_map.rest, dtype=torch.int64), persistent=False)
        self.training = False

    def forward(self, logits: Tensor) -> Tensor:
        mapped = logits.index_select(1, self.members)
        if self.shape[1] > 1:
            grouped = mapped.view(mapped.shape[0], *self.shape).masked_fill(self.missing, -torch.inf)
            mapped = self._merged(grouped)
        if self.some_unknown:
            mapped = torch.where(self.unknown, logits.detach().amin(1, keepdim=True) - BELOW, mapped)
        if self.other:
            mapped = torch.cat([mapped, self._merged(logits.index_select(1, self.rest).unsqueeze(1))], dim=1)
        return mapped

    def mapped(self, logits: Tensor) -> Tensor:
        """The logits mapped on whatever device they are."""
        mapped: Tensor = self.to(logits.device)(logits)
        return mapped

    def _merged(self, grouped: Tensor) -> Tensor:
        return grouped.amax(2) if self.merge == "max" else grouped.logsumexp(2)


class LabelMapped:
    """A classifier that is no network, with its logits mapped; its `fast` version, where it has one, too."""

    def __init__(self, model: Classifier, label_map: LabelMap, side: int | None = None) -> None:
        self.model, self.layer, self.side = model, LabelMapLayer(label_map), side
        self.card = replace(model.card, classes=label_map.classes)
        self.label_map = map_digest(label_map, getattr(model, "label_map", ""), side=side)
        fast = fast_version_of(model) if side is None else None
        self.fast = None if fast is None else LabelMappedFast(fast, self.layer)

    def __call__(self, images: Tensor) -> Tensor:
        return self.layer.mapped(self.model(images if self.side is None else at_side(images, self.side)))


class LabelMappedFast(FastVersion):
    """A fast version with its logits mapped; recordings are its own."""

    def __init__(self, fast: FastVersion, layer: LabelMapLayer) -> None:
        self.inner, self.layer, self.records = fast, layer, fast.records

    def __call__(self, images: Tensor) -> Tensor:
        return self.layer.mapped(self.inner(images))
