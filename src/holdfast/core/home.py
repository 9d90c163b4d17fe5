"""The folder on this machine that holds what is downloaded once and used often."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = "HOLDFAST_DATA"


def data_home() -> Path:
    """$HOLDFAST_DATA, or ~/.cache/holdfast/data."""
    chosen = os.environ.get(ROOT)
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "holdfast" / "data"
