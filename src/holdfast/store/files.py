"""Whole files on any fsspec path: a reader sees a file complete or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from holdfast.core.errors import HoldfastError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
TEMPORARY = ".tmp"


class NoRoom(HoldfastError):  # noqa: N818 - says what is wrong
    """The disk is full: nothing more can be kept, so nothing more is measured."""


class Files:
    """A folder on a local disk or any fsspec filesystem."""

    def __init__(self, root: str) -> None:
        self.url = root
        self.fs: Any
        self.fs, self.root = fsspec.core.url_to_fs(root)
        self.is_local = isinstance(self.fs, LocalFileSystem)

    def path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"

    def write(self, name: str, data: bytes) -> None:
        """Writes under a temporary name, then renames: present means complete."""
        path = PurePosixPath(self.path(name))
        temporary = str(path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}{TEMPORARY}"))
        try:
            self.fs.makedirs(str(path.parent), exist_ok=True)
            if self.is_local:
                _write_durably(Path(temporary), data)
                Path(temporary).replace(path)
            else:
                self.fs.pipe_file(temporary, data)
                self.fs.mv(temporary, str(path))
        except OSError as error:
            self._discard(temporary)
            if error.errno in FULL:
                raise NoRoom(
                    f"no room left to write {path} ({error.strerror})",
                    hint="everything finished before is kept: free some space and run the same command again",
                ) from error
            raise HoldfastError(f"cannot write {path}: {error}", hint="is the store writable?") from error
        except BaseException:
            self._discard(temporary)
            raise

    def read(self, name: str) -> bytes:
        return bytes(self.fs.cat_file(self.path(name)))

    def names(self, folder: str, suffix: str) -> list[str]:
        """Complete files below a folder, as names relative to the root, sorted."""
        start = self.path(folder)
        if not self.fs.exists(start):
            return []
        self.fs.invalidate_cache()
        prefix = len(self.root.rstrip("/")) + 1
        found = (str(path)[prefix:] for path in self.fs.find(start))
        return sorted(name for name in found if name.endswith(suffix) and not PurePosixPath(name).name.startswith("."))

    def exists(self, name: str) -> bool:
        return bool(self.fs.exists(self.path(name)))

    def stamp(self, name: str) -> str:
        """Changes whenever the file does."""
        info = self.fs.info(self.path(name))
        return f"{info.get('size')}:{info.get('mtime') or info.get('ETag') or info.get('created')}"

    def remove(self, name: str) -> None:
        """Removes a file or folder; one that is gone already is fine."""
        with contextlib.suppress(FileNotFoundError):
            self.fs.rm(self.path(name), recursive=True)

    def move(self, name: str, to: str) -> None:
        self.fs.makedirs(str(PurePosixPath(self.path(to)).parent), exist_ok=True)
        self.fs.mv(self.path(name), self.path(to))

    def leftovers(self) -> list[str]:
        """Temporary files of writers that died; never read as rows."""
        if not self.fs.exists(self.root):
            return []
        prefix = len(self.root.rstrip("/")) + 1
        return sorted(str(path)[prefix:] for path in self.fs.find(self.root) if str(path).endswith(TEMPORARY))

    def _discard(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self.fs.rm(path)


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
