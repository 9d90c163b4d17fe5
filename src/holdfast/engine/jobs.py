"""Jobs: models and scenarios as asked for, turned into runs with everything loaded and checked for sense."""

from __future__ import annotations

import hashlib
import shlex
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.core.component_code import foreign_code
from holdfast.core.errors import HoldfastError, HoldfastWarning, Misuse, NoLabels, unknown
from holdfast.core.labels import LabelMap, LabelMapChoice, is_labelled
from holdfast.core.refs import Ref, Run, Scenario
from holdfast.core.registry import LARGEST, registry
from holdfast.core.types import Change, Classifier, Dataset, DatasetCard, Flag, ModelCard, fast_version_of
from holdfast.core.values import number_or_none, number_text, shortened, whole_or_none
from holdfast.datasets.own_size import sized_for
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
from holdfast.engine.compatible import fits
from holdfast.engine.fast_versions import FastVersions
from holdfast.engine.file_contents import Contents
from holdfast.engine.file_network import network_of_file
from holdfast.engine.flags import radius_flags
from holdfast.engine.measure import Measured, MeasureSettings, measure
from holdfast.engine.order import chosen_samples
from holdfast.engine.passes_ahead import PassesAhead
from holdfast.engine.second_probe import second_probe
from holdfast.engine.shards import ImageCache, LogitCache, Shard, on_device
from holdfast.engine.trials import flags_on
from holdfast.engine.two_step import LEAST_SAMPLES, SAFETY, TRIED, TwoStepScorer, two_step_scorer
from holdfast.models import TorchClassifier, load
from holdfast.models.fast import Speed
from holdfast.models.label_mapped import map_digest, with_label_map
from holdfast.store import Store
from holdfast.store.footer import Footer
from holdfast.store.rows import ALL_LOGITS, EVERY

