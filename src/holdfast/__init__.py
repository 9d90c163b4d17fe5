"""holdfast measures how an image classifier holds up when the world changes.

import holdfast
broken = holdfast.attack(net, images, labels, "autoattack-linf:radius=8/255")
outcomes = holdfast.evaluate(net, loader, changes=["", "fog:severity=3", "pgd-linf:radius=8/255"])
result = holdfast.benchmark(net, "quick", dataset=(images, labels))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:
    from holdfast.benchmarking import benchmark as benchmark
    from holdfast.core.types import Score as Score
    from holdfast.engine.evaluate import evaluate as evaluate
    from holdfast.engine.on_arrays import attack as attack
    from holdfast.engine.on_arrays import corrupt as corrupt
    from holdfast.engine.plan import plan as plan
    from holdfast.metrics.accuracy import accuracy as accuracy
    from holdfast.metrics.compare import compare as compare
    from holdfast.models import load as load
    from holdfast.models import normalised as normalised
    from holdfast.models import wrap as wrap
    from holdfast.site.report import write_report as write_report
    from holdfast.store import Store as Store

HOMES = {
    "Score": "holdfast.core.types",
    "Store": "holdfast.store",
    "accuracy": "holdfast.metrics.accuracy",
    "attack": "holdfast.engine.on_arrays",
    "benchmark": "holdfast.benchmarking",
    "compare": "holdfast.metrics.compare",
    "corrupt": "holdfast.engine.on_arrays",
    "evaluate": "holdfast.engine.evaluate",
    "load": "holdfast.models",
    "normalised": "holdfast.models",
    "plan": "holdfast.engine.plan",
    "wrap": "holdfast.models",
    "write_report": "holdfast.site.report",
}
PACKAGES = ("attacks", "corruptions", "datasets", "metrics", "models", "testing")  # of public names
__all__ = ["__version__", *HOMES, *PACKAGES]


def __getattr__(name: str) -> object:
    """Public names are imported when first used, so that `import holdfast` stays quick."""
    if name in PACKAGES:
        return importlib.import_module(f"holdfast.{name}")
    if name not in HOMES:
        raise AttributeError(f"module `holdfast` has no `{name}`")
    return getattr(importlib.import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
