"""Small runs that are killed, run out of memory or of disk: each store stays sound, and the same call completes it.

Children are forked from a process that has imported everything and done nothing, so a run costs its own work alone:

    python tests/system/test_torture.py FOLDER RUNS SEED
"""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

DATASET = "fashion-mnist-2k"
SCENARIOS = [
    DATASET,
    f"{DATASET}+gaussian-noise:severity=2",
    f"{DATASET}+contrast:severity=3+pgd-linf:radius=8/255,steps=4",
    f"{DATASET}+square-linf:queries=10",
    f"{DATASET}+sweep:attack=(pgd-linf:steps=3),radii=[2/255,8/255,32/255]",
]
MODEL = "python:unlucky:unlucky"
UNLUCKY = """
import torch
from holdfast.models import load

fails = lambda call: None

class Unlucky(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.calls = load("fashion-at-linf"), 0

    def forward(self, images):
        self.calls += 1
        error = fails(self.calls)
        if error is not None:
            raise error
        return self.net(images)

def unlucky():
    return Unlucky()
"""
SAMPLES = 16
SHARD = 8
DISTURBED = ("killed", "killed while writing", "out of memory", "disk full", "file too large")


def evaluate_all(store: str) -> bool:
    """What every child does: the same call, with small shards that are written as soon as they are there."""
    import holdfast.engine.evaluate as engine

    engine.shard_size, engine.KEEP_EVERY = (lambda _: SHARD), 0.0  # type: ignore[assignment]
    outcomes = engine.evaluate(MODEL, SCENARIOS, store=store, samples=SAMPLES, device="cpu", batch_size=8, pictures=2)
    return all(outcome.error is None for outcome in outcomes)


# what goes wrong, inside the child


def killed_while_writing(rng: random.Random) -> None:
    """The process is gone in the middle of a file, before its rename, or right after it."""
    from holdfast.store import files

    whole, last, where = files._write_durably, rng.randint(1, 22), rng.choice(["half", "whole", "renamed"])
    count = 0

    def write(path: Path, data: bytes) -> None:
        nonlocal count
        count += 1
        if count == last + (where == "renamed"):
            if where != "renamed":
                whole(path, data if where == "whole" else data[: rng.randrange(len(data))])
            os.kill(os.getpid(), signal.SIGKILL)
        whole(path, data)

    files._write_durably = write


def out_of_memory(rng: random.Random) -> None:
    """Some calls of the model fail for want of memory, as a GPU, Python and the CPU allocator say it."""
    import torch
    import unlucky

    words = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"
    errors = [torch.OutOfMemoryError("CUDA out of memory."), MemoryError(), RuntimeError(words)]
    share, until = rng.choice([0.02, 0.1, 1.0]), rng.randint(5, 400)
    unlucky.fails = lambda call: rng.choice(errors) if call < until and rng.random() < share else None


def disk_full(rng: random.Random) -> None:
    """Half of a file is written, and from then on nothing more."""
    from holdfast.store import files

    whole, room = files._write_durably, rng.randint(0, 20)
    count = 0

    def write(path: Path, data: bytes) -> None:
        nonlocal count
        count += 1
        if count > room:
            path.write_bytes(data[: rng.randrange(len(data))])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole(path, data)

    files._write_durably = write


