"""One registry for everything that has a name: adding a component is one file with one `@register`."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import math
import os
import pkgutil
import sys
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from holdfast.core.config import FILE, parsed_name, read_config, refuse_name_of_name
from holdfast.core.errors import HoldfastError, Misuse, unknown
from holdfast.core.foreign_code import error_line, load_guarded
from holdfast.core.other_words import attack_of_others, name_hint, of_another_kind, parameter_hint, read_by
from holdfast.core.refs import TELLING, Parsed, Ref, Scenario, named_ref, parse_ref, split_name
from holdfast.core.values import Value, shortened, split, value_text

HOMES = {
    "dataset": "holdfast.datasets",
    "model": "holdfast.models",
    "architecture": "holdfast.models",
    "corruption": "holdfast.corruptions",
    "attack": "holdfast.attacks",
    "metric": "holdfast.metrics",
    "recipe": "holdfast.training",
}
CHANGES = ("corruption", "attack")
NAMED = ("model", "dataset")  # what may be given a short name
ALSO = {"metric": ("holdfast.trends",)}  # further homes of a kind: scores over many models
ENTRY_POINTS = "holdfast"
PLUGIN_FOLDERS = "HOLDFAST_PLUGINS"
REQUIRED = object()
MOST_CHANGES = 32  # of one scenario
LARGEST = 2**63 - 1  # a whole number that arrays and files can hold
RANGES: dict[str, tuple[float, float]] = {  # what a parameter of this name may be, in whatever component
    **dict.fromkeys(("steps", "queries"), (1, 10**7)),
    **dict.fromkeys(("restarts", "draws", "rounds", "targets", "epochs", "bins"), (1, 10**5)),
    **dict.fromkeys(("size", "resize"), (1, 2**14)),
    "border": (-(2**14), 2**14),
    "momentum": (0, 1),
    **dict.fromkeys(("radius", "radii"), (0, 1e9)),
    "step_size": (1e-30, 1e9),
}

Factory = TypeVar("Factory", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a component: its type, its default, and whether it may be given without a name."""

    name: str
    annotation: Any
    default: Any
    positional: bool

    @property
    def required(self) -> bool:
        return self.default is REQUIRED


@dataclass(frozen=True, slots=True)
class Component:
    """A registered component. `summary` is the first line of its docstring, `source` where it comes from."""

    kind: str
    name: str
    factory: Callable[..., Any]
    version: int
    source: str
    tags: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    later: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        return self.doc.split("\n", 1)[0].strip()

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.factory) or ""

    @property
    def home(self) -> str:
        return f"{self.factory.__module__}.{self.factory.__qualname__}"


