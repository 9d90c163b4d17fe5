"""Packages that holdfast can use and does not need, and the networks that they make."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch import nn

from holdfast.core.errors import HoldfastError


def optional(name: str, *, extra: str) -> ModuleType:
    """The package, imported now; the error says how to get it, or why the installed one does not work."""
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:  # a torchvision built for another torch raises RuntimeError
        package = name.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and error.name == package:
            raise HoldfastError(f"`{package}` is not installed", hint=f"pip install holdfast[{extra}]") from error
        raise HoldfastError(
            f"`{package}` is installed but cannot be imported: {error}",
            hint=f"pip install holdfast[{extra}], with versions that belong to the installed torch",
        ) from error


def made_by(library: str, name: str, make: Callable[[], Any], *, hint: str) -> nn.Module:
    """The network that a library makes, in evaluation mode; the error says why it cannot."""
    try:
        net = make()
    except Exception as error:
        raise HoldfastError(f"{library} cannot make `{name}`: {error}", hint=hint) from error
    assert isinstance(net, nn.Module), f"{library} makes modules"
    return net.eval()
