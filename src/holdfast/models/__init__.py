"""Classifiers from many sources behind one protocol, each with a card, and checks of what their numbers will mean.

models.load("fashion-standard")                                  bundled
models.load("file:w.safetensors,architecture=resnet18-cifar")    weights on disk
models.wrap(net, name="mine", mean=mean, std=std)                a live module
models.check(classifier, images, labels)                         flags, with what to do about them
"""

from holdfast.core.registry import register
from holdfast.core.types import Classifier, ModelCard
from holdfast.models.check import check
from holdfast.models.classifier import TorchClassifier, load, normalised, prepared, weights_digest, wrap
from holdfast.models.file import save_model
from holdfast.models.header import SavedModel, read_card

__all__ = [
    "Classifier",
    "ModelCard",
    "SavedModel",
    "TorchClassifier",
    "check",
    "load",
    "normalised",
    "prepared",
    "read_card",
    "register",
    "save_model",
    "weights_digest",
    "wrap",
]
