"""Doctor: what this machine has, what is missing, which suites can run here, and how long they would take."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import holdfast
from holdfast.core.errors import Absent, HoldfastError
from holdfast.core.home import data_home
from holdfast.core.refs import Ref, Scenario, parse_ref
from holdfast.core.registry import registry
from holdfast.core.suites import load_suite, suites
from holdfast.core.types import DatasetCard
from holdfast.core.values import split
from holdfast.datasets import DEFAULT
from holdfast.datasets.downloads import catalogue, downloads, is_whole
from holdfast.store import Store

if TYPE_CHECKING:
    from holdfast.engine.plan import Pace

NEEDED = ("torch", "numpy", "scipy", "pyarrow", "fsspec", "safetensors", "PIL")
BUNDLED = "fashion-at-linf"  # times what is as small and grey as it is
COLOURED = "resnet18-cifar"  # times colour images up to this many pixels
LARGE = 64
FEW = 16  # images in a trial
CHOOSING = ("variant", "form", "version", "split", "corruption")  # arguments that may name files of their own
STATES = {"here": "complete", "partly": "incomplete", "missing": "absent"}


class Use(NamedTuple):
    """What an optional package is for, and what to install."""

    purpose: str
    install: str


USES = {
    "ray": Use("evaluate on several devices or machines", "holdfast[ray]"),
    "timm": Use("models of timm: `timm:NAME`", "holdfast[timm]"),
    "torchvision": Use("models of torchvision: `torchvision:NAME`", "holdfast[torchvision]"),
    "transformers": Use("models of the Hugging Face hub: `transformers:NAME`", "holdfast[transformers]"),
    "open_clip": Use("zero-shot classifiers: `open-clip:NAME`", "holdfast[open-clip]"),
    "onnxruntime": Use("forward-only models: `onnx:PATH`", "holdfast[onnx]"),
    "duckdb": Use("SQL over rows: `Store.sql`", "duckdb"),
    "pandas": Use("rows as a data frame: `Store.pandas`", "holdfast[pandas]"),
    "plotly": Use("interactive plots of the site", "plotly"),
}


@dataclass(frozen=True, slots=True)
class Device:
    """What computes. Memory in bytes."""

    name: str
    about: str
    memory: int
    free: int | None = None


@dataclass(frozen=True, slots=True)
class Package:
    """A package that is used. `problem` says why it cannot be; a missing optional one has no version and no problem."""

    name: str
    version: str | None
    purpose: str = ""
    install: str = ""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class StoreState:
    """Where rows go."""

    path: str
    runs: int
    free: int | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """The files of a dataset: complete, incomplete or absent, where, and how to get them."""

    name: str
    state: str
    folder: str
    get: str = ""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class TimedModel:
    """A model at hand, with the images per second that a trial of passes in float32 came to here."""

    name: str
    forwards: float
    gradients: float


@dataclass(frozen=True, slots=True)
class Fitness:
    """How much of a suite can run here. `seconds` for `model`, None where nothing can or no such model is at hand.

    `absent` names the datasets that it waits for, each with how to get it. `timed`: the models behind `seconds`.
    """

    name: str
    title: str
    can: int
    of: int
    passes: float = 0.0
    seconds: float | None = None
    model: str = ""
    absent: dict[str, str] = field(default_factory=dict)
    problem: str | None = None
    timed: tuple[TimedModel, ...] = ()

    @property
    def state(self) -> str:
        if self.problem is not None:
            return "broken"
        return "whole" if self.can == self.of else "in part" if self.can else "not"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything the doctor looked at."""

    holdfast: str
    python: str
    packages: tuple[Package, ...]
    store: StoreState
    folder: str = ""
    devices: tuple[Device, ...] = ()
    data: tuple[Data, ...] = ()
    suites: tuple[Fitness, ...] = ()

    @property
    def problems(self) -> list[str]:
        """What is broken that is needed; nothing of this is about what is merely absent."""
        needed = [package for package in self.packages if not package.purpose]
        problems = [each.problem for each in needed] + [self.store.problem]
        problems += [each.problem for each in self.data] + [each.problem for each in self.suites]
        return [problem for problem in problems if problem is not None]


