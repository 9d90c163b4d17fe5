from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.types import Dataset
from holdfast.datasets.arrays import arrays

NHWC = np.random.default_rng(0).integers(0, 256, (12, 5, 7, 3), dtype=np.uint8)
LABELS = np.arange(12) % 4


def npz(folder: Path, **content: Any) -> str:
    np.savez(folder / "x.npz", **content)
    return str(folder / "x.npz")


@pytest.mark.parametrize(("x", "y"), [("images", "labels"), ("x", "y"), ("X", "y")])
def test_an_npz_is_read_under_each_of_its_usual_names(tmp_path: Path, x: str, y: str) -> None:
    dataset = arrays(npz(tmp_path, **{x: NHWC, y: LABELS}))
    assert isinstance(dataset, Dataset)
    assert dataset.labels.tolist() == LABELS.tolist()
    assert dataset.card.classes == ("0", "1", "2", "3")
    assert (dataset.card.name, dataset.card.size, dataset.card.channels) == ("x", (5, 7), 3)


@settings(max_examples=25, deadline=None)
@given(order=st.lists(st.integers(0, 11), max_size=30))
def test_images_come_in_the_order_asked_for(order: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("order")
    pixels = arrays(npz(folder, images=NHWC, labels=LABELS)).images(order).pixels
    assert pixels.dtype == torch.uint8
    assert np.array_equal(pixels.numpy(), NHWC.transpose(0, 3, 1, 2)[order])
    assert pixels.is_contiguous()


def test_layouts_of_the_same_content_are_the_same_dataset(tmp_path: Path) -> None:
    datasets = []
    for name, images in (("nhwc", NHWC), ("nchw", np.ascontiguousarray(NHWC.transpose(0, 3, 1, 2)))):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "images.npy", images)
        np.save(tmp_path / name / "labels.npy", LABELS)
        datasets.append(arrays(str(tmp_path / name)))
    one, other = datasets
    assert one.card.fingerprint == other.card.fingerprint
    assert (one.images(range(12)).pixels == other.images(range(12)).pixels).all()


def test_the_fingerprint_follows_pixels_labels_and_ids(tmp_path: Path) -> None:
    other = NHWC.copy()
    other[3, 2, 1, 0] ^= 1
    shifted = (LABELS + 1) % 4
    names = np.array([f"n{i}" for i in range(12)])
    contents = [{}, {"images": other}, {"labels": shifted}, {"ids": names}]
    prints = [arrays(npz(tmp_path, **{"images": NHWC, "labels": LABELS, **c})).card.fingerprint for c in contents]
    assert len(set(prints)) == len(prints)
    assert arrays(npz(tmp_path, images=NHWC, labels=LABELS.astype(np.uint8))).card.fingerprint == prints[0]


def test_grey_images_without_a_channel_axis_have_one_channel(tmp_path: Path) -> None:
    assert arrays(npz(tmp_path, images=NHWC[..., 0], labels=LABELS)).images([0]).pixels.shape == (1, 1, 5, 7)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", ">f4"])
def test_floats_come_as_float32_in_their_own_range(tmp_path: Path, kind: str) -> None:
    images = (NHWC / 128).astype(kind)  # beyond 1: the engine judges samples, not the loader
    pixels = arrays(npz(tmp_path, images=images, labels=LABELS)).images([4]).pixels
    assert pixels.dtype == torch.float32
    assert np.array_equal(pixels[0].numpy(), images[4].transpose(2, 0, 1).astype(np.float32))


@pytest.mark.parametrize("shape", [(4, 3, 5, 3), (4, 1, 5, 1), (4, 5, 6, 7), (4, 2, 5, 6)])
def test_a_shape_that_tells_no_layout_needs_one(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = npz(tmp_path, images=np.zeros(shape, np.uint8), labels=[0, 1, 2, 3])
    with pytest.raises(HoldfastError, match="where the channels are") as error:
        arrays(path)
    assert "layout=nhwc" in str(error.value.hint)
    assert arrays(path, layout="nhwc").card.channels == shape[3]
    assert arrays(path, layout="nchw").card.channels == shape[1]


def test_npy_files_are_mapped_and_not_read_into_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "fog.npy", NHWC)
    np.save(tmp_path / "labels.npy", LABELS)
    assert isinstance(arrays(str(tmp_path / "fog.npy")).pixels, np.memmap)


