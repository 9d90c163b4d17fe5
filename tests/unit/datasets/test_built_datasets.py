"""Mixtures, parts, matched sets, drawn scenes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pyarrow import parquet

from holdfast import conformance
from holdfast.core.errors import HoldfastError, Misuse, NotRead
from holdfast.datasets import load
from holdfast.datasets.matched import balanced_choice, class_names, matches, plain_words
from holdfast.datasets.mix import _counts
from holdfast.datasets.subsample import keyed_choice, keyed_order

RANDOM = np.random.default_rng(0)


def saved(
    path: Path, *, n: int, side: int = 8, channels: int = 3, classes: tuple[str, ...] = ("a", "b"), **more
) -> str:
    shape = (n, side, side, channels) if channels > 1 else (n, side, side)
    images = RANDOM.integers(0, 256, shape, dtype=np.uint8)
    np.savez(path, images=images, labels=np.arange(n) % len(classes), classes=np.array(classes), **more)
    return f"arrays:{path}"


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, str]:
    return saved(tmp_path / "one.npz", n=100), saved(tmp_path / "other.npz", n=40)


def test_a_mixture_takes_its_share_of_each_dataset(two: tuple[str, str]) -> None:
    mixed = load(f"mix:[({two[0]}),({two[1]})],shares=[0.1,0.9]")
    conformance.check_dataset(mixed)
    owners = [name.split("/")[0] for name in mixed.ids]
    assert (owners.count("one"), owners.count("other")) == (10, 36)
    whole = load(two[1])
    position = next(i for i, name in enumerate(mixed.ids) if name.startswith("other/"))
    origin = list(whole.ids).index(mixed.ids[position].split("/")[1])
    assert (mixed.images([position, 0]).pixels[0] == whole.images([origin]).pixels[0]).all()
    assert mixed.labels[position] == whole.labels[origin]


def test_with_n_the_shares_are_of_the_mixture(two: tuple[str, str]) -> None:
    mixed = load(f"mix:[({two[0]}),({two[1]})],shares=[0.7,0.3],n=50")
    owners = [name.split("/")[0] for name in mixed.ids]
    assert (owners.count("one"), owners.count("other")) == (35, 15)


@given(st.lists(st.integers(0, 100), min_size=2, max_size=6).filter(sum), st.integers(1, 5000))
def test_parts_of_n_sum_to_n_and_differ_from_their_share_by_less_than_one(weights: list[int], n: int) -> None:
    shares = tuple(weight / sum(weights) for weight in weights)
    counts = _counts([10_000] * len(shares), shares, n)
    assert sum(counts) == n
    assert all(abs(count - share * n) < 1 for count, share in zip(counts, shares, strict=True))


def test_a_mixture_joins_classes_sizes_and_channels_when_asked(tmp_path: Path) -> None:
    one = saved(tmp_path / "one.npz", n=6, side=8, channels=1, classes=("cat", "dog"))
    other = saved(tmp_path / "other.npz", n=6, side=16, classes=("dog", "eel"))
    with pytest.raises(HoldfastError, match="other classes"):
        load(f"mix:[({one}),({other})]")
    with pytest.raises(HoldfastError, match="differ in size: `one` 8x8, `other` 16x16"):
        load(f"mix:[({one}),({other})],classes=union")
    mixed = load(f"mix:[({one}),({other})],classes=union,size=16")
    assert mixed.card.classes == ("cat", "dog", "eel")
    assert mixed.labels.tolist() == [0, 1, 0, 1, 0, 1, 1, 2, 1, 2, 1, 2]
    pixels = mixed.images(range(12)).pixels
    assert pixels.shape == (12, 3, 16, 16)
    assert (pixels[0, 0] == pixels[0, 2]).all()  # grey stays grey
    assert (pixels[6:] == load(other).images(range(6)).pixels).all()


def test_the_same_dataset_twice_has_numbered_ids(two: tuple[str, str]) -> None:
    mixed = load(f"mix:[({two[0]}),(subsample:({two[0]}),count=5)]")
    assert len(set(mixed.ids)) == 105
    assert mixed.ids[-1].startswith("one-2/")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("shares=[0.5]", "2 datasets and 1 shares"),
        ("shares=[0.5,1.5]", "must lie in"),
        ("shares=[0.5,0.3],n=10", "sum to 1"),
        ("n=0", "at least 1"),
        ("n=120", "has 40 samples, the mixture needs 60"),
        ("shares=[0,0]", "nothing is left"),
        ("size=0", "at least 1"),
    ],
)
def test_a_mixture_that_cannot_be_is_refused(two: tuple[str, str], options: str, message: str) -> None:
    with pytest.raises(HoldfastError, match=message):
        load(f"mix:[({two[0]}),({two[1]})],{options}")


def test_a_failed_sample_of_a_part_keeps_its_reason(tmp_path: Path) -> None:
    (tmp_path / "set" / "a").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "set" / "a" / "fine.png")
    (tmp_path / "set" / "a" / "bad.png").write_bytes(b"no image")
    whole = saved(tmp_path / "x.npz", n=2, classes=("a",))
    mixed = load(f"mix:[({whole}),(folder:{tmp_path}/set,size=8)]")
    read = mixed.images([3, 2, 0])
    assert [*read.failed] == [1]
    assert "a/bad.png cannot be read" in read.failed[1]


@given(st.integers(1, 60), st.integers(0, 60), st.randoms())
def test_a_choice_does_not_depend_on_order_and_holds_every_smaller_one(n: int, count: int, random) -> None:
    ids = [f"sample-{i}" for i in range(n)]
    mixed = random.sample(ids, n)
    chosen = {ids[position] for position in keyed_choice(ids, count, seed=3)}
    assert chosen == {mixed[position] for position in keyed_choice(mixed, count, seed=3)}
    assert {ids[position] for position in keyed_choice(ids, count // 2, seed=3)} <= chosen
    assert len(chosen) == min(n, count)


def test_a_choice_takes_every_sample_equally_often() -> None:
    ids = [f"s{i}" for i in range(50)]
    taken = sum(np.isin(np.arange(50), keyed_order(ids, seed)[:10]) for seed in range(400))
    assert abs(taken.mean() - 80) < 1e-9
    assert np.abs(taken - 80).max() < 5 * (400 * 0.2 * 0.8) ** 0.5  # five standard deviations of 50 binomials


def test_a_part_is_a_share_or_a_count_over_all_or_of_every_class(two: tuple[str, str]) -> None:
    part = load(f"subsample:({two[0]}),share=0.1")
    conformance.check_dataset(part)
    assert len(part.ids) == 10
    assert len(load(f"subsample:({two[0]}),count=7").ids) == 7
    even = load(f"subsample:({two[0]}),count=7,per_class=true")
    assert np.bincount(even.labels).tolist() == [7, 7]
    rest = load(f"subsample:({two[0]}),share=0.1,rest=true")
    assert not set(rest.ids) & set(part.ids)
    assert len(rest.ids) == 90
    assert load(f"subsample:({two[0]}),share=0.1,seed=1").ids != part.ids
    whole = load(two[0])
    position = list(whole.ids).index(part.ids[3])
    assert (part.images([3]).pixels == whole.images([position]).pixels).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("share=0", "must lie in"),
        ("share=0.5,count=3", "one of them"),
        ("seed=1", "one of them"),
        ("count=0", "at least 1"),
        ("count=101", "has 100 samples, not 101"),
        ("count=51,per_class=true", "`a` has 50 samples, not 51"),
        ("share=0.001", "nothing of `one` is left"),
    ],
)
def test_a_part_that_cannot_be_is_refused(two: tuple[str, str], options: str, message: str) -> None:
    with pytest.raises(HoldfastError, match=message):
        load(f"subsample:({two[0]}),{options}")


ANIMALS = {"tench": ("tench", "Tinca tinca"), "crane": ("crane",), "crane machine": ("crane machine", "crane")}


def test_a_caption_matches_whole_words_of_exactly_one_class() -> None:
    captions = ["A Tench, caught today", "tinca   TINCA!", "tenches", "", None, "a crane", "tench on a crane machine"]
    assert matches(captions, ANIMALS, by="caption") == [0, 0, None, None, None, None, None]
    assert matches(["dog and cat", "Café_au+lait"], {"dog": ["dog"], "café": ["cafe au lait"]}, by="caption") == [0, 1]


def test_a_tag_matches_when_it_is_the_name() -> None:
    names = {"dog": ("dog", "domestic dog"), "cat": ("cat",)}
    tags = ["holiday,Dog,2019", "hot dog", ["domestic+dog", "sun"], "dog;cat", None, []]
    assert matches(tags, names, by="tags") == [0, None, 0, None, None, None]
    assert plain_words("Crème-brûlée's") == ("creme", "brulees")


def test_classes_with_too_few_images_are_left_out_and_the_others_balanced() -> None:
    ids = [f"i{i}" for i in range(30)]
    labels = [0] * 12 + [2] * 5 + [None] * 3 + [1] * 10
    kept, counts = balanced_choice(ids, labels, 3, per_class=4, at_least=10, seed=0)
    assert counts.tolist() == [12, 10, 5]
    assert sorted(labels[position] for position in kept) == [0] * 4 + [1] * 4


@pytest.fixture
def album(tmp_path: Path) -> Path:
    rows = []
    for i in range(24):
        Image.new("RGB", (10, 12), (i, 0, 0)).save(tmp_path / f"{i}.png")
        rows.append({"image": f"{i}.png", "caption": f"my {('dog', 'cat', 'fish')[i % 3]} no. {i}", "tags": "dog,cat"})
    pa_table = pa.Table.from_pylist(rows)
    parquet.write_table(pa_table, tmp_path / "album.parquet")
    (tmp_path / "album.jsonl").write_text("\n".join(map(json.dumps, rows)))
    lines = ["image,caption,tags", *(f'{row["image"]},{row["caption"]},"dog,cat"' for row in rows)]
    (tmp_path / "album.csv").write_text("\n".join(lines))
    (tmp_path / "classes.txt").write_text("dog, hound\ncat, tomcat\nbird\n")
    return tmp_path


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_matched_set_is_read_from_any_table(album: Path, ending: str) -> None:
    made = load(f"matched:{album}/album.{ending},classes={album}/classes.txt,at_least=8,per_class=5,size=8")
    conformance.check_dataset(made)
    assert made.card.classes == ("dog", "cat", "bird")
    assert np.bincount(made.labels).tolist() == [5, 5]
    for name, label, image in zip(made.ids, made.labels, made.images(range(10)).pixels, strict=True):
        number = int(name.removesuffix(".png"))
        assert number % 3 == label
        assert int(image[0, 0, 0]) == number


def test_a_missing_image_is_a_fault_and_no_sample(album: Path) -> None:
    (album / "0.png").unlink()
    made = load(f"matched:{album}/album.csv,classes={album}/classes.txt,at_least=8,per_class=8,size=8")
    with pytest.raises(NotRead, match=r"1 of 16 images .* 0.png is gone"):
        made.images(range(len(made.ids)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("album.csv,classes={}/classes.txt", "no class .* has 100 images .*; 16 of 24 .* at most 8 a class"),
        ("album.csv,classes={}/classes.txt,by=tags,at_least=1,per_class=1", "0 of 24"),
        ("album.csv,classes={}/classes.txt,text=title", "no column of album.csv named `title`"),
        ("none.csv,classes={}/classes.txt", "there is no table"),
        ("classes.txt,classes={}/classes.txt", "not a table"),
        ("album.csv,classes={}/nothing.txt", "no file of classes"),
        ("album.csv,classes={}/classes.txt,per_class=0", "must lie in 1"),
        ("broken.parquet,classes={}/classes.txt", "cannot be read"),
        ("twice.csv,classes={}/classes.txt", "`0.png` appears twice"),
    ],
)
def test_a_matched_set_that_cannot_be_is_refused(album: Path, arguments: str, message: str) -> None:
    (album / "broken.parquet").write_bytes(b"PAR1 no")
    (album / "twice.csv").write_text("image,caption\n0.png,dog\n0.png,cat\n")
    with pytest.raises(HoldfastError, match=message):
        load(f"matched:{album}/{arguments.format(album)}")


def test_class_files_are_lines_or_json(tmp_path: Path) -> None:
    for name, content in {
        "a.json": '["dog", ["cat", "tomcat"]]',
        "b.json": '{"dog": [], "cat": ["tomcat"]}',
        "c.txt": "dog\ncat,tomcat\n\n",
    }.items():
        (tmp_path / name).write_text(content)
        assert class_names(tmp_path / name) == {"dog": ("dog",), "cat": ("cat", "tomcat")}
    for content, message in (
        ("3", "must hold a list"),
        ("{", "is not JSON"),
        ('["a", "a"]', "twice"),
        ("[]", "without"),
    ):
        (tmp_path / "d.json").write_text(content)
        with pytest.raises(HoldfastError, match=message):
            class_names(tmp_path / "d.json")


def test_scenes_are_drawn_at_any_size_and_conform() -> None:
    for size in (32, 224):
        dataset = load(f"scenes:size={size},n=6")
        conformance.check_dataset(dataset)
        assert dataset.images([0]).pixels.shape == (1, 3, size, size)
    assert dataset.images(range(6)).pixels.float().std() > 30
    with pytest.raises(Misuse, match="at least 8"):
        load("scenes:size=4")
