"""Makes the rows that `make findings` reads: the bundled CIFAR-10 models under the suite `findings`, side by side.

    python scripts/findings_rows.py --store rows --processes 12 [--part attacks] [--adversarial] [--device auto]

A small model leaves most of a GPU idle, so several processes share it, each with models of its own. What the store
holds is not measured again, and the same command goes on where it was interrupted. Every half minute a line says how
many rows are there; what the processes say is kept beside the store.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from holdfast.models import read_card
from holdfast.models.zoo import FOLDER

SUITE = "findings"
EVERY = 30.0  # seconds between two lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--part", nargs="*", action="extend", default=[], help="parts; all, if none is named")
    parser.add_argument("--adversarial", action="store_true", help="only models trained on an attack")
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args()
    hard, easy = models()
    shared = groups(hard, [] if chosen.adversarial else easy, chosen.processes)
    logs = chosen.store.with_name(f"{chosen.store.name}-logs")
    logs.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C: the processes end with this one
    running: list[subprocess.Popen[bytes]] = []
    try:
        running += [start(group, number, logs, chosen) for number, group in enumerate(shared)]
        codes = finished(running, chosen.store)
    except BaseException:
        for process in running:
            process.terminate()  # what is measured is kept
        raise
    failed = [number for number, code in enumerate(codes) if code]
    print(f"{rows_in(chosen.store)} runs in {chosen.store}", flush=True)
    if failed:
        sys.exit(f"error: processes {', '.join(map(str, failed))} failed\n\nhint: {logs} holds what they said")


def models() -> tuple[list[str], list[str]]:
    """The bundled CIFAR-10 models: those trained on attacks, which withstand most and take longest, and the others."""
    cards = {file.stem: read_card(file) for file in sorted(FOLDER.glob("cifar10-*.safetensors"))}
    hard = [name for name, saved in cards.items() if saved is not None and saved.card.threats]
    return hard, [name for name in cards if name not in hard]


def groups(hard: list[str], easy: list[str], count: int) -> list[list[str]]:
    """The models in at most so many groups of like cost: those with fewer hard models have more of the easy."""
    dealt = [hard[i::count] for i in range(count)]
    for i, name in enumerate(easy):
        dealt[count - 1 - i % count].append(name)
    return [group for group in dealt if group]


def start(group: list[str], number: int, logs: Path, chosen: argparse.Namespace) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "holdfast", "evaluate", *group, "--suite", SUITE, "--store", str(chosen.store)]
    command += [
        "--pictures",
        "0",
        "--device",
        chosen.device,
        *(word for part in chosen.part for word in ("--part", part)),
    ]
    threads = str(max(1, (os.cpu_count() or 1) // chosen.processes))
    with (logs / f"{number:02d}.txt").open("wb") as log:
        return subprocess.Popen(command, env={"OMP_NUM_THREADS": threads} | os.environ, stdout=log, stderr=log)


def finished(running: list[subprocess.Popen[bytes]], store: Path) -> list[int]:
    """Waits for all, and says now and then how far they are."""
    begun = shown = time.monotonic()
    while any(process.poll() is None for process in running):
        time.sleep(0.5)
        if time.monotonic() - shown >= EVERY:
            shown = time.monotonic()
            print(f"{shown - begun:.0f} s: {rows_in(store)} runs", flush=True)
    return [process.wait() for process in running]


def rows_in(store: Path) -> int:
    return sum(1 for _ in (store / "rows").glob("*.parquet"))


if __name__ == "__main__":
    main()
