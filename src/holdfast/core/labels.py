"""Label maps: which of a model's classes answer for which of a dataset's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.core.errors import Misuse

Merge = Literal["max", "sum"]
OTHER = "something else"


@dataclass(frozen=True, slots=True)
class LabelMap:
    """One group of model classes per dataset class; an answer is the group's largest logit, or its total probability.

    `known` is how many classes the model must have. `other` adds one more answer made of all classes in no group;
    without it those classes are left out. A class whose group is empty is never answered. `words` stand in the rows.
    """

    words: str
    known: int
    groups: tuple[tuple[int, ...], ...]
    other: bool = False
    merge: Merge = "max"

    def __post_init__(self) -> None:
        listed = [member for group in self.groups for member in group]
        if not listed:
            raise Misuse("a label map needs at least one class that the model knows")
        outside = [member for member in listed if not 0 <= member < self.known]
        if outside:
            raise Misuse(f"the label map names class {outside[0]}, the model knows 0 to {self.known - 1}")
        if len(set(listed)) < len(listed):
            twice = next(member for member in listed if listed.count(member) > 1)
            raise Misuse(f"class {twice} of the model stands twice in the label map", hint="a class has one meaning")
        if self.other and not self.rest:
            raise Misuse("every class of the model is in a group, so nothing is left for `other`")

    @property
    def classes(self) -> int:
        """How many answers there are."""
        return len(self.groups) + self.other

    @property
    def rest(self) -> tuple[int, ...]:
        """The model's classes in no group."""
        listed = {member for group in self.groups for member in group}
        return tuple(number for number in range(self.known) if number not in listed)

    @property
    def is_whole(self) -> bool:
        """Whether the answers are the model's own classes, in order."""
        return self.groups == tuple((number,) for number in range(self.known))

    def meaning(self, answer: int) -> int | None:
        """The dataset class that one of the model's classes stands for; None where it is left out."""
        for label, group in enumerate(self.groups):
            if answer in group:
                return label
        return len(self.groups) if self.other else None


def whole(known: int, *, words: str) -> LabelMap:
    """The model's own classes, all of them: labels are its class numbers, and the largest of all logits decides."""
    return LabelMap(words, known, tuple((number,) for number in range(known)))


def subset(known: int, classes: Sequence[int], *, words: str) -> LabelMap:
    """Only these classes may be answered, in this order; the other logits are left out."""
    return LabelMap(words, known, tuple((number,) for number in classes))


def merged(
    known: int, groups: Iterable[Sequence[int]], *, words: str, other: bool = False, merge: Merge = "max"
) -> LabelMap:
    """Each group answers as one class; with `other` it is right if the largest of all logits lies in its group."""
    return LabelMap(words, known, tuple(tuple(group) for group in groups), other, merge)
