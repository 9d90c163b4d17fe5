"""Starts `scores`, `board` and `compare` again and again and counts how they end: an abort at exit is rare.

python scripts/exit_loop.py [--runs 2000] [--store FOLDER]

A thread of a library that outlives the interpreter can end a process with SIGABRT after complete output. A run counts
as good where its exit code, output and error stream are those of the first run of the same command. Aborts are counted
apart: a negative exit code, or `terminate called without an active exception` on the error stream.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

MODELS = ("fashion-standard", "fashion-noise")
SCENARIOS = "fashion-mnist-2k{,+contrast:severity={1,3,5},+gaussian-noise:severity={1,3,5}}"
ABORT = b"terminate called without an active exception"
COMMANDS = (("scores",), ("board", "demo"), ("compare", *MODELS))


def holdfast(store: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *words, "--store", store], capture_output=True, check=False
    )


def loop(store: str, runs: int) -> Counter[str]:
    """How so many runs ended, by command and ending."""
    first = {words: holdfast(store, *words) for words in COMMANDS}
    for words, made in first.items():
        if made.returncode not in (0, 1):
            raise SystemExit(f"{' '.join(words)} ended with {made.returncode}: {made.stderr.decode()}")
    endings: Counter[str] = Counter()
    for i in range(runs):
        words = COMMANDS[i % len(COMMANDS)]
        made, expected = holdfast(store, *words), first[words]
        good = all(getattr(made, part) == getattr(expected, part) for part in ("returncode", "stdout", "stderr"))
        aborted = made.returncode < 0 or ABORT in made.stderr
        endings[f"{words[0]}: {'as the first' if good else 'aborted' if aborted else 'otherwise'}"] += 1
        if not good:
            print(f"run {i}: {words[0]} ended with {made.returncode}: {made.stderr.decode()[-300:]}", flush=True)
        if i % 200 == 199:
            print(f"{i + 1} runs: {dict(endings)}", flush=True)
    return endings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--store", default="", help="A folder of rows; else a small one is measured first.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = given.store or str(Path(folder, "rows"))
        if not given.store:
            made = holdfast(store, "evaluate", *MODELS, "--scenario", SCENARIOS, "--samples", "100")
            if made.returncode:
                raise SystemExit(made.stderr.decode())
        begun = time.perf_counter()
        endings = loop(store, given.runs)
    print(f"{given.runs} runs in {time.perf_counter() - begun:.0f} s: {dict(endings)}")
    return int(any("as the first" not in ending for ending in endings))


if __name__ == "__main__":
    raise SystemExit(main())
