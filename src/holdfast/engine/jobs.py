"""Jobs: models and scenarios as asked for, turned into runs with everything loaded and checked for sense."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.core.errors import HoldfastError, Misuse, unknown
from holdfast.core.labels import LabelMap
from holdfast.core.refs import Ref, Run, Scenario
from holdfast.core.registry import registry
from holdfast.core.types import Change, Classifier, Dataset, DatasetCard, Flag, ModelCard
from holdfast.core.values import number_text
from holdfast.engine.loading import on_device
from holdfast.engine.measure import Setting
from holdfast.engine.memory import Remembering, Said
from holdfast.engine.select import chosen
from holdfast.engine.trust import TRIAL_SAMPLES, trials
from holdfast.models import TorchClassifier, load
from holdfast.models.answering import answering
from holdfast.models.check import balanced, check
from holdfast.models.rough import Rough, Speed, roughened, settled_speed
from holdfast.store.footer import Footer

Item = TypeVar("Item")
PROBES = 16  # images a check looks at


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the caller wants of every run."""

    seed: int = 0
    samples: int | None = None
    precision: float | None = None
    batch_size: int | None = None
    speed: Speed = "auto"

    def __post_init__(self) -> None:
        if self.batch_size is not None and self.batch_size < 1:
            raise Misuse(f"--batch-size is 1 or more, got {self.batch_size}")
        if self.speed not in get_args(Speed):
            raise unknown("speed", self.speed, get_args(Speed))
        if self.samples is not None and self.samples < 1:
            raise Misuse(f"--samples is 1 or more, got {self.samples}")
        if self.precision is not None and not 0 < self.precision < 0.5:
            raise Misuse(f"--precision is a half-width between 0 and 50 %, got {100 * self.precision:g} %")


@dataclass(frozen=True)
class Job:
    """One run, ready to go."""

    run: Run
    model: Classifier
    dataset: Dataset
    changes: tuple[tuple[Ref, Change], ...]
    said: Said | None = None

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Positions of the samples asked for. Only a choice needs the stratified order."""
        if self.run.samples is None and self.run.precision is None:
            return np.arange(len(self.dataset.ids), dtype=np.int64)
        order = chosen(self.dataset.ids, self.dataset.labels, self.run.samples)
        return order if self.run.precision is not None else np.sort(order)

    @property
    def footer(self) -> Footer:
        footer = Footer.of(self.run, self.model.card, self.dataset.card, len(self.dataset.ids))
        answers = self.dataset.card.answers
        facts = {} if answers is None else {"answers": answers.words}
        return replace(footer, command=command(self.run), facts=facts)

    def setting(self, device: torch.device) -> Setting:
        source = self.run.scenario.dataset
        return Setting(self.model, self.dataset, self.changes, self.run.seed, device, self.said, source)


class Workshop:
    """Loads each model and dataset once, checks each pair once, and keeps one model at a time."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.datasets: dict[str, Dataset] = {}
        self.loaded: tuple[Ref, Classifier] | None = None
        self.mapped: dict[tuple[int, LabelMap], Classifier] = {}
        self.roughs: dict[tuple[object, ...], Rough | None] = {}
        self.checked: dict[tuple[str, ...], tuple[Flag, ...]] = {}
        self.ahead = 0  # passes to the images that each model has before it: whether compiling pays
        self.said = Said()
        self.speaker: Classifier | None = None

    def dataset(self, ref: Ref) -> Dataset:
        if ref.key not in self.datasets:
            self.datasets[ref.key] = Remembering(registry.build(ref))
        return self.datasets[ref.key]

    def model(self, wanted: Ref | Classifier) -> tuple[Ref, Classifier]:
        if not isinstance(wanted, Ref):
            return Ref("object", wanted.card.name, (), 1), _placed(wanted, self.device)
        if self.loaded is None or self.loaded[0] != wanted:
            self.loaded = None  # let go of the last one before the next takes its memory
            self.mapped.clear()
            self.roughs.clear()
            self.loaded = wanted, load(wanted, device=self.device)
        return self.loaded

    def answering(self, model: Classifier, dataset: Dataset) -> Classifier:
        """The model as it answers for this dataset; refuses the two where they cannot belong together."""
        fits(model.card, dataset.card, dataset.labels)
        answers = dataset.card.answers
        if answers is None or answers.is_whole:
            return model
        place = (id(model), answers)
        if place not in self.mapped:
            self.mapped[place] = answering(model, answers)
        return self.mapped[place]

    def job(self, model: Ref | Classifier, scenario: Scenario, wanted: Wanted) -> Job:
        ref, classifier = self.model(model)
        if classifier is not self.speaker:  # what one model said is nothing to another
            self.said.forget()
            self.speaker = classifier
        dataset = self.dataset(scenario.dataset)
        classifier = self.answering(classifier, dataset)
        run = Run(
            model=ref,
            scenario=scenario,
            seed=wanted.seed,
            samples=wanted.samples if wanted.samples is None or wanted.samples < len(dataset.ids) else None,
            precision=wanted.precision,
            weights=classifier.card.weights,
            data=dataset.card.fingerprint,
        )
        changes = tuple((part, registry.build(part)) for part in scenario.changes)
        for part, change in changes:
            if isinstance(change, Attack):
                change.refuse(classifier.card)
            if change.cost.backwards and not classifier.card.differentiable:
                raise HoldfastError(
                    f"`{classifier.card.name}` gives no gradients, which `{part.name}` needs",
                    hint="use corruptions and black-box attacks, or a source with gradients such as `file:`, `python:`",
                )
        return Job(run, classifier, dataset, changes, self.said)

    def quicken(self, job: Job, speed: Speed, width: int, said: Callable[[str], None]) -> None:
        """Gives the model of a job that follows gradients on a GPU its rough version, made once."""
        passes = len(job.order) * sum(change.cost.backwards for _, change in job.changes)
        if not isinstance(job.model, TorchClassifier):
            return
        job.model.rough = None
        if speed == "exact" or not passes or self.device.type != "cuda":
            return
        way = settled_speed(speed, max(passes, self.ahead))
        place = (id(job.model), job.run.weights, job.dataset.card.size, width, way)
        if place not in self.roughs:
            self.roughs = {key: rough for key, rough in self.roughs.items() if key[0] == id(job.model)}
            images = on_device(job.dataset.images(job.order[:PROBES].tolist()).pixels, self.device)
            self.roughs[place] = roughened(job.model, images, width=width, speed=way, said=said)
        job.model.rough = self.roughs[place]

    def flags(self, job: Job) -> tuple[Flag, ...]:
        """What the model's check says on this dataset."""
        pair = (job.run.model.key, job.run.weights, job.run.data, job.run.scenario.dataset.key)
        if pair not in self.checked:
            self.checked[pair] = flags_on(job.model, job.dataset, self.device)
        return self.checked[pair]


