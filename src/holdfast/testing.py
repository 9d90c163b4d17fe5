"""Assertions for tests: a model is robust enough, a model is not worse than another.

def test_my_model_holds_up():
    holdfast.testing.assert_robust(net, (images, labels), "pgd-linf:radius=8/255", at_least=0.4)
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

from holdfast.core.errors import Misuse
from holdfast.core.values import number_or_none
from holdfast.metrics.compare import compare
from holdfast.metrics.decisions import By, Decision, judged_by, under, worse
from holdfast.metrics.summary import line


def assert_robust(
    model: object,
    data: object,
    changes: str | Sequence[str] = "pgd-linf:radius=8/255",
    *,
    at_least: float,
    by: By = "interval",
    samples: int | None = None,
    seed: int = 0,
    store: Any = None,
    device: str | None = None,
) -> None:
    """Raises an AssertionError where the accuracy under a change is under `at_least`, a share such as 0.4.

    `data`: `(images, labels)`, a torch Dataset, a DataLoader, or a ref such as `cifar10`. By `interval` only what the
    samples show counts: the whole interval lies under it. Nothing is kept unless a `store` is given.
    """
    share = number_or_none(at_least, "at-least")
    if share is None or not 0 < share <= 1:
        raise Misuse(f"`at_least` is a share between 0 and 1, got {at_least}", hint="0.4 for 40 %")
    rows = _rows([model], data, changes, samples, seed, store, device)[0]
    _raise_failed(under([line(each) for each in rows], share, judged_by(by)))


def assert_not_worse(
    model: object,
    than: object,
    data: object,
    changes: str | Sequence[str] = "pgd-linf:radius=8/255",
    *,
    by: By = "interval",
    samples: int | None = None,
    seed: int = 0,
    store: Any = None,
    device: str | None = None,
) -> None:
    """Raises an AssertionError where a model is worse than another on the same images.

    By `interval` only what the samples show counts: McNemar's test, by Holm's procedure over the changes.
    """
    one, other = _rows([model, than], data, changes, samples, seed, store, device)
    made = [compare(mine, theirs) for mine, theirs in zip(one, other, strict=True)]
    _raise_failed(worse(made, "the model", "the other", judged_by(by)))


def _rows(
    models: Sequence[object],
    data: object,
    changes: str | Sequence[str],
    samples: int | None,
    seed: int,
    store: Any,
    device: str | None,
) -> list[list[Any]]:
    from holdfast.engine.evaluate import evaluate
    from holdfast.engine.watch import Watcher

    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        return [
            evaluate(
                model,
                data,
                changes=changes,
                samples=samples,
                seed=seed,
                store=store or folder,
                device=device,
                pictures=0,
                watcher=Watcher(),
            ).rows
            for model in models
        ]


def _raise_failed(decisions: Sequence[Decision]) -> None:
    __tracebackhide__ = True  # pytest shows the caller's line
    failed = [decision.sentence for decision in decisions if not decision.passed]
    if failed:
        raise AssertionError("; ".join(failed))
