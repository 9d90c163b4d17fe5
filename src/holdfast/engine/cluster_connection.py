"""What a job on Ray stands on: Ray itself, a cluster, its devices, and what must travel there."""

from __future__ import annotations

import contextlib
import logging
import os
import uuid
from collections.abc import Iterator
from typing import Any

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.refs import Ref
from holdfast.core.types import Classifier
from holdfast.engine.cluster_work import Parcel
from holdfast.store import Store
from holdfast.store.files import TEMPORARY

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
    own = {"address": "local", "num_cpus": actors, "include_dashboard": False, "object_store_memory": OBJECTS}
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        ray.init(**({"address": address} if address else own), **quiet)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        where = f"the Ray cluster at {address}" if address else "Ray on this machine"
        hint = "`ray status` shows whether a cluster runs"
        raise HoldfastError(f"cannot reach {where}: {first_line(error)}", hint=hint) from error
    try:
        yield
    finally:
        ray.shutdown()


def device_of(ray: Any, asked: str) -> str:
    """What every actor computes on; which GPU of a node is Ray's choice."""
    gpus = int(ray.cluster_resources().get("GPU", 0))
    if asked == "auto":
        return "cuda" if gpus else "cpu"
    if asked not in ("cpu", "cuda"):
        raise Misuse(f"no device `{asked}` on a cluster", hint="use --device auto, cpu or cuda; Ray chooses which one")
    if asked == "cuda" and not gpus:
        raise Misuse("the cluster has no GPU", hint="use --device auto or cpu")
    return asked


def devices(ray: Any, device: str) -> int:
    return max(1, int(ray.cluster_resources().get("GPU" if device == "cuda" else "CPU", 0)))


def packed(ray: Any, model: Ref | Classifier) -> Ref | Parcel:
    """A ref travels as it is, a live model packed, where it can be."""
    if isinstance(model, Ref):
        return model
    try:
        packed = ray.cloudpickle.dumps(model)
    except Exception as error:
        raise Misuse(
            f"`{model.card.name}` cannot travel to other processes: {type(error).__name__}: {error}",
            hint="name a function that makes it, `python:module:factory`, or save it and name the file, `file:PATH`",
        ) from error
    return Parcel(f"{model.card.name} {uuid.uuid4().hex}", model.card.name, ray.put(packed))


@contextlib.contextmanager
def token_in(store: Store) -> Iterator[str]:
    """A file in the store for as long as the job goes on, by which a node knows that it sees the same store."""
    name = f".job-{uuid.uuid4().hex}{TEMPORARY}"
    store.files.write(name, b"")
    try:
        yield name
    finally:
        store.files.remove(name)


def refuse_memory(store: Store) -> None:
    protocol = store.files.fs.protocol
    if "memory" in ((protocol,) if isinstance(protocol, str) else protocol):
        raise Misuse(
            f"{store.url} is the memory of one process, which no other sees",
            hint="give --store a folder, or a path that every node shares, such as s3://bucket/rows",
        )


def first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