def flags_on(model: Classifier, dataset: Dataset, device: torch.device) -> tuple[Flag, ...]:
    """Checks a model on a few images of a dataset."""
    images, labels = _few(dataset, PROBES, device)
    majority = float(np.bincount(dataset.labels).max()) / len(dataset.labels)
    return check(model, images, labels, majority=majority) if len(images) else ()


def trials_on(
    model: Classifier, dataset: Dataset, device: torch.device, said: Callable[[str], None]
) -> tuple[Flag, ...]:
    """Attacks a model on some images of a dataset, to see whether its gradients can be trusted."""
    images, labels = _few(dataset, 2 * TRIAL_SAMPLES, device)
    return trials(model, images, labels, said) if len(images) else ()


def _few(dataset: Dataset, count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Some images, of each class as many as of others, with their labels; unreadable ones are passed over."""
    index = balanced(np.asarray(dataset.labels), count)
    images = dataset.images(index.tolist())
    kept = [i for i in range(len(index)) if i not in images.failed]
    labels = torch.from_numpy(np.asarray(dataset.labels[index[kept]])).to(device)
    return on_device(images.pixels[kept], device), labels


def _placed(model: Classifier, device: torch.device) -> Classifier:
    if isinstance(model, torch.nn.Module):
        model.to(device)
    return model


def read_models(models: Sequence[str | Ref | Classifier]) -> list[Ref | Classifier]:
    """Refs of the models named, as given, each once."""
    bound = [registry.bind("model", model) if isinstance(model, str) else model for model in models]
    return _once(bound, lambda model: model.key if isinstance(model, Ref) else str(id(model)))


def read_scenarios(scenarios: Sequence[str | Scenario]) -> list[Scenario]:
    """The scenarios named, as given, each once; every component is built, so that a bad argument shows at once."""
    bound = [registry.scenario(scenario) if isinstance(scenario, str) else scenario for scenario in scenarios]
    for scenario in bound:
        for part in scenario.changes:
            registry.build(part)
    return _once(bound, lambda scenario: scenario.key)


def _once(items: Sequence[Item], key: Callable[[Item], str]) -> list[Item]:
    return list({key(item): item for item in items}.values())


def fits(model: ModelCard, dataset: DatasetCard, labels: NDArray[np.int64]) -> None:
    """Refuses a model and a dataset that cannot belong together."""
    if model.channels != dataset.channels:
        raise HoldfastError(
            f"`{model.name}` takes {model.channels} channels, the images of `{dataset.name}` have {dataset.channels}",
            hint="choose a model trained on such images, or a dataset with that many channels",
        )
    answers = dataset.answers
    if answers is not None and answers.known != model.classes:
        raise HoldfastError(
            f"`{model.name}` knows {model.classes} classes, `{dataset.name}` asks for a model of {answers.known} "
            f"({answers.words})",
            hint=f"choose a model of {answers.known} classes, or another way to answer: `answers=…` of the dataset",
        )
    known = model.classes if answers is None else answers.classes
    if len(labels) and (int(labels.min()) < 0 or int(labels.max()) >= known):
        raise HoldfastError(
            f"labels of `{dataset.name}` run from {int(labels.min())} to {int(labels.max())}, "
            f"`{model.name}` knows the classes 0 to {known - 1}",
            hint="the label map is wrong: order the classes as the model does, starting at 0",
        )


def command(run: Run) -> str:
    """The one command that makes these rows again."""
    words = ["holdfast", "evaluate", str(run.model), "--scenario", str(run.scenario)]
    if run.seed:
        words += ["--seed", str(run.seed)]
    if run.samples is not None:
        words += ["--samples", str(run.samples)]
    if run.precision is not None:
        words += ["--precision", number_text(run.precision)]
    return shlex.join(words)
