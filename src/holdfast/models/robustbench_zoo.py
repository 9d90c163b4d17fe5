"""Models of RobustBench's public zoo, from its checkpoint files; its package is used where it is installed."""

from __future__ import annotations

import csv
import importlib
import importlib.util
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal, NamedTuple

from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse, unknown
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.classifier import Numbers, described
from holdfast.models.weights import architecture, fit_weights, read_state

PAPER = "Croce et al. 2020, arXiv:2010.09670"
CLASSES = {"cifar10": 10, "cifar100": 100, "imagenet": 1000}
UNUSED = "sub_block1."  # a block that TRADES' WideResNet has and never calls
LAST = ("Kireev2021Effectiveness", "Andriushchenko2020Understanding")  # files with a last and a best state


class ZooEntry(NamedTuple):
    """What the public zoo says of one model: the network, and what its input is normalised by."""

    architecture: str
    mean: Numbers
    std: Numbers
    size: int | None
    download: str = ""  # where the public list keeps the checkpoint


@register("model", "robustbench", source="https://github.com/RobustBench/robustbench")
def robustbench(
    name: str,
    *,
    threat: Literal["Linf", "L2", "corruptions"] = "Linf",
    dataset: Literal["cifar10", "cifar100", "imagenet"] = "cifar10",
    folder: str = "models",
) -> Classifier:
    """A model of RobustBench's zoo: `robustbench:Carmon2019Unlabeled,threat=Linf`.

    Reads the public checkpoint `folder/dataset/threat/NAME.pt`, where RobustBench itself puts it; code in it never
    runs. Where there is no such file, or the network is not among those defined here, the `robustbench` package loads
    the model if it is installed.
    """
    path = Path(folder).expanduser() / dataset / threat / f"{name}.pt"
    entry = zoo().get((dataset, threat, name))
    if entry is None or not path.is_file():
        return _from_package(name, threat, dataset, path, entry)
    state = dict(read_state(path, first="last" if name.startswith(LAST) else None))
    mean, std = _taken(state, "mu", entry.mean), _taken(state, "sigma", entry.std)
    state = {key: tensor for key, tensor in state.items() if not key.startswith(UNUSED)}
    net = fit_weights(architecture(entry.architecture).net, state, what=f"`{path}`")
    return _described(net, name, threat, dataset, mean, std, entry.size)


@cache
def zoo() -> dict[tuple[str, str, str], ZooEntry]:
    """Every model whose network is defined here, by dataset, threat and name."""
    text = resources.files("holdfast.models").joinpath("robustbench_zoo.csv").read_text(encoding="utf-8")
    return {
        (line["dataset"], line["threat"], line["name"]): ZooEntry(
            line["architecture"],
            _numbers(line["mean"]),
            _numbers(line["std"]),
            int(line["size"] or 0) or None,
            line["download"],
        )
        for line in csv.DictReader(text.splitlines())
    }


def _numbers(text: str) -> Numbers:
    return tuple(map(float, text.split())) or None


def _taken(state: dict[str, Tensor], key: str, otherwise: Numbers) -> Numbers:
    """The normalisation that a checkpoint carries, taken out of it; the zoo's own where it has none."""
    tensor = state.pop(key, None)
    return otherwise if tensor is None else tuple(tensor.flatten().tolist())


def _described(
    net: nn.Module, name: str, threat: str, dataset: str, mean: Numbers, std: Numbers, size: int | None
) -> Classifier:
    return described(
        net,
        name=name,
        classes=CLASSES[dataset],
        channels=3,
        size=size,
        mean=mean,
        std=std,
        trained_on=dataset,
        paper=PAPER,
        notes=f"RobustBench, {threat}",
    )


def _from_package(name: str, threat: str, dataset: str, path: Path, entry: ZooEntry | None) -> Classifier:
    by_hand = f"download {entry.download} and save it as {path}" if entry is not None and entry.download else ""
    if importlib.util.find_spec("robustbench") is not None:
        net = _loaded_by_package(name, threat, dataset, path, by_hand)
        return _described(net, name, threat, dataset, None, None, None)
    if entry is not None:
        raise HoldfastError(
            f"there is no checkpoint `{path}`",
            hint=f"{by_hand or 'put it there'}, or name another folder with folder=PATH; "
            "with RobustBench's own package installed it is downloaded for you",
        )
    names = [known for at, kind, known in zoo() if (at, kind) == (dataset, threat)]
    if not names:
        raise Misuse(f"RobustBench has no list of {dataset} models for {threat}")
    raise unknown(
        f"model of RobustBench's {dataset} list for {threat}",
        name,
        names,
        otherwise="networks that are not defined here need RobustBench's own package",
    )


def _loaded_by_package(name: str, threat: str, dataset: str, path: Path, by_hand: str) -> nn.Module:
    """The network as RobustBench's own loader makes it, its normalisation inside."""
    try:
        package = importlib.import_module("robustbench.utils")
    except (ImportError, RuntimeError) as error:  # a torchvision built for another torch raises RuntimeError
        hint = by_hand or "install RobustBench again, with a torchvision and a timm that belong to the installed torch"
        raise HoldfastError(f"`robustbench` is installed but cannot be imported: {error}", hint=hint) from error
    try:
        net = package.load_model(name, model_dir=str(path.parents[2]), dataset=dataset, threat_model=threat)
    except KeyError as error:
        problem = f"the installed `robustbench` has no {dataset} model {error} for {threat}"
        raise Misuse(problem, hint="a newer version may have it: pip install -U robustbench") from error
    except Exception as error:
        hint = by_hand or f"where it cannot download, put the checkpoint at {path} yourself"
        raise HoldfastError(f"the installed `robustbench` cannot load `{name}`: {error}", hint=hint) from error
    assert isinstance(net, nn.Module), "RobustBench loads modules"
    return net