def test_the_stem_of_a_pair_is_enough(tmp_path: Path) -> None:
    np.save(tmp_path / "test-images.npy", NHWC)
    np.save(tmp_path / "test-labels.npy", LABELS)
    assert arrays(str(tmp_path / "test")).card.name == "test"


def test_ids_are_positions_as_wide_as_the_last_one_unless_given(tmp_path: Path) -> None:
    assert arrays(npz(tmp_path, images=NHWC, labels=LABELS)).ids[:2] == ("00", "01")
    assert arrays(npz(tmp_path, images=NHWC[:10], labels=LABELS[:10])).ids[-1] == "9"
    assert arrays(npz(tmp_path, images=NHWC[:2], labels=[0, 1], ids=["one", "two"])).ids == ("one", "two")
    assert arrays(npz(tmp_path, images=NHWC[:2], labels=[0, 1], ids=[7, 9])).ids == ("7", "9")


def test_class_names_may_be_given(tmp_path: Path) -> None:
    dataset = arrays(npz(tmp_path, images=NHWC, labels=LABELS, classes=list("abcde")))
    assert dataset.card.classes == tuple("abcde")
    with pytest.raises(HoldfastError, match=r"lie in 0…2, got 0…3"):
        arrays(npz(tmp_path, images=NHWC, labels=LABELS, classes=list("abc")))


def test_duplicate_ids_are_an_error_that_names_one(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="the id `b` appears twice"):
        arrays(npz(tmp_path, images=NHWC[:3], labels=[0, 1, 2], ids=["a", "b", "b"]))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.full(12, np.nan), "whole numbers"),
        (np.linspace(0, 1, 12), "whole numbers"),
        (np.eye(12), "whole numbers"),
        (np.arange(12) - 1, "must not be negative"),
        (np.arange(11), "12 images and 11 labels"),
        (np.array(["a"] * 12), "whole numbers"),
    ],
)
def test_labels_that_are_no_labels_are_errors(tmp_path: Path, labels: Any, message: str) -> None:
    with pytest.raises(HoldfastError, match=message):
        arrays(npz(tmp_path, images=NHWC, labels=labels))


def test_a_column_of_labels_is_flattened(tmp_path: Path) -> None:
    assert arrays(npz(tmp_path, images=NHWC, labels=LABELS[:, None])).labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("images", [NHWC.astype(np.int64), NHWC > 0, NHWC[0, 0], NHWC[None]])
def test_images_of_another_type_or_shape_are_errors(tmp_path: Path, images: Any) -> None:
    with pytest.raises(HoldfastError, match="images must be"):
        arrays(npz(tmp_path, images=images, labels=LABELS))


def test_no_images_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="holds no images"):
        arrays(npz(tmp_path, images=NHWC[:0], labels=LABELS[:0]))


class Payload:
    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.proof),)


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_pickled_payload_is_refused_and_does_not_run(tmp_path: Path, wrapped: bool) -> None:
    bomb = np.array([Payload(tmp_path / "ran")], dtype=object)
    if wrapped:
        path = npz(tmp_path, images=bomb, labels=LABELS)
    else:
        np.save(tmp_path / "images.npy", bomb, allow_pickle=True)
        np.save(tmp_path / "labels.npy", LABELS)
        path = str(tmp_path)
    with pytest.raises(HoldfastError, match="pickled objects"):
        arrays(path)
    assert not (tmp_path / "ran").exists()
    np.load(path if wrapped else tmp_path / "images.npy", allow_pickle=True)["images" if wrapped else ...]
    assert (tmp_path / "ran").exists(), "the payload would have run"


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and then nothing", b"\x93NUMPY\x01\x00"])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(HoldfastError, match=r"x\.npz"):
        arrays(str(tmp_path / "x.npz"))


def test_a_missing_path_is_misuse_and_a_missing_array_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="no arrays at"):
        arrays(str(tmp_path / "nowhere.npz"))
    with pytest.raises(HoldfastError, match="has no images"):
        arrays(str(tmp_path))
    with pytest.raises(HoldfastError, match="has no labels") as error:
        arrays(npz(tmp_path, images=NHWC))
    assert "`y`" in str(error.value.hint)
