"""State dicts from files, and fitting them to an architecture. Code in a checkpoint never runs."""

from __future__ import annotations

import argparse
import importlib
import pathlib
import pickle
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.refs import Ref, parse_ref
from holdfast.core.registry import registry
from holdfast.models.header import damaged

State = Mapping[str, Tensor]
TORCH_FILES = (".pt", ".pth", ".bin", ".ckpt", ".tar")
NESTED = ("state_dict", "model", "model_state_dict", "net")
PREFIXES = ("module.", "_orig_mod.", "model.")  # DataParallel, torch.compile and wrappers put them before every name
SHOWN = 3
# what checkpoints hold beside tensors and what runs no code when it is read: numbers, settings and paths
HARMLESS: tuple[Any, ...] = (
    argparse.Namespace,
    *(pathlib.PurePosixPath, pathlib.PureWindowsPath, (pathlib.PurePath, "pathlib.PosixPath")),
    *((pathlib.PurePath, "pathlib.WindowsPath"), (pathlib.PurePath, "pathlib._local.PosixPath")),
    *(np.ndarray, np.dtype),
    *(kind for kind in vars(np.dtypes).values() if isinstance(kind, type)),
    *(
        (getattr(importlib.import_module("numpy._core.multiarray"), name), f"numpy.{core}.multiarray.{name}")
        for core in ("core", "_core")
        for name in ("scalar", "_reconstruct")
    ),
)


class Architecture(NamedTuple):
    """A network without its weights, and the ref that made it."""

    net: nn.Module
    ref: Ref

    def number(self, name: str) -> int | None:
        """The value of a whole-numbered argument such as `classes`; None where the architecture has none."""
        value = dict(self.ref.args).get(name)
        return value if isinstance(value, int) else None


def architecture(text: str, *, classes: int | None = None) -> Architecture:
    """A registered architecture, built; `classes` fills in what the text leaves to the default."""
    ref = registry.bind("architecture", text)
    if classes is not None and "classes" in dict(ref.args) and "classes" not in parse_ref(text).keywords:
        ref = registry.bind("architecture", f"{text}{',' if ':' in text else ':'}classes={classes}")
    net = registry.build(ref)
    assert isinstance(net, nn.Module), f"architecture `{ref.name}` must build a module, got {type(net).__name__}"
    return Architecture(net.eval(), ref)


def read_state(path: Path, *, first: str | None = None) -> State:
    """The tensors of a weights file by name: `.safetensors`, or a torch file read with `weights_only=True`.

    `first`: the entry to take where a torch file has several state dicts.
    """
    if not path.is_file():
        raise Misuse(f"there is no weights file `{path}`", hint="a relative path starts at the current folder")
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    if path.suffix in TORCH_FILES:
        content = _read_torch(path)
        inside = content.get(first, content) if first is not None and isinstance(content, Mapping) else content
        return _unprefixed(_state_in(inside, path))
    if path.suffix == ".pt2":
        raise Misuse(f"`{path.name}` is an exported program", hint=f"if you trust it: pt2:{path}")
    raise Misuse(f"`{path.name}` is no weights file", hint=f"weights end in .safetensors or {', '.join(TORCH_FILES)}")


def fit_weights(net: nn.Module, state: State, *, what: str) -> nn.Module:
    """Loads the tensors into the network, or says which names and shapes do not fit."""
    own = net.state_dict()
    missing = [name for name in own if name not in state and not name.endswith("num_batches_tracked")]
    surplus = [name for name in state if name not in own]
    shapes = [
        f"{name} {tuple(state[name].shape)} for {tuple(tensor.shape)}"
        for name, tensor in own.items()
        if name in state and state[name].shape != tensor.shape
    ]
    problems = [
        f"{len(names)} {kind}: {', '.join(names[:SHOWN])}{', …' if len(names) > SHOWN else ''}"
        for kind, names in (("missing", missing), ("not in the architecture", surplus), ("of another shape", shapes))
        if names
    ]
    if problems:
        raise HoldfastError(
            f"{what} does not fit a {type(net).__name__}: " + "; ".join(problems),
            hint="name the architecture the weights were trained with: architecture=(resnet18-cifar:classes=100)",
        )
    net.load_state_dict({**own, **state})
    return net


def tensors_of(net: nn.Module, state: State, *, what: str) -> State:
    """The tensors of a network alone, where a file holds others beside them, as those of a loss.

    A file that holds the network twice, such as once with averaged weights, does not say which is meant.
    """
    own = net.state_dict()
    if all(name in own for name in state):
        return state
    some = min(own, default="")
    prefixes = [name.removesuffix(some) for name in state if some and name.endswith(some)]
    needed = [name for name in own if not name.endswith("num_batches_tracked")]
    whole = [
        prefix
        for prefix in prefixes
        if all((tensor := state.get(prefix + name)) is not None and tensor.shape == own[name].shape for name in needed)
    ]
    if len(whole) > 1:
        raise HoldfastError(
            f"{what} holds the weights of this network {len(whole)} times: "
            + ", ".join(f"`{prefix}{some}`" for prefix in whole[:SHOWN]),
            hint="save those that you mean alone, best as safetensors",
        )
    if whole in ([], [""]):
        return state
    (prefix,) = whole
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def _read_safetensors(path: Path) -> State:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: State = load_file(path)
    except SafetensorError as error:
        raise damaged(path, str(error)) from error
    return _unprefixed(tensors)


def _read_torch(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch repeats as warnings what it raises below
            with torch.serialization.safe_globals(list(HARMLESS)):
                return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        holds = f"holds more than tensors (`{named[1]}`)" if named else "is damaged, or holds more than tensors"
        raise HoldfastError(
            f"`{path}` {holds}, and code from a checkpoint never runs here",
            hint="if you trust it, load it in your own code and save net.state_dict(), best as safetensors",
        ) from error
    except Exception as error:
        if "TorchScript" in str(error):
            hint = f"if you trust it: torchscript:{path}; or save the state dict of the module it was made from"
            raise HoldfastError(f"`{path}` is a TorchScript archive, which is a program", hint=hint) from error
        raise damaged(path, str(error).split(".")[0].strip() or type(error).__name__) from error


def _state_in(content: Any, path: Path) -> State:
    if isinstance(content, Mapping):
        for inside in (content, *(content[name] for name in NESTED if name in content)):
            if _is_state(inside):
                return {str(name): value for name, value in inside.items()}
        states = {str(name): part for name, part in content.items() if _is_state(part)}
        if len(states) == 1:  # under a name of its own, such as `ema`
            return {str(name): value for name, value in next(iter(states.values())).items()}
        if states:
            hint = "save the one that you mean alone, best as safetensors"
            raise HoldfastError(f"`{path}` holds several state dicts: {', '.join(list(states)[:5])}", hint=hint)
    content_text = (
        f"the keys {', '.join(map(str, list(content)[:5]))}" if isinstance(content, Mapping) else type(content).__name__
    )
    raise HoldfastError(
        f"`{path}` holds no state dict, but {content_text}",
        hint=f"save net.state_dict(), alone or under one of: {', '.join(NESTED)}",
    )


def _is_state(thing: Any) -> bool:
    return isinstance(thing, Mapping) and bool(thing) and all(isinstance(value, Tensor) for value in thing.values())


def _unprefixed(state: State) -> State:
    """Without what wrappers put before every name, in whichever order they were put around the network."""
    while prefix := next((each for each in PREFIXES if state and all(name.startswith(each) for name in state)), None):
        state = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
    return state
