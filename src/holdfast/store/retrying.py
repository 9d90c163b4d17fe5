"""Reading and writing with retries: most errors of a disk or network pass, and none says what a file holds."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from holdfast.core.errors import HoldfastError
from holdfast.store.files import CannotRead, CannotWrite, FileList, Files, Foreign

PAUSES = (0.05, 0.2, 0.6)  # seconds before each further try
PATIENCE = 3  # operations in a row that fail for good; after them there are no pauses, for the disk is likely gone
NO_FILE = {errno.EISDIR, errno.ELOOP, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ENXIO}  # waiting does not make it one

Result = TypeVar("Result")


class RetryingFiles(Files):
    """Tries again what fails, then raises `CannotRead` or `CannotWrite`.

    `FileNotFoundError` is an answer, not a failure: a file may be gone since it was listed.
    """

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.failed = 0

    def read(self, name: str) -> bytes:
        return self._reading(name, partial(super().read, name))

    def tail(self, name: str, size: int) -> bytes:
        return self._reading(name, partial(super().tail, name, size))

    def size(self, name: str) -> int | None:
        return self._reading(name, partial(super().size, name))

    def stamp(self, name: str) -> str:
        return self._reading(name, partial(super().stamp, name))

    def exists(self, name: str) -> bool:
        return self._reading(name, partial(super().exists, name))

    def listing(self, folder: str, suffix: str) -> FileList:
        return self._reading(folder, partial(super().listing, folder, suffix))

    def leftovers(self) -> list[str]:
        return self._reading(self.root, super().leftovers)

    def write(self, name: str, data: bytes) -> None:
        self._writing("write", name, partial(super().write, name, data))

    def move(self, name: str, to: str) -> None:
        self._writing("move", name, partial(super().move, name, to))

    def remove(self, name: str) -> None:
        self._writing("remove", name, partial(super().remove, name))

    def _reading(self, name: str, action: Callable[[], Result]) -> Result:
        try:
            return self._tried(action)
        except (HoldfastError, FileNotFoundError):
            raise
        except Exception as error:  # filesystems are plug-ins: they raise what they like
            problem = f"cannot read {name}: {error_text(error)}"
            if isinstance(error, OSError) and error.errno in NO_FILE:
                raise Foreign(problem, hint=MOVE) from error
            raise CannotRead(problem, hint=RETRY_LATER) from error

    def _writing(self, verb: str, name: str, action: Callable[[], Result]) -> Result:
        # where a folder is removed while it is written to, the next try makes it again; what is to be moved may be gone
        missing_passes = verb == "write"
        try:
            return self._tried(action, missing_passes=missing_passes)
        except HoldfastError:
            raise
        except Exception as error:
            if isinstance(error, FileNotFoundError) and not missing_passes:
                raise
            raise CannotWrite(f"cannot {verb} {self.path(name)}: {error_text(error)}", hint=WRITABLE) from error

    def _tried(self, action: Callable[[], Result], *, missing_passes: bool = False) -> Result:
        pauses = PAUSES if self.failed < PATIENCE else (0.0,) * len(PAUSES)
        for pause in pauses:
            try:
                result = action()
            except Exception as error:
                if not _may_pass(error, missing_passes=missing_passes):
                    raise
                time.sleep(pause)
            else:
                self.failed = 0
                return result
        try:
            return action()
        except Exception:
            self.failed += 1
            raise


RETRY_LATER = "nothing was moved or measured again: run the same command once the file can be read"
MOVE = "it is left aside: move it out of the store"
WRITABLE = "is the store writable? what was finished before is kept"


def error_text(error: BaseException) -> str:
    """An error of a filesystem in words."""
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _may_pass(error: Exception, *, missing_passes: bool) -> bool:
    if isinstance(error, HoldfastError):
        return False
    if isinstance(error, FileNotFoundError):
        return missing_passes
    return not (isinstance(error, OSError) and error.errno in NO_FILE)
