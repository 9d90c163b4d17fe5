from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError
from holdfast.datasets.pickles import arrays_in

DATA = np.random.default_rng(0).integers(0, 256, (4, 6), dtype=np.uint8)


def python2(data: np.ndarray, labels: list[int]) -> bytes:
    """The bytes Python 2.7 and numpy 1.6 wrote for the published CIFAR-10, opcode by opcode."""
    rows, columns = data.shape
    return b"".join(
        [
            b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01",
            b"M" + struct.pack("<H", rows) + b"M" + struct.pack("<H", columns) + b"\x86",
            b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89",
            b"T" + struct.pack("<I", data.size) + data.tobytes() + b"tb",
            b"U\x06labels](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e",
            b"U\x0bbatch_labelU\x15testing batch 1 of 1 ",
            b"u.",
        ]
    )


def test_a_python_2_pickle_reads_as_pickle_itself_would_read_it(tmp_path: Path) -> None:
    content = python2(DATA, [3, 8, 8, 0])
    reference = pickle.loads(content, encoding="bytes")
    (tmp_path / "batch").write_bytes(content)
    read = arrays_in(tmp_path / "batch")
    assert np.array_equal(read["data"], DATA)
    assert np.array_equal(read["data"], reference[b"data"])
    assert read["labels"] == reference[b"labels"] == [3, 8, 8, 0]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["uint8", "int64", ">i4"])
def test_arrays_of_every_protocol_come_back_exactly(tmp_path: Path, protocol: int, order: Any, kind: str) -> None:
    array = np.asarray(DATA, dtype=kind, order=order)
    (tmp_path / "batch").write_bytes(pickle.dumps({"data": array, b"labels": [1, 2]}, protocol=protocol))
    read = arrays_in(tmp_path / "batch")
    assert read["labels"] == [1, 2]
    assert read["data"].dtype == array.dtype
    assert np.array_equal(read["data"], array)


class Payload:
    def __init__(self, function: Any, *given: Any) -> None:
        self.call = function, given

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("function", [os.mkdir, os.system, eval])
def test_a_payload_is_refused_by_name_and_does_not_run(tmp_path: Path, protocol: int, function: Any) -> None:
    proof = tmp_path / "ran"
    given = {os.mkdir: str(proof), os.system: f"mkdir {proof}", eval: f"__import__('os').mkdir({str(proof)!r})"}
    content = pickle.dumps({"data": Payload(function, given[function])}, protocol=protocol)
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(HoldfastError, match="asks to run") as error:
        arrays_in(tmp_path / "batch")
    assert function.__name__ in str(error.value)
    assert not proof.exists()
    pickle.loads(content)
    assert proof.exists(), "the payload would have run"


def test_arrays_of_objects_are_refused(tmp_path: Path) -> None:
    (tmp_path / "batch").write_bytes(pickle.dumps({"data": np.array([None, 1], dtype=object)}))
    with pytest.raises(HoldfastError, match="damaged"):
        arrays_in(tmp_path / "batch")


@pytest.mark.parametrize("content", [b"", b"nonsense", pickle.dumps([1, 2]), pickle.dumps({"a": 1})[:-3]])
def test_a_file_that_is_no_dictionary_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(HoldfastError, match="batch"):
        arrays_in(tmp_path / "batch")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damage_is_an_error_of_ours_or_nothing(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    content = bytearray(python2(DATA, [3, 8, 8, 0]))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged-batch"
    path.write_bytes(content)
    try:
        content_read = arrays_in(path)
    except HoldfastError:
        return
    assert isinstance(content_read, dict), "what is read in spite of the damage is still a dictionary"
