"""How long `holdfast --help` takes, in a fresh process; the bare interpreter and an import of torch beside it.

python benchmarks/startup.py
"""

from __future__ import annotations

import subprocess
import sys
import time

CASES = {
    "python -c pass": ["-c", "pass"],
    "holdfast --help": ["-m", "holdfast", "--help"],
    "holdfast list attacks --json": ["-m", "holdfast", "list", "attacks", "--json"],
    "import torch": ["-c", "import torch"],
}


def main() -> None:
    for name, words in CASES.items():
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            subprocess.run([sys.executable, *words], check=True, capture_output=True)
            times.append(time.perf_counter() - begun)
        print(f"{name:32} {min(times):6.2f} s  (best of {len(times)})")


if __name__ == "__main__":
    main()
