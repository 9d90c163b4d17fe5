"""Records whose fields are tensors with one row per sample, or dictionaries of such tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

Tensors = dict[str, Tensor]


@dataclass(slots=True)
class TensorRecord:
    """Row operations over all fields at once, and all tensors by name, to be saved and put together again.

    The first field is a tensor.
    """

    def __len__(self) -> int:
        return len(getattr(self, self._names()[0]))

    def take(self, rows: Tensor) -> Self:
        """Only these rows, as another record."""
        return self._mapped(lambda part: part[rows])

    def copy(self) -> Self:
        return self._mapped(Tensor.clone)

    def shallow_copy(self) -> Self:
        """Another record with the same tensors."""
        return self._mapped(lambda part: part)

    def joined(self, other: Self) -> Self:
        """Both, one after the other; tensors of a dictionary that the other does not have are zero for its rows."""
        pairs = zip(self._values(), other._values(), strict=True)
        return type(self)(*[_joined(value, new, len(other)) for value, new in pairs])

    def replace(self, rows: Tensor, other: Self) -> None:
        """Writes the rows of another record over these."""
        new = other.tensors()
        for name, value in self.tensors().items():
            if name in new:
                value[rows] = new[name]

    def tensors(self) -> Tensors:
        """Every tensor by a name of its own: that of the field, with the key after it for a dictionary."""
        named: Tensors = {}
        for field, value in zip(self._names(), self._values(), strict=True):
            if isinstance(value, dict):
                named |= {f"{field} {key}": part for key, part in value.items()}
            else:
                named[field] = value
        return named

    @classmethod
    def of_tensors(cls, tensors: Tensors) -> Self:
        """What `tensors` gave, put together."""
        values: dict[str, Any] = {field: {} for field in cls._names()}
        for name, tensor in tensors.items():
            field, _, key = name.partition(" ")
            if key:
                values[field][key] = tensor
            else:
                values[field] = tensor
        return cls(**values)

    def _values(self) -> list[Tensor | Tensors]:
        return [getattr(self, field) for field in self._names()]

    @classmethod
    def _names(cls) -> tuple[str, ...]:
        """Of the fields; `dataclasses.fields` looks for them anew at every call."""
        return cls.__match_args__

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(
            *[
                {key: change(part) for key, part in value.items()} if isinstance(value, dict) else change(value)
                for value in self._values()
            ]
        )


def _joined(value: Tensor | Tensors, new: Tensor | Tensors, rows: int) -> Tensor | Tensors:
    if isinstance(value, dict) and isinstance(new, dict):
        zero = {key: part.new_zeros((rows, *part.shape[1:])) for key, part in value.items() if key not in new}
        return {key: torch.cat([part, (new | zero)[key]]) for key, part in value.items()}
    assert isinstance(value, Tensor), "a field holds the same in both records"
    assert isinstance(new, Tensor), "a field holds the same in both records"
    return torch.cat([value, new])
