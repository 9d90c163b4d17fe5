"""Many image files: decoded by processes and kept decoded on disk, with the pixels that Pillow gives in one thread."""

from __future__ import annotations

import errno
import io
import os
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast.core.errors import NotRead
from holdfast.core.types import DatasetCard
from holdfast.datasets import decoded_cache, decoder_pool
from holdfast.datasets.class_folders import TarMember
from holdfast.datasets.decoder_pool import DecoderPool
from holdfast.datasets.image_files import Framing, ImageFiles, decode

LONG_AGO = time.time() - 1000
SIZE = 12


def written(path: Path, seed: int, *, changed: float = LONG_AGO) -> Path:
    pixels = np.random.default_rng(seed).integers(0, 256, (16, 20, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    os.utime(path, (changed, changed))
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "images"
    folder.mkdir()
    return [written(folder / f"{i:03}.jpg", i) for i in range(40)]


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[DecoderPool]:
    pool = DecoderPool(2)
    monkeypatch.setattr(decoder_pool, "pool_for", lambda count: pool)
    yield pool
    pool.end()


@pytest.fixture
def caching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "home" / "data"))
    monkeypatch.setattr(decoded_cache, "LEAST_FILES", 1)
    return tmp_path / "home" / "decoded"


def dataset(files: list[Path]) -> ImageFiles:
    ids = tuple(file.name for file in files)
    card = DatasetCard("some", ("a",), 3, (SIZE, SIZE), "f", "", "")
    return ImageFiles(card, ids, np.zeros(len(files), dtype=np.int64), files.__getitem__, Framing(3, SIZE))


def alone(files: list[Path]) -> np.ndarray:
    return np.stack([decode(file, Framing(3, SIZE)) for file in files])


def test_processes_give_the_pixels_of_one_thread(files: list[Path], pool: DecoderPool) -> None:
    index = [7, 3, 3, *range(40)]
    given = dataset(files).images(index)
    assert not given.failed
    assert np.array_equal(given.pixels.numpy(), alone(files)[index])
    assert pool.running, "processes decoded"


def test_files_in_memory_go_to_processes_too(files: list[Path], pool: DecoderPool) -> None:
    opened = dataset(files)
    opened.opened = lambda i: io.BytesIO(files[i].read_bytes())
    assert np.array_equal(opened.images(range(40)).pixels.numpy(), alone(files))


def test_processes_leave_a_broken_file_with_its_reason_and_a_missing_one_unread(
    files: list[Path], pool: DecoderPool
) -> None:
    files[5].write_bytes(b"no image")
    given = dataset(files).images(range(40))
    assert list(given.failed) == [5]
    assert given.failed[5].startswith("005.jpg cannot be read")
    files[6].unlink()
    with pytest.raises(NotRead, match=r"1 of 40 images .* 006\.jpg is gone"):
        dataset(files).images(range(40))


def test_a_process_that_dies_costs_nothing(files: list[Path], pool: DecoderPool) -> None:
    dataset(files).images(range(40))
    for process in pool.running:
        process.kill()
        process.wait()
    assert np.array_equal(dataset(files).images(range(40)).pixels.numpy(), alone(files))
    assert np.array_equal(dataset(files).images(range(40)).pixels.numpy(), alone(files))


@pytest.mark.parametrize("room", ["on disk", "nowhere"])
def test_where_memory_for_files_is_short_nobody_is_killed(
    files: list[Path], pool: DecoderPool, monkeypatch: pytest.MonkeyPatch, room: str
) -> None:
    """A process that writes beyond the 64 MB of a container dies, and its successor as well."""
    reserve, asked = os.posix_fallocate, []

    def short(handle: int, begin: int, size: int) -> None:
        asked.append(size)
        if room == "nowhere" or len(asked) == 1:
            raise OSError(errno.ENOSPC, "no space left")
        reserve(handle, begin, size)

    monkeypatch.setattr(os, "posix_fallocate", short)
    assert np.array_equal(dataset(files).images(range(40)).pixels.numpy(), alone(files))
    assert asked == [40 * 3 * SIZE * SIZE] * 2
    assert bool(pool.running) == (room == "on disk")
    assert not list(decoder_pool.MEMORY.glob("holdfast-pixels-*"))


