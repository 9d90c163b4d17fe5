"""Real Ray: two actors give the rows of one process, and killing an actor, a node or the driver loses nothing finished.

All tests of this file share one cluster of several nodes on this machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.core.errors import HoldfastError
from holdfast.core.refs import Run
from holdfast.engine.evaluate import Outcome, evaluate
from holdfast.engine.watch import Watcher
from holdfast.store import Footer, Rows, Store

pytest.importorskip("ray")

CLEAN = "fashion-mnist-2k"
ATTACKED = "fashion-mnist-2k+gaussian-noise:severity=2+pgd-linf:radius=8/255,steps=4"
OF_THE_MOMENT = {"started", "finished", "seconds", "device"}
MODEL = """
import os, pathlib, ray
from holdfast.models import load

def make():
    model = load("fashion-at-linf")
    if ray.is_initialized():
        node = ray.get_runtime_context().get_node_id()
        (pathlib.Path(__file__).parent / f"{os.getpid()}.{node}.pid").touch()
    return model

def deadly():
    os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one core each."""
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 1 << 27}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    cluster.add_node(**node)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """As an actor has it: sums in another order are other logits in the last bit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a model in it."""
    (tmp_path / "mine.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def on_ray(models: list[str], scenarios: list[str], store: str, **more: Any) -> list[Outcome]:
    settings: dict[str, Any] = {
        "samples": 1000,
        "batch_size": 16,
        "pictures": 2,
        "watcher": Watcher(),
        "actors": 2,
    }
    return evaluate(models, scenarios, store=store, engine="ray", **(settings | more))


def assert_same(one: Rows | None, other: Rows | None) -> None:
    """Equal in every column and in all of the footer but timing."""
    assert one is not None
    assert other is not None
    for name in other.table.column_names:
        assert one.table.column(name).equals(other.table.column(name)), name
    for name in Footer.__dataclass_fields__:
        if name not in OF_THE_MOMENT:
            assert getattr(one.footer, name) == getattr(other.footer, name), name


def alone() -> Rows | None:
    """The rows that one process makes."""
    (outcome,) = evaluate("python:mine:make", ATTACKED, store="local", samples=1000, batch_size=16, pictures=0)
    return outcome.rows


class Acting(Watcher):
    """Does something once, as soon as it can: `act` says whether it did."""

    def __init__(self, act: Callable[[], bool]) -> None:
        self.act, self.acted = act, False
        self.kept = self.measured = 0
        self.notes: list[str] = []

    def began(self, run: Run, samples: int, kept: int) -> None:
        self.kept += kept

    def advanced(self, run: Run, samples: int, standing: object) -> None:
        self.measured += samples
        self.acted = self.acted or self.act()

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.usefixtures("cluster")
def test_two_actors_give_the_rows_of_one_process(folder: Path) -> None:
    """On relative paths, with a model of our own and data that is not there or has other channels."""
    models, scenarios = ["python:mine:make", "fashion-standard"], [CLEAN, ATTACKED, "cifar10"]
    together = on_ray(models, scenarios, "rows", samples=300)
    alone = evaluate(models, scenarios, store="local", samples=300, batch_size=16, pictures=2)
    for one, other in zip(together, alone, strict=True):
        if "cifar10" in one.scenario:
            assert isinstance(one.error, HoldfastError), "data that is not here or does not fit fails its own runs only"
            assert str(one.error) == str(other.error)
            continue
        assert_same(one.rows, other.rows)
        assert one.fresh
        assert one.rows is not None
        assert Store("rows").pictures(one.rows.footer.key) == Store("local").pictures(one.rows.footer.key)
    assert list(folder.glob("*.pid")), "an actor made the model, not this process"
    assert all(finding.problem is None for finding in Store("rows").verify())


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_an_actor_that_is_killed_loses_no_finished_shard(folder: Path) -> None:
    killed: list[int] = []

    def kill() -> bool:
        for path in folder.glob("*.pid"):
            killed.append(int(path.name.split(".")[0]))
            os.kill(killed[0], signal.SIGKILL)
            return True
        return False

    watcher = Acting(kill)
    (outcome,) = on_ray(["python:mine:make"], [ATTACKED], "rows", watcher=watcher)
    assert killed
    assert any("an actor died" in note for note in watcher.notes)
    assert_same(outcome.rows, alone())
    assert watcher.measured == 1000, "every sample counts once"
    assert Store("rows").unfinished() == {}
    (again,) = on_ray(["python:mine:make"], [ATTACKED], f"file://{folder}/rows")
    assert not again.fresh, "a URL names the same store"
    assert_same(again.rows, outcome.rows)


@pytest.mark.slow
def test_a_node_that_is_lost_loses_no_finished_shard(folder: Path, cluster: Any) -> None:
    """The node goes while its actor measures; no other comes, so the rest is for those that are left."""
    node = cluster.add_node(num_cpus=1, object_store_memory=1 << 27)

    def lose() -> bool:
        if not list(folder.glob(f"*.{node.node_id}.pid")):
            return False
        cluster.remove_node(node, allow_graceful=False)
        return True

    watcher = Acting(lose)
    store = f"dir::file://{folder}/rows"  # not a local folder to the store: files are written as to an object store
    (outcome,) = on_ray(["python:mine:make"], [ATTACKED], store, watcher=watcher, actors=3)
    assert watcher.acted
    assert_same(outcome.rows, alone())
    assert watcher.measured == 1000


@pytest.mark.slow
@pytest.mark.usefixtures("cluster", "folder")
def test_a_model_that_kills_its_process_fails_alone() -> None:
    deadly, fine = on_ray(["python:mine:deadly", "fashion-standard"], [CLEAN], "rows")
    assert fine.rows is not None
    assert deadly.rows is None
    assert "died 4 times" in str(deadly.error)


@pytest.mark.slow
def test_a_driver_that_is_stopped_or_killed_resumes(tmp_path: Path, cluster: Any) -> None:
    """The command line: Ctrl-C on a cluster it joined, kill -9 with a Ray of its own, on the cluster to the end."""
    words = ["evaluate", "fashion-at-linf", "--scenario", ATTACKED, "--batch-size", "16", "--pictures", "0", "-q"]
    words += ["--samples", "1000"]
    ray = ["--engine", "ray", "--actors", "2", "--store", str(tmp_path / "rows")]
    joining = ["--address", cluster.address]
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}

    def started(more: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast", *words, *ray, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=tmp_path,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    store = Store(str(tmp_path / "rows"))
    kept = 0
    for sign, more in ((signal.SIGINT, joining), (signal.SIGKILL, [])):
        process = started(more)
        deadline = time.monotonic() + 200
        while _parts(store) <= kept and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(sign)
        _, printed = process.communicate(timeout=100)
        assert process.returncode == (130 if sign == signal.SIGINT else -signal.SIGKILL), printed
        if sign == signal.SIGINT:
            assert "the same command goes on from here" in printed
            assert "Traceback" not in printed
        assert all(finding.problem is None for finding in store.verify())
        assert _parts(store) > kept
        kept = _parts(store)
    process = started(joining)
    _, printed = process.communicate(timeout=300)
    assert process.returncode == 0, printed
    (key,) = store.footers()
    (outcome,) = evaluate(
        "fashion-at-linf", ATTACKED, store=str(tmp_path / "local"), samples=1000, batch_size=16, pictures=0
    )
    assert_same(store.read(key), outcome.rows)


def _parts(store: Store) -> int:
    return len(store.files.names("parts", ".parquet"))