@dataclass(slots=True)
class Registry:
    """Components by kind and name."""

    components: dict[str, dict[str, Component]] = field(default_factory=dict)
    discovered: set[str] = field(default_factory=set)

    def add(self, entry: Component) -> None:
        for kind in CHANGES if entry.kind in CHANGES else (entry.kind,):
            other = self.components.get(kind, {}).get(entry.name)
            if other is not None and other.home != entry.home:  # a module imported twice is no clash
                problem = f"two {entry.kind}s are named `{entry.name}`: {other.home} and {entry.home}"
                raise HoldfastError(problem, hint="rename one of them")
        self.components.setdefault(entry.kind, {})[entry.name] = entry

    def entries(self, kind: str) -> dict[str, Component]:
        self.discover(kind)
        return dict(sorted(self.components.get(kind, {}).items()))

    def entry(self, kind: str, name: str) -> Component:
        known = self.entries(kind)
        if name not in known:
            raise unknown(kind, shortened(name), known)
        return known[name]

    def bind(self, kind: str, text: str) -> Ref:
        """The ref that a text stands for, with every default bound in.

        A model or dataset may be given a name, `mine=python:nets:make`, or be named by one of holdfast.toml.
        """
        name, text = split_name(text) if kind in NAMED else ("", text)
        parsed = parse_ref(text)
        named = read_config().names(kind)
        if parsed.name in named and not name:
            if parsed.positional or parsed.keywords:
                problem = f"`{parsed.name}` is a name of {FILE} and takes no arguments"
                raise Misuse(problem, hint=f"it stands for `{named[parsed.name]}`: change that")
            name, parsed = parsed.name, parsed_name(parsed.name, named[parsed.name])
            refuse_name_of_name(kind, name, parsed.name, self.entries(kind), named)
        if parsed.name not in self.entries(kind) and (source := read_by(kind, text)) is not None:
            parsed = parse_ref(source)
        if parsed.name not in self.entries(kind):
            if name and name not in named:
                problem = (
                    f"no {kind} named `{shortened(parsed.name)}`, which `{shortened(f'{name}={text}')}` gives a name to"
                )
                raise Misuse(problem, hint="a comma inside braces parts alternatives: is this an argument?")
            raise self._unknown(kind, parsed.name, [*self.entries(kind), *named])
        bound = _bound(self.entry(kind, parsed.name), parsed)
        if not name:
            return bound
        if name in self.entries(kind):
            raise Misuse(f"`{name}` is a {kind} that holdfast has", hint="choose another name for yours")
        return named_ref(bound, name)

    def _unknown(self, kind: str, name: str, known: Iterable[str]) -> Misuse:
        """The error for a name that is no component of this kind; says so where it is one of another."""
        others = [other for other in ("dataset", "model", *CHANGES) if other != kind and name in self.entries(other)]
        if others:
            return of_another_kind(kind, others[0], name)
        hint = name_hint(kind, name)
        return unknown(kind, shortened(name), () if hint else known, otherwise=hint)

    def bind_change(self, text: str) -> Ref:
        """A corruption or an attack, whichever has that name."""
        parsed = parse_ref(text)
        known = {name: entry for kind in CHANGES for name, entry in self.entries(kind).items()}
        if parsed.name not in known:
            if parsed.name in self.entries("dataset"):
                raise of_another_kind("change", "dataset", parsed.name)
            theirs = attack_of_others(parsed.name)
            if theirs is not None and parsed.name.lower() not in (parsed.name, *known):
                raise Misuse(f"no corruption or attack named `{shortened(parsed.name)}`", hint=theirs)
            raise unknown("corruption or attack", shortened(parsed.name), known, otherwise=theirs)
        return _bound(known[parsed.name], parsed)

    def scenario(self, text: str) -> Scenario:
        """Reads `dataset+change+change`."""
        first, *rest = split(text, "+")
        if len(rest) > MOST_CHANGES:
            raise Misuse(
                f"`{shortened(text)}` has {len(rest):,} changes", hint=f"a scenario has at most {MOST_CHANGES}"
            )
        return Scenario(self.bind("dataset", first), tuple(self.bind_change(part) for part in rest))

    def build(self, ref: Ref) -> Any:
        """The component itself, made with the ref's arguments."""
        entry = self.entry(ref.kind, ref.name)
        if entry.version != ref.version:
            raise HoldfastError(
                f"`{ref.name}` is version {entry.version} here, the ref is of version {ref.version}",
                hint="rows of another version stay readable but cannot be made again by this installation",
            )
        positional = [value for _, value in ref.args[: ref.positional]]
        try:
            return entry.factory(*positional, **dict(ref.args[ref.positional :]))
        except (OSError, RecursionError, OverflowError, MemoryError) as error:
            problem = f"`{shortened(str(ref), 200)}` cannot be made: {error_line(error)}"
            raise HoldfastError(problem, hint="look at its arguments, and at the files that they name") from error

    def discover(self, kind: str) -> None:
        """Imports the kind's own folder, plug-in folders and entry points, once."""
        if kind not in HOMES:
            raise unknown("kind", kind, HOMES)
        if HOMES[kind] in self.discovered:
            return
        for home in (HOMES[kind], *ALSO.get(kind, ())):
            self.discovered.add(home)
            package = importlib.import_module(home)
            for module in pkgutil.walk_packages(package.__path__, prefix=f"{home}."):
                importlib.import_module(module.name)
        self._plugins()

    def _plugins(self) -> None:
        if "plugins" in self.discovered:
            return
        self.discovered.add("plugins")
        for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
            load_guarded(f"the plug-in `{getattr(point, 'value', point)}`", point.load)
        for folder in filter(None, os.environ.get(PLUGIN_FOLDERS, "").split(os.pathsep)):
            if not Path(folder).is_dir():
                raise Misuse(f"{PLUGIN_FOLDERS} names a folder that does not exist: {folder}")
            for file in sorted(Path(folder).glob("*.py")):
                spec = importlib.util.spec_from_file_location(f"holdfast_plugin_{file.stem}", file)
                assert spec is not None, "a .py file always has a spec"
                assert spec.loader is not None, "a .py file always has a loader"
                module = importlib.util.module_from_spec(spec)
                sys.modules[spec.name] = module  # where `inspect` and dataclasses look for it
                load_guarded(f"the plug-in {file}", functools.partial(spec.loader.exec_module, module))


registry = Registry()


def register(
    kind: str,
    name: str,
    *,
    version: int = 1,
    source: str = "",
    tags: tuple[str, ...] = (),
    later: tuple[str, ...] = (),
) -> Callable[[Factory], Factory]:
    """Registers a factory under a name. Bump `version` whenever its rows would change.

    Parameters before `*` may be given without a name (`folder:PATH`); all others are `name=value`. `later` are
    parameters that were added when rows were there already: at their default they are no part of a ref, so that its
    key stays what it was.
    """

    def decorate(factory: Factory) -> Factory:
        registry.add(Component(kind, name, factory, version, source, tags, _parameters(factory), later))
        return factory

    return decorate


def _parameters(factory: Callable[..., Any]) -> tuple[Parameter, ...]:
    subject = factory.__init__ if inspect.isclass(factory) else factory
    hints = typing.get_type_hints(subject)
    return tuple(
        Parameter(
            name=parameter.name,
            annotation=hints.get(parameter.name, Any),
            default=REQUIRED if parameter.default is parameter.empty else parameter.default,
            positional=parameter.kind is parameter.POSITIONAL_OR_KEYWORD,
        )
        for parameter in inspect.signature(factory).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    )


