"""Frames of videos, each with the frames around it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from image_trees import write_tree

from holdfast.conformance import check_dataset
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.datasets import load
from holdfast.datasets.imagenet_classes import class_scheme
from holdfast.metrics.frames import frame_of

SMALL = "size=8,resize=8"
VID = {f"val/ILSVRC2015_val_0000000{video}/{frame:06}.JPEG": [26] for video in (0, 3) for frame in range(432, 453)}
ANCHORS = [f"val/ILSVRC2015_val_0000000{video}/000442.JPEG" for video in (0, 3)]


def write_vid(root: Path, labels: dict[str, Any] | None = None, inside: str = "") -> Path:
    folder = root / "imagenet-vid-robust" / inside
    write_tree(folder, VID)
    (folder / "metadata").mkdir()
    sets = {
        anchor: [name for name in VID if name.rpartition("/")[0] == anchor.rpartition("/")[0] and name != anchor]
        for anchor in ANCHORS
    }
    (folder / "metadata" / "labels.json").write_text(json.dumps(VID if labels is None else labels))
    (folder / "metadata" / "pmsets.json").write_text(json.dumps(sets))
    return folder


@pytest.mark.parametrize("inside", ["", "imagenet-vid-robust"])
def test_ids_tell_the_anchor_of_a_frame_and_every_class_that_is_right(root: Path, inside: str) -> None:
    write_vid(root, VID | {ANCHORS[0]: [8, 3, 21]}, inside)
    dataset = load(f"imagenet-vid-robust:{SMALL}")
    check_dataset(dataset)
    assert len(dataset.ids) == 2 * 21
    assert dataset.ids[0] == "ILSVRC2015_val_00000000/000442/000442|3|21"
    assert dataset.ids[1] == "ILSVRC2015_val_00000000/000442/000432"
    assert (dataset.labels[0], dataset.card.classes[26]) == (8, "turtle")
    frames = [frame_of(name) for name in dataset.ids]
    assert {frame.anchor for frame in frames} == {f"ILSVRC2015_val_0000000{video}/000442" for video in (0, 3)}
    assert sorted(frame.apart for frame in frames) == sorted([0, *range(1, 11), *range(1, 11)] * 2)
    assert frames[0].also == {3, 21}


def test_k_is_how_far_frames_may_lie_from_their_anchor(root: Path) -> None:
    write_vid(root)
    assert [len(load(f"imagenet-vid-robust:k={k},{SMALL}").ids) for k in (0, 1, 10)] == [2, 6, 42]
    with pytest.raises(Misuse, match="`k` is 0 to 10, got 11"):
        load(f"imagenet-vid-robust:k=11,{SMALL}")


def test_classes_are_answered_by_the_largest_or_by_the_sum(root: Path) -> None:
    write_vid(root)
    for how in ("subset", "sum"):
        card = load(f"imagenet-vid-robust:answers={how},{SMALL}").card
        assert card.answers == class_scheme("imagenet-vid-robust", how).label_map
        assert card.reference == f"imagenet:classes=imagenet-vid-robust,answers={how},{SMALL}"


def test_what_is_missing_or_wrong_is_named(root: Path) -> None:
    with pytest.raises(HoldfastError, match="`imagenet-vid-robust` is not on this machine"):
        load("imagenet-vid-robust")
    folder = write_vid(root, {ANCHORS[0]: [26]})
    with pytest.raises(HoldfastError, match="says nothing of val/ILSVRC2015_val_00000000/000432"):
        load("imagenet-vid-robust")
    (folder / "metadata" / "labels.json").write_text(json.dumps(VID | {ANCHORS[1]: [30]}))
    with pytest.raises(HoldfastError, match=r"name class \[30\], it has 30"):
        load("imagenet-vid-robust")
    (folder / "metadata" / "labels.json").write_text(json.dumps(VID))
    (folder / ANCHORS[1]).unlink()
    with pytest.raises(HoldfastError, match="1 of 42 frames are not there"):
        load("imagenet-vid-robust")
    (folder / "metadata" / "labels.json").write_text('{"val')
    with pytest.raises(HoldfastError, match=r"labels\.json is damaged"):
        load("imagenet-vid-robust")
    (folder / "metadata" / "labels.json").unlink()
    with pytest.raises(HoldfastError, match=r"not laid out as .* there is no metadata/labels\.json"):
        load("imagenet-vid-robust")


def test_a_frame_that_cannot_be_read_is_a_failed_sample(root: Path) -> None:
    folder = write_vid(root)
    (folder / ANCHORS[0]).write_bytes(b"\xff\xd8 cut off")
    images = load(f"imagenet-vid-robust:{SMALL}").images([0, 1])
    assert list(images.failed) == [0]


WORDS = ["good", "unsure", "bad", "person", "car"]
NEAR = ["similar", "correct", "blur-increase", "bad-anchor"]


def write_ytbb(root: Path) -> Path:
    folder = root / "ytbb-robust"
    names = [f"{video}/frame-{frame}.jpg" for video in ("abc_1_200", "de-f_300", "gh_1") for frame in range(95, 106)]
    write_tree(folder / "ytbb_videos", names)
    (folder / "metadata").mkdir()
    anchors = [("abc_1_200", [0, 3]), ("de-f_300", [0, 1]), ("gh_1", [0])]
    rows = [{"key": f"{video}/frame-100.jpg", "notes": "", "labels": marked} for video, marked in anchors]
    (folder / "metadata" / "anchor_labels.json").write_text(json.dumps({"labels": WORDS, "annotations": rows}))

    def pair(video: str, frame: int, marked: list[int]) -> dict[str, object]:
        return {"key": f"x/{video}/frame-100.jpg,x/{video}/frame-{frame}.jpg", "notes": "", "labels": marked}

    near = [
        *(pair("abc_1_200", 101, [0, 1]), pair("abc_1_200", 97, [0]), pair("abc_1_200", 98, [0, 2])),
        pair("gh_1", 99, [3]),
    ]
    (folder / "metadata" / "pmk_labels.json").write_text(json.dumps({"labels": NEAR, "annotations": near}))
    csv = "ytid,time_ms,label\nabc_1,200,22\nde-f,300,1\ngh,1,7\n"
    (folder / "metadata" / "ytbb_robustness_test_anchors_full.csv").write_text(csv)
    return folder


def test_ytbb_keeps_good_anchors_and_the_frames_reviewed_as_similar(root: Path) -> None:
    write_ytbb(root)
    dataset = load(f"ytbb-robust:{SMALL}")
    # label 22 of the csv is `car`, 23; the reviewers added `person`, 0
    assert list(dataset.ids) == [f"abc_1_200/frame-100/frame-{frame}|0" for frame in (100, 97, 101)]
    assert dataset.labels.tolist() == [23] * 3
    assert dataset.card.classes[23] == "car"
    assert [frame_of(name).apart for name in dataset.ids] == [0, 3, 1]


def test_ytbb_without_its_labels_says_where_they_are(root: Path) -> None:
    folder = write_ytbb(root)
    (folder / "metadata" / "pmk_labels.json").write_text("{}")
    with pytest.raises(HoldfastError, match="not a file of reviews"):
        load("ytbb-robust")
    (folder / "metadata" / "pmk_labels.json").unlink()
    with pytest.raises(HoldfastError, match=r"there is no .*pmk_labels\.json") as error:
        load("ytbb-robust")
    assert "ytbb-robust_metadata" in str(error.value.hint)
    (folder / "metadata" / "ytbb_robustness_test_anchors_full.csv").write_text("a,b\n1,2\n")
    with pytest.raises(HoldfastError, match="should have columns ytid"):
        load("ytbb-robust")