def file_too_large(rng: random.Random) -> None:
    """The system itself refuses to write more than so many bytes of a file."""
    most = rng.randint(500, 16_000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


TROUBLES: dict[str, Callable[[random.Random], None] | None] = {
    "killed": None,  # from outside
    "killed while writing": killed_while_writing,
    "out of memory": out_of_memory,
    "disk full": disk_full,
    "file too large": file_too_large,
}


# children


def forked(work: Callable[[], int], *, log: Path, kill_after: float | None = None) -> int:
    """Does the work in a child; its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            with log.open("a") as result:
                os.dup2(result.fileno(), 1)
                os.dup2(result.fileno(), 2)
            code = work()
        except BaseException:  # noqa: BLE001 - whatever it was, the child ends here
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    if kill_after is not None:
        until = time.monotonic() + kill_after
        while time.monotonic() < until:
            if os.waitpid(child, os.WNOHANG)[0]:
                return 0
            time.sleep(0.002)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def disturbed(store: str, name: str, seed: int) -> Callable[[], int]:
    def work() -> int:
        from holdfast.store.files import NoRoom

        trouble = TROUBLES[name]
        if trouble is not None:
            trouble(random.Random(seed))
        try:
            return 0 if evaluate_all(store) else 3
        except NoRoom:
            return 4

    return work


def sound(store: str) -> Callable[[], int]:
    """0 where `holdfast verify` finds nothing wrong; 10 where parts of an unfinished run are there as well."""

    def work() -> int:
        from holdfast.cli.app import app
        from holdfast.store import Store

        try:
            app(["verify", "--store", store], standalone_mode=False)
        except SystemExit as stopped:
            return int(bool(stopped.code))
        kept = Store(store)
        if kept.damaged() or kept.files.names("damaged", ""):
            return 1
        return 10 if kept.unfinished() else 0

    return work


def completed(store: str, expected: Path, *, exactly: bool) -> Callable[[], int]:
    """0 where the same call completes the store, with the rows of an undisturbed one."""

    def work() -> int:
        from holdfast.store import Store

        if not evaluate_all(store):
            return 3
        ours, theirs = Store(store), Store(str(expected))
        assert ours.footers().keys() == theirs.footers().keys(), "the same runs"
        assert ours.unfinished() == {}, "nothing is left to do"
        assert all(finding.problem is None for finding in ours.verify())
        for key in ours.footers():
            differ = difference(ours.read(key), theirs.read(key), exactly=exactly)
            assert differ is None, f"{ours.footers()[key].scenario}: {differ}"
        return 0

    return work


def difference(one: object, other: object, *, exactly: bool) -> str | None:
    """The first column in which two files of rows differ.

    After running out of memory, samples went through the model in smaller batches, so numbers may round otherwise:
    logits and sizes by a step of float16, and an attack may need a pass more or less.
    """
    import numpy as np

    from holdfast.store import Rows

    assert isinstance(one, Rows)
    assert isinstance(other, Rows)
    for name in one.table.schema.names:
        if name in ("forwards", "backwards") and not exactly:
            continue
        left, right = one.table.column(name), other.table.column(name)
        if left.to_pylist() == right.to_pylist():
            continue
        if exactly or name not in ("logits", "label_logit", "prediction_logit", "logsumexp", "size"):
            return name
        flat = [np.array(column.combine_chunks().flatten() if name == "logits" else column) for column in (left, right)]
        if not np.allclose(*[values.astype(float) for values in flat], rtol=2e-3, atol=1e-3, equal_nan=True):
            return name
    return None


# the whole of it


def story(folder: Path, number: int, seed: int, duration: float, expected: Path) -> dict[str, object]:
    """One store that is disturbed once or twice and then completed."""
    rng = random.Random(f"{seed} {number}")
    store, log = str(folder / f"store-{number}"), folder / f"log-{number}"
    name = DISTURBED[number % len(DISTURBED)]
    ends, resumed = [], 0
    for _ in range(rng.randint(1, 2)):
        kill_after = rng.uniform(0, duration) if name == "killed" else None
        ends.append(forked(disturbed(store, name, rng.randrange(1 << 30)), log=log, kill_after=kill_after))
        after = forked(sound(store), log=log)
        if after not in (0, 10):
            return {"name": name, "ends": ends, "problem": f"not sound: {after}", "log": log.read_text()[-4000:]}
        resumed |= after == 10
    exactly = name != "out of memory"
    done = forked(completed(store, expected, exactly=exactly), log=log)
    problem = None if done == 0 else f"not completed: {done}"
    return {"name": name, "ends": ends, "resumed": resumed, "problem": problem, "log": log.read_text()[-4000:]}


def torture(folder: Path, runs: int, seed: int) -> list[dict[str, object]]:
    (folder / "unlucky.py").write_text(UNLUCKY)
    sys.path.insert(0, str(folder))
    import holdfast.cli.app
    import holdfast.engine.evaluate  # noqa: F401 - so that no child has to
    from holdfast.core.registry import registry

    for kind in ("dataset", "model", "attack", "corruption"):
        registry.discover(kind)
    expected = folder / "expected"
    begun = time.monotonic()
    done = forked(lambda: 0 if evaluate_all(str(expected)) else 3, log=folder / "log")
    assert done == 0, (folder / "log").read_text()
    duration = time.monotonic() - begun
    workers = []
    for share in range(2):
        worker = os.fork()
        if worker == 0:
            told = [story(folder, number, seed, duration, expected) for number in range(share, runs, 2)]
            (folder / f"told-{share}.json").write_text(json.dumps(told))
            os._exit(0)
        workers.append(worker)
    for worker in workers:
        os.waitpid(worker, 0)
    return [each for share in range(2) for each in json.loads((folder / f"told-{share}.json").read_text())]


def tortured(folder: Path, runs: int, seed: int = 0) -> list[dict[str, object]]:
    """In a process of its own: forking one that has computed before is not safe."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    words = [sys.executable, __file__, str(folder), str(runs), str(seed)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=1500)
    assert done.returncode == 0, done.stderr[-4000:]
    told: list[dict[str, object]] = json.loads((folder / "told.json").read_text())
    return told


def in_words(told: list[dict[str, object]]) -> str:
    """`killed: 40 stores, 58 times (57 -9, 1 0), 35 resumed from parts` for each kind of trouble."""
    lines = []
    for name in DISTURBED:
        mine = [each for each in told if each["name"] == name]
        ends = Counter(end for each in mine for end in each["ends"])  # type: ignore[attr-defined]
        result = ", ".join(f"{count} ended {end}" for end, count in sorted(ends.items()))
        resumed = sum(bool(each.get("resumed")) for each in mine)
        lines.append(f"{name}: {len(mine)} stores, {sum(ends.values())} times ({result}), {resumed} resumed from parts")
    return "\n".join(lines)


def assert_survived(told: list[dict[str, object]], runs: int) -> None:
    assert len(told) == runs
    broken = [each for each in told if each["problem"] is not None]
    assert not broken, f"{len(broken)} of {runs}: {broken[0]}"
    ends = Counter(end for each in told for end in each["ends"])  # type: ignore[attr-defined]
    assert set(ends) <= {0, 3, 4, -signal.SIGKILL}, f"only the ends that were prepared: {ends}"


def test_a_few_disturbed_runs_are_completed_by_the_same_call(tmp_path: Path) -> None:
    assert_survived(tortured(tmp_path, len(DISTURBED), seed=1), len(DISTURBED))


@pytest.mark.slow
def test_two_hundred_disturbed_runs_are_completed_by_the_same_call(tmp_path: Path) -> None:
    told = tortured(tmp_path, 200)
    assert_survived(told, 200)
    ended = {name: Counter(e for each in told if each["name"] == name for e in each["ends"]) for name in DISTURBED}  # type: ignore[attr-defined]
    assert ended["killed"][-signal.SIGKILL] > 20
    assert ended["killed while writing"][-signal.SIGKILL] > 20
    assert ended["out of memory"][3] > 5, "some runs could not go on, and said so"
    assert ended["out of memory"][0] > 5, "others went on in smaller batches"
    assert ended["disk full"][4] + ended["file too large"][4] > 40
    assert sum(bool(each.get("resumed")) for each in told) > 40, "many had parts to go on from"


if __name__ == "__main__":
    base, count, first = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    base.mkdir(parents=True, exist_ok=True)
    results = torture(base, count, first)
    (base / "told.json").write_text(json.dumps(results))
    sys.stdout.write(in_words(results) + "\n")
