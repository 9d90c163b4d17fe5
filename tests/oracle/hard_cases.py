"""Random logits and labels with the hard ones among them, and rows made of them, to compare with other programs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from holdfast.core.types import ModelCard
from holdfast.store import Footer, Predictions, Rows
from holdfast.store.rows import to_rows

CASES = 1000
SCALES = (1e-3, 1.0, 8.0, 300.0, 1e5)
OFFSETS = (0.0, 0.0, 4099.0, 1e5, -1e5)
BAD = (np.nan, np.inf, -np.inf)


class Case(NamedTuple):
    """Logits as a model gave them (float32), labels, and the rows that keep them."""

    logits: np.ndarray
    labels: np.ndarray
    rows: Rows

    @property
    def answered(self) -> np.ndarray:
        return np.isfinite(self.logits).all(axis=1)

    @property
    def predicted(self) -> np.ndarray:
        """The first of the largest logits; -1 without a usable answer."""
        return np.array([list(row).index(max(row)) if np.isfinite(row).all() else -1 for row in self.logits])

    @property
    def probabilities(self) -> np.ndarray:
        """The softmax of the samples that were answered, in float64."""
        wide = self.logits[self.answered].astype(np.float64)
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    @property
    def truth(self) -> np.ndarray:
        return self.labels[self.answered]


def footer(classes: int, n: int, key: str = "0" * 20, **more: object) -> Footer:
    fields = {
        **dict.fromkeys(("family", "model", "model_full", "weights", "data"), "m"),
        **dict.fromkeys(("scenario", "scenario_full", "dataset"), "d"),
        "key": key,
        "changes": (),
        "seed": 0,
        "selection": "all",
        "samples": None,
        "precision": None,
        "card": ModelCard(name="m", source="m", classes=classes),
        "population": n,
        "classes": tuple(f"c{i}" for i in range(classes)),
    }
    return Footer(**(fields | more))  # type: ignore[arg-type]


def rows_of(logits: np.ndarray, labels: np.ndarray, *, radii: np.ndarray | None = None, **more: object) -> Rows:
    n = len(labels)
    nothing = np.full(n, np.nan, np.float32)
    made = Predictions(
        ids=[f"s{i}" for i in range(n)],
        labels=labels,
        logits=logits.astype(np.float32),
        sizes=nothing,
        radii=nothing if radii is None else radii.astype(np.float32),
        forwards=np.ones(n, np.int64),
        backwards=np.zeros(n, np.int64),
        reasons=[None] * n,
    )
    return to_rows(made, footer(logits.shape[1], n, **more))


def case(seed: int, *, classes: int | None = None, n: int | None = None) -> Case:
    """Sizes from one sample on; large, offset, tied, constant and missing logits, labels of one class."""
    random = np.random.default_rng(seed)
    n = n or int(random.choice([1, 2, 7, 40]))
    classes = classes or int(random.choice([2, 3, 10, 128, 140], p=[0.3, 0.3, 0.3, 0.05, 0.05]))
    logits = random.choice(SCALES) * random.normal(size=(n, classes)) + random.choice(OFFSETS)
    labels = random.integers(0, classes, n)
    pulled = random.random(n) < random.random()  # so that some models are right
    logits[pulled, labels[pulled]] = logits[pulled].max(axis=1)
    kind = seed % 5
    if kind == 1:
        logits = np.round(logits)  # ties
    elif kind == 2:
        logits[random.random(n) < 0.5] = random.choice(OFFSETS)  # constant
    elif kind == 3:
        labels[:] = random.integers(0, classes)  # one class
    elif kind == 4:
        logits[random.random((n, classes)) < 0.3 / classes] = random.choice(BAD)
    logits = logits.astype(np.float32)
    return Case(logits, labels, rows_of(logits, labels))
