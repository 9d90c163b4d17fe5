"""Images listed in a CSV file, and datasets that Hugging Face's `save_to_disk` wrote."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from holdfast.core.errors import HoldfastError
from holdfast.datasets import load


def picture(level: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), level, np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def images(tmp_path: Path) -> Path:
    (tmp_path / "pics").mkdir()
    for i in range(4):
        (tmp_path / "pics" / f"{i}.png").write_bytes(picture(10 * i))
    return tmp_path


def test_paths_and_labels_of_a_csv_file(images: Path) -> None:
    (images / "val.csv").write_text("\ufeffpath,split,label\npics/2.png,a,dog\npics/0.png,a,cat\n\npics/1.png,b,dog\n")
    data = load(f"csv:{images / 'val.csv'}")
    assert list(data.ids) == ["pics/2.png", "pics/0.png", "pics/1.png"]
    assert data.card.classes == ("cat", "dog")
    assert data.labels.tolist() == [1, 0, 1]
    assert data.images([0, 2]).pixels[:, 0, 0, 0].tolist() == [20, 10]


def test_columns_root_numbers_and_answers(images: Path) -> None:
    (images / "val.csv").write_text('img_name,truth\n"2.png",1\n0.png,0\n')
    ref = f"csv:{images / 'val.csv'},image=img_name,label=truth,root={images / 'pics'}"
    data = load(ref)
    assert data.labels.tolist() == [1, 0]
    assert data.card.fingerprint != load(f"{ref},answers=[7,3]").card.fingerprint
    (images / "names.txt").write_text("owl\nfox\n")
    assert load(f"{ref},classes={images / 'names.txt'}").card.classes == ("owl", "fox")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("pics/0.png,cat\n", "no column of .* is the image"),
        ("path,image,label\npics/0.png,x,1\n", "several columns"),
        ("path,label\npics/9.png,1\n", "which is not there"),
        ("path,label\npics/0.png,1\npics/0.png,1\n", "twice"),
        ("path,label\npics/0.png,\n", "line 2 of .* has no label"),
        ("path,label\npics/0.png\n", "line 2 of .* has fewer columns"),
        ("path,label\n", "lists no images"),
        ("path,label\n,1\n", "line 2 of .* has no path"),
        ("path,label\npics/0.png,0\n./pics/../pics/0.png,1\n", "lists `pics/0.png` twice"),
        ("path;label\npics/0.png;1\n", "part them by commas"),
        ("path,label\npics/0.png,0.0\npics/1.png,3.0\n", "`0.0` of .* is a number, but no class number"),
        ("path,label\npics/0.png,-1\npics/1.png,3\n", "`-1` of .* is a number, but no class number"),
        ("path,label\npics/0.png,1e1\npics/1.png,3\n", "`1e1` of .* is a number, but no class number"),
        ("", "no column"),
    ],
)
def test_what_is_wrong_with_a_csv_file_is_said(images: Path, text: str, problem: str) -> None:
    (images / "val.csv").write_text(text)
    with pytest.raises(HoldfastError) as caught:
        load(f"csv:{images / 'val.csv'}")
    assert re.search(problem, str(caught.value))


def test_a_name_of_two_classes_labels_nothing(images: Path) -> None:
    (images / "names.txt").write_text("owl\ncrane\ncrane\n")
    (images / "val.csv").write_text("path,label\npics/0.png,owl\npics/1.png,owl\n")
    ref = f"csv:{images / 'val.csv'},classes={images / 'names.txt'}"
    assert load(ref).labels.tolist() == [0, 0]
    (images / "val.csv").write_text("path,label\npics/0.png,owl\npics/1.png,crane\n")
    with pytest.raises(HoldfastError, match=r"`crane` of .* is the name of several classes"):
        load(ref)
    (images / "val.csv").write_text("path,label\npics/0.png,0\npics/1.png,2\n")
    assert load(ref).labels.tolist() == [0, 2]


def test_words_among_numbers_are_class_names(images: Path) -> None:
    (images / "val.csv").write_text("path,label\npics/0.png,30.5\npics/1.png,stop\n")
    assert load(f"csv:{images / 'val.csv'}").card.classes == ("30.5", "stop")


def saved(folder: Path, levels: list[int], **state: object) -> None:
    """As `datasets.Dataset.save_to_disk` lays a split out: Arrow streams, `state.json`, features in the schema."""
    folder.mkdir(parents=True)
    features = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "image": {"_type": "Image"}}
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema(
        [("image", kind), ("label", pa.int64())],
        metadata={b"huggingface": json.dumps({"info": {"features": features}}).encode()},
    )
    names = [f"data-{i:05}-of-00002.arrow" for i in range(2)]
    for name, some in zip(names, (levels[:1], levels[1:]), strict=True):
        columns = [[{"bytes": picture(level), "path": None} for level in some], [level % 2 for level in some]]
        with (folder / name).open("wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            writer.write_table(pa.table([pa.array(columns[0], kind), pa.array(columns[1])], schema=schema))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names], **state}))


def test_a_dataset_saved_to_disk(tmp_path: Path) -> None:
    saved(tmp_path / "one", [11, 20, 31])
    saved(tmp_path / "many" / "test", [11, 20, 31])
    for ref in (f"hf:{tmp_path / 'one'}", f"hf:{tmp_path / 'many'},split=test"):
        data = load(ref)
        assert data.card.classes == ("cat", "dog")
        assert data.labels.tolist() == [1, 0, 1]
        assert data.images([2, 0]).pixels[:, 1, 3, 3].tolist() == [31, 11]


def test_what_is_wrong_with_a_saved_dataset_is_said(tmp_path: Path) -> None:
    saved(tmp_path / "many" / "train", [1, 2])
    saved(tmp_path / "chosen", [1, 2], _indices_files=[{"filename": "indices.arrow"}])
    (tmp_path / "chosen" / "x").mkdir()
    for ref, problem in (
        (f"hf:{tmp_path / 'many'}", "no split of .* named `test`"),
        (f"hf:{tmp_path / 'many'},split=train,label=y", "no column of train named `y`"),
        (f"hf:{tmp_path / 'chosen'}", "a selection"),
    ):
        with pytest.raises(HoldfastError, match=problem):
            load(ref)
    (tmp_path / "many" / "train" / "state.json").write_text("{")
    with pytest.raises(HoldfastError, match="cannot be read"):
        load(f"hf:{tmp_path / 'many'},split=train")
