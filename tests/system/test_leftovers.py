"""Nothing is left behind: a command that is stopped cleans up, and one that is killed is cleaned up after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXIT_OF_SIGTERM = 128 + signal.SIGTERM


def environment(folder: Path) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    return {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | {"TMPDIR": str(folder)}


def served(tmp_path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--store", str(tmp_path / "store")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path / "temporary"),
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("http://127.0.0.1:")
    return process


@pytest.mark.slow
def test_a_server_that_is_stopped_or_killed_leaves_no_site(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    process = served(tmp_path)
    assert len(list(temporary.glob("holdfast-site-*"))) == 1
    process.send_signal(signal.SIGTERM)
    _, printed = process.communicate(timeout=30)
    assert process.returncode == EXIT_OF_SIGTERM, printed
    assert "Traceback" not in printed
    assert list(temporary.glob("holdfast-site-*")) == []

    process = served(tmp_path)
    process.kill()
    process.communicate(timeout=30)
    (left,) = temporary.glob("holdfast-site-*")
    process = served(tmp_path)
    assert not left.exists(), "the next start removes what a killed one left"
    assert len(list(temporary.glob("holdfast-site-*"))) == 1, "and has its own"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)


def test_an_evaluation_that_is_stopped_keeps_what_is_finished(tmp_path: Path) -> None:
    words = ["evaluate", "fashion-at-linf", "--scenario", "fashion-mnist-2k+pgd-linf:radius=8/255,steps=50"]
    words += ["--store", str(tmp_path / "store"), "--batch-size", "16"]
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path / "temporary"),
    )
    deadline = time.monotonic() + 100
    while not list((tmp_path / "store").rglob("*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    _, printed = process.communicate(timeout=60)
    assert process.returncode == EXIT_OF_SIGTERM, printed
    assert "the same command goes on from here" in printed
    assert [path for path in (tmp_path / "store").rglob("*") if path.name.endswith(".tmp")] == []


def listening(process: int) -> set[str]:
    """Addresses that a process and its children listen on."""
    answer = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=False)
    family = {str(process), *children(process)}
    lines = [line for line in answer.stdout.splitlines() if any(f"pid={each}," in line for each in family)]
    return {line.split()[3].rpartition(":")[0] for line in lines}


def children(process: int) -> set[str]:
    found = {str(process)}
    table = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [line.split() for line in table.splitlines()]
    for _ in range(5):
        found |= {own for own, parent in pairs if parent in found}
    return found


def using(folder: Path) -> list[int]:
    """Processes with a file open below a folder."""
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            if any(str(entry.readlink()).startswith(f"{folder}/") for entry in (proc / "fd").iterdir()):
                found.append(int(proc.name))
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_a_ray_of_our_own_listens_here_alone_and_leaves_nothing() -> None:
    pytest.importorskip("ray")
    import shutil
    import tempfile

    # not under tmp_path: the paths of Ray's sockets must be short
    proc = Path(tempfile.mkdtemp(prefix="hf"))
    words = ["evaluate", "fashion-at-linf", "--scenario", "fashion-mnist-2k+pgd-linf:radius=8/255,steps=400"]
    words += ["--store", str(proc / "rows"), "--batch-size", "16", "--engine", "ray", "--actors", "1", "-q"]
    try:
        for sign in (signal.SIGKILL, signal.SIGTERM):
            process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment(proc / "t"),
            )
            before = len(list((proc / "rows").rglob("*.parquet")))
            deadline = time.monotonic() + 150
            while len(list((proc / "rows").rglob("*.parquet"))) <= before and time.monotonic() < deadline:
                assert process.poll() is None, process.communicate()
                time.sleep(0.2)
            while not (addresses := listening(process.pid)) and time.monotonic() < deadline:
                assert process.poll() is None, process.communicate()
                time.sleep(0.2)
            assert addresses, "a Ray that runs listens somewhere"
            assert addresses <= {"127.0.0.1", "[::ffff:127.0.0.1]", "[::1]"}
            (session,) = [path for path in (proc / "t").glob("holdfast-ray-*") if using(path)]
            process.send_signal(sign)
            _, printed = process.communicate(timeout=60)
            if sign == signal.SIGTERM:
                assert process.returncode == EXIT_OF_SIGTERM, printed
                time.sleep(3)
                assert using(proc) == []
                assert list((proc / "t").glob("holdfast-ray-*")) == [], "the session of the killed one went, too"
                assert list((proc / "rows").glob(".job-*")) == []
            else:
                assert session.exists()
                assert len(list((proc / "rows").glob(".job-*"))) == 1
    finally:
        for left in using(proc):
            os.kill(left, signal.SIGKILL)
        shutil.rmtree(proc, ignore_errors=True)
