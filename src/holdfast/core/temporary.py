"""Folders that live as long as the process that made them: what a killed process left, the next one removes.

The owner holds a lock on a file inside, which the system lets go of however the process ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

LOCK = ".holdfast-lock"


class TemporaryFolder:
    """A folder of this process, with the lock that says so."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        # under another name until it is locked: a folder with an open lock is a leftover
        new = path / f"{LOCK}-{uuid.uuid4().hex[:8]}"
        self.lock: int | None = os.open(new, os.O_CREAT | os.O_RDWR, 0o600)
        _locked(self.lock)
        new.replace(path / LOCK)

    def close(self) -> None:
        """Removes the folder; a second time does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None


def temporary_folder(prefix: str, *, parent: Path | None = None) -> TemporaryFolder:
    """A new folder of ours, after removing those of processes that were killed."""
    parent = parent or Path(tempfile.gettempdir())
    remove_leftovers(parent, f"{prefix}*")
    return TemporaryFolder(parent / f"{prefix}{uuid.uuid4().hex[:8]}")


def remove_leftovers(parent: Path, pattern: str, *, first: Callable[[Path], object] | None = None) -> list[Path]:
    """Removes folders whose owner is gone, after `first` was done to each; those removed."""
    removed = []
    for path in sorted(parent.glob(pattern)):
        if _is_left(path):
            if first is not None:
                first(path)
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
    return removed


def end_processes_using(folder: Path) -> list[int]:
    """Kills this user's processes that have a file below the folder open, where the system tells (Linux)."""
    ended = []
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) == os.getpid() or not _uses(process, folder):
            continue
        with contextlib.suppress(OSError):
            os.kill(int(process.name), 9)
            ended.append(int(process.name))
    return ended


def _uses(process: Path, folder: Path) -> bool:
    below = f"{folder}{os.sep}"
    try:
        if process.stat().st_uid != os.getuid():
            return False
        return any(str(entry.readlink()).startswith(below) for entry in (process / "fd").iterdir())
    except OSError:  # gone meanwhile, or not ours to look at
        return False


def _is_left(path: Path) -> bool:
    """Whether a folder has a lock that no process holds and is ours to remove."""
    try:
        if path.is_symlink() or path.stat().st_uid != os.getuid():
            return False
        lock = os.open(path / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        return _locked(lock)
    finally:
        os.close(lock)


def _locked(file: int) -> bool:
    """Locks a file; False where another process holds it, or where there are no locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True
