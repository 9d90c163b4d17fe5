"""Jobs: models and scenarios as asked for, turned into runs with everything loaded and checked for sense."""

from __future__ import annotations

import hashlib
import shlex
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.core.errors import HoldfastError, HoldfastWarning, Misuse, unknown
from holdfast.core.labels import LabelMap
from holdfast.core.refs import Ref, Run, Scenario
from holdfast.core.registry import LARGEST, registry
from holdfast.core.types import Change, Classifier, Cost, Dataset, DatasetCard, Flag, ModelCard
from holdfast.core.values import number_text, shortened
from holdfast.engine.behaviour import (
    GradientCheck,
    Probe,
    behaviour_name,
    behaviour_probe,
    is_code,
    known_behaviours,
    matching_behaviour,
    probe_images,
)
from holdfast.engine.fast_versions import FastVersions
from holdfast.engine.flags import radius_flags
from holdfast.engine.measure import MeasureSettings
from holdfast.engine.order import chosen_samples
from holdfast.engine.shards import ImageCache, LogitCache
from holdfast.engine.trials import flags_on
from holdfast.models import TorchClassifier, load
from holdfast.models.fast import Speed
from holdfast.models.label_mapped import map_digest, with_label_map
from holdfast.store import Rows, Store
from holdfast.store.footer import Footer

Item = TypeVar("Item")
WEIGHTS_FILE = "weights file"  # the fact of a footer that names its digest
AFTER_BFLOAT16 = "-2"  # the version of runs whose first rows were made in bfloat16
MOST_WIDTH = 1_000_000  # samples in flight


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the caller wants of every run."""

    seed: int = 0
    samples: int | None = None
    precision: float | None = None
    batch_size: int | None = None
    speed: Speed = "auto"

    def __post_init__(self) -> None:
        if self.batch_size is not None and not 1 <= self.batch_size <= MOST_WIDTH:
            raise Misuse(f"--batch-size is 1 or more, and at most {MOST_WIDTH:,}, got {self.batch_size}")
        if not -LARGEST <= self.seed <= LARGEST:
            raise Misuse(f"--seed is a whole number of at most 64 bits, got {shortened(str(self.seed))}")
        if self.speed not in get_args(Speed):
            raise unknown("speed", self.speed, get_args(Speed))
        if self.samples is not None and not 1 <= self.samples <= LARGEST:
            raise Misuse(f"--samples is 1 or more, got {shortened(str(self.samples))}")
        if self.precision is not None and not 0 < self.precision < 0.5:
            raise Misuse(f"--precision is a half-width between 0 and 50 %, got {100 * self.precision:g} %")


@dataclass
class RecordedModel:
    """A model of which only the card is at hand."""

    card: ModelCard
    label_map: str = ""

    def __call__(self, images: Tensor) -> Tensor:
        raise AssertionError(f"`{self.card.name}` was not loaded, so it cannot answer for {len(images)} images")


@dataclass(frozen=True)
class Job:
    """One run, ready to go."""

    run: Run
    model: Classifier
    dataset: Dataset
    changes: tuple[tuple[Ref, Change], ...]
    logits: LogitCache | None = None
    notes: dict[str, str] = field(default_factory=dict)  # for the footer: how the run was made
    probe: Probe = ()  # what the model answers on probe images, where it is code

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Positions of the samples asked for. Only a choice needs the stratified order."""
        if self.run.samples is None and self.run.precision is None:
            return np.arange(len(self.dataset.ids), dtype=np.int64)
        order = chosen_samples(self.dataset.ids, self.dataset.labels, self.run.samples)
        return order if self.run.precision is not None else np.sort(order)

    @property
    def footer(self) -> Footer:
        footer = Footer.of(self.run, self.model.card, self.dataset.card, len(self.dataset.ids))
        label_map = self.dataset.card.answers
        facts = {} if label_map is None else {"answers": label_map.words}
        return replace(footer, command=command(self.run), facts=facts | self.notes, probe=self.probe)

    def setting(self, device: torch.device) -> MeasureSettings:
        source = self.run.scenario.dataset
        return MeasureSettings(self.model, self.dataset, self.changes, self.run.seed, device, self.logits, source)


