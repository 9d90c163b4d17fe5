"""Scores to experiment trackers, where one is installed: MLflow, Weights & Biases."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Sequence
from typing import Any

from holdfast.core.errors import HoldfastError, unknown
from holdfast.metrics.summary import Line

TRACKERS = ("mlflow", "wandb")


def log_scores(lines: Sequence[Line], tracker: str, *, step: int | None = None) -> int:
    """Logs accuracy, the ends of its interval and n of every run; returns how many values were logged.

    They go to the tracker's run under way, or to a new one. A metric is named `MODEL/SCENARIO/accuracy`.
    """
    if tracker not in TRACKERS:
        raise unknown("tracker", tracker, TRACKERS)
    values = {name: value for line in lines for name, value in _values(line).items() if not math.isnan(value)}
    package = _installed(tracker)
    if tracker == "mlflow":
        package.log_metrics({_mlflow_name(name): value for name, value in values.items()}, step=step)
    else:
        run = package.run or package.init(project="holdfast")
        run.log(values, step=step)
        if package.run is None or run is not package.run:
            run.finish()
    return len(values)


def _values(line: Line) -> dict[str, float]:
    name, score = f"{line.footer.model}/{line.footer.scenario}", line.accuracy
    return {f"{name}/accuracy": score.value, f"{name}/low": score.low, f"{name}/high": score.high, f"{name}/n": score.n}


def _mlflow_name(name: str) -> str:
    """MLflow takes letters, digits, `_`, `-`, `.`, blanks and slashes only."""
    return re.sub(r"[^\w\-. /]", "_", name.replace("+", " ").replace(":", " ").replace("=", "-"), flags=re.ASCII)


def _installed(tracker: str) -> Any:
    try:
        return importlib.import_module(tracker)
    except ImportError as error:
        raise HoldfastError(f"{tracker} is not installed", hint=f"pip install {tracker}") from error
