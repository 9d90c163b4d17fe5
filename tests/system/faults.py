"""Faults of a disk, injected below everything that touches files: `open`, `read`, `write`, `stat`, `rename` …

The operations on files below one folder are counted; the chosen one fails, or all from it on. Nothing here knows how
the store is written.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SHORT, MEMORY = "short read", "MemoryError"
READING = {"open", "read", "stat", "list", "entry"}
CODES = ("EIO", "EACCES", "ENOSPC", "ENOMEM", "ESTALE", "ETIMEDOUT", "EMFILE", "EINTR", "ENOTCONN", "EBUSY", "EPERM")
KINDS = (*CODES, SHORT, MEMORY)
PATHS = {
    "stat": "stat",
    "lstat": "stat",
    "replace": "rename",
    "rename": "rename",
    "mkdir": "mkdir",
    "remove": "remove",
    "unlink": "remove",
    "rmdir": "remove",
}


@dataclass
class Faults:
    """Which operation below `root` fails, and how: the `at`-th, alone or with all after it."""

    root: str
    at: int | None = None
    kind: str = "EIO"
    lasts: bool = False
    count: int = 0
    injected: int = 0
    seen: list[str] = field(default_factory=list, repr=False)

    def meet(self, operation: str, path: object) -> bool:
        """Counts an operation and fails it if it is its turn; True: give fewer bytes than there are."""
        if not self._is_ours(path):
            return False
        self.count += 1
        self.seen.append(operation)
        if self.at is None or not (self.count == self.at or (self.lasts and self.count > self.at)):
            return False
        if self.kind == SHORT:
            self.injected += operation == "read"
            return operation == "read"
        self.injected += 1
        if self.kind == MEMORY:
            raise MemoryError
        code = getattr(errno, self.kind)
        raise OSError(code, os.strerror(code), os.fspath(path))  # type: ignore[arg-type]

    def _is_ours(self, path: object) -> bool:
        try:
            return os.fsdecode(os.fspath(path)).startswith(self.root)  # type: ignore[arg-type]
        except TypeError:
            return False  # a descriptor


class _File:
    """An open file whose reads and writes may fail."""

    def __init__(self, file: Any, path: object, faults: Faults) -> None:
        self._file, self._path, self._faults = file, path, faults

    def read(self, *size: int) -> Any:
        is_short = self._faults.meet("read", self._path)
        data = self._file.read(*size)
        return data[: len(data) // 2] if is_short else data

    def write(self, data: Any) -> Any:
        self._faults.meet("write", self._path)
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Any:
        return iter(self._file)


class _Entry:
    """An entry of a folder whose `stat` may fail."""

    def __init__(self, entry: Any, faults: Faults) -> None:
        self._entry, self._faults = entry, faults

    def stat(self, **how: Any) -> Any:
        self._faults.meet("entry", self._entry.path)
        return self._entry.stat(**how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def __fspath__(self) -> str:
        return str(self._entry.path)


class _Entries:
    def __init__(self, entries: Any, faults: Faults) -> None:
        self._entries, self._faults = entries, faults

    def __iter__(self) -> Iterator[_Entry]:
        return (_Entry(entry, self._faults) for entry in self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self._entries.close()

    def close(self) -> None:
        self._entries.close()


@contextmanager
def injected(faults: Faults) -> Iterator[Faults]:
    """Puts the faults under every module of this process while it lasts."""
    kept = {(os, name): getattr(os, name) for name in (*PATHS, "scandir", "fsync")}
    opened = builtins.open

    def open_(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
        if not faults._is_ours(file):
            return opened(file, mode, *more, **named)
        faults.meet("open" if "r" in mode else "create", file)
        return _File(opened(file, mode, *more, **named), file, faults)

    def scandir(path: Any = ".") -> Any:
        if not faults._is_ours(path):
            return kept[os, "scandir"](path)
        faults.meet("list", path)
        return _Entries(kept[os, "scandir"](path), faults)

    def fsync(descriptor: int) -> None:
        faults.meet("fsync", Path(f"/proc/self/fd/{descriptor}").readlink())
        kept[os, "fsync"](descriptor)

    def failing(name: str, operation: str) -> Callable[..., Any]:
        real = kept[os, name]

        def wrapped(path: Any, *more: Any, **named: Any) -> Any:
            faults.meet(operation, path)
            return real(path, *more, **named)

        return wrapped

    try:
        for name, operation in PATHS.items():
            setattr(os, name, failing(name, operation))
        os.scandir, os.fsync = scandir, fsync  # type: ignore[assignment]
        builtins.open = io.open = open_  # type: ignore[assignment]
        yield faults
    finally:
        for (module, name), real in kept.items():
            setattr(module, name, real)
        builtins.open = io.open = opened
