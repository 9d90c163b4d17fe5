from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from holdfast.core.errors import HoldfastError
from holdfast.datasets import load
from holdfast.datasets.mnist import read_idx

IMAGES = np.random.default_rng(0).integers(0, 256, (20, 28, 28), dtype=np.uint8)
LABELS = np.arange(20, dtype=np.uint8) % 10


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write(folder: Path, *, packed: bool = False, split: str = "t10k", labels: np.ndarray = LABELS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in ((f"{split}-images-idx3-ubyte", IMAGES), (f"{split}-labels-idx1-ubyte", labels)):
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))


@settings(max_examples=40, deadline=None)
@given(array=arrays.arrays(np.uint8, arrays.array_shapes(min_dims=1, max_dims=3, max_side=6)), packed=st.booleans())
def test_what_is_written_as_idx_reads_back(
    array: np.ndarray, packed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / ("array.gz" if packed else "array")
    path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    assert np.array_equal(read_idx(path, dimensions=array.ndim), array)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("split", "file"), [("test", "t10k"), ("train", "train")])
def test_both_sets_read_plain_and_packed_files(root: Path, name: str, packed: bool, split: str, file: str) -> None:
    write(root / name, packed=packed, split=file)
    dataset = load(f"{name}:split={split}")
    assert np.array_equal(dataset.images(range(20)).pixels[:, 0].numpy(), IMAGES)
    assert dataset.labels.tolist() == LABELS.tolist()
    assert (dataset.ids[7], dataset.card.channels, dataset.card.size) == (f"{split}-00007", 1, (28, 28))
    assert len(dataset.card.classes) == 10


@pytest.mark.parametrize("content", [b"", b"\0\0\x08", idx(IMAGES)[:-1], idx(IMAGES) + b"\0", idx(LABELS), b"\x1f\x8b"])
def test_files_that_are_no_images_are_errors_that_name_them(root: Path, content: bytes) -> None:
    write(root / "mnist")
    (root / "mnist" / "t10k-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(HoldfastError, match="t10k-images-idx3-ubyte"):
        load("mnist")


def test_a_truncated_gz_is_an_error(root: Path) -> None:
    write(root / "mnist", packed=True)
    path = root / "mnist" / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(HoldfastError, match="is damaged"):
        load("mnist")


def test_images_and_labels_of_two_lengths_are_an_error(root: Path) -> None:
    write(root / "mnist", labels=LABELS[:-1])
    with pytest.raises(HoldfastError, match=r"20 images.*19 labels"):
        load("mnist")


def test_a_missing_file_names_the_path_and_the_command(root: Path) -> None:
    with pytest.raises(HoldfastError) as error:
        load("mnist")
    assert str(root / "mnist" / "t10k-images-idx3-ubyte") in error.value.problem
    assert "holdfast data get mnist" in str(error.value.hint)
