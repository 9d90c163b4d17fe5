"""The environments of the posterior agreement experiments: which factors the images of `diagvib` have, where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from holdfast.core.errors import Misuse, unknown

HUES = ("red", "yellow", "green", "cyan", "blue", "magenta")
LIGHTNESSES = ("dark", "darker", "brighter", "bright")
TEXTURES = ("blank", "tiles", "wood", "carpet", "bricks", "lava")
POSITIONS = (
    *("upper left", "upper centre", "upper right"),
    *("centre left", "centre", "centre right"),
    *("lower left", "lower centre", "lower right"),
)
SCALES = ("small", "smaller", "normal", "larger", "large")
NAMES = (HUES, LIGHTNESSES, TEXTURES, POSITIONS, SCALES)

Split = Literal["train", "val", "test"]
Shortcut = Literal["hue", "position"]
Opportunity = Literal["zgo", "1-cgo", "2-cgo", "3-cgo", "zso"]
SIZES: dict[Split, int] = {"train": 40_000, "val": 20_000, "test": 10_000}


class Factors(NamedTuple):
    """What an image looks like beside its shape, as indices into the lists of names."""

    hue: int
    lightness: int
    texture: int
    position: int
    scale: int

    def __str__(self) -> str:
        return ", ".join(names[index] for names, index in zip(NAMES, self, strict=True))


@dataclass(frozen=True, slots=True)
class Environment:
    """Factors, the shapes drawn from, and whether its samples have the digits of the environment beside it."""

    split: Split
    side: int
    factors: Factors
    shapes: tuple[int, ...]
    paired: bool = True

    @property
    def draw(self) -> str:
        """Names a drawing of digits: environments of one drawing show the same digits at the same positions."""
        return self.split if self.paired else f"{self.split}{self.side}"


SHIFTED = (  # Table 2: one more factor each time, as the authors' code has them
    Factors(0, 3, 0, 4, 2),
    Factors(4, 3, 0, 4, 2),
    Factors(4, 2, 0, 4, 2),
    Factors(4, 2, 0, 7, 2),
    Factors(4, 2, 0, 7, 3),
    Factors(4, 2, 1, 7, 3),
)
BASE = Factors(0, 0, 0, 4, 4)  # Table 3: red, dark, blank, centre, large
SELECTION_TESTS = (  # Table 1: green, bright, tiles, upper left and small, one factor more each time
    Factors(2, 0, 0, 4, 4),
    Factors(2, 3, 0, 4, 4),
    Factors(2, 3, 1, 4, 4),
    Factors(2, 3, 1, 0, 4),
    Factors(2, 3, 1, 0, 0),
)
ROLES = ("first", "second", "third", "fourth", "all")
VARIANTS: dict[str, tuple[str, str]] = {
    "zero": ("first", "first"),  # SD
    "idval": ("first", "second"),  # ID
    "mixval": ("first", "fourth"),  # 1F-MD
    "maxmixval": ("first", "all"),  # 5F-MD
    "oodval": ("third", "fourth"),  # OOD
}
# hue or position of the second, third and fourth role; the table is about hue, those of position are ours
SHIFTS: dict[Shortcut, tuple[int, int, int]] = {"hue": (4, 1, 5), "position": (7, 1, 0)}
UNPAIRED = "-npair"


def named_environment(name: str, *, shortcut: Shortcut = "hue") -> Environment:
    """The environment of that name."""
    known = environments(shortcut)
    if name not in known:
        raise unknown("environment of diagvib", name, known, otherwise="give a name, or five indices: env=[4,2,0,7,3]")
    return known[name]


def environments(shortcut: Shortcut = "hue") -> dict[str, Environment]:
    """All named environments."""
    two, four = (4, 9), (1, 4, 7, 9)
    named = {f"train{side}": Environment("train", side, SHIFTED[side], two, paired=False) for side in (0, 1)}
    named |= {f"val{side}": Environment("val", side, SHIFTED[side], two) for side in (0, 1)}
    named |= {f"test{count}": Environment("test", count, factors, two) for count, factors in enumerate(SHIFTED)}
    shifted = [BASE._replace(**{shortcut: index}) for index in SHIFTS[shortcut]]
    roles = dict(zip(ROLES, (BASE, *shifted, SELECTION_TESTS[-1]), strict=True))
    for side, role in enumerate(("first", "second")):
        named[f"select-train{side}"] = Environment("train", side, roles[role], four, paired=False)
    for count, factors in enumerate(SELECTION_TESTS, 1):
        named[f"select-test{count}"] = Environment("test", count, factors, four)
    for variant, pair in VARIANTS.items():
        for side, role in enumerate(pair):
            named[f"{variant}{side}"] = Environment("val", side, roles[role], four)
            named[f"{variant}{side}{UNPAIRED}"] = Environment("val", side, roles[role], four, paired=False)
    return named


def custom(factors: Sequence[int], split: Split) -> Environment:
    """An environment of one's own: indices of hue, lightness, texture, position and scale."""
    ranges = {field: len(names) for field, names in zip(Factors._fields, NAMES, strict=True)}
    fits = len(factors) == len(ranges) and all(
        0 <= index < most for index, most in zip(factors, ranges.values(), strict=True)
    )
    if not fits:
        within = ", ".join(f"{name} 0 to {most - 1}" for name, most in ranges.items())
        raise Misuse(f"`env` has five indices, {within}; got {list(factors)}")
    return Environment(split, 0, Factors(*factors), (4, 9))


def seen_shapes(shapes: tuple[int, ...], side: int, opportunity: Opportunity) -> tuple[int, ...]:
    """The shapes that an environment shows under a shortcut.

    Without a generalisation opportunity (zgo) the first half of the shapes stands in environment 0 alone, the other
    half in environment 1, so that the factor in which the two differ tells half of the answer. Under k-cgo k shapes
    stand in both, under zso all.
    """
    if opportunity == "zso":
        return shapes
    both = 0 if opportunity == "zgo" else int(opportunity[0])
    if side not in (0, 1):
        raise Misuse(f"`opportunity={opportunity}` is about environments 0 and 1, not {side}")
    if len(shapes) % 2 or both >= len(shapes):
        raise Misuse(
            f"`opportunity={opportunity}` needs an even number of shapes, more than {both}; got {list(shapes)}",
            hint="shapes=[1,4,7,9], or an environment of model selection such as env=idval0",
        )
    half = len(shapes) // 2
    homes = (shapes[:half], shapes[half:])
    shared = [shape for pair in zip(*homes, strict=True) for shape in pair][:both]  # one of each half in turn
    return tuple(shape for shape in shapes if shape in homes[side] or shape in shared)
