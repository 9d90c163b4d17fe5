"""Scores beside accuracy, by the names of metrics: those that are a function of one run's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.core.registry import registry
from holdfast.core.types import Score
from holdfast.store.store import Store

SHARES = ("accuracy", "share", "pm-k", "ece")  # in the name of a metric that is a share, shown in percent


@dataclass(frozen=True, slots=True)
class More:
    """Further scores of runs: by key of the run, one for each name; None where the metric has nothing to say."""

    names: tuple[str, ...]
    scores: Mapping[str, tuple[Score | None, ...]]

    def record(self, key: str) -> dict[str, object]:
        """Flat and plain, for CSV and JSON."""
        found: dict[str, object] = {}
        for name, score in zip(self.names, self.scores.get(key, ()), strict=True):
            found |= {name: None if score is None else score.value}
            found |= {f"{name} {end}": None if score is None else getattr(score, end) for end in ("low", "high")}
        return found

    def texts(self, key: str) -> list[str]:
        return [_text(*pair) for pair in zip(self.names, self.scores.get(key, ()), strict=True)]


def more_scores(store: Store, keys: Sequence[str], metrics: Sequence[str]) -> More:
    """The scores of runs by these metrics, such as `balanced-accuracy` and `per-class-accuracy:label=3`."""
    refs = [registry.bind("metric", text) for text in metrics]
    made = [registry.build(ref) for ref in refs]
    scores = {key: tuple(metric(store.read(key)) for metric in made) if made else () for key in keys}
    return More(tuple(map(str, refs)), scores)


def _text(name: str, score: Score | None) -> str:
    if score is None:
        return ""
    if any(word in name.partition(":")[0] for word in SHARES):
        return score.percent()
    return f"{score.value:.4g} [{score.low:.4g}, {score.high:.4g}]"
