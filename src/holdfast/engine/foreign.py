"""What other people's code raises, as errors of ours; and what everything was made with."""

from __future__ import annotations

import platform
import traceback

import numpy as np
import pyarrow
import torch

import holdfast
from holdfast.core.errors import HoldfastError


def foreign(error: BaseException) -> HoldfastError:
    """An error that is not ours, with the place it came from, so that the other runs go on."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    failure = HoldfastError(
        f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})",
        hint="`holdfast check MODEL` looks for what is wrong with a model",
    )
    failure.__cause__ = error
    return failure


def versions() -> dict[str, str]:
    return {
        "holdfast": holdfast.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "pyarrow": pyarrow.__version__,
        "python": platform.python_version(),
    }
