"""Recipes: how a model is trained, as data. A recipe is a TOML file; everything that decides the weights is in it.

title = "ResNet-18 against linf"
dataset = "cifar10:split=train"
architecture = "resnet18-cifar"
loss = "pgd-at"
threats = ["pgd-linf:radius=8/255,steps=10"]

A file may hold several recipes that differ in a few fields: each `[[variant]]` has a `name` and those fields. All
fields are in docs/training.md.
"""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from holdfast.core.errors import HoldfastError, Misuse, did_you_mean, unknown
from holdfast.core.refs import Ref
from holdfast.core.registry import coerced, in_words, register, registry
from holdfast.core.suites import toml_of
from holdfast.core.values import parse_value, value_text

FOLDER = Path(__file__).parent.parent / "recipes"
LossName = Literal["standard", "pgd-at", "trades", "mart", "fast-at"]
Union = Literal["max", "avg", "msd", "random"]
Method = Literal["erm", "irm", "lisa"]
OptimiserName = Literal["sgd", "adamw"]
Schedule = Literal["cyclic", "piecewise", "cosine", "constant"]
Augmentation = Literal["crop", "flip", "cutout", "cutmix", "randaugment"]
Selection = Literal["last", "accuracy", "robust-accuracy", "agreement"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model is trained.

    `threats` are refs of attacks and corruptions; a corruption without a severity leaves half of the images as they are
    and takes a random severity for the others. `union` says what several threats make together. `beta` weighs the
    second term of trades and mart, `variation` the variation regularisation, `penalty` that of irm. With `environments`
    the datasets named there are trained on, each an environment. `average` is the decay of an exponential average of
    the weights; from the share `swa_from` of the epochs on the weights at their ends are averaged instead. `awp` is the
    relative size of an adversarial change of weights. `share` of the training images are used, chosen by the seed, only
    those of `labels` where some are named, and all of `extra`. `validation` images are held out: from them come the
    accuracies under way, and the epoch that `keep` asks for; with `paired` they come from two datasets that show the
    same samples otherwise. Training stops early after `patience` epochs without a better one. `mixed`: bfloat16
    arithmetic where the device is a GPU. `half`: matrices are stored in float16.
    """

    name: str
    title: str = ""
    source: str = ""
    dataset: str = "cifar10:split=train"
    architecture: str = "resnet18-cifar"
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    loss: LossName = "standard"
    threats: tuple[str, ...] = ()
    union: Union = "max"
    beta: float = 6.0
    variation: float = 0.0
    method: Method = "erm"
    environments: tuple[str, ...] = ()
    penalty: float = 1.0
    epochs: int = 20
    batch: int = 512
    optimiser: OptimiserName = "sgd"
    rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    schedule: Schedule = "cyclic"
    peak: float = 0.3
    milestones: tuple[float, ...] = (0.5, 0.75)
    smoothing: float = 0.0
    augment: tuple[Augmentation, ...] = ("crop", "flip")
    shift: int = 4
    average: float = 0.0
    swa_from: float | None = None
    awp: float = 0.0
    share: float = 1.0
    labels: tuple[int, ...] = ()
    extra: str | None = None
    validation: int = 0
    checked: str | None = None
    paired: tuple[str, ...] = ()
    keep: Selection = "last"
    patience: int | None = None
    every_epoch: bool = False
    mixed: bool = True
    half: bool = False
    seed: int = 0

    @property
    def is_adversarial(self) -> bool:
        return any(registry.bind_change(text).kind == "attack" for text in self.threats)

    @property
    def texts_of_data(self) -> tuple[str, ...]:
        """The datasets that are trained on, beside the extra one."""
        return self.environments or (self.dataset,)


FIELDS: dict[str, Any] = {name: hint for name, hint in typing.get_type_hints(Recipe).items() if name != "name"}
DEFAULTS: dict[str, Any] = {each.name: each.default for each in fields(Recipe) if each.name != "name"}
NUMBERS: dict[str, tuple[float, float, str]] = {  # field → least, most, in words
    "epochs": (1, 100_000, "at least 1"),
    "batch": (1, 1 << 20, "at least 1"),
    "rate": (1e-9, 100.0, "more than 0 and at most 100"),
    "momentum": (0.0, 0.9999, "at least 0 and below 1"),
    "weight_decay": (0.0, 10.0, "between 0 and 10"),
    "beta": (0.0, 1e6, "at least 0"),
    "variation": (0.0, 1e6, "at least 0"),
    "penalty": (0.0, 1e9, "at least 0"),
    "peak": (0.0, 1.0, "between 0 and 1"),
    "smoothing": (0.0, 0.999, "at least 0 and below 1"),
    "shift": (0, 1 << 12, "at least 0"),
    "average": (0.0, 0.999999, "at least 0 and below 1"),
    "swa_from": (0.0, 0.999999, "at least 0 and below 1"),
    "awp": (0.0, 1.0, "between 0 and 1"),
    "share": (1e-9, 1.0, "more than 0 and at most 1"),
    "validation": (0, 1 << 40, "at least 0"),
    "patience": (1, 1 << 40, "at least 1"),
    "seed": (0, (1 << 31) - 1, "at least 0 and below 2³¹"),
}


def recipe_files() -> dict[str, Path]:
    """The files of recipes that ship with the package, by their stems."""
    return {file.stem: file for file in sorted(FOLDER.glob("*.toml"))}


def load_recipe(text: str) -> Recipe:
    """A bundled recipe by its ref, `fashion-at-linf:epochs=2`, or one's own by the path of its file.

    A file of several recipes needs the name of one: `my.toml:NAME`.
    """
    path, _, variant = text.partition(".toml")
    if ".toml" not in text:
        made = registry.build(registry.bind("recipe", text))
        assert isinstance(made, Recipe), f"a recipe makes a Recipe, got {type(made).__name__}"
        return made
    made_here = {recipe.name: recipe for recipe in read_recipes(Path(f"{path}.toml"))}
    name = variant.removeprefix(":")
    if not name and len(made_here) == 1:
        return next(iter(made_here.values()))
    if name not in made_here:
        otherwise = f"name one of the {len(made_here)}: {path}.toml:{next(iter(made_here))}"
        raise unknown(f"recipe in {path}.toml", name, made_here, otherwise=None if name else otherwise)
    return made_here[name]


def family(name: str) -> list[Recipe]:
    """All recipes of a bundled file, or of one's own."""
    files = recipe_files()
    if name not in files and not name.endswith(".toml"):
        raise unknown("file of recipes", name, files, otherwise="name one of the package, or the path of a .toml file")
    return read_recipes(files.get(name, Path(name)))


def read_recipes(path: Path, *, names: bool = True) -> list[Recipe]:
    """The recipes of a file, checked; with `names`, also that all components they name exist."""
    record = toml_of(path, "recipe")
    variants = record.pop("variant", None)
    if variants is None:
        return [_recipe(path.stem, record, str(path), names)]
    if not isinstance(variants, list) or not all(isinstance(one, dict) for one in variants) or not variants:
        raise Misuse(f"{path}: `variant` must be tables, each under [[variant]]")
    _checked_fields(record, str(path))
    made: dict[str, Recipe] = {}
    for number, variant in enumerate(variants, 1):
        name = variant.pop("name", None)
        if not isinstance(name, str) or not name:
            raise Misuse(f"{path}: variant {number} needs `name`", hint='name = "cifar10-at-linf"')
        if name != Path(name).name:
            raise Misuse(f"{path}: `{name}` cannot be the name of a model file", hint="a name has no `/`")
        if name in made:
            raise Misuse(f"{path}: two variants are named `{name}`", hint="rename one of them")
        made[name] = _recipe(name, record | variant, f"{path}, variant `{name}`", names)
    return list(made.values())


def _recipe(name: str, record: Mapping[str, Any], where: str, names: bool) -> Recipe:
    recipe = Recipe(name, **_checked_fields(record, where))
    try:
        check_numbers(recipe)
        if names:
            check_names(recipe)
    except HoldfastError as error:
        raise type(error)(f"{where}: {error.problem}", hint=error.hint) from error
    return recipe


def _checked_fields(record: Mapping[str, Any], where: str) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for field, value in record.items():
        if field not in FIELDS:
            hint = did_you_mean(field, (*FIELDS, "variant")) or f"there are: {', '.join(FIELDS)}"
            raise Misuse(f"{where}: no field `{field}` in a recipe", hint=hint)
        plain = tuple(value) if isinstance(value, list) else value
        items = plain if isinstance(plain, tuple) else (plain,)
        if not all(isinstance(item, str | int | float | bool) for item in items):
            raise Misuse(f"{where}: `{field}` must be {in_words(FIELDS[field])}")
        if isinstance(plain, str) and FIELDS[field] in (int, float):
            plain = parse_value(plain)
        try:
            given[field] = coerced(plain, FIELDS[field], f"`{field}`")
        except Misuse as error:
            raise Misuse(f"{where}: {error.problem}", hint=error.hint) from error
    return given


def check_numbers(recipe: Recipe) -> None:
    """Refuses numbers outside their ranges, and fields that contradict each other."""
    for field, (least, most, words) in NUMBERS.items():
        value = getattr(recipe, field)
        if value is not None and (not least <= value <= most or not math.isfinite(value)):
            raise Misuse(f"`{field}` must be {words}, got `{value_text(value)}`")
    if recipe.method != "erm" and len(recipe.environments) < 2:
        raise Misuse(f"`{recipe.method}` needs two `environments` or more, got {len(recipe.environments)}")
    if recipe.environments and recipe.extra is not None:
        raise Misuse("`extra` belongs to no environment", hint="name it among `environments`")
    if recipe.method == "irm" and "cutmix" in recipe.augment:
        raise Misuse("`cutmix` mixes images of several environments, which `irm` keeps apart", hint="leave one out")
    if recipe.loss == "mart" and (recipe.smoothing or recipe.environments or "cutmix" in recipe.augment):
        hint = "leave out `smoothing`, `cutmix` and `environments`, or use another loss"
        raise Misuse("`mart` learns from one label of each image, and knows no environments", hint=hint)
    if len(recipe.paired) not in (0, 2):
        raise Misuse(f"`paired` names two datasets, got {len(recipe.paired)}")
    if recipe.paired and recipe.keep == "robust-accuracy":
        raise Misuse(
            "`paired` datasets are not attacked", hint='keep = "accuracy" or "agreement", or leave `paired` out'
        )
    if recipe.patience is not None and recipe.keep == "last":
        raise Misuse('`patience` waits for a better epoch, and `keep = "last"` names none', hint='keep = "accuracy"')
    if recipe.average and recipe.swa_from is not None:
        raise Misuse("`average` and `swa_from` are two averages of the weights", hint="leave one of them out")
    if not all(0.0 <= milestone <= 1.0 for milestone in recipe.milestones):
        raise Misuse(f"`milestones` are shares of training, from 0 to 1, got {list(recipe.milestones)}")
    if recipe.keep != "last" and not (recipe.validation or recipe.paired):
        raise Misuse(f'`keep = "{recipe.keep}"` chooses by images held out', hint="say how many: validation = 1000")
    if bool(recipe.mean) != bool(recipe.std):
        raise Misuse("`mean` and `std` belong together, got only one of them", hint="give both, or neither")


def check_names(recipe: Recipe) -> None:
    """Refuses names that nothing has, and losses without the attack that they need."""
    for text in recipe.threats:
        ref = registry.bind_change(text)
        if ref.kind == "attack" and not _has_radius(ref):
            raise Misuse(f"`{text}` has no radius to train in", hint="use an attack inside a radius, as `pgd-linf`")
    for text in (*recipe.texts_of_data, *recipe.paired, *filter(None, (recipe.extra,))):
        registry.bind("dataset", text)
    registry.bind("architecture", recipe.architecture)
    if recipe.checked is not None and not _has_radius(registry.bind("attack", recipe.checked)):
        hint = "use an attack inside a radius, as `pgd-linf`"
        raise Misuse(f"`{recipe.checked}` has no radius to measure accuracy in", hint=hint)
    if recipe.loss != "standard" and not recipe.is_adversarial:
        raise Misuse(
            f"the loss `{recipe.loss}` needs an attack in `threats`", hint='threats = ["pgd-linf:radius=8/255"]'
        )
    if recipe.variation and not recipe.is_adversarial:
        raise Misuse("`variation` needs an attack in `threats`", hint="leave it out, or name an attack")


def _has_radius(ref: Ref) -> bool:
    """Whether an attack stays inside a radius; one without a parameter of that name has bounds of its own."""
    return math.isfinite(float(dict(ref.args).get("radius", 0.0) or 0.0))  # type: ignore[arg-type]


def _register(recipe: Recipe) -> None:
    """Registers a recipe under its name; every field can be overruled in a ref."""

    def make(**given: Any) -> Recipe:
        changed = replace(recipe, **given)
        check_numbers(changed)
        check_names(changed)
        return changed

    make.__doc__ = recipe.title
    make.__qualname__ = recipe.name
    kind = inspect.Parameter.KEYWORD_ONLY
    shown = [field for field in FIELDS if field not in ("title", "source")]
    parameters = [inspect.Parameter(name, kind, default=getattr(recipe, name)) for name in shown]
    make.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    make.__annotations__ = {name: FIELDS[name] for name in shown}
    register("recipe", recipe.name, source=recipe.source)(make)


for file in recipe_files().values():
    for each in read_recipes(file, names=False):
        _register(each)
