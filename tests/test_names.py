"""One word, one meaning: no class, function or module name stands for two things."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_no_name_has_two_meanings() -> None:
    script = Path(__file__).parents[1] / "scripts" / "names.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
