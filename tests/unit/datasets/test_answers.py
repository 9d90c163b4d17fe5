"""`answers=`: which classes of a model answer for the classes of one's own dataset."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.labels import OTHER
from holdfast.core.registry import registry
from holdfast.datasets import load
from holdfast.datasets.imagenet_classes import names
from holdfast.datasets.label_maps import map_labels, numbered_labels, spelled_alike

WNIDS = ("n02123045", "n02099712")  # 281 tabby, 208 Labrador retriever


def tree(root: Path, classes: tuple[str, ...]) -> str:
    for name in classes:
        (root / name).mkdir(parents=True)
        Image.fromarray(np.full((8, 8, 3), 90, np.uint8)).save(root / name / "a.png")
    return f"folder:{root}"


def test_folders_named_by_wnid_answer_as_imagenet(tmp_path: Path) -> None:
    data = load(tree(tmp_path / "x", WNIDS) + ",answers=imagenet")
    assert data.card.answers is not None
    assert data.card.answers.known == 1000
    assert data.card.answers.groups == ((208,), (281,)), "sorted folders: n02099712 comes first"
    assert data.card.classes == tuple(names()[wnid] for wnid in sorted(WNIDS))


def test_folders_named_by_class_answer_as_imagenet(tmp_path: Path) -> None:
    data = load(tree(tmp_path / "x", ("Labrador_Retriever", "great-white shark")) + ",answers=imagenet-full")
    assert data.card.answers is not None
    assert data.card.answers.groups == ((208,), (2,))
    assert data.card.answers.other
    assert data.card.classes == ("Labrador_Retriever", "great-white shark", OTHER)


def test_a_class_that_imagenet_has_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=r"1 of 2 classes .* by name: `unicorn`"):
        load(tree(tmp_path / "x", ("tench", "unicorn")) + ",answers=imagenet")


def test_names_of_a_model_are_found_whatever_their_case(tmp_path: Path) -> None:
    data = load(tree(tmp_path / "x", ("cat", "Polar Bear")) + ",answers=[horse,polar_bear,CAT]")
    assert data.card.answers is not None
    assert (data.card.answers.known, data.card.answers.groups) == (3, ((1,), (2,))), "`Polar Bear` sorts before `cat`"


def test_a_name_that_fits_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="more than one of"):
        load(tree(tmp_path / "x", ("cat",)) + ",answers=[cat,Cat]")


def test_numbers_are_of_any_model_that_has_them(tmp_path: Path) -> None:
    data = load(tree(tmp_path / "x", ("a", "b")) + ",answers=[7,3]")
    assert data.card.answers is not None
    assert data.card.answers.known is None
    assert data.card.answers.of(10).groups == ((7,), (3,))
    with pytest.raises(Misuse, match="names class 7"):
        data.card.answers.of(5)


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ("[1]", "1 numbers"),
        ("[1,1]", "appears twice"),
        ("[-1,2]", "names class -1"),
        ("[1,cat]", "both names and numbers"),
        ("1000", "are named"),
        ("0", "from 1 to"),
        ("99999999999", "from 1 to"),
        ("nowhere.txt", "no file"),
        ("[]", "none of"),
    ],
)
def test_a_map_that_does_not_fit_is_refused(answers: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=problem):
        load(tree(tmp_path / "x", ("a", "b")) + f",answers={answers}")


def test_a_file_lists_numbers_names_or_pairs(tmp_path: Path) -> None:
    ref = tree(tmp_path / "x", ("cat", "dog"))
    expected = {
        "7\n3\n": (None, ((7,), (3,))),
        "dog\nCat\n\nhorse\n": (3, ((1,), (0,))),
        "class,number\ndog,1\ncat,5\ndog,2\n": (None, ((5,), (1, 2))),
        "dog,1\ncat,5\n": (None, ((5,), (1,))),
    }
    for content, (known, groups) in expected.items():
        (tmp_path / "map.txt").write_text(content)
        answers = load(f"{ref},answers={tmp_path / 'map.txt'}").card.answers
        assert answers is not None
        assert (answers.known, answers.groups) == (known, groups)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"9" * 5000, b"cat,1\n", b'"', b"a\0b"])
def test_a_file_that_is_no_list_is_an_error_of_ours(content: bytes, tmp_path: Path) -> None:
    ref = tree(tmp_path / "x", ("cat", "dog"))
    (tmp_path / "map.txt").write_bytes(content)
    with pytest.raises(HoldfastError):
        load(f"{ref},answers={tmp_path / 'map.txt'}")


def test_labels_may_be_the_numbers_of_a_models_classes(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", images=np.zeros((3, 8, 8), np.uint8), labels=np.array([0, 4, 2]))
    data = load(f"arrays:{tmp_path / 'x.npz'},answers=10")
    assert data.card.answers is not None
    assert data.card.answers.is_whole
    assert len(data.card.classes) == 10
    assert data.labels.tolist() == [0, 4, 2]
    numbered = load(tree(tmp_path / "y", ("3", "11")) + ",answers=20")
    assert numbered.labels.tolist() == [11, 3], "folders sort as texts, labels are their numbers"


def test_other_answers_are_other_data(tmp_path: Path) -> None:
    ref, file = tree(tmp_path / "x", ("a", "b")), tmp_path / "map.txt"
    seen = {load(ref).card.fingerprint}
    for content in ("7\n3\n", "3\n7\n"):
        file.write_text(content)
        seen.add(load(f"{ref},answers={file}").card.fingerprint)
    assert len(seen) == 3, "a changed file of answers is not taken for the old one"


def test_the_key_of_a_ref_without_answers_is_what_it_was() -> None:
    """The digests were computed before `answers` was a parameter."""
    keys = {
        "folder:/data/birds,size=224": "19ef9ad1bf41b5e25354",
        "arrays:/data/x.npz": "7b6e20aba7024c4f07ea",
        "hf:cifar10": "543313ab6255bdbb000b",
        "webdataset:/data/val.tar": "41b20d1144e7e29e065a",
    }
    assert {text: registry.bind("dataset", text).key for text in keys} == keys
    assert (
        registry.bind("dataset", "folder:/data/birds,answers=imagenet").key
        != registry.bind("dataset", "folder:/data/birds").key
    )


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=6, unique_by=spelled_alike), st.randoms())
def test_a_shuffled_list_of_names_finds_every_class(classes: list[str], random: object) -> None:
    listed = list(classes)
    random.shuffle(listed)  # type: ignore[attr-defined]
    made = map_labels(np.arange(len(classes)), classes, tuple(listed), "x").label_map
    assert made is not None
    assert [listed[group[0]] for group in made.groups] == classes


@pytest.mark.parametrize("label", [20_000_000, 2**62])
def test_a_huge_label_is_refused_at_once(label: int, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", images=np.zeros((2, 8, 8), np.uint8), labels=np.array([0, label]))
    with pytest.raises(HoldfastError, match="too large"):
        load(f"arrays:{tmp_path / 'x.npz'}")


def test_a_huge_range_of_shards_is_refused_at_once(tmp_path: Path) -> None:
    for name in ("{0..30000000}", "{0..9999}-{0..9999}", "{0..9999999999999999999999}"):
        with pytest.raises(Misuse, match=r"shards|too long"):
            load(f'webdataset:"{tmp_path}/{name}.tar"')


def test_a_label_of_many_digits_in_a_shard_is_a_word(tmp_path: Path) -> None:
    import io

    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        picture = io.BytesIO()
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(picture, "PNG")
        for name, content in (("a.png", picture.getvalue()), ("a.cls", b"9" * 5000)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    assert load(f"webdataset:{tmp_path / 'x.tar'}").card.classes == ("9" * 5000,)


@pytest.mark.parametrize("label", [1.5, float("nan"), [1], {"label": 1}, None])
def test_a_label_that_is_no_class_number_is_refused(label: object) -> None:
    with pytest.raises(HoldfastError, match="is no class number"):
        numbered_labels([0, label], "x")  # type: ignore[list-item]


def test_whole_numbers_of_any_kind_are_labels() -> None:
    labels, classes = numbered_labels([0, 2.0, np.int32(1)], "x")  # type: ignore[list-item]
    assert (labels.tolist(), classes) == ([0, 2, 1], ("0", "1", "2"))
