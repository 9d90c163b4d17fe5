"""A classifier whose logits go through a dataset's label map, with gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import overload

import torch
from torch import Tensor, nn

from holdfast.core.labels import LabelMap
from holdfast.core.refs import digest
from holdfast.core.types import Classifier, FastVersion, fast_version_of
from holdfast.models.classifier import TorchClassifier, device_of

BELOW = 10.0  # logits between the lowest real answer and a class that the model does not know


@overload
def answering(model: TorchClassifier, answers: LabelMap) -> TorchClassifier: ...


@overload
def answering(model: Classifier, answers: LabelMap) -> Classifier: ...


def answering(model: Classifier, answers: LabelMap) -> Classifier:
    """The model with its logits mapped; the map becomes a last layer where the model is a network."""
    assert model.card.classes == answers.known, "the label map is for another number of classes"
    if not isinstance(model, TorchClassifier):
        return Answering(model, answers)
    last = Answers(answers).to(device_of(model) or torch.device("cpu"))
    net = nn.Sequential(model.net, last)
    net.training = model.net.training
    mapped = TorchClassifier(net, replace(model.card, classes=answers.classes))
    mapped.was_training = model.was_training
    mapped.live = model.live
    mapped.label_map = map_digest(answers, model.label_map)
    return mapped


def map_digest(answers: LabelMap, before: str = "") -> str:
    """What the answers depend on besides the model; `before`: of a map that comes first."""
    return digest([before, answers.known, answers.groups, answers.other, answers.merge])


class Answers(nn.Module):
    """Logits of a model's classes to logits of a dataset's."""

    members: Tensor
    missing: Tensor
    unknown: Tensor
    rest: Tensor

    def __init__(self, answers: LabelMap) -> None:
        super().__init__()
        widest = max(map(len, answers.groups))
        # an empty group borrows class 0, so that no value is infinite on the way to being replaced
        padded = [[*group, *([0] * (widest - len(group)))] for group in answers.groups]
        present = [[place < max(1, len(group)) for place in range(widest)] for group in answers.groups]
        self.shape = (len(answers.groups), widest)
        self.merge, self.other = answers.merge, answers.other
        self.some_unknown = not all(answers.groups)
        self.register_buffer("members", torch.tensor(padded).flatten(), persistent=False)
        self.register_buffer("missing", ~torch.tensor(present), persistent=False)
        self.register_buffer("unknown", torch.tensor([not group for group in answers.groups]), persistent=False)
        self.register_buffer("rest", torch.tensor(answers.rest, dtype=torch.int64), persistent=False)
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

    def _merged(self, grouped: Tensor) -> Tensor:
        return grouped.amax(2) if self.merge == "max" else grouped.logsumexp(2)


class Answering:
    """A classifier that is no network, with its logits mapped; its `fast` version, where it has one, too."""

    def __init__(self, model: Classifier, answers: LabelMap) -> None:
        self.model, self.answers = model, Answers(answers)
        self.card = replace(model.card, classes=answers.classes)
        self.label_map = map_digest(answers, getattr(model, "label_map", ""))
        fast = fast_version_of(model)
        self.fast = None if fast is None else FastAnswering(fast, self.answers)

    def __call__(self, images: Tensor) -> Tensor:
        logits = self.model(images)
        mapped: Tensor = self.answers.to(logits.device)(logits)
        return mapped


class FastAnswering(FastVersion):
    """A fast version with its logits mapped; recordings are its own."""

    def __init__(self, fast: FastVersion, answers: Answers) -> None:
        self.inner, self.answers, self.records = fast, answers, fast.records

    def __call__(self, images: Tensor) -> Tensor:
        logits = self.inner(images)
        mapped: Tensor = self.answers.to(logits.device)(logits)
        return mapped