def test_a_second_reading_decodes_nothing(files: list[Path], caching: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = alone(files)
    dataset(files).images(range(30))
    decoded: list[object] = []
    monkeypatch.setattr(
        "holdfast.datasets.image_files.decode", lambda file, framing: decoded.append(file) or decode(file, framing)
    )
    given = dataset(files).images(range(39, -1, -1))
    assert np.array_equal(given.pixels.numpy(), truth[::-1])
    assert sorted(decoded) == files[30:]  # type: ignore[type-var]


def test_a_changed_file_is_decoded_anew(files: list[Path], caching: Path) -> None:
    dataset(files).images(range(40))
    written(files[4], 99, changed=LONG_AGO + 1)
    assert np.array_equal(dataset(files).images(range(40)).pixels.numpy(), alone(files))


def test_a_file_that_changed_this_moment_is_not_kept(files: list[Path], caching: Path) -> None:
    now = time.time()
    written(files[4], 98, changed=now)
    dataset(files).images(range(40))
    written(files[4], 99, changed=now)  # the same time, as a clock of coarse steps would give it
    assert np.array_equal(dataset(files).images(range(40)).pixels.numpy(), alone(files))


def test_a_file_that_is_gone_is_not_read_from_the_cache(files: list[Path], caching: Path) -> None:
    dataset(files).images(range(40))
    files[2].unlink()
    with pytest.raises(NotRead, match="002"):
        dataset(files).images(range(40))


def test_damaged_and_shortened_caches_are_decoded_anew(files: list[Path], caching: Path) -> None:
    dataset(files).images(range(40))
    (pixels,) = caching.glob("*.pixels")
    data = bytearray(pixels.read_bytes())
    data[100] ^= 1
    pixels.write_bytes(data[: 3 * SIZE * SIZE * 20])
    assert np.array_equal(dataset(files).images(range(40)).pixels.numpy(), alone(files))


def test_other_files_under_the_same_ids_are_other_pixels(files: list[Path], tmp_path: Path, caching: Path) -> None:
    dataset(files).images(range(40))
    other = tmp_path / "other"
    other.mkdir()
    copies = [written(other / file.name, 500 + i) for i, file in enumerate(files)]
    assert np.array_equal(dataset(copies).images(range(40)).pixels.numpy(), alone(copies))


def test_the_cache_stays_within_its_bytes(files: list[Path], caching: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DECODED", "100000")  # one set of 40 takes 17,280 bytes, in blocks a little more
    for first in range(12):
        dataset(files[first:]).images(range(20))
    assert 1 <= len(list(caching.glob("*.pixels"))) < 12
    assert sum(512 * file.stat().st_blocks for file in caching.iterdir()) <= 100000
    monkeypatch.setenv("HOLDFAST_DECODED", "0")
    before = sorted(caching.iterdir())
    dataset(files[:30]).images(range(20))
    assert sorted(caching.iterdir()) == before


def test_a_full_disk_ends_the_keeping_not_the_reading(
    files: list[Path], caching: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    assert np.array_equal(dataset(files).images(range(40)).pixels.numpy(), alone(files))


def test_a_member_of_a_tar_has_the_stamp_of_its_place_and_its_tar(tmp_path: Path, files: list[Path]) -> None:
    archive = tmp_path / "some.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(files[0], "a.jpg")
    os.utime(archive, (LONG_AGO, LONG_AGO))
    first, second = TarMember(archive, 512, 10), TarMember(archive, 1024, 10)
    assert len({first.stamp(), second.stamp(), 0}) == 3
    assert first.stamp() == TarMember(archive, 512, 10).stamp()
    before = first.stamp()
    os.utime(archive, (LONG_AGO + 5, LONG_AGO + 5))
    assert first.stamp() not in (before, 0)
