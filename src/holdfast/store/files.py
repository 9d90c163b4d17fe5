"""Whole files on any fsspec path: a reader sees a file complete or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from holdfast.core.errors import HoldfastError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
TEMPORARY = ".tmp"


class NoRoom(HoldfastError):  # noqa: N818 - says what is wrong
    """The disk is full: nothing more can be kept, so nothing more is measured."""


class Damaged(HoldfastError):  # noqa: N818 - says what the file is
    """A file of rows that cannot be trusted."""


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

    def tail(self, name: str, size: int) -> bytes:
        """The last bytes of a file, all of it where it is shorter."""
        if not self.is_local:
            return bytes(self.fs.cat_file(self.path(name), start=-size))
        with Path(self.path(name)).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read()

    def names(self, folder: str, suffix: str) -> list[str]:
        """Complete files below a folder, as names relative to the root, sorted."""
        found = [name for name, _ in self._walked(folder)] if self.is_local else list(self._found(folder))
        return sorted(name for name in found if _is_kept(name, suffix))

    def stamps(self, folder: str, suffix: str) -> dict[str, str]:
        """What `names` lists, each with a stamp that changes whenever the file does; one listing, however many."""
        if not self.is_local:
            listed = self._found(folder).items()
            return {name: _stamp(info) for name, info in sorted(listed) if _is_kept(name, suffix)}
        stamps = {}
        for name, entry in self._walked(folder):
            if _is_kept(name, suffix):
                with contextlib.suppress(FileNotFoundError):  # gone since it was listed
                    about = entry.stat()
                    stamps[name] = f"{about.st_size}:{about.st_mtime_ns}"
        return stamps

    def exists(self, name: str) -> bool:
        return bool(self.fs.exists(self.path(name)))

    def stamp(self, name: str) -> str:
        """As `stamps` has it."""
        if not self.is_local:
            return _stamp(self.fs.info(self.path(name)))
        about = Path(self.path(name)).stat()
        return f"{about.st_size}:{about.st_mtime_ns}"

    def remove(self, name: str) -> None:
        """Removes a file or folder; one that is gone already is fine."""
        with contextlib.suppress(FileNotFoundError):
            self.fs.rm(self.path(name), recursive=True)

    def move(self, name: str, to: str) -> None:
        self.fs.makedirs(str(PurePosixPath(self.path(to)).parent), exist_ok=True)
        self.fs.mv(self.path(name), self.path(to))

    def leftovers(self) -> list[str]:
        """Temporary files of writers that died; never read as rows."""
        found = [name for name, _ in self._walked("")] if self.is_local else list(self._found(""))
        return sorted(name for name in found if name.endswith(TEMPORARY))

    def _walked(self, folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Files below a folder on a local disk; fsspec would ask the disk several times for each."""
        try:
            entries = os.scandir(self.path(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        with entries:
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walked(name)
                else:
                    yield name, entry

    def _found(self, folder: str) -> dict[str, dict[str, Any]]:
        start = self.path(folder)
        self.fs.invalidate_cache()
        if not self.fs.exists(start):
            return {}
        prefix = len(self.root.rstrip("/")) + 1
        return {str(path)[prefix:]: info for path, info in self.fs.find(start, detail=True).items()}

    def _discard(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self.fs.rm(path)


def _is_kept(name: str, suffix: str) -> bool:
    return name.endswith(suffix) and not name.rpartition("/")[2].startswith(".")


def _stamp(info: Mapping[str, Any]) -> str:
    return f"{info.get('size')}:{info.get('mtime') or info.get('ETag') or info.get('created')}"


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