Item = TypeVar("Item")
WEIGHTS_FILE = "weights file"  # the fact of a footer that names its digest
MOST_WIDTH = 1_000_000  # samples at once


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the caller wants of every run."""

    seed: int = 0
    samples: int | None = None
    precision: float | None = None
    batch_size: int | None = None
    speed: Speed = "auto"
    logits: str = ""

    def __post_init__(self) -> None:
        if self.logits not in ("", EVERY):
            raise unknown("choice of logits", str(self.logits), [EVERY])
        for name in ("seed", "samples", "batch_size"):  # numpy's whole numbers are none that a footer can hold
            object.__setattr__(self, name, whole_or_none(getattr(self, name), name))
        if self.batch_size is not None and not 1 <= self.batch_size <= MOST_WIDTH:
            raise Misuse(f"--batch-size is 1 or more, and at most {MOST_WIDTH:,}, got {self.batch_size}")
        if not -LARGEST <= self.seed <= LARGEST:
            raise Misuse(f"--seed is a whole number of at most 64 bits, got {shortened(str(self.seed))}")
        if self.speed not in get_args(Speed):
            raise unknown("speed", str(self.speed), get_args(Speed))
        if self.samples is not None and not 1 <= self.samples <= LARGEST:
            raise Misuse(f"--samples is 1 or more, got {shortened(str(self.samples))}")
        object.__setattr__(self, "precision", number_or_none(self.precision, "precision"))
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
    second: Probe = ()  # shares of its classes and gradients there

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
        answers = self.dataset.card.answers
        facts = {"answers": answers.words} if isinstance(answers, LabelMap) else {}
        if self.run.scenario.dataset.kind == "object":
            facts["data"] = "memory"
        return replace(
            footer, command=command(self.run), facts=facts | self.notes, probe=self.probe, second_probe=self.second
        )

    def setting(self, device: torch.device, scorer: TwoStepScorer | None = None) -> MeasureSettings:
        source, seed = self.run.scenario.dataset, self.run.seed
        return MeasureSettings(self.model, self.dataset, self.changes, seed, device, self.logits, source, scorer)

    def measured(self, ids: Sequence[str], device: torch.device, width: int) -> Measured:
        """Some samples measured by themselves."""
        position = {name: i for i, name in enumerate(self.dataset.ids)}
        index = np.array([position[name] for name in ids], dtype=np.int64)
        return measure(self.setting(device), Shard(index, self.dataset.images(index.tolist())), width=width)


class ModelLoader:
    """Loads each model and dataset once, checks each pair once, and keeps one model at a time."""

    def __init__(
        self,
        device: torch.device,
        store: Store | None = None,
        note: Callable[[str], None] = lambda _: None,
        data: Mapping[str, Dataset] | None = None,
    ) -> None:
        """`store`: whose rows a model that is code may use again; `note` is called where it may not.

        `data`: datasets in memory by the key of their ref.
        """
        self.device, self.store, self.note = device, store, note
        self.behaviours: dict[tuple[str, ...], tuple[str, Probe, Probe]] = {}
        self.files: dict[Path, str] = {}
        self.contents = Contents(store, note)
        self.cards: dict[tuple[str, str], ModelCard] | None = None
        self.datasets: dict[str, Dataset] = dict(data or {})
        self.loaded: tuple[Ref, Classifier] | None = None
        self.mapped: dict[tuple[int, LabelMap, int | None], Classifier] = {}
        self.fast = FastVersions(device)
        self.scorers: dict[tuple[object, ...], TwoStepScorer | None] = {}
        self.checked: dict[tuple[str, ...], tuple[Flag, ...]] = {}
        self.ahead = PassesAhead()
        self.gradients = GradientCheck(device)
        self.logits = LogitCache()
        self.logits_of: Classifier | None = None

    def dataset(self, ref: Ref) -> Dataset:
        if ref.key not in self.datasets:
            self.datasets[ref.key] = ImageCache(registry.build(ref))
        return self.datasets[ref.key]

    def model(self, options: Ref | Classifier) -> tuple[Ref, Classifier]:
        if not isinstance(options, Ref):
            if isinstance(options, torch.nn.Module):
                options.to(self.device)
            return Ref("object", options.card.name, (), 1), options
        if self.loaded is None or self.loaded[0] != options:
            self.loaded = None  # let go of the last one before the next takes its memory
            self.mapped.clear()
            self.fast = FastVersions(self.device)
            self.scorers.clear()
            self.gradients.tried.clear()
            self.loaded = options, load(options, device=self.device)
        return self.loaded

    def answering(self, model: Classifier, dataset: Dataset) -> Classifier:
        """The model as it answers for this dataset; refuses the two where they cannot belong together."""
        fits(model.card, dataset.card, dataset.labels)
        answers = dataset.card.answers
        if answers is None:
            return model
        label_map, side = answers.of(model.card.classes), resized_side(model.card, dataset.card)
        if label_map.is_whole and side is None:
            return model
        if isinstance(model, RecordedModel):
            return RecordedModel(replace(model.card, classes=label_map.classes), map_digest(label_map, side=side))
        key = (id(model), label_map, side)
        if key not in self.mapped:
            self.mapped[key] = with_label_map(model, label_map, side=side)
        return self.mapped[key]

    def job(self, model: Ref | Classifier, scenario: Scenario, options: RunOptions, *, recorded: bool = False) -> Job:
        """The run of a model under a scenario; `recorded`: without loading a model that the store knows already."""
        known = self._recorded(model) if recorded and isinstance(model, Ref) else None
        ref, classifier = self.model(model) if known is None or not isinstance(model, Ref) else (model, known)
        if classifier is not self.logits_of:  # logits are of one model
            self.logits.forget()
            self.logits_of = classifier
        dataset = self.dataset(sized_for(scenario.dataset, classifier.card))
        if not is_labelled(dataset.labels):
            _refuse_without_labels(scenario, options)
        answers, heads = dataset.card.answers, classifier.card.classes
        classifier = self.answering(classifier, dataset)
        data, files = self.contents.of(dataset, scenario.dataset.plain)
        changes = tuple((part, registry.build(part)) for part in scenario.changes)
        run = Run(
            model=ref,
            scenario=scenario,
            seed=options.seed,
            samples=options.samples if options.samples is None or options.samples < len(dataset.ids) else None,
            precision=options.precision,
            weights=classifier.card.weights,
            data=data,
            answers=getattr(classifier, "label_map", ""),
            logits=options.logits if classifier.card.classes > ALL_LOGITS else "",
        )
        run, probe, second = self._behaving(run, classifier, dataset)
        network = network_of_file(run, self.store)
        sources = [*(getattr(change, "source_in_key", "") for _, change in changes), foreign_code(scenario.parts)]
        run = replace(run, sources="; ".join(filter(None, [*sources, network.in_key])))
        for _, change in changes:
            if isinstance(change, Attack):
                change.refuse(classifier.card)
        if not isinstance(classifier, RecordedModel):
            self.gradients.refuse(classifier, dataset, changes)
        file = None if not isinstance(model, Ref) else self.weights_file(model)
        notes = files | ({} if file is None else {WEIGHTS_FILE: file}) | network.facts
        if isinstance(answers, LabelMapChoice):
            notes["answers"] = answers.of(heads).words
        return Job(run, classifier, dataset, changes, self.logits, notes, probe, second)

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
        if file is None or is_code(ref, file):
            return None
        if self.cards is None:
            self.cards = {
                (footer.model_full, footer.facts[WEIGHTS_FILE]): footer.card
                for footer in self.store.footers().values()
                if WEIGHTS_FILE in footer.facts and not footer.answers and not footer.probe
            }
        card = self.cards.get((ref.full, file))
        return None if card is None else RecordedModel(card)

    def _behaving(self, run: Run, model: Classifier, dataset: Dataset) -> tuple[Run, Probe, Probe]:
        """The run under the name of the model's behaviour, where it can change without its weights."""
        if not is_code(run.model, run.weights, None if isinstance(model, RecordedModel) else model):
            return run, (), ()
        key = (run.model.key, str(id(model)), run.weights, run.data, run.scenario.dataset.key, run.answers)
        if key not in self.behaviours:
            images = probe_images(dataset, self.device)
            probe, second = behaviour_probe(model, images), second_probe(model, images)
            footers = () if self.store is None else self.store.footers().values()
            known = known_behaviours(footers, run.model.full, run.weights, run.data, run.answers)
            name = matching_behaviour(probe, known, second)
            if name is None and known:
                self.note(
                    f"`{run.model}` answers otherwise than when its rows on `{run.scenario.dataset}` were made: "
                    "it is measured as another run, and those rows stay"
                )
            self.behaviours[key] = name or behaviour_name(probe, second, {one.name for one in known}), probe, second
        name, probe, second = self.behaviours[key]
        return replace(run, behaviour=name), probe, second

    def make_fast(self, job: Job, speed: Speed, width: int, note: Callable[[str], None]) -> None:
        """On a GPU has a job's model asked in few batch lengths, with a fast version where one can be trusted."""
        if not isinstance(job.model, TorchClassifier):
            return
        on_gpu = self.device.type == "cuda"
        job.model.fast, job.model.exact = None, self.fast.exact(job) if on_gpu else None
        if on_gpu and any(change.cost.backwards for _, change in job.changes):
            fast = job.model.fast = self.fast.version(job, speed, width, self.ahead, note)
            if fast is not None:
                scorer = self.scorer(job, speed)
                fast.scores, fast.score_error = (scorer.quick, SAFETY * scorer.error) if scorer else (None, 0.0)

    def scorer(self, job: Job, speed: Speed) -> TwoStepScorer | None:
        """What scores the samples of a job in two steps, where it is long enough for that.

        An attack that takes float32's gradients is scored in float32 too: its rows are those of `exact`.
        """
        if speed == "exact" or self.device.type != "cuda" or len(job.order) < LEAST_SAMPLES:
            return None
        if any(ref.kind == "attack" for ref, _ in job.changes) and fast_version_of(job.model) is None:
            return None
        key = (id(job.model), job.run.weights, job.run.data, job.order[:TRIED].tobytes())
        if key not in self.scorers:
            self.scorers = {key: two_step_scorer(job.model, self._first_images(job))}
        scorer = self.scorers[key]
        job.notes["logits"] = "float32" if scorer is None else scorer.words
        return scorer

    def _first_images(self, job: Job) -> Tensor:
        read = job.dataset.images(job.order[:TRIED].tolist())
        kept = [i for i in range(len(read.pixels)) if i not in read.failed]
        return on_device(read.pixels[kept], self.device)

    def flags(self, job: Job) -> tuple[Flag, ...]:
        """What the model's check says on this dataset."""
        pair = (job.run.model.key, job.run.weights, job.run.data, job.run.scenario.dataset.key)
        if pair not in self.checked:
            self.checked[pair] = flags_on(job.model, job.dataset, self.device)
        return self.checked[pair] + radius_flags(job.run.scenario)


