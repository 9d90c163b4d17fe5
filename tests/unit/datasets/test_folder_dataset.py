from __future__ import annotations

import errno
import io
import itertools
import os
import re
import unicodedata
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from holdfast.core.errors import HoldfastError, HoldfastWarning, Misuse, NotRead
from holdfast.core.types import Dataset
from holdfast.core.values import value_text
from holdfast.datasets import load
from holdfast.datasets.folder import folder
from holdfast.datasets.image_files import Framing, NotAnImage, decode

RANDOM = np.random.default_rng(0)


def saved(path: Path, *, size: tuple[int, int] = (8, 8), mode: str = "RGB") -> np.ndarray:
    shape = (size[1], size[0]) if mode == "L" else (size[1], size[0], len(mode))
    pixels = RANDOM.integers(0, 256, shape, dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    for name in ("wren/b.png", "wren/a.png", "owl/c.PNG", "owl/d.bmp"):
        saved(tmp_path / "birds" / name)
    (tmp_path / "birds" / "README.md").write_text("not a class")
    (tmp_path / "birds" / "owl" / "notes.txt").write_text("not an image")
    (tmp_path / "birds" / ".hidden").mkdir()
    return tmp_path / "birds"


def test_sorted_folder_names_are_labels_and_relative_paths_are_ids(birds: Path) -> None:
    dataset = folder(str(birds))
    assert isinstance(dataset, Dataset)
    assert dataset.card.classes == ("owl", "wren")
    assert list(dataset.ids) == ["owl/c.PNG", "owl/d.bmp", "wren/a.png", "wren/b.png"]
    assert dataset.labels.tolist() == [0, 0, 1, 1]
    assert (dataset.card.size, dataset.card.channels) == ((8, 8), 3)


def test_pixels_of_a_lossless_file_come_back_exactly_in_any_order(birds: Path) -> None:
    pixels = saved(birds / "wren" / "a.png")
    dataset = folder(str(birds))
    order = [3, 2, 0, 2]
    images = dataset.images(order)
    assert images.failed == {}
    assert np.array_equal(images.pixels[1].permute(1, 2, 0).numpy(), pixels)
    assert all((images.pixels[i] == dataset.images([at]).pixels[0]).all() for i, at in enumerate(order))
    assert dataset.images([]).pixels.shape == (0, 3, 8, 8)


def test_a_ref_reads_the_same_dataset_as_the_function(birds: Path) -> None:
    dataset = load(f"folder:{value_text(str(birds))},size=4,channels=1")
    assert dataset.card.size == (4, 4)
    assert dataset.images([0, 1]).pixels.shape == (2, 1, 4, 4)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_8_bit_mode_becomes_the_channels_asked_for(tmp_path: Path, mode: str, channels: int) -> None:
    saved(tmp_path / "x" / "a.png", mode=mode)
    images = folder(str(tmp_path), channels=channels).images([0])
    assert images.pixels.shape == (1, channels, 8, 8)
    assert not images.failed


def test_a_16_bit_image_is_a_failed_sample_and_not_a_clipped_one(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    Image.fromarray(RANDOM.integers(0, 2**16, (8, 8), dtype=np.uint16)).save(tmp_path / "x" / "a.png")
    assert "not of 8 bits" in folder(str(tmp_path)).images([0]).failed[0]


def test_size_crops_the_centre_of_an_image_whose_shorter_side_is_resized(tmp_path: Path) -> None:
    wide = saved(tmp_path / "x" / "wide.png", size=(12, 8))
    tall = saved(tmp_path / "x" / "tall.png", size=(8, 13))
    images = folder(str(tmp_path), size=4, resize=8).images([0, 1]).pixels.permute(0, 2, 3, 1).numpy()
    assert np.array_equal(images[1], wide[2:6, 4:8])
    assert np.array_equal(images[0], tall[4:8, 2:6])  # round(4.5) is 4


def test_a_constant_image_stays_constant_under_any_framing(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    Image.new("RGB", (37, 61), (10, 200, 30)).save(tmp_path / "x" / "a.png")
    pixels = folder(str(tmp_path), size=16, resize=20).images([0]).pixels
    assert pixels.reshape(3, -1).unique(dim=1).tolist() == [[10], [200], [30]]


def test_images_of_several_sizes_need_a_size(birds: Path) -> None:
    saved(birds / "wren" / "big.png", size=(9, 8))
    with pytest.raises(HoldfastError, match=r"differ in size.*8x8.*9x8") as error:
        folder(str(birds))
    assert "size=" in str(error.value.hint)
    assert folder(str(birds), size=8).images(range(5)).failed == {}


def test_a_truncated_image_is_black_with_a_reason_and_its_neighbours_are_whole(birds: Path) -> None:
    whole = (birds / "owl" / "c.PNG").read_bytes()
    (birds / "owl" / "c.PNG").write_bytes(whole[: len(whole) // 2])
    (birds / "wren" / "a.png").write_bytes(b"")
    images = folder(str(birds)).images([1, 0, 2])
    assert set(images.failed) == {1, 2}
    assert images.failed[1].startswith("owl/c.PNG cannot be read")
    assert images.pixels[1:].max() == 0
    assert images.pixels[0].max() > 0


def test_a_file_that_changes_after_the_listing_is_a_failed_sample(birds: Path) -> None:
    dataset = folder(str(birds))
    saved(birds / "wren" / "a.png", size=(5, 5))
    assert dataset.images(range(4)).failed == {2: "wren/a.png is no longer 8x8"}


def test_a_file_that_goes_after_the_listing_is_a_fault_and_no_result(birds: Path) -> None:
    dataset = folder(str(birds))
    (birds / "wren" / "b.png").unlink()
    with pytest.raises(NotRead, match=r"1 of 4 images .* wren/b.png is gone"):
        dataset.images(range(4))


FAULTS = (errno.EIO, errno.EACCES, errno.ESTALE, errno.EMFILE, errno.ENOMEM, errno.ETIMEDOUT, errno.ENOTCONN)


@pytest.mark.parametrize("number", FAULTS)
@pytest.mark.parametrize("lasting", [False, True])
def test_a_fault_in_reading_is_tried_again_and_never_a_failed_sample(
    birds: Path, monkeypatch: pytest.MonkeyPatch, number: int, lasting: bool
) -> None:
    dataset, faults = folder(str(birds)), itertools.count()
    whole = dataset.images(range(4))
    opened = Image.open

    def failing(file: Any, *args: Any, **options: Any) -> Any:
        if "wren/b" in str(file) and (lasting or next(faults) == 0):
            raise OSError(number, os.strerror(number))
        return opened(file, *args, **options)

    monkeypatch.setattr(Image, "open", failing)
    if lasting:
        with pytest.raises(NotRead, match=re.escape(os.strerror(number))):
            dataset.images(range(4))
    else:
        again = dataset.images(range(4))
        assert not again.failed
        assert torch.equal(again.pixels, whole.pixels)


def test_running_out_of_memory_is_a_fault(birds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = folder(str(birds))
    monkeypatch.setattr(Image, "open", Mock(side_effect=MemoryError))
    with pytest.raises(NotRead):
        dataset.images(range(4))


def encoded(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(buffer, kind)
    return buffer.getvalue()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), kind=st.sampled_from(["png", "jpeg", "bmp", "webp"]))
def test_no_damage_to_a_file_ever_raises(tmp_path: Path, data: st.DataObject, kind: str) -> None:
    content = bytearray(encoded(kind))
    for _ in range(data.draw(st.integers(0, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    at = tmp_path / "x"
    at.mkdir(exist_ok=True)
    (at / f"a.{kind}").write_bytes(content[: data.draw(st.integers(0, len(content)))])
    images = folder(str(tmp_path), size=4).images([0])
    assert images.pixels.shape == (1, 3, 4, 4)
    (at / f"a.{kind}").unlink()


def test_the_fingerprint_follows_names_and_lengths_and_not_the_place(birds: Path, tmp_path: Path) -> None:
    before = folder(str(birds)).card.fingerprint
    moved = birds.rename(tmp_path / "moved")
    assert folder(str(moved)).card.fingerprint == before
    with (moved / "owl" / "c.PNG").open("ab") as file:
        file.write(b"\0")
    assert folder(str(moved)).card.fingerprint != before


def test_an_accent_is_spelled_one_way_whatever_the_file_system_does(tmp_path: Path) -> None:
    for form in ("NFC", "NFD"):
        saved(tmp_path / form / unicodedata.normalize(form, "é") / unicodedata.normalize(form, "ü.png"))
    one, other = (folder(str(tmp_path / form)) for form in ("NFC", "NFD"))
    assert list(one.ids) == list(other.ids) == ["é/ü.png"]
    assert one.card.classes == other.card.classes


def test_a_missing_path_or_a_file_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="there is no folder"):
        folder(str(tmp_path / "nowhere"))
    np.savez(tmp_path / "x.npz", images=np.zeros(1))
    with pytest.raises(Misuse, match="is a file") as error:
        folder(str(tmp_path / "x.npz"))
    assert "arrays:" in str(error.value.hint)


def test_an_empty_folder_has_no_classes(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="no class folders"):
        folder(str(tmp_path))


def test_images_without_class_folders_are_a_wrong_layout(tmp_path: Path) -> None:
    saved(tmp_path / "a.png")
    with pytest.raises(HoldfastError, match="no class folders") as error:
        folder(str(tmp_path))
    assert "named after the class" in str(error.value.hint)


def test_a_class_without_images_is_an_error(birds: Path) -> None:
    (birds / "robin").mkdir()
    with pytest.raises(HoldfastError, match="no images in the class folder `robin`"):
        folder(str(birds))


def test_the_folder_above_the_classes_is_pointed_down(birds: Path) -> None:
    with pytest.raises(HoldfastError, match="no images in the class folder `birds`") as error:
        folder(str(birds.parent))
    assert f"folder:{birds}" in str(error.value.hint)


def test_a_folder_where_nothing_can_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a.png").write_bytes(b"no")
    with pytest.raises(HoldfastError, match="not one of the 1 images"):
        folder(str(tmp_path))


@pytest.mark.parametrize(("size", "resize"), [(0, None), (None, 8), (8, 4)])
def test_framings_that_cannot_be_are_misuse(birds: Path, size: int | None, resize: int | None) -> None:
    with pytest.raises(Misuse, match="size"):
        folder(str(birds), size=size, resize=resize)


def test_images_that_are_left_out_are_told(birds: Path) -> None:
    before = len(load(f"folder:{birds},size=8").ids)
    owl = birds / "owl"
    (owl / "further" / "down").mkdir(parents=True)
    for name in ("notes.txt", ".hidden.gif", ".DS_Store"):
        (owl / name).write_text("x")
    assert len(load(f"folder:{birds},size=8").ids) == before
    for name in ("further/down/1.png", "scan.TIFF"):
        (owl / name).write_bytes(b"x")
    with pytest.warns(HoldfastWarning, match="holds 2 images that are left out") as told:
        assert len(load(f"folder:{birds},size=8").ids) == before
    assert len(told) == 1


def test_a_link_to_nothing_is_named(birds: Path) -> None:
    owl = birds / "owl"
    (owl / "gone.png").symlink_to("/nowhere/gone.png")
    for ref in (f"folder:{birds},size=8", f"folder:{birds},size=8,labels=none"):
        with pytest.raises(HoldfastError, match=r"gone\.png is a link that leads to no file"):
            load(ref)


def test_why_bytes_are_no_image_is_said_the_same_each_time() -> None:
    """An address in memory would give the rows of two runs two digests."""
    reasons = set()
    for content in (b"", b"no image", b"", b"no image"):
        with pytest.raises(NotAnImage) as caught:
            decode(io.BytesIO(content), Framing(3))
        reasons.add(str(caught.value))
    assert reasons == {"cannot be read: cannot identify image file"}
