"""The model file that a training will write: looked at before the first step, and one training at a time writes it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.core.errors import HoldfastError, Misuse


class InUse(HoldfastError):  # noqa: N818 - says what is the matter
    """Another training writes the same model file."""


@contextlib.contextmanager
def reserved(out: Path) -> Iterator[None]:
    """Refuses a model file that cannot be written here, or that another training is writing; ours until the end.

    The lock is the process's own, so that one that was killed holds nothing.
    """
    if out.suffix != ".safetensors":
        raise Misuse(f"a model file ends in .safetensors, got `{out.name}`")
    if out.is_dir():
        raise Misuse(f"{out} is a folder", hint=f"name a file: --out {out / 'NAME.safetensors'}")
    path = out.with_name(f".{out.name}.lock")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise HoldfastError(
            f"{out} cannot be written: {error.strerror or error}", hint="write elsewhere with --out"
        ) from error
    try:
        if not _is_ours(lock):
            raise InUse(f"another training is writing {out}", hint="wait for it, or write elsewhere with --out")
        try:
            _remove_parts(out)
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(lock)


def _remove_parts(out: Path) -> None:
    """Removes what a training that was killed had half written: files on their way to a model or a checkpoint."""
    part = re.compile(rf"\.{re.escape(out.stem)}(-epoch\d+)?\.safetensors(\.checkpoint)?\.[a-z0-9_]{{8}}")
    for path in out.parent.iterdir():
        if part.fullmatch(path.name):
            path.unlink(missing_ok=True)


def _is_ours(lock: int) -> bool:
    """Locks an open file; True too where the system or its filesystem has no locks."""
    try:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return True
    return True
