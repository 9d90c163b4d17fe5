"""Label maps: which of a model's classes answer for which of a dataset's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from holdfast.core.errors import HoldfastError, Misuse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Merge = Literal["max", "sum"]
OTHER = "something else"
NO_LABEL = -1  # every label of a dataset without labels; rows have none in its place


def is_labelled(labels: NDArray[np.int64]) -> bool:
    """Whether these are labels; a dataset has them for every sample or for none."""
    return not len(labels) or bool(labels[0] != NO_LABEL)


def no_labels(count: int) -> NDArray[np.int64]:
    """What stands for the labels of so many samples that have none."""
    import numpy as np

    return np.full(count, NO_LABEL, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class LabelMap:
    """One group of model classes per dataset class; an answer is the group's largest logit, or its total probability.

    `known` is how many classes the model must have, None where any model that has those in the groups will do, and `of`
    makes the map of one model. `other` adds one more answer made of all classes in no group;
    without it those classes are left out. A class whose group is empty is never answered. `words` stand in the rows.
    """

    words: str
    known: int | None
    groups: tuple[tuple[int, ...], ...]
    other: bool = False
    merge: Merge = "max"

    def __post_init__(self) -> None:
        listed = [member for group in self.groups for member in group]
        if not listed:
            raise Misuse("a label map needs at least one class that the model knows")
        outside = [member for member in listed if member < 0 or (self.known is not None and member >= self.known)]
        if outside:
            has = "they count from 0" if self.known is None else f"the model knows 0 to {self.known - 1}"
            raise Misuse(f"the label map names class {outside[0]}, {has}")
        (twice, times), *_ = Counter(listed).most_common(1)
        if times > 1:
            raise Misuse(f"class {twice} of the model appears twice in the label map", hint="a class has one meaning")
        if self.other and self.known is not None and not self.rest:
            raise Misuse("every class of the model is in a group, so nothing is left for `other`")

    def of(self, known: int) -> LabelMap:
        """The map for a model of so many classes."""
        return self if self.known is not None else replace(self, known=known)

    @property
    def classes(self) -> int:
        """How many answers there are."""
        return len(self.groups) + self.other

    @property
    def rest(self) -> tuple[int, ...]:
        """The model's classes in no group."""
        assert self.known is not None, "the rest is that of one model"
        listed = {member for group in self.groups for member in group}
        return tuple(number for number in range(self.known) if number not in listed)

    @property
    def is_whole(self) -> bool:
        """Whether the answers are the model's own classes, in order."""
        return self.groups == tuple((number,) for number in range(self.known or 0))

    def meaning(self, answer: int) -> int | None:
        """The dataset class that one of the model's classes stands for; None where it is left out."""
        for label, group in enumerate(self.groups):
            if answer in group:
                return label
        return len(self.groups) if self.other else None


@dataclass(frozen=True, slots=True)
class LabelMapChoice:
    """A label map for each number of classes that a model may have: the model's card picks one.

    So models of CIFAR-10's ten classes and of ImageNet's 1,000 answer for one dataset, and stand in one column. `sides`
    are the sides of the images that models of each map are given where their card says none, None for the dataset's.
    """

    words: str
    maps: tuple[LabelMap, ...]
    sides: tuple[int | None, ...] = ()

    def __post_init__(self) -> None:
        heads = [each.known for each in self.maps]
        assert None not in heads, "each map is for one number of classes"
        assert len(set(heads)) == len(heads) > 0, "one map for each number of classes"
        assert len({each.classes for each in self.maps}) == 1, "every map gives the classes of the dataset"
        assert len(self.sides) in (0, len(self.maps)), "a side for each map, or none"

    def of(self, known: int) -> LabelMap:
        """The map for a model of so many classes."""
        for each in self.maps:
            if each.known == known:
                return each
        heads = " or ".join(f"{each.known:,}" for each in self.maps)
        raise HoldfastError(
            f"a model of {known:,} classes has no label map here: {self.words}",
            hint=f"choose a model of {heads} classes, or another way to answer: `answers=…` of the dataset",
        )

    def side(self, known: int) -> int | None:
        """The side of the images that a model of so many classes is given where its card says none."""
        heads = {each.known: side for each, side in zip(self.maps, self.sides, strict=False)}
        return heads.get(known)

    @property
    def classes(self) -> int:
        """How many answers there are."""
        return self.maps[0].classes


def by_model(own: int, other: LabelMap, *, words: str, side: int | None = None) -> LabelMapChoice:
    """Models of the dataset's `own` classes answer with them, at `side` where their card says none; others by a map."""
    same = whole(own, words=f"the model's own {own} classes")
    if other.known == own:
        return LabelMapChoice(words, (other,))
    return LabelMapChoice(words, (same, other), (side, None))


def whole(known: int, *, words: str) -> LabelMap:
    """The model's own classes, all of them: labels are its class numbers, and the largest of all logits decides."""
    return LabelMap(words, known, tuple((number,) for number in range(known)))


def subset(known: int | None, classes: Sequence[int], *, words: str) -> LabelMap:
    """Only these classes may be answered, in this order; the other logits are left out."""
    return LabelMap(words, known, tuple((number,) for number in classes))


def merged(
    known: int | None, groups: Iterable[Sequence[int]], *, words: str, other: bool = False, merge: Merge = "max"
) -> LabelMap:
    """Each group answers as one class; with `other` it is right if the largest of all logits lies in its group."""
    return LabelMap(words, known, tuple(tuple(group) for group in groups), other, merge)
