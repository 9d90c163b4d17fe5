"""Models that are code: a function in a module you wrote."""

from __future__ import annotations

import hashlib
import importlib
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from holdfast.core.errors import HoldfastError, HoldfastWarning, Misuse, did_you_mean
from holdfast.core.registry import register
from holdfast.core.types import Classifier
from holdfast.models.classifier import Numbers, described, is_classifier


@register("model", "python")
def python_model(
    factory: str,
    *,
    classes: int | None = None,
    channels: int | None = None,
    size: int | None = None,
    mean: Numbers = None,
    std: Numbers = None,
) -> Classifier:
    """A model made by your own code: `python:module:factory`, found from the current folder.

    The factory takes no arguments and returns a module or a classifier with a card. `mean`, `std` and `size` put the
    preprocessing inside; what is not stated about classes and channels is asked of the network with one forward pass.
    """
    module_name, _, attribute = factory.partition(":")
    if not module_name or not attribute:
        raise Misuse(f"`{factory}` does not say which function of which module", hint="write python:module:factory")
    built = _built(_attribute(_imported(module_name), attribute), factory)
    if is_classifier(built):
        _must_agree(built, factory, classes=classes, channels=channels)
        if (mean, std, size) != (None, None, None):
            problem = f"`{factory}` gives a classifier with a card, which has its preprocessing inside"
            raise Misuse(problem, hint="leave out mean, std and size")
        return built
    if isinstance(built, nn.Module):
        return described(built, name=attribute, classes=classes, channels=channels, size=size, mean=mean, std=std)
    raise HoldfastError(
        f"`{factory}` must give a torch module or a classifier, got {type(built).__name__}",
        hint="return the network itself, an nn.Module",
    )


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
        _warn_of_edits(Path(here))
        return module
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise HoldfastError(
                f"module `{name}` needs `{error.name}`, which is not installed", hint=f"pip install {error.name}"
            ) from error
        nearby = [file.stem for file in Path(here).glob("*.py")]
        hint = did_you_mean(name, nearby) or f"modules are looked for in {here}, PYTHONPATH and the environment"
        raise Misuse(f"no module named `{name}`", hint=hint) from error
    except (Exception, SystemExit) as error:
        raise HoldfastError(
            f"importing `{name}` failed: {type(error).__name__}: {error}", hint=f"try: python -c 'import {name}'"
        ) from error


SEEN: dict[str, tuple[object, str]] = {}  # module → its spec, new with every import, and the digest of its file then


def _warn_of_edits(folder: Path) -> None:
    """Warns where a module of this folder was edited after Python had imported it: the model is the one of before."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not Path(file).is_relative_to(folder) or "site-packages" in file:
            continue
        try:
            now = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        except OSError:
            continue
        spec = getattr(module, "__spec__", None)
        before, then = SEEN.get(name, (None, now))
        SEEN[name] = spec, now
        if before is spec and then != now:
            warnings.warn(
                f"{Path(file).name} was edited after Python had imported it: the model is that of the file as it was; "
                f"start anew, or importlib.reload({name})",
                HoldfastWarning,
                stacklevel=2,
            )


def _attribute(module: ModuleType, name: str) -> Any:
    try:
        return getattr(module, name)
    except AttributeError as error:
        public = [known for known in vars(module) if not known.startswith("_")]
        hint = did_you_mean(name, public) or f"it has: {', '.join(public[:10]) or 'nothing public'}"
        raise Misuse(f"module `{module.__name__}` has no `{name}`", hint=hint) from error


def _built(thing: Any, factory: str) -> Any:
    if isinstance(thing, nn.Module) or is_classifier(thing):
        return thing
    if not callable(thing):
        raise Misuse(
            f"`{factory}` is a {type(thing).__name__}, which cannot be called",
            hint="name a function without arguments that returns the network",
        )
    try:
        return thing()
    except HoldfastError as error:
        raise HoldfastError(f"`{factory}`: {error.problem}", hint=error.hint) from error
    except (Exception, SystemExit) as error:
        raise HoldfastError(
            f"`{factory}` raised {type(error).__name__}: {error}", hint="it is called without arguments"
        ) from error


def _must_agree(built: Classifier, factory: str, *, classes: int | None, channels: int | None) -> None:
    for name, asked, stated in (("classes", classes, built.card.classes), ("channels", channels, built.card.channels)):
        if asked not in (None, stated):
            raise Misuse(f"the card of `{factory}` says {name}={stated}, and {name}={asked} is asked for")
