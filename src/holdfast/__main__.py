"""The entry point: errors become a message and an exit code here, and nowhere else."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn


def main() -> None:
    """Runs the command line."""
    from holdfast.cli.app import app
    from holdfast.core.errors import HoldfastError, HoldfastWarning
    from holdfast.core.values import shortened

    for stream in (sys.stdout, sys.stderr):  # a name of a file need not be text, nor fit the terminal
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.filterwarnings("once", category=HoldfastWarning)
    warnings.showwarning = _shown
    try:
        with _ending():
            app()
    except HoldfastError as error:
        _fail(error, error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output left, as `| head` does
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # a path that no disk has, a file that is not ours to read
        where = "" if error.filename is None else f"{shortened(str(error.filename), 200)}: "
        _fail(f"{where}{error.strerror or error}")
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "torchvision"):
            raise
        hint = f"tables and pages need no {error.name}, images and models do: pip install {error.name}"
        _fail(f"{error.name} is not installed\n\nhint: {hint}")
    except MemoryError as error:
        _fail(str(error) or "out of memory")


def _fail(problem: object, exit_code: int = 1) -> NoReturn:
    sys.stderr.write(f"error: {problem}\n")
    sys.exit(exit_code)


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """A request to end (SIGTERM, SIGHUP) closes what is open, as Ctrl-C does; the exit code tells which it was."""
    from holdfast.core.errors import Terminated

    asked: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        asked.append(number)
        raise Terminated

    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    except (SystemExit, Terminated):
        if asked:
            sys.exit(128 + asked[0])
        raise
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _shown(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    sys.stderr.write(f"warning: {message}\n" if category.__name__ == "HoldfastWarning" else f"{message}\n")


if __name__ == "__main__":
    main()
