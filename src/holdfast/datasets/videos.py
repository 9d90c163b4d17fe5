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
from holdfast.datasets.class_folders import Piece, Plan, encoded
from holdfast.datasets.downloads import Download, published
from holdfast.datasets.image_files import Encoded, framed
from holdfast.datasets.imagenet import RESIZE, SIZE, reference
from holdfast.datasets.imagenet_classes import Classes, groups, scheme
from holdfast.datasets.in_memory import repeated

SOURCE = "arXiv:1906.02168"
ARCHIVE = (
    "https://do-imagenet-classifiers-generalize-across-time.s3-us-west-2.amazonaws.com/imagenet_vid_ytbb_robust.tar.gz"
)
TESTBED = "https://github.com/modestyachts/imagenet-testbed/tree/master/src/eval_settings/ytbb-robust_metadata"
MOST = 10  # frames on each side that were reviewed
Merge = Literal["subset", "sum"]
FRAME = re.compile(r"(\d+)\.\w+$")

VID = published(
    Download(
        "imagenet-vid-robust",
        (),
        licence="not stated by its authors",
        folders=("val", "imagenet-vid-robust"),
        by_hand=f"get {ARCHIVE} and unpack its imagenet-vid-robust",
    )
)
YTBB = published(
    Download(
        "ytbb-robust",
        (),
        licence="not stated by its authors",
        folders=("ytbb_videos", "ytbb-robust"),
        by_hand=f"get {ARCHIVE} and unpack its ytbb-robust; the labels are at {TESTBED}",
    )
)


class Frame(NamedTuple):
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
) -> Encoded:
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
def ytbb_robust(*, answers: Merge = "subset", k: int = MOST, size: int = SIZE, resize: int | None = RESIZE) -> Encoded:
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


def _vid_frames(labels: Mapping[str, Any], sets: Mapping[str, Any], root: Path) -> Iterator[Frame]:
    for anchor, around in sets.items():
        for path in (anchor, *around):
            if path not in labels:
                raise HoldfastError(f"labels.json of {root} says nothing of {path}", hint="get both files again")
            yield Frame(anchor, path, tuple(labels[path]))


def _ytbb_frames(
    first: Mapping[str, int], anchors: Mapping[str, Any], neighbours: Mapping[str, Any], folder: Path
) -> Iterator[Frame]:
    """Anchors that reviewers called good, with the frames they called similar and nothing else."""
    number = {name.replace("_", " "): label for label, name in enumerate(groups("ytbb-robust"))}
    similar: dict[str, list[str]] = {}
    bad = set()
    for said, key in _reviews(neighbours, folder / "pmk_labels.json"):
        anchor, _, frame = key.partition(",")
        if "bad-anchor" in said:
            bad.add(_short(anchor))
        elif "similar" in said and not said & PROBLEMS:
            similar.setdefault(_short(anchor), []).append(_short(frame))
    for said, key in _reviews(anchors, folder / "anchor_labels.json"):
        anchor = _short(key)
        if "good" not in said or said & {"bad", "unsure"} or anchor in bad:
            continue
        video = anchor.partition("/")[0]
        if video not in first:
            raise HoldfastError(f"{folder} has no first label for {video}", hint="its csv belongs to other labels")
        right = (first[video], *sorted({number[name] for name in said & number.keys()} - {first[video]}))
        for path in (anchor, *sorted(similar.get(anchor, ()), key=_number)):
            yield Frame(anchor, path, right)


PROBLEMS = {
    *("dissimilar", "problematic", "incorrect", "dont know", "deformation"),
    *("background-change", "occlusion-increased", "blur-increase"),
}


def _reviews(content: Mapping[str, Any], file: Path) -> Iterator[tuple[set[str], str]]:
    """What reviewers said of each key, the last word of several."""
    try:
        words = content["labels"]
        last = {row["key"]: {words[place] for place in row["labels"]} for row in content["annotations"]}
    except (KeyError, TypeError, IndexError) as problem:
        raise HoldfastError(f"{file} is not a file of reviews: {problem!r}", hint=f"get it from {TESTBED}") from problem
    for key, said in last.items():
        yield said, key


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
    name: Classes, frames: Sequence[Frame], place: Path, answers: Merge, k: int, size: int, resize: int | None
) -> Encoded:
    if not 0 <= k <= MOST:
        raise Misuse(f"`k` is 0 to {MOST}, got {k}")
    kept = [frame for frame in frames if frame.distance <= k]
    if not kept:
        raise HoldfastError(f"the labels of `{name}` name no frames")
    twice = repeated([frame.id for frame in kept])
    if twice is not None:
        raise HoldfastError(f"the frame `{twice}` stands twice in the labels of `{name}`", hint="get them again")
    found = scheme(name, answers)
    plan = Plan(
        name=name,
        classes=found.names,
        labels={},
        framing=framed(3, size, resize),
        size=size,
        answers=found.answers,
        reference=reference(name, answers, size=size, resize=resize),
        source=SOURCE,
    )
    outside = [label for frame in kept for label in frame.right if not 0 <= label < len(found.names)]
    if outside or not all(frame.right for frame in kept):
        raise HoldfastError(f"the labels of `{name}` name class {outside[:1] or 'none'}, it has {len(found.names)}")
    pieces = _pieces(kept, place)
    return encoded(plan, pieces, ids=[frame.id for frame in kept], labels=[frame.right[0] for frame in kept])


def _pieces(frames: Sequence[Frame], place: Path) -> list[Piece]:
    files = [place / frame.path for frame in frames]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise HoldfastError(
            f"{len(missing)} of {len(files)} frames are not there, {missing[0]} first", hint="unpack the archive again"
        )
    return [Piece("", frame.path, file.stat().st_size, file) for frame, file in zip(frames, files, strict=True)]


def _root(download: Download, places: Sequence[str], inside: str) -> Path:
    for place in (download.folder / name for name in places):
        if (place / inside).is_file():
            return place
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
    found = FRAME.search(path)
    if found is None:
        raise HoldfastError(f"the name of frame {path} does not end in its number")
    return int(found[1])
