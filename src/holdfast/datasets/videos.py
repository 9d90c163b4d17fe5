"""ImageNet-Vid-Robust and YTBB-Robust: frames of videos, each anchor with the frames around it.

Ids are `video/anchor/frame`, so that rows tell which anchor a frame belongs to; `|3` at the end says that class 3 is
right as well. The metric `pm-k` reads them.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import register
from holdfast.datasets.class_folders import ImageFile, dataset_of
from holdfast.datasets.downloads import Download, register_download
from holdfast.datasets.image_files import ImageFiles, framing_of
from holdfast.datasets.imagenet import RESIZE, SIZE, imagenet_card, reference
from holdfast.datasets.imagenet_classes import class_scheme, groups
from holdfast.datasets.in_memory import first_duplicate

SOURCE = "arXiv:1906.02168"
ARCHIVE = (
    "https://do-imagenet-classifiers-generalize-across-time.s3-us-west-2.amazonaws.com/imagenet_vid_ytbb_robust.tar.gz"
)
TESTBED = "https://github.com/modestyachts/imagenet-testbed/tree/master/src/eval_settings/ytbb-robust_metadata"
MOST = 10  # frames on each side that were reviewed
Merge = Literal["subset", "sum"]
FRAME = re.compile(r"(\d+)\.\w+$")

VID = register_download(
    "imagenet-vid-robust",
    licence="not stated by its authors",
    folders=("val", "imagenet-vid-robust"),
    by_hand=f"get {ARCHIVE} and unpack its imagenet-vid-robust",
)
YTBB = register_download(
    "ytbb-robust",
    licence="not stated by its authors",
    folders=("ytbb_videos", "ytbb-robust"),
    by_hand=f"get {ARCHIVE} and unpack its ytbb-robust; the labels are at {TESTBED}",
)


class VideoFrame(NamedTuple):
    """A frame beside the anchor it belongs to, by paths below the videos' folder, and the classes that are right."""

    anchor: str
    path: str
    right: tuple[int, ...]

    @property
    def id(self) -> str:
        also = "".join(f"|{label}" for label in self.right[1:])
        return f"{PurePosixPath(_short(self.anchor)).with_suffix('')}/{PurePosixPath(self.path).stem}{also}"

    @property
    def distance(self) -> int:
        return abs(_number(self.path) - _number(self.anchor))


@register("dataset", "imagenet-vid-robust", source=SOURCE, tags=("natural", "colour"))
def imagenet_vid_robust(
    *, answers: Merge = "subset", k: int = MOST, size: int = SIZE, resize: int | None = RESIZE
) -> ImageFiles:
    """ImageNet-Vid-Robust: 1,109 frames of videos in 30 classes, each with up to `k` frames on either side.

    A class is answered by the largest logit of its ImageNet classes, or by their total probability (`answers=sum`).
    """
    root = _root(
        VID, ("", "imagenet-vid-robust", "imagenet_vid_ytbb_robust/imagenet-vid-robust"), "metadata/labels.json"
    )
    labels = _json(root / "metadata" / "labels.json", VID.by_hand)
    sets = _json(root / "metadata" / "pmsets.json", VID.by_hand)
    frames = list(_vid_frames(labels, sets, root))
    return _dataset("imagenet-vid-robust", frames, root, answers, k, size, resize)


@register("dataset", "ytbb-robust", source=SOURCE, tags=("natural", "colour"))
def ytbb_robust(
    *, answers: Merge = "subset", k: int = MOST, size: int = SIZE, resize: int | None = RESIZE
) -> ImageFiles:
    """YTBB-Robust: frames of YouTube videos in 24 classes, each with up to `k` reviewed frames on either side.

    A class is answered by the largest logit of its ImageNet classes, or by their total probability (`answers=sum`);
    five classes have none, and their frames are always wrong.
    """
    root = _root(YTBB, ("", "ytbb-robust", "imagenet_vid_ytbb_robust/ytbb-robust"), "metadata/anchor_labels.json")
    folder = root / "metadata"
    first = _first_labels(folder / "ytbb_robustness_test_anchors_full.csv")
    anchors = _json(folder / "anchor_labels.json", YTBB.by_hand)
    neighbours = _json(folder / "pmk_labels.json", YTBB.by_hand)
    frames = list(_ytbb_frames(first, anchors, neighbours, folder))
    videos = root / "ytbb_videos" if (root / "ytbb_videos").is_dir() else root
    return _dataset("ytbb-robust", frames, videos, answers, k, size, resize)


def _vid_frames(labels: Mapping[str, Any], sets: Mapping[str, Any], root: Path) -> Iterator[VideoFrame]:
    for anchor, around in sets.items():
        for path in (anchor, *around):
            if path not in labels:
                raise HoldfastError(f"labels.json of {root} says nothing of {path}", hint="get both files again")
            yield VideoFrame(anchor, path, tuple(labels[path]))


