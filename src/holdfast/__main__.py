"""The entry point: errors become a message and an exit code here, and nowhere else."""

from __future__ import annotations

import io
import sys
import warnings


def main() -> None:
    """Runs the command line."""
    from holdfast.cli.app import app
    from holdfast.core.errors import HoldfastError, HoldfastWarning

    for stream in (sys.stdout, sys.stderr):  # a name of a file need not be text, nor fit the terminal
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.filterwarnings("once", category=HoldfastWarning)
    warnings.showwarning = _shown
    try:
        app()
    except HoldfastError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader of our output left, as `| head` does
        sys.stderr.close()
        sys.exit(0)
    except (OSError, MemoryError) as error:  # a disk or a memory that is not ours to mend
        sys.stderr.write(f"error: {str(error) or 'out of memory'}\n")
        sys.exit(1)


def _shown(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    sys.stderr.write(f"warning: {message}\n" if category.__name__ == "HoldfastWarning" else f"{message}\n")


if __name__ == "__main__":
    main()
