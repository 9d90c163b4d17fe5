"""The order of many cells: cheap ones first, then every line of a table at its middle, its ends and what lies between.

So a suite that was stopped half way has every corruption at a middle severity rather than half of them at all five. Its
first attack comes second, which tells how long the others will take.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from holdfast.core.refs import Ref, Scenario

Line = tuple[object, ...]


def evenly(scenarios: Sequence[Scenario]) -> list[Scenario]:
    """The same scenarios: those without an attack first; within that, round after round over the lines of the table."""
    lines: dict[Line, list[Scenario]] = defaultdict(list)
    for scenario in scenarios:
        lines[_line(scenario)].append(scenario)
    rounds = {scenario.key: place for line in lines.values() for place, scenario in enumerate(_from_the_middle(line))}
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
    places = [last // 2, 0, last]
    gaps = [(0, last // 2), (last // 2, last)]
    while gaps:
        low, high = gaps.pop(0)
        if high - low > 1:
            middle = (low + high) // 2
            places.append(middle)
            gaps += [(low, middle), (middle, high)]
    return [line[place] for place in dict.fromkeys(places)]