class ModelLoader:
    """Loads each model and dataset once, checks each pair once, and keeps one model at a time."""

    def __init__(
        self, device: torch.device, store: Store | None = None, note: Callable[[str], None] = lambda _: None
    ) -> None:
        """`store`: whose rows a model that is code may use again; `note` is called where it may not."""
        self.device, self.store, self.note = device, store, note
        self.behaviours: dict[tuple[str, ...], tuple[str, Probe]] = {}
        self.files: dict[Path, str] = {}
        self.cards: dict[tuple[str, str], ModelCard] | None = None
        self.datasets: dict[str, Dataset] = {}
        self.loaded: tuple[Ref, Classifier] | None = None
        self.mapped: dict[tuple[int, LabelMap], Classifier] = {}
        self.fast = FastVersions(device)
        self.checked: dict[tuple[str, ...], tuple[Flag, ...]] = {}
        self.ahead = 0  # passes to the images that each model has before it: whether compiling pays
        self.gradients = GradientCheck(device)
        self.logits = LogitCache()
        self.logits_of: Classifier | None = None

    def dataset(self, ref: Ref) -> Dataset:
        if ref.key not in self.datasets:
            self.datasets[ref.key] = ImageCache(registry.build(ref))
        return self.datasets[ref.key]

    def model(self, options: Ref | Classifier) -> tuple[Ref, Classifier]:
        if not isinstance(options, Ref):
            return Ref("object", options.card.name, (), 1), _placed(options, self.device)
        if self.loaded is None or self.loaded[0] != options:
            self.loaded = None  # let go of the last one before the next takes its memory
            self.mapped.clear()
            self.fast = FastVersions(self.device)
            self.gradients.tried.clear()
            self.loaded = options, load(options, device=self.device)
        return self.loaded

    def answering(self, model: Classifier, dataset: Dataset) -> Classifier:
        """The model as it answers for this dataset; refuses the two where they cannot belong together."""
        fits(model.card, dataset.card, dataset.labels)
        label_map = dataset.card.answers
        if label_map is not None:
            label_map = label_map.of(model.card.classes)
        if label_map is None or label_map.is_whole:
            return model
        if isinstance(model, RecordedModel):
            return RecordedModel(replace(model.card, classes=label_map.classes), map_digest(label_map))
        key = (id(model), label_map)
        if key not in self.mapped:
            self.mapped[key] = with_label_map(model, label_map)
        return self.mapped[key]

    def job(self, model: Ref | Classifier, scenario: Scenario, options: RunOptions, *, recorded: bool = False) -> Job:
        """The run of a model under a scenario; `recorded`: without loading a model that the store knows already."""
        known = self._recorded(model) if recorded and isinstance(model, Ref) else None
        ref, classifier = self.model(model) if known is None or not isinstance(model, Ref) else (model, known)
        if classifier is not self.logits_of:  # logits are of one model
            self.logits.forget()
            self.logits_of = classifier
        dataset = self.dataset(scenario.dataset)
        classifier = self.answering(classifier, dataset)
        run = Run(
            model=ref,
            scenario=scenario,
            seed=options.seed,
            samples=options.samples if options.samples is None or options.samples < len(dataset.ids) else None,
            precision=options.precision,
            weights=classifier.card.weights,
            data=dataset.card.fingerprint,
            answers=getattr(classifier, "label_map", ""),
        )
        run, probe = self._behaving(run, classifier, dataset)
        changes = tuple((part, registry.build(part)) for part in scenario.changes)
        for _, change in changes:
            if isinstance(change, Attack):
                change.refuse(classifier.card)
        if not isinstance(classifier, RecordedModel):
            self.gradients.refuse(classifier, dataset, changes)
        file = None if not isinstance(model, Ref) else self.weights_file(model)
        notes = {} if file is None else {WEIGHTS_FILE: file}
        return Job(run, classifier, dataset, changes, self.logits, notes, probe)

    def weights_file(self, ref: Ref) -> str | None:
        """The digest of the file that holds a model's weights; None where they come otherwise."""
        if ref.kind != "model" or ref.name != "file":
            return None
        path = Path(str(ref.arg("path"))).expanduser()
        if path not in self.files and path.is_file():
            with path.open("rb") as file:
                self.files[path] = hashlib.file_digest(file, "sha256").hexdigest()
        return self.files.get(path)

    def _recorded(self, ref: Ref) -> RecordedModel | None:
        """The model by its card in the store, where its file is still that of then; one that is loaded is better."""
        if self.store is None or (self.loaded is not None and self.loaded[0] == ref):
            return None
        file = self.weights_file(ref)
        if file is None:
            return None
        if self.cards is None:
            self.cards = {
                (footer.model_full, footer.facts[WEIGHTS_FILE]): footer.card
                for footer in self.store.footers().values()
                if WEIGHTS_FILE in footer.facts and not footer.answers
            }
        card = self.cards.get((ref.full, file))
        return None if card is None else RecordedModel(card)

    def _behaving(self, run: Run, model: Classifier, dataset: Dataset) -> tuple[Run, Probe]:
        """The run under the name of the model's behaviour, where it can change without its weights."""
        if not is_code(run.model, run.weights):
            return run, ()
        key = (str(id(model)), run.weights, run.data, run.scenario.dataset.key, run.answers)
        if key not in self.behaviours:
            probe = behaviour_probe(model, probe_images(dataset, self.device))
            known = (
                []
                if self.store is None
                else known_behaviours(self.store.footers().values(), run.model.full, run.weights, run.data, run.answers)
            )
            name = matching_behaviour(probe, known)
            if name is None and known:
                self.note(
                    f"`{run.model}` answers otherwise than when its rows on `{run.scenario.dataset}` were made: "
                    "it is measured as another run, and those rows stay"
                )
            self.behaviours[key] = name or behaviour_name(probe), probe
        name, probe = self.behaviours[key]
        return replace(run, behaviour=name), probe

    def make_fast(self, job: Job, speed: Speed, width: int, note: Callable[[str], None]) -> None:
        """Gives the model of a job that follows gradients on a GPU its fast version, where it has one to trust."""
        if isinstance(job.model, TorchClassifier):
            job.model.fast = None
            if self.device.type == "cuda" and any(change.cost.backwards for _, change in job.changes):
                job.model.fast = self.fast.version(job, speed, width, self.ahead, note)

    def flags(self, job: Job) -> tuple[Flag, ...]:
        """What the model's check says on this dataset."""
        pair = (job.run.model.key, job.run.weights, job.run.data, job.run.scenario.dataset.key)
        if pair not in self.checked:
            self.checked[pair] = flags_on(job.model, job.dataset, self.device)
        return self.checked[pair] + radius_flags(job.run.scenario)


