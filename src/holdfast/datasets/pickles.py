"""Arrays out of a pickle without running anything it asks for.

A pickle names functions to call. Here every name that arrays need stands for a recorder that only keeps what it is
given, and every other name is refused; numpy sees the bytes after they were checked.
"""

from __future__ import annotations

import functools
import pickle
import re
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from holdfast.core.errors import HoldfastError

KIND = re.compile(r"[iu][1248]")


def arrays_in(path: Path) -> dict[str, Any]:
    """The dictionary of a pickle file: its arrays, numbers, strings and lists."""
    try:
        with path.open("rb") as file:
            content = _ArrayUnpickler(file, path).load()
    except (pickle.UnpicklingError, *_DAMAGE) as problem:
        raise HoldfastError(f"{path} is not a pickle of arrays: {problem}") from problem
    if not isinstance(content, dict):
        raise HoldfastError(f"{path} holds a {type(content).__name__}, expected a dictionary of arrays")
    return {_text(key): value.array() if isinstance(value, _Array) else value for key, value in content.items()}


_DAMAGE = (EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError, OverflowError, MemoryError)


class _Kind:
    """A dtype as the pickle describes it."""

    def __init__(self, code: str | bytes = "", *_: object) -> None:
        self.code = _text(code)
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = _text(state[1])


class _Array:
    """An array as the pickle describes it."""

    def __init__(self, *_: object) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def array(self) -> NDArray[Any]:
        try:
            _, shape, kind, fortran, data = self.state
            if not KIND.fullmatch(kind.code):
                raise ValueError(f"arrays of `{kind.code}` are not read")
            raw = data.encode("latin1") if isinstance(data, str) else bytes(data)
            dtype = np.dtype(kind.code).newbyteorder("=" if kind.order == "|" else kind.order)
            return np.frombuffer(raw, dtype).reshape(shape, order="F" if fortran else "C")
        except _DAMAGE as problem:
            raise HoldfastError(f"a pickled array is damaged: {problem}") from problem


def _from_buffer(data: Any, kind: Any, shape: Any, order: Any) -> _Array:
    array = _Array()
    array.state = (1, shape, kind, _text(order) == "F", data)
    return array


def _latin1(text: str, encoding: str) -> bytes:
    if _text(encoding) not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"bytes in the encoding `{encoding}`")
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _latin1,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _from_buffer for core in ("core", "_core")},
}


class _ArrayUnpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO, path: Path) -> None:
        super().__init__(file, encoding="bytes")
        self.path = path

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise HoldfastError(
                f"{self.path} asks to run `{module}.{name}`, which no array needs; nothing was run",
                hint="this is not the published file: remove it, then run `holdfast data get`",
            )
        # a new wrapper each time: a pickle may set attributes of what it is given
        return functools.partial(ALLOWED[module, name])


def _text(word: str | bytes) -> str:
    return word.decode("latin1") if isinstance(word, bytes) else word
