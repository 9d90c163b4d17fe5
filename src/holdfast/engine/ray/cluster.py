"""What a job on Ray stands on: Ray itself, a cluster, its device_count, and what must travel there."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import platform
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.temporary import TemporaryFolder, end_processes_using, remove_leftovers
from holdfast.store import Store
from holdfast.store.files import TEMPORARY

LOOPBACK = "127.0.0.1"
NO_CLUSTER = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
PREFIX = "holdfast-ray-"
MOST_LETTERS = 20  # of the folder for temporary files: a socket's path has 107 letters at most
JOB = ".job-"
OBJECTS = 1 << 27  # bytes of Ray's object store where we start it: little travels through it


def installed_ray() -> Any:
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray
    except ImportError as error:
        hint = 'pip install "holdfast[ray]"'
        raise HoldfastError("`--engine ray` needs Ray, which is not installed", hint=hint) from error
    return ray


@contextlib.contextmanager
def connected(ray: Any, address: str | None, actors: int | None) -> Iterator[None]:
    """Joins a cluster, or starts Ray on this machine; what we started is stopped, what we joined is left as it was."""
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    logging.getLogger("ray").setLevel(logging.ERROR)
    with contextlib.ExitStack() as after:
        options: dict[str, Any] = {"address": address}
        if not address:
            options = {"address": "local", "num_cpus": actors, "object_store_memory": OBJECTS, **_private(after)}
        asked = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(**options, **quiet)
        except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
            where = f"the Ray cluster at {address}" if address else "Ray on this machine"
            hint = "`ray status` shows whether a cluster runs"
            raise HoldfastError(f"cannot reach {where}: {first_line(error)}", hint=hint) from error
        after.callback(ray.shutdown)
        if callable(asked) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, asked)  # Ray takes it for itself and aborts
        yield


def _private(after: contextlib.ExitStack) -> dict[str, Any]:
    """Options for a Ray of our own: it listens on this machine alone, and what it leaves behind is known as ours.

    Agents outlive a process that is killed. They have files open in the folder of their session, by which the next
    start finds and ends them.
    """
    parent = Path(tempfile.gettempdir())
    if len(str(parent)) > MOST_LETTERS:
        parent = Path("/tmp")
    remove_leftovers(parent, f"{PREFIX}*", first=end_processes_using)
    folder = TemporaryFolder(parent / f"{PREFIX}{uuid.uuid4().hex[:8]}")
    after.callback(folder.close)
    after.enter_context(_on_loopback())
    return {"include_dashboard": False, "_node_ip_address": LOOPBACK, "_temp_dir": str(folder.path)}


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Ray takes 127.0.0.1 for its own address only where it believes that there is no cluster, as it does on a Mac."""
    constants = importlib.import_module("ray._private.ray_constants") if "ray" in sys.modules else None
    before = os.environ.get(NO_CLUSTER), getattr(constants, "ENABLE_RAY_CLUSTER", None)
    os.environ[NO_CLUSTER] = "0"
    if constants is not None:
        constants.ENABLE_RAY_CLUSTER = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if constants is not None:
            constants.ENABLE_RAY_CLUSTER = before[1]  # type: ignore[attr-defined]
        if before[0] is None:
            os.environ.pop(NO_CLUSTER, None)
        else:
            os.environ[NO_CLUSTER] = before[0]


def actor_device(ray: Any, asked: str) -> str:
    """What every actor computes on; which GPU of a node is Ray's choice."""
    gpus = int(ray.cluster_resources().get("GPU", 0))
    if asked == "auto":
        return "cuda" if gpus else "cpu"
    if asked not in ("cpu", "cuda"):
        raise Misuse(f"no device `{asked}` on a cluster", hint="use --device auto, cpu or cuda; Ray chooses which one")
    if asked == "cuda" and not gpus:
        raise Misuse("the cluster has no GPU", hint="use --device auto or cpu")
    return asked


def device_count(ray: Any, device: str) -> int:
    return max(1, int(ray.cluster_resources().get("GPU" if device == "cuda" else "CPU", 0)))


@contextlib.contextmanager
def token_in(store: Store) -> Iterator[str]:
    """A file in the store for as long as the job goes on, by which a node knows that it sees the same store."""
    for left in store.files.leftovers():
        if left.startswith(JOB) and _is_over(store, left):
            store.files.remove(left)
    name = f"{JOB}{uuid.uuid4().hex}{TEMPORARY}"
    store.files.write(name, json.dumps(_owner(os.getpid())).encode())
    try:
        yield name
    finally:
        store.files.remove(name)


def _owner(process: int) -> dict[str, object]:
    """A process so that no later one is taken for it: machine, number, and when it began."""
    try:
        began = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        began = ""
    return {"machine": f"{platform.node()} {_boot()}", "process": process, "began": began}


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _is_over(store: Store, name: str) -> bool:
    """Whether the job of a token was one of this machine and its process is gone."""
    try:
        owner = json.loads(store.files.read(name))
        process, here = int(owner["process"]), str(owner["machine"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    if here.partition(" ")[0] != platform.node():
        return False
    known = _owner(process)
    return bool(owner != known or (not known["began"] and not _is_alive(process)))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def refuse_memory(store: Store) -> None:
    protocol = store.files.fs.protocol
    if "memory" in ((protocol,) if isinstance(protocol, str) else protocol):
        raise Misuse(
            f"{store.url} is the memory of one process, which no other sees",
            hint="give --store a folder, or a path that every node shares, such as s3://bucket/rows",
        )


def first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
