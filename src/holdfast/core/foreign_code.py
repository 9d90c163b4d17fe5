"""Other people's code: where it fails or exits it is named and left out, and the rest works."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.core.errors import HoldfastError, HoldfastWarning
from holdfast.core.values import shortened


def load_guarded(what: str, load: Callable[[], object]) -> None:
    """Loads a plug-in, or warns of what it did instead."""
    try:
        with _exit_at_once_raises():
            load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a plug-in may raise anything, and may call exit
        kind = "" if isinstance(error, HoldfastError) else f"{type(error).__name__}: "
        warnings.warn(f"{what} is left out: {kind}{error_line(error)}", HoldfastWarning, stacklevel=2)


@contextmanager
def _exit_at_once_raises() -> Iterator[None]:
    """`os._exit` ends the process without a word; while a plug-in loads it is an error like any other exit."""
    leave = os._exit

    def refused(code: int) -> None:
        raise SystemExit(f"os._exit({code}) was called")

    os._exit = refused  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = leave


def error_line(error: BaseException) -> str:
    """The first line of an error, or its kind where it has no words."""
    text = (error.problem if isinstance(error, HoldfastError) else str(error)).strip()
    return shortened(text.splitlines()[0], 200) if text else type(error).__name__
