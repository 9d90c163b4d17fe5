"""What libraries raise for files that are damaged, or that someone made up."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib

DAMAGED = (  # over all that numpy, zipfile, json and Arrow's wrappers raise
    *(ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, struct.error, SyntaxError, TypeError, KeyError),
    *(IndexError, AttributeError, OverflowError, MemoryError, RecursionError, RuntimeError, tokenize.TokenError),
)