def _bound(entry: Component, parsed: Parsed) -> Ref:
    parameters = {parameter.name: parameter for parameter in entry.parameters}
    nameless = [parameter.name for parameter in entry.parameters if parameter.positional]
    if len(parsed.positional) > len(nameless):
        surplus = shortened(value_text(parsed.positional[len(nameless)]))
        raise Misuse(f"`{surplus}` in `{entry.name}` has no name, like `name={surplus}`", hint=_usage(entry))
    given = dict(zip(nameless, parsed.positional, strict=False))
    for name, value in parsed.keywords.items():
        if name not in parameters:
            hint = parameter_hint(entry.kind, name, parameters, _usage(entry))
            raise Misuse(f"`{entry.name}` has no parameter `{shortened(name)}`", hint=hint)
        if name in given:
            raise Misuse(f"`{name}` is given twice in `{entry.name}`")
        given[name] = value
    args = []
    for parameter in entry.parameters:
        if parameter.required and parameter.name not in given:
            raise Misuse(f"`{entry.name}` needs `{parameter.name}`", hint=_usage(entry))
        what = f"`{parameter.name}` of `{entry.name}`"
        value = coerced(given.get(parameter.name, parameter.default), parameter.annotation, what)
        if parameter.name in given:
            _check_size(value, parameter, what)
        if parameter.name not in entry.later or not _same(value, parameter.default):
            args.append((parameter.name, value))

    telling = () if entry.kind == "metric" else TELLING  # the radius of a metric is where its curve ends
    shown = {
        name for name, value in args if name in (*nameless, *telling) or not _same(value, parameters[name].default)
    }
    return Ref(entry.kind, entry.name, tuple(args), entry.version, len(nameless), frozenset(shown))


def _check_size(value: Value, parameter: Parameter, what: str) -> None:
    """Refuses what no computation can hold, or what would take for ever; infinity is fine where it is the default."""
    low, high = RANGES.get(parameter.name, (-math.inf, math.inf))
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, bool) or not isinstance(item, int | float) or item == parameter.default:
            continue
        if isinstance(item, float) and not math.isfinite(item):
            raise Misuse(f"{what} must be finite, got `{value_text(item)}`")
        if not low <= item <= high or (isinstance(item, int) and not -LARGEST <= item <= LARGEST):
            allowed = f"at least {low:g} and at most {high:,g}" if parameter.name in RANGES else "of at most 64 bits"
            raise Misuse(f"{what} must be {allowed}, got `{shortened(value_text(item))}`")


def coerced(value: Value, annotation: Any, what: str) -> Value:
    """The value as the parameter's type, or an error that names the parameter and the type."""
    for option in _options(annotation):
        fits, result = _fit(value, option)
        if fits:
            return result
    raise Misuse(f"{what} must be {in_words(annotation)}, got `{shortened(value_text(value), 200)}`")


def _same(one: Value, other: Value) -> bool:
    return one == other and type(one) is type(other)


def _fit(value: Value, option: Any) -> tuple[bool, Value]:
    origin, inner = typing.get_origin(option), typing.get_args(option)
    if option is Any:
        return True, value
    if origin is Literal:
        return value in inner, value
    if origin is tuple and value is None:
        return False, value
    if origin is tuple:
        items = value if isinstance(value, tuple) else (value,)
        return True, tuple(coerced(item, inner[0], "an item") for item in items)
    if option is types.NoneType:
        return value is None, value
    if option is bool:
        return isinstance(value, bool), value
    if option is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number, float(value) if number else value  # type: ignore[arg-type]
    if option is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    if option is str:  # a word that happens to read as a number is still a word: `file:2024`
        fits = value is not None and not isinstance(value, tuple)
        return fits, value if isinstance(value, str) else value_text(value)
    return False, value


def _options(annotation: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if is_union else (annotation,)


def in_words(annotation: Any) -> str:
    """A parameter's type as a person would say it."""
    words = {int: "a whole number", float: "a number", str: "a word", bool: "true or false", types.NoneType: "none"}
    options = []
    for option in _options(annotation):
        if typing.get_origin(option) is Literal:
            options.append("one of " + ", ".join(value_text(item) for item in typing.get_args(option)))
        elif typing.get_origin(option) is tuple:
            options.append("a list like [a,b] of " + in_words(typing.get_args(option)[0]))
        else:
            options.append(words.get(option, str(option)))
    return " or ".join(options)


def _usage(entry: Component) -> str:
    items = []
    for parameter in entry.parameters:
        shown = parameter.name.upper() if parameter.required else value_text(parameter.default)
        items.append(shown if parameter.positional and parameter.required else f"{parameter.name}={shown}")
    return f"use `{entry.name}:{','.join(items)}`" if items else f"`{entry.name}` takes no arguments"
