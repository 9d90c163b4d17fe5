"""The order in which samples and scenarios are measured.

Samples: a keyed, stratified order whose every prefix is a fair sample of the whole. Scenarios: cheap ones first, then
every line of a table at its middle, its ends and the rest, so that a suite that was stopped half way has every
corruption at a middle severity rather than half of them at all five. The first attack comes second: it shows how long
the others will take.
"""

from __future__ import annotations

import functools
import hashlib
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.core.refs import Ref, Scenario


def stratified_order(ids: Sequence[str], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions in an order whose first n samples hold each class in proportion, for every n.

    It depends on ids and labels alone, so every model and scenario sees the same samples, and a larger choice contains
    the smaller one.
    """
    return _stratified_order(tuple(ids), np.asarray(labels).tobytes(), np.asarray(labels).dtype)


@functools.lru_cache(maxsize=4)  # every run on a dataset asks for it, some several times
def _stratified_order(ids: tuple[str, ...], content: bytes, kind: np.dtype[np.int64]) -> NDArray[np.int64]:
    labels = np.frombuffer(content, dtype=kind)
    hashes = np.array([_keyed(name) for name in ids], dtype=np.uint64)
    rank_in_class = np.empty(len(ids), dtype=np.float64)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        members = members[np.argsort(hashes[members], kind="stable")]
        rank_in_class[members] = (np.arange(len(members)) + 0.5) / len(members)
    order = np.lexsort((hashes, rank_in_class))
    order.setflags(write=False)
    return order


def chosen_samples(ids: Sequence[str], labels: NDArray[np.int64], samples: int | None) -> NDArray[np.int64]:
    """Positions of the samples asked for, in stratified order; all of them when there are no more."""
    order = stratified_order(ids, labels)
    return order if samples is None else order[:samples]


def _keyed(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8, person=b"samples").digest(), "little")


Line = tuple[object, ...]


def evenly(scenarios: Sequence[Scenario]) -> list[Scenario]:
    """The same scenarios: those without an attack first; within that, round after round over the lines of the table."""
    lines: dict[Line, list[Scenario]] = defaultdict(list)
    for scenario in scenarios:
        lines[_line(scenario)].append(scenario)
    rounds = {scenario.key: i for line in lines.values() for i, scenario in enumerate(_from_the_middle(line))}
    ordered = sorted(scenarios, key=lambda scenario: (is_attacked(scenario), rounds[scenario.key]))
    attacked = next((scenario for scenario in scenarios if is_attacked(scenario)), None)
    if attacked is not None and ordered[0] is not attacked:
        ordered.remove(attacked)
        ordered.insert(1, attacked)
    return ordered


def is_attacked(scenario: Scenario) -> bool:
    return any(part.kind == "attack" for part in scenario.changes)


def _line(scenario: Scenario) -> Line:
    """What scenarios have in common that differ by numbers alone, such as a severity or a radius."""
    return (scenario.dataset.key, *((part.kind, part.name, _words(part)) for part in scenario.changes))


def _words(part: Ref) -> Line:
    return tuple((name, None if isinstance(value, int | float) else value) for name, value in part.args)


def _from_the_middle(line: Sequence[Scenario]) -> list[Scenario]:
    """Middle, first, last, then the middles of the gaps: 3, 1, 5, 2, 4."""
    last = len(line) - 1
    positions = [last // 2, 0, last]
    gaps = [(0, last // 2), (last // 2, last)]
    while gaps:
        low, high = gaps.pop(0)
        if high - low > 1:
            middle = (low + high) // 2
            positions.append(middle)
            gaps += [(low, middle), (middle, high)]
    return [line[i] for i in dict.fromkeys(positions)]
