"""Fuzzing: so many random inputs of every kind; only errors of ours come out, none is slow or large.

    python benchmarks/fuzz.py --inputs 100000 --seed 0

Exit 1 where an input raised anything else, took more than 5 seconds or more than 500 MB.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

SLOW, LARGE = 5.0, 500 << 20
HOME = Path(__file__).parents[1] / "tests" / "laws" / "fuzz_targets.py"
COSTLY = {"command line": 0.02, "stores": 0.05}  # shares of all inputs; the others divide the rest


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--inputs", type=int, default=100_000)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--only", help="one kind of input")
    asked = words.parse_args()
    spec = importlib.util.spec_from_file_location("fuzz_targets", HOME)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        sys.exit(report(module, folder, asked))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def report(module, folder: Path, asked: argparse.Namespace) -> int:
    """Feeds all inputs and prints what came of them; the exit code."""
    kinds = {name: each for name, each in module.targets(folder).items() if asked.only in (None, name)}
    for name, target in kinds.items():  # what is imported on first use is not an input's to answer for
        for number in range(20):
            with_chance(module, target, f"warm {name} {number}")
    rest = [name for name in kinds if name not in COSTLY or asked.only]
    shares = {name: (COSTLY[name] if name not in rest else 0.93 / len(rest)) for name in kinds}
    memory = peak()
    found: Counter[str] = Counter()
    problems, slowest, largest = [], (0.0, ""), (0, "")
    begun = time.perf_counter()
    for name, target in kinds.items():
        for number in range(round(asked.inputs * (1.0 if asked.only else shares[name]))):
            key, before, start = f"{asked.seed} {name} {number}", peak(), time.perf_counter()
            problem = with_chance(module, target, key)
            seconds, bytes_ = time.perf_counter() - start, peak() - before
            found[name] += 1
            found["taken"] += problem == "taken"
            if problem not in ("taken", "refused"):
                problems.append((key, problem))
            slowest, largest = max(slowest, (seconds, key)), max(largest, (bytes_, key))
    total = sum(found[name] for name in kinds)
    print(json.dumps({name: found[name] for name in kinds}, indent=1))
    print(
        f"{total:,} inputs in {time.perf_counter() - begun:.0f} s: {found['taken']:,} taken, {len(problems)} tracebacks"
    )
    print(f"slowest {slowest[0]:.2f} s ({slowest[1]})")
    print(f"largest growth of memory {largest[0] / 2**20:.0f} MB ({largest[1]})")
    print(f"peak memory {peak() / 2**20:.0f} MB, {(peak() - memory) / 2**20:.0f} MB above the start")
    kinds_of: Counter[str] = Counter(text.strip().splitlines()[-1][:150] for _, text in problems)
    for text, count in kinds_of.most_common(20):
        print(f"{count} times: {text}")
    for key, text in problems[:5]:
        print(key, text, sep="\n")
    return int(bool(problems) or slowest[0] > SLOW or largest[0] > LARGE)


def with_chance(module, target, key: str) -> str:
    """What came of one input: `taken`, `refused`, or a traceback."""
    try:
        return "taken" if module.fed(target, random.Random(key)) else "refused"
    except BaseException:  # noqa: BLE001 - whatever comes out is what is looked for
        return traceback.format_exc()


def peak() -> int:
    """Most memory that this process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


if __name__ == "__main__":
    main()
