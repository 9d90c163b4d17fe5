"""The samples in flight through the gradient loop, and what was found for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from holdfast.attacks.steps import State
from holdfast.attacks.threat import Scene


@dataclass(slots=True)
class Found:
    """What came of a climb, per sample: the best variable, how high it is, and the passes it took.

    `best`: the first variable that broke the sample, else the highest (or the smallest adversarial one, where that is
    what is kept). `props`: the threat's draws that belong to it. `idle` counts gradients that were exactly zero, `flat`
    the runs whose objective never rose above its start.
    """

    variable: Tensor
    props: State
    best: Tensor
    broken: Tensor
    forwards: Tensor
    backwards: Tensor
    idle: Tensor
    runs: Tensor
    flat: Tensor

    @classmethod
    def at_rest(cls, variable: Tensor, props: State) -> Found:
        n, device = len(variable), variable.device
        best = torch.full((n,), -torch.inf, device=device)
        counts = [torch.zeros(n, dtype=torch.int64, device=device) for _ in range(5)]
        return cls(variable, props, best, torch.zeros(n, dtype=torch.bool, device=device), *counts)

    def improved(self, rows: Tensor, other: Found) -> Found:
        """With what another attack on some of the samples broke, and the passes it took."""
        won = other.broken.nonzero().squeeze(1)
        taken = rows[won]
        self.variable[taken], self.best[taken], self.broken[taken] = other.variable[won], other.best[won], True
        for name, prop in self.props.items():
            prop[taken] = other.props[name][won]
        for name in ("forwards", "backwards", "idle", "runs", "flat"):
            getattr(self, name)[rows] += getattr(other, name)
        return self

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor, by a name of its own."""
        return _named(self)

    @classmethod
    def of_tensors(cls, tensors: dict[str, Tensor]) -> Found:
        """What `tensors` gave, put together."""
        return cls(**_unnamed(cls, tensors))


@dataclass(slots=True)
class Flight:
    """One row per sample in flight. `run` counts restarts and targets behind it, `taken` the steps of this run.

    `best` and `height`: the best variable of this run and its objective; `first`: the objective at its start; `broken`:
    that `best` is a success; `near`: that it is close to one; `done`: nothing more to do in this run; `gone`: nobody is
    here any more. `clearance`: by how much another logit must lead to count. `forwards`, `backwards` and `idle` count
    since the last landing.
    """

    index: Tensor
    images: Tensor
    labels: Tensor
    targets: Tensor
    radius: Tensor
    clearance: Tensor
    props: State
    variable: Tensor
    state: State
    taken: Tensor
    run: Tensor
    best: Tensor
    height: Tensor
    first: Tensor
    broken: Tensor
    near: Tensor
    done: Tensor
    gone: Tensor
    forwards: Tensor
    backwards: Tensor
    idle: Tensor

    def __len__(self) -> int:
        return len(self.index)

    @property
    def scene(self) -> Scene:
        return Scene(self.images, self.radius, self.props)

    def kept(self, rows: Tensor) -> Flight:
        """Only these rows, as another flight."""
        return self._mapped(lambda part: part[rows])

    def copy(self) -> Flight:
        return self._mapped(Tensor.clone)

    def again(self) -> Flight:
        """Another flight with the same tensors."""
        return self._mapped(lambda part: part)

    def joined(self, other: Flight) -> Flight:
        """Both, one after the other; state that the other has not got yet is zero."""
        pairs = zip(self._parts(), other._parts(), strict=True)
        return Flight(*[_joined(value, new, len(other)) for value, new in pairs])

    def replace(self, rows: Tensor, other: Flight) -> None:
        """Puts others in the place of these rows."""
        for value, new in zip(self._parts(), other._parts(), strict=True):
            if isinstance(value, dict) and isinstance(new, dict):
                for key, part in value.items():
                    if key in new:
                        part[rows] = new[key]
            elif isinstance(value, Tensor) and isinstance(new, Tensor):
                value[rows] = new

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor, by a name of its own."""
        return _named(self)

    @classmethod
    def of_tensors(cls, tensors: dict[str, Tensor]) -> Flight:
        """What `tensors` gave, put together."""
        return cls(**_unnamed(cls, tensors))

    def _parts(self) -> list[Tensor | State]:
        return [getattr(self, name) for name in ROWS]

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> Flight:
        return Flight(
            *[
                {key: change(part) for key, part in value.items()} if isinstance(value, dict) else change(value)
                for value in self._parts()
            ]  # type: ignore[arg-type]
        )


def _named(record: Found | Flight) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, dict):
            found |= {f"{field.name} {key}": part for key, part in value.items()}
        else:
            found[field.name] = value
    return found


def _unnamed(kind: type[Found] | type[Flight], tensors: dict[str, Tensor]) -> dict[str, Any]:
    made: dict[str, Any] = {field.name: {} for field in fields(kind)}
    for name, tensor in tensors.items():
        field, _, key = name.partition(" ")
        if key:
            made[field][key] = tensor
        else:
            made[field] = tensor
    return made


def _joined(value: Tensor | State, new: Tensor | State, count: int) -> Any:
    if isinstance(value, dict) and isinstance(new, dict):
        zero = {key: part.new_zeros((count, *part.shape[1:])) for key, part in value.items() if key not in new}
        return {key: torch.cat([part, (new | zero)[key]]) for key, part in value.items()}
    return torch.cat([value, new])  # type: ignore[list-item]


ROWS = tuple(field.name for field in fields(Flight))