class JobRows(NamedTuple):
    """A job and the rows that the store has of it, None where it has none."""

    job: Job
    rows: Rows | None


def find_rows(job: Job, store: Store, note: Callable[[str], None]) -> JobRows:
    """The rows of a job, and the job under another key where those in the store were made by a weaker attack."""
    rows = store.find(job.run.key)
    if rows is None or not rows.footer.is_weak:
        return JobRows(job, rows)
    note(
        f"the rows of `{job.run.model}` under `{job.run.scenario}` were made with gradients in bfloat16, which attack "
        "weaker: it is measured as another run, and those rows stay"
    )
    job = replace(job, run=replace(job.run, behaviour=f"{job.run.behaviour}{AFTER_BFLOAT16}"))
    return JobRows(job, store.find(job.run.key))


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
        for flag in radius_flags(scenario):
            warnings.warn(f"{scenario}: {flag.explanation}", HoldfastWarning, stacklevel=3)
    return _once(bound, lambda scenario: scenario.key)


def _once(items: Sequence[Item], key: Callable[[Item], str]) -> list[Item]:
    return list({key(item): item for item in items}.values())


def scenario_cost(scenario: Scenario) -> Cost:
    """Passes that a sample takes at most, with the one that scores it."""
    costs = [registry.build(part).cost for part in scenario.changes]
    return Cost(1 + sum(cost.forwards for cost in costs), sum(cost.backwards for cost in costs))


def as_holdfast_error(error: BaseException) -> HoldfastError:
    """The error itself where it is ours; one from other people's code with its file and line, so other runs go on."""
    if isinstance(error, HoldfastError):
        return error
    last = traceback.extract_tb(error.__traceback__)[-1]
    failure = HoldfastError(
        f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})",
        hint="`holdfast check MODEL` looks for what is wrong with a model",
    )
    failure.__cause__ = error
    return failure


def fits(model: ModelCard, dataset: DatasetCard, labels: NDArray[np.int64]) -> None:
    """Refuses a model and a dataset that cannot belong together."""
    if model.channels != dataset.channels:
        raise HoldfastError(
            f"`{model.name}` takes {model.channels} channels, the images of `{dataset.name}` have {dataset.channels}",
            hint="choose a model trained on such images, or a dataset with that many channels",
        )
    label_map = None if dataset.answers is None else dataset.answers.of(model.classes)
    if label_map is not None and label_map.known != model.classes:
        raise HoldfastError(
            f"`{model.name}` knows {model.classes} classes, `{dataset.name}` asks for a model of {label_map.known} "
            f"({label_map.words})",
            hint=f"choose a model of {label_map.known} classes, or another way to answer: `answers=…` of the dataset",
        )
    known = model.classes if label_map is None else label_map.classes
    counts = f"`{model.name}` has {model.classes:,} classes and `{dataset.name}` has {len(dataset.classes):,}"
    way = f"order the classes as the model does, starting at 0, or say which of its classes answer: {MAP_HINT}"
    if len(labels) and (int(labels.min()) < 0 or int(labels.max()) >= known):
        raise HoldfastError(
            f"labels of `{dataset.name}` run from {int(labels.min())} to {int(labels.max())}, "
            f"`{model.name}` knows the classes 0 to {known - 1}: {counts}",
            hint=f"the label map is wrong: {way}",
        )
    if label_map is None and len(dataset.classes) != model.classes:
        raise HoldfastError(counts, hint=f"a label of one is no class of the other: {way}")


MAP_HINT = (
    "`answers=` of folder, arrays, hf and webdataset takes a list of names or numbers, a file, `imagenet`, or how many "
    "classes the model has where labels are its class numbers"
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