def _refuse_without_labels(scenario: Scenario, options: RunOptions) -> None:
    """Refuses what has no meaning for samples without labels."""
    attack = next((ref for ref in scenario.changes if ref.kind == "attack"), None)
    if attack is not None:
        raise NoLabels(
            f"`{attack.name}` needs labels, and `{scenario.dataset}` has none: an attack turns right answers wrong",
            hint="attack labelled images; corruptions need no labels",
        )
    if options.precision is not None:
        raise NoLabels(
            f"--precision is of an accuracy, and `{scenario.dataset}` has no labels", hint="say how many: --samples"
        )


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


def resized_side(model: ModelCard, dataset: DatasetCard) -> int | None:
    """The side to which images are brought for a model whose card says none, where the dataset picks by the model."""
    if not isinstance(dataset.answers, LabelMapChoice) or model.size is not None:
        return None
    side = dataset.answers.side(model.classes)
    return None if (side, side) == dataset.size else side


def command(run: Run) -> str:
    """The one command that makes these rows again."""
    precision = None if run.precision is None else number_text(run.precision)
    choices = {"seed": run.seed or None, "samples": run.samples, "precision": precision, "logits": run.logits or None}
    words = ["holdfast", "evaluate", run.model.plain, "--scenario", run.scenario.plain]
    words += [word for name, value in choices.items() if value is not None for word in (f"--{name}", str(value))]
    return shlex.join(words)