def _ytbb_frames(
    first: Mapping[str, int], anchors: Mapping[str, Any], neighbours: Mapping[str, Any], folder: Path
) -> Iterator[VideoFrame]:
    """Anchors that reviewers called good, with the frames they called similar and nothing else."""
    number = {name.replace("_", " "): label for label, name in enumerate(groups("ytbb-robust"))}
    similar: dict[str, list[str]] = {}
    bad = set()
    for marks, key in _reviews(neighbours, folder / "pmk_labels.json"):
        anchor, _, frame = key.partition(",")
        if "bad-anchor" in marks:
            bad.add(_short(anchor))
        elif "similar" in marks and not marks & PROBLEMS:
            similar.setdefault(_short(anchor), []).append(_short(frame))
    for marks, key in _reviews(anchors, folder / "anchor_labels.json"):
        anchor = _short(key)
        if "good" not in marks or marks & {"bad", "unsure"} or anchor in bad:
            continue
        video = anchor.partition("/")[0]
        if video not in first:
            raise HoldfastError(f"{folder} has no first label for {video}", hint="its csv belongs to other labels")
        right = (first[video], *sorted({number[name] for name in marks & number.keys()} - {first[video]}))
        for path in (anchor, *sorted(similar.get(anchor, ()), key=_number)):
            yield VideoFrame(anchor, path, right)


PROBLEMS = {
    *("dissimilar", "problematic", "incorrect", "dont know", "deformation"),
    *("background-change", "occlusion-increased", "blur-increase"),
}


def _reviews(content: Mapping[str, Any], file: Path) -> Iterator[tuple[set[str], str]]:
    """The reviewers' labels of each key, the last of several."""
    try:
        words = content["labels"]
        last = {row["key"]: {words[number] for number in row["labels"]} for row in content["annotations"]}
    except (KeyError, TypeError, IndexError) as problem:
        raise HoldfastError(f"{file} is not a file of reviews: {problem!r}", hint=f"get it from {TESTBED}") from problem
    for key, labels in last.items():
        yield labels, key


def _first_labels(file: Path) -> dict[str, int]:
    """The label each anchor was drawn for; its file has `none` and `car`, 22 and 23, the other way round."""
    swapped = {22: 23, 23: 22}
    with _needed(file, YTBB.by_hand).open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    try:
        numbers = {f"{row['ytid']}_{row['time_ms']}": int(row["label"]) for row in rows}
    except (KeyError, ValueError) as problem:
        raise HoldfastError(f"{file} should have columns ytid, time_ms and label: {problem!r}") from problem
    return {video: swapped.get(label, label) for video, label in numbers.items()}


def _dataset(
    name: str, frames: Sequence[VideoFrame], folder: Path, answers: Merge, k: int, size: int, resize: int | None
) -> ImageFiles:
    if not 0 <= k <= MOST:
        raise Misuse(f"`k` is 0 to {MOST}, got {k}")
    kept = [frame for frame in frames if frame.distance <= k]
    if not kept:
        raise HoldfastError(f"the labels of `{name}` name no frames")
    if (twice := first_duplicate([frame.id for frame in kept])) is not None:
        raise HoldfastError(f"the frame `{twice}` appears twice in the labels of `{name}`", hint="get them again")
    scheme = class_scheme(name, answers)
    outside = [label for frame in kept for label in frame.right if not 0 <= label < len(scheme.names)]
    if outside or not all(frame.right for frame in kept):
        raise HoldfastError(f"the labels of `{name}` name class {outside[:1] or 'none'}, it has {len(scheme.names)}")
    files, ids, labels = _files(kept, folder), [frame.id for frame in kept], [frame.right[0] for frame in kept]
    compared_with = reference(name, answers, size=size, resize=resize)
    card = imagenet_card(name, scheme, size, "", SOURCE, compared_with)
    return dataset_of(card, files, ids, labels, framing_of(3, size, resize))


def _files(frames: Sequence[VideoFrame], folder: Path) -> list[ImageFile]:
    files = [folder / frame.path for frame in frames]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise HoldfastError(
            f"{len(missing)} of {len(files)} frames are not there, {missing[0]} first", hint="unpack the archive again"
        )
    return [ImageFile("", frame.path, file.stat().st_size, file) for frame, file in zip(frames, files, strict=True)]


def _root(download: Download, folders: Sequence[str], inside: str) -> Path:
    for root in (download.folder / name for name in folders):
        if (root / inside).is_file():
            return root
    if download.unpacked() is not None:
        raise HoldfastError(
            f"{download.folder} is not laid out as `{download.name}`: there is no {inside}", hint=download.by_hand
        )
    raise download.missing(inside)


def _json(file: Path, way: str) -> dict[str, Any]:
    try:
        content = json.loads(_needed(file, way).read_text(encoding="utf-8"))
    except ValueError as problem:
        raise HoldfastError(f"{file} is damaged: {problem}", hint="get it again") from problem
    if not isinstance(content, dict):
        raise HoldfastError(f"{file} should hold an object, got a {type(content).__name__}")
    return content


def _needed(file: Path, way: str) -> Path:
    if not file.is_file():
        raise HoldfastError(f"there is no {file}", hint=way)
    return file


def _short(key: str) -> str:
    return "/".join(PurePosixPath(key).parts[-2:])


def _number(path: str) -> int:
    if (number := FRAME.search(path)) is None:
        raise HoldfastError(f"the name of frame {path} does not end in its number")
    return int(number[1])
