"""kill -9 at random moments, and a disk that fills up: nothing half is read, nothing whole is lost."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.store import Rows, Store

SCENARIO = "fashion-mnist-2k+gaussian-noise:severity=2+pgd-linf:radius=8/255,steps=6"
WORDS = ["evaluate", "fashion-at-linf", "--scenario", SCENARIO, "--pictures", "0", "--batch-size", "64", "-q"]
EAGER = "import holdfast.engine.evaluate as e; e.shard_size = lambda _: 100; e.KEEP_EVERY = 0.0; "
RUN = "import sys; from holdfast.__main__ import main; sys.argv = ['holdfast', *sys.argv[1:]]; main()"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def started(folder: Path) -> subprocess.Popen[str]:
    """The command line, with shards small enough that a kill finds some done and some not."""
    return subprocess.Popen(
        [sys.executable, "-c", EAGER + RUN, *WORDS, "--store", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        # a shell that starts tests in the background has them ignore Ctrl-C, and so would what they start
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def only_run(folder: Path) -> Rows:
    store = Store(str(folder))
    (key,) = store.footers()
    return store.read(key)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, float]:
    folder = tmp_path_factory.mktemp("undisturbed")
    begun = time.perf_counter()
    process = started(folder)
    assert process.wait(timeout=300) == 0, process.communicate()[1]
    return only_run(folder), time.perf_counter() - begun


class Story(NamedTuple):
    """How often a run was really killed before it was through, and how many rows of it were seen in parts."""

    kills: int
    kept: int


def killed_until_done(folder: Path, most_kills: int, duration: float, rng: random.Random) -> Story:
    """Starts and kills at random moments, checks the store after each, and in the end lets the run finish."""
    kills = kept = 0
    while kills < most_kills:
        process = started(folder)
        try:
            assert process.wait(timeout=rng.uniform(0.0, duration)) == 0
            break  # it was through before its time came
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
        store = Store(str(folder))
        assert all(finding.problem is None for finding in store.verify()), "whatever is there is whole"
        ids = [name for parts in store.unfinished().values() for part in parts for name in part.ids]
        assert len(ids) == len(set(ids)), "no shard was done twice"
        assert len(ids) >= kept or store.footers(), "what was kept once stays"
        kept = max(kept, len(ids))
    assert started(folder).wait(timeout=300) == 0
    return Story(kills, kept)


@pytest.mark.slow
def test_a_few_kills_leave_the_rows_of_an_undisturbed_run(tmp_path: Path, undisturbed: tuple[Rows, float]) -> None:
    rows, duration = undisturbed
    assert killed_until_done(tmp_path, 3, duration, random.Random(1)).kills > 0
    assert only_run(tmp_path).footer.digest == rows.footer.digest


@pytest.mark.slow
def test_twenty_kills_leave_the_rows_of_an_undisturbed_run(tmp_path: Path, undisturbed: tuple[Rows, float]) -> None:
    rows, duration = undisturbed
    rng = random.Random(0)
    stories: list[Story] = []
    while (left := 20 - sum(story.kills for story in stories)) > 0:  # a run that got through is begun anew
        folder = tmp_path / str(len(stories))
        stories.append(killed_until_done(folder, min(left, 7), duration, rng))
        assert only_run(folder).footer.digest == rows.footer.digest
        assert Store(str(folder)).unfinished() == {}
    assert max(story.kept for story in stories) > 0, "kills came while shards were being made"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 256 KiB."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a tmpfs")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
def test_a_disk_that_fills_up_keeps_what_was_there_and_the_run_resumes(
    small_disk: Path, undisturbed: tuple[Rows, float]
) -> None:
    # room for about two shards: a shard of 100 rows with its footer takes 15 to 20 KiB
    (small_disk / "ballast").write_bytes(b"\0" * (200 << 10))
    process = started(small_disk / "store")
    _, printed = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "no room left" in printed
    assert "run the same command again" in printed
    assert "Traceback" not in printed
    store = Store(str(small_disk / "store"))
    kept = sum(len(part) for parts in store.unfinished().values() for part in parts)
    assert 0 < kept < 2000
    assert all(finding.problem is None for finding in store.verify())
    (small_disk / "ballast").unlink()
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert started(small_disk / "store").wait(timeout=300) == 0
    assert only_run(small_disk / "store").footer.digest == undisturbed[0].footer.digest


@pytest.mark.slow
def test_ctrl_c_says_what_is_kept(tmp_path: Path, undisturbed: tuple[Rows, float]) -> None:
    process = started(tmp_path)
    store = Store(str(tmp_path))
    deadline = time.monotonic() + 120
    while not store.files.names("parts", ".parquet") and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "the same command goes on from here" in printed
    assert "Traceback" not in printed
    assert started(tmp_path).wait(timeout=300) == 0
    assert only_run(tmp_path).footer.digest == undisturbed[0].footer.digest


LONG = [
    "evaluate",
    "fashion-at-linf",
    "--scenario",
    "fashion-mnist-2k+autoattack-linf:radius=16/255",
    "--samples",
    "32",
]


@pytest.mark.slow
def test_an_attack_longer_than_the_time_between_kills_ends_with_the_rows_of_an_undisturbed_run(tmp_path: Path) -> None:
    """One shard, which takes several times as long as any process lives."""

    def run(folder: str, patience: float | None) -> int:
        words = [sys.executable, "-c", RUN, *LONG, "--pictures", "0", "--store", str(tmp_path / folder)]
        process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        try:
            return process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            return process.wait()

    assert run("undisturbed", None) == 0
    codes = []
    while 0 not in codes:
        codes.append(run("killed", 12.0))
        assert len(codes) < 60, "no progress"
        assert set(codes) <= {0, -signal.SIGKILL}
    assert len(codes) > 1, "it was never killed"
    assert only_run(tmp_path / "killed").footer.digest == only_run(tmp_path / "undisturbed").footer.digest