def examined(store: str) -> Diagnosis:
    """Looks at everything; without a working torch, at what needs none."""
    packages = tuple(map(needed_package, NEEDED)) + tuple(optional_package(name, use) for name, use in USES.items())
    known = Diagnosis(holdfast.__version__, platform.python_version(), packages, store_state(store))
    if known.problems and any(package.problem for package in packages[: len(NEEDED)]):
        return known
    return replace(
        known,
        folder=str(data_home()),
        devices=local_devices(),
        data=tuple(datasets()),
        suites=tuple(map(fitness, suites())),
    )


def local_devices() -> tuple[Device, ...]:
    """The CPU, and each GPU that torch can use."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    about = f"{cores} cores, {torch.get_num_threads()} threads, {platform.processor() or platform.machine()}"
    devices = [Device("cpu", about, *_memory())]
    for i in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = torch.cuda.mem_get_info(i)
        devices.append(Device(f"cuda:{i}", torch.cuda.get_device_name(i), total, free))
    return tuple(devices)


def _memory() -> tuple[int, int | None]:
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_PHYS_PAGES"), page * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0, None


def needed_package(name: str) -> Package:
    try:
        module = importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - a broken package may raise anything
        return Package(name, None, problem=f"`{name}` cannot be imported: {error}")
    return Package(name, str(module.__version__))


def optional_package(name: str, use: Use) -> Package:
    """Imports it: one that was built for another torch is installed and yet of no use."""
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        problem = None if error.name == name else f"needs `{error.name}`"
        return Package(name, None, use.purpose, f"pip install {use.install}", problem)
    except Exception as error:  # noqa: BLE001 - torchvision of another torch raises RuntimeError, others anything
        return Package(name, None, use.purpose, f"pip install {use.install}", str(error).splitlines()[0])
    return Package(name, str(getattr(module, "__version__", "installed")), use.purpose)


def store_state(store: str) -> StoreState:
    """Whether rows can be written, how many runs there are, and the room that is left on a local disk."""
    try:
        kept = Store(store)
        runs = len(kept.files.names("rows", ".parquet"))
    except Exception as error:  # noqa: BLE001 - fsspec and its drivers raise what they like
        return StoreState(store, 0, None, f"the store {store} cannot be read: {error}")
    free = None
    if kept.files.is_local:
        folder = Path(kept.files.root)
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        if not (folder.is_dir() and os.access(folder, os.W_OK)):
            return StoreState(store, runs, free, f"the store {store} cannot be written: {folder} does not allow it")
        if folder != Path(kept.files.root):  # nothing there yet: leave it so
            return StoreState(store, runs, free)
    probe = f"probe-{uuid.uuid4().hex[:8]}"
    try:
        kept.files.write(probe, b"holdfast")
        kept.files.remove(probe)
    except Exception as error:  # noqa: BLE001
        return StoreState(store, runs, free, str(error).splitlines()[0])
    return StoreState(store, runs, free)


def datasets() -> list[Data]:
    """What has files. Those that come with holdfast are compared with their checksums."""
    data = []
    for download in downloads():
        state = STATES[download.state]
        way = "" if state == "complete" else download.by_hand or f"holdfast data get {download.name}"
        problem = None
        if download.bundled and not is_whole(download):
            problem = f"the bundled files of `{download.name}` are damaged: install holdfast again"
        data.append(Data(download.name, state, str(download.home), way, problem))
    return data


def absences(scenarios: Sequence[str]) -> dict[str, Absent]:
    """By dataset, as its scenarios write it, why it cannot be read here; its hint says how to get it.

    No image is decoded. A dataset that is here but damaged, or laid out in no known way, is no absence: reading it
    says what is wrong.
    """
    downloads()
    missing_data: dict[str, Absent] = {}
    looked: dict[object, Absent | None] = {}
    for text in dict.fromkeys(split(scenario, "+")[0].strip() for scenario in scenarios):
        for ref in _sources(registry.bind("dataset", text)):
            key = (ref.name, *((name, value) for name, value in ref.args if name in CHOOSING))
            if key not in looked:
                looked[key] = _looked_for(ref)
            missing = looked[key]
            if missing is not None:
                missing_data.setdefault(text, missing)
    return missing_data


def _looked_for(ref: Ref) -> Absent | None:
    """What keeps a published dataset from being read: its files, or those of the variant that is asked for."""
    download = catalogue[ref.name]
    if download.state == "missing":
        return download.missing(download.forms[0].files[0].name if download.forms else (*download.folders, "")[0])
    if download.state == "here" and not any(name in CHOOSING for name, _ in ref.args):
        return None
    try:
        registry.build(ref)
    except Absent as missing:
        return missing
    except HoldfastError:
        return None
    return None


def _sources(ref: Ref) -> Iterator[Ref]:
    """The published datasets that a dataset is read from: itself, or those it is built of."""
    if ref.name in catalogue:
        yield ref
        return
    if "built" not in registry.entry("dataset", ref.name).tags:
        return
    known = registry.entries("dataset")
    for _, value in ref.args:
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and text and parse_ref(text).name in known:
                yield from _sources(registry.bind("dataset", text))


def fitness(name: str) -> Fitness:
    try:
        suite = load_suite(name)
        missing = absences(suite.scenarios)
        able = [text for text in suite.scenarios if split(text, "+")[0].strip() not in missing]
        passes, seconds, timed = _effort([registry.scenario(text) for text in able], suite.samples)
    except HoldfastError as error:
        return Fitness(name, "", 0, 0, problem=f"suite `{name}`: {error.problem}")
    absent = {split(text, ":", most=1)[0]: str(error.hint) for text, error in missing.items()}
    model = timed[-1].name if timed and seconds is not None else ""
    return Fitness(name, suite.title, len(able), len(suite.scenarios), passes, seconds, model, absent, timed=timed)


def _effort(scenarios: Sequence[Scenario], samples: int | None) -> tuple[float, float | None, tuple[TimedModel, ...]]:
    """Passes through the model at most, forward and backward, and the seconds they take here for models at hand."""
    from holdfast.engine.passes_ahead import scenario_cost

    total, seconds, models = 0.0, 0.0, dict[TimedModel, None]()
    is_timed = bool(scenarios)
    for scenario in scenarios:
        card, there = _opened(str(scenario.dataset))
        cost, n = scenario_cost(scenario), min(there, samples or there)
        forwards, backwards = n * cost.forwards, n * cost.backwards
        total += forwards + backwards
        timed = _pace(card.channels, card.size)
        if timed is None:
            is_timed = False
            continue
        name, pace = timed
        models[TimedModel(name, 1 / pace.forward, 1 / (pace.forward + pace.backward))] = None
        seconds += pace.forward * forwards + pace.backward * backwards
    return total, seconds if is_timed else None, tuple(models)


@cache
def _opened(text: str) -> tuple[DatasetCard, int]:
    dataset = registry.build(registry.bind("dataset", text))
    return dataset.card, len(dataset.ids)


@cache
def _pace(channels: int, size: tuple[int, int]) -> tuple[str, Pace] | None:
    """Seconds per pass of a model at hand that takes such images; None for large ones, of which there is none."""
    import torch

    from holdfast.engine.device import full_precision, pick_device
    from holdfast.engine.plan import pace_on
    from holdfast.models import load, wrap

    if max(size) > LARGE:
        return None
    device = pick_device()
    with full_precision():
        images = torch.rand(FEW, channels, *size, device=device)
        if (channels, size) == (1, _opened(DEFAULT)[0].size):
            return BUNDLED, pace_on(load(BUNDLED, device=device), images, device)
        net = registry.build(registry.bind("architecture", f"{COLOURED}:channels={channels}"))
        model = wrap(net.eval().to(device), name=COLOURED, classes=10, channels=channels)
        return COLOURED, pace_on(model, images, device)
