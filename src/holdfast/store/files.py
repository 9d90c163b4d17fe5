"""Whole files on any fsspec path: a reader sees a file complete or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from holdfast.core.errors import HoldfastError, Misuse

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
TEMPORARY = ".tmp"
NO_FILE = "it is a folder or a device, not a file"
FOLDER_NAMED_AS_FILE = ".parquet"  # a folder of such a name is no folder of ours: it is not looked into


class NoRoom(HoldfastError):  # noqa: N818 - says what is wrong
    """The disk is full: nothing more can be kept, so nothing more is measured."""


class Unusable(HoldfastError):  # noqa: N818 - says what the file is
    """A file of a store that is left aside; the others are not concerned."""


class Damaged(Unusable):
    """A file that was read in full, twice, and is not what was written: no Parquet, or not of its digest."""


class CannotRead(Unusable):
    """A file or folder that could not be read now; nothing is known of its content, so nothing is done to it."""


class Foreign(Unusable):
    """A file that holdfast did not write, or a version that this one cannot read; it stays where it is."""


class CannotWrite(HoldfastError):  # noqa: N818 - says what is wrong
    """A file that could not be written, moved or removed."""


class ShortReadError(OSError):
    """Fewer bytes came than the file has."""


@dataclass(frozen=True, slots=True)
class FileList:
    """Files below a folder: the stamp of each by name, and by printable name what is wrong with those left aside.

    A stamp changes whenever its file does.
    """

    stamps: dict[str, str] = field(default_factory=dict)
    odd: dict[str, str] = field(default_factory=dict)


class Files:
    """A folder on a local disk or any fsspec filesystem."""

    def __init__(self, root: str) -> None:
        self.url = root
        self.fs: Any
        try:
            self.fs, self.root = fsspec.core.url_to_fs(root)
        except ImportError as error:
            raise HoldfastError(
                f"`{root}` is on a filesystem that needs a package: {error}", hint="install it beside holdfast"
            ) from error
        except (ValueError, TypeError) as error:
            problem = f"`{root}` is neither a folder nor a place on a filesystem that fsspec knows: {error}"
            raise Misuse(problem, hint="a folder, or such as s3://bucket/rows") from error
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
                if self.fs.info(temporary).get("size") not in (None, len(data)):
                    raise OSError(errno.EIO, "fewer bytes were written than given")
                self.fs.mv(temporary, str(path))
        except OSError as error:
            self._discard(temporary)
            if error.errno in FULL:
                raise NoRoom(
                    f"no room left to write {path} ({error.strerror})",
                    hint="everything finished before is kept: free some space and run the same command again",
                ) from error
            raise
        except BaseException:
            self._discard(temporary)
            raise

    def read(self, name: str) -> bytes:
        """All bytes of a file."""
        if not self.is_local:
            return bytes(self.fs.cat_file(self.path(name)))
        with _links_checked(self.path(name)):
            about = os.stat(self.path(name))  # noqa: PTH116 - as `size`
        if not stat.S_ISREG(about.st_mode):  # reading a pipe would wait for ever
            raise OSError(errno.EISDIR, NO_FILE)
        data = bytes(self.fs.cat_file(self.path(name)))
        _check_length(data, about.st_size)
        return data

    def tail(self, name: str, size: int) -> bytes:
        """The last bytes of a file, all of it where it is shorter."""
        if not self.is_local:
            return bytes(self.fs.cat_file(self.path(name), start=-size))
        with _links_checked(self.path(name)), Path(self.path(name)).open("rb") as file:
            whole = os.fstat(file.fileno()).st_size
            file.seek(max(0, whole - size))
            data = file.read()
            _check_length(data, min(size, whole))
            return data

    def size(self, name: str) -> int | None:
        """How many bytes a file has; None where its filesystem does not say."""
        if self.is_local:
            return os.stat(self.path(name)).st_size  # noqa: PTH116 - no Path: it is asked for every file
        listed = self.fs.info(self.path(name)).get("size")
        return None if listed is None else int(listed)

    def names(self, folder: str, suffix: str) -> list[str]:
        """Complete files below a folder, as names relative to the root, sorted."""
        return sorted(self.listing(folder, suffix).stamps)

    def listing(self, folder: str, suffix: str) -> FileList:
        """What is below a folder, each file with its stamp; one listing, however many files."""
        listed = FileList()
        if self._is_file(folder):
            listed.odd[folder] = "it is a file, not a folder"
            return listed
        for name, mark in self._walked(folder) if self.is_local else self._listed(folder):
            if not _is_kept(name, suffix):
                continue
            if not _is_text(name):
                listed.odd[printable(name)] = "its name is not UTF-8"
            elif mark is None:
                listed.odd[name] = NO_FILE
            else:
                listed.stamps[name] = mark
        return listed

    def exists(self, name: str) -> bool:
        """Whether there is such a file or folder; an error where the filesystem does not answer."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if self.is_local:
                os.stat(self.path(name))  # noqa: PTH116 - `Path.exists` takes some errors for an absence
            else:
                self.fs.info(self.path(name))
            return True
        return False

    def stamp(self, name: str) -> str:
        """As `listing` has it."""
        if not self.is_local:
            return _stamp(self.fs.info(self.path(name)))
        return _local_stamp(os.stat(self.path(name)))  # noqa: PTH116

    def remove(self, name: str) -> None:
        """Removes a file or folder; one that is gone already is fine."""
        with contextlib.suppress(FileNotFoundError):
            self.fs.rm(self.path(name), recursive=True)

    def move(self, name: str, to: str) -> None:
        self.fs.makedirs(str(PurePosixPath(self.path(to)).parent), exist_ok=True)
        if self.is_local:
            Path(self.path(name)).rename(self.path(to))
        else:
            self.fs.mv(self.path(name), self.path(to))

    def leftovers(self) -> list[str]:
        """Temporary files of writers that died; never read as rows."""
        listed = self._walked("") if self.is_local else self._listed("")
        return sorted(printable(name) for name, _ in listed if name.endswith(TEMPORARY))

    def _walked(self, folder: str) -> Iterator[tuple[str, str | None]]:
        """Files below a folder on a local disk, with their stamps; fsspec would ask the disk several times for each."""
        try:
            entries = os.scandir(self.path(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        with entries:
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if not entry.is_dir(follow_symlinks=False):
                    try:
                        mark = _entry_stamp(entry)
                    except FileNotFoundError:  # gone since it was listed
                        continue
                    yield name, mark
                elif name.endswith(FOLDER_NAMED_AS_FILE):
                    yield name, None
                else:
                    yield from self._walked(name)

    def _listed(self, folder: str) -> Iterator[tuple[str, str | None]]:
        """The same on other filesystems; `find` would take a folder that it cannot list for an empty one."""
        start = self.path(folder).rstrip("/")
        self.fs.invalidate_cache()
        try:
            listed = self.fs.ls(start, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return
        for info in listed:
            base = str(info["name"]).rstrip("/").rpartition("/")[2]
            name = f"{folder}/{base}" if folder else base
            if str(info["name"]).strip("/") == start.strip("/"):
                continue  # some list the folder itself
            if info.get("type") != "directory":
                yield name, _stamp(info)
            elif name.endswith(FOLDER_NAMED_AS_FILE):
                yield name, None
            else:
                yield from self._listed(name)

    def _is_file(self, name: str) -> bool:
        if not self.is_local:
            return False
        try:
            return stat.S_ISREG(os.stat(self.path(name)).st_mode)  # noqa: PTH116 - as `exists`
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _discard(self, path: str) -> None:
        with contextlib.suppress(Exception):  # filesystems raise what they like; the file is never read
            self.fs.rm(path)


def printable(name: str) -> str:
    """A file name that any output can show: what is no UTF-8 as escapes."""
    return name.encode("utf-8", "backslashreplace").decode()


def _is_kept(name: str, suffix: str) -> bool:
    return name.endswith(suffix) and not name.rpartition("/")[2].startswith(".")


def _is_text(name: str) -> bool:
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _entry_stamp(entry: os.DirEntry[str]) -> str | None:
    """None: it is no file."""
    try:
        about = entry.stat()
        return _local_stamp(about) if stat.S_ISREG(about.st_mode) else None
    except OSError as error:
        if not entry.is_symlink():
            raise
        return f"link {error.errno}"  # in a loop, or one that leads nowhere: reading it says so


@contextlib.contextmanager
def _links_checked(path: str) -> Iterator[None]:
    """A link that leads nowhere is not a missing file: the error says what it is."""
    try:
        yield
    except FileNotFoundError:
        if Path(path).is_symlink():
            raise OSError(errno.ELOOP, "it is a link that leads nowhere") from None
        raise


def _local_stamp(about: os.stat_result) -> str:
    """Size and times of a file, and which file it is: content and `mtime` can be set back, `ctime` cannot."""
    return f"{about.st_size}:{about.st_mtime_ns}:{about.st_ctime_ns}:{about.st_ino}"


def _stamp(info: Mapping[str, Any]) -> str:
    known = [info.get(name) for name in ("size", "ETag", "etag", "md5Hash", "mtime", "LastModified", "created")]
    return ":".join(str(value) for value in known if value is not None)


def _check_length(data: bytes, size: int | None) -> None:
    if size is not None and len(data) != size:
        raise ShortReadError(errno.EIO, f"{len(data):,} of {size:,} bytes came")


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        if os.fstat(file.fileno()).st_size != len(data):
            raise OSError(errno.EIO, "fewer bytes were written than given")
