"""Models and data as people hold them: modules, classifiers, refs and names; texts, arrays, datasets and loaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from torch import nn

from holdfast.core.errors import Misuse
from holdfast.core.patterns import Patterns
from holdfast.core.refs import Ref, Scenario, named_ref, printable_name
from holdfast.core.registry import registry
from holdfast.core.types import Classifier, Dataset
from holdfast.core.values import split
from holdfast.datasets.from_python import LabelledImages, data_name, read_samples
from holdfast.engine.jobs import read_scenarios
from holdfast.models.classifier import is_classifier, load, wrap
from holdfast.store import Store
from holdfast.store.stored_names import write_name

MODEL_HINT = "give an nn.Module, a classifier, the ref of one such as `fashion-at-linf`, or {name: model, …}"


class Inputs(NamedTuple):
    """What to measure, and by its key the data that is in memory."""

    models: list[Ref | Classifier]
    scenarios: list[Scenario]
    data: dict[str, Dataset]


def read_inputs(
    models: object, scenarios: object, *, changes: str | Sequence[str] | None, name: str | None, data_as: str
) -> Inputs:
    """Models and scenarios as given; data in memory goes under the name `data_as`."""
    texts = _texts(scenarios)
    endings = [""] if changes is None else _endings(changes)
    if texts is not None:
        chosen = models_as_given(models, name=name)
        if changes is not None:
            texts = [_joined(text, ending) for text in texts for ending in endings]
        return Inputs(chosen, read_scenarios(texts), {})
    samples = read_samples(scenarios)
    chosen = models_as_given(models, name=name, shape=samples.pixels.shape[1:])
    dataset = samples.dataset(data_as, _classes(chosen, samples))
    ref = Ref("object", data_name(data_as, registry.entries("dataset")), (), 1)
    made = [Scenario(ref, _changes(ending)) for ending in endings]
    return Inputs(chosen, read_scenarios(made), {ref.key: dataset})


def models_as_given(
    models: object, *, name: str | None = None, shape: tuple[int, ...] | None = None
) -> list[Ref | Classifier]:
    """Refs of models named by text; classifiers of live ones; each once, and no two under one name."""
    if isinstance(models, Mapping):
        if name is not None:
            raise Misuse("`name` is of one model", hint="the keys of the dict are the names already")
        given: list[tuple[str | None, object]] = [(str(key), model) for key, model in models.items()]
    elif isinstance(models, list | tuple):
        given = [(None, model) for model in models]
        if name is not None and len(given) != 1:
            raise Misuse(f"`name` is of one model, got {len(given)}", hint="give {name: model, …}")
    else:
        given = [(None, models)]
    if not given:
        raise Misuse("no model is given", hint=MODEL_HINT)
    chosen = [_model(model, label or name, shape) for label, model in given]
    once = {
        model.key if isinstance(model, Ref) else f"{id(held)} {model.card.name}": model
        for model, (_, held) in zip(chosen, given, strict=True)
    }
    names: dict[str, str] = {}
    for key, model in once.items():
        shown = str(model) if isinstance(model, Ref) else model.card.name
        if names.setdefault(shown, key) != key:
            raise Misuse(f"two models are named `{shown}`", hint="give each a name: {'one': net, 'other': net2}")
    return list(once.values())


def as_classifier(model: object, *, shape: tuple[int, ...]) -> Classifier:
    """The classifier itself, loaded where a text names it."""
    made = _model(model, None, shape)
    return load(made) if isinstance(made, Ref) else made


def _model(model: Any, name: str | None, shape: tuple[int, ...] | None) -> Ref | Classifier:
    if name is not None and not isinstance(name, str):
        raise Misuse(f"a name is a text, got {type(name).__name__}", hint='name="mine"')
    if name is not None and not isinstance(model, str | Ref):
        printable_name(name)
    if isinstance(model, str | Ref):
        ref = registry.bind("model", model) if isinstance(model, str) else model
        return ref if name is None else named_ref(ref, name)
    if is_classifier(model):
        if name is not None and model.card.name != name:
            model.card = replace(model.card, name=name)
        return model
    if isinstance(model, nn.Module):
        known = None if shape is None else (shape[0], shape[1], shape[2])
        return wrap(model, name=name or type(model).__name__, shape=known)
    if isinstance(model, type):
        raise Misuse(f"`{model.__name__}` is a class, not a model", hint=f"make one: {model.__name__}()")
    raise Misuse(f"a model is a module, a classifier or the ref of one, got {type(model).__name__}", hint=MODEL_HINT)


def _classes(models: Sequence[Ref | Classifier], samples: LabelledImages) -> int:
    """How many classes the data has: as many as the models know."""
    cards = [(load(model) if isinstance(model, Ref) else model).card for model in models]
    counts = {card.classes: card.name for card in cards}
    if len(counts) > 1:
        known = ", ".join(f"`{name}` {count}" for count, name in counts.items())
        raise Misuse(f"the models know different numbers of classes: {known}", hint="evaluate them one by one")
    return next(iter(counts), max(0, int(samples.labels.max())) + 1)


def _texts(scenarios: object) -> list[str | Scenario] | None:
    """Scenarios given as texts; None where data is given."""
    if isinstance(scenarios, str | Scenario):
        return [scenarios]
    if not isinstance(scenarios, list | tuple) or not all(isinstance(each, str | Scenario) for each in scenarios):
        return None
    if not scenarios:
        hint = "`fashion-mnist-2k+fog:severity=3`, or (images, labels)"
        raise Misuse("no scenario and no images are given", hint=hint)
    return list(scenarios)


def _endings(changes: str | Sequence[str]) -> list[str]:
    given = [changes] if isinstance(changes, str) else list(changes)
    for change in given:
        if not isinstance(change, str):
            raise Misuse(f"a change is a text such as `pgd-linf:radius=8/255`, got {type(change).__name__}")
    if not given:
        raise Misuse("no change is given", hint='the images as they are: changes=[""], or leave `changes` out')
    return Patterns().texts(given)


def _changes(ending: str) -> tuple[Ref, ...]:
    parts = split(ending.strip().removeprefix("+"), "+") if ending.strip() else []
    return tuple(registry.bind_change(part) for part in parts)


def _joined(text: str | Scenario, ending: str) -> Scenario:
    whole = registry.scenario(text) if isinstance(text, str) else text
    return Scenario(whole.dataset, (*whole.changes, *_changes(ending)))


def keep_names(store: Store, models: Sequence[Ref | Classifier], scenarios: Sequence[Scenario]) -> None:
    """Has the store show models and datasets under the names that they were given."""
    for model in models:
        if isinstance(model, Ref) and model.alias:
            write_name(store, "model", model.alias, model.plain)
    for dataset in {scenario.dataset for scenario in scenarios}:
        if dataset.alias:
            write_name(store, "dataset", dataset.alias, dataset.plain)
