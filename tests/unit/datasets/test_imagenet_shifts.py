"""The shifts of ImageNet that come as folders by class, and ObjectNet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from image_trees import write_tar, write_tree
from PIL import Image

from holdfast.conformance import check_dataset
from holdfast.core.errors import Absent, HoldfastError, Misuse
from holdfast.datasets import load
from holdfast.datasets.imagenet_classes import class_scheme, groups, names

SMALL = "size=8,resize=8"
A_CLASSES, R_CLASSES = (
    tuple(class_scheme("imagenet-a", "full").labels),
    tuple(class_scheme("imagenet-r", "full").labels),
)
V2 = "imagenetv2-matched-frequency"
LAYOUTS = {  # ref: (where its class folders may lie, what they are called, a tar and what its members begin with)
    "imagenet-v2": (f"{V2}-format-val", [str(i) for i in range(1000)], f"{V2}.tar.gz", f"{V2}-format-val/"),
    "imagenet-a": ("imagenet-a", A_CLASSES, "imagenet-a.tar", "imagenet-a/"),
    "imagenet-r": ("", R_CLASSES, "imagenet-r.tar", "imagenet-r/"),
    "imagenet-sketch": ("sketch", tuple(names()), "sketch.tar", ""),
    "imagenet-stylized": ("val", tuple(names()), "val.tar", "val/"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_folders_and_tars_give_the_same_set(root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, folders, tar, before = LAYOUTS[name]
    images = [f"{folder}/x _ 1.jpg" for folder in folders]
    write_tree(root / name / inside, images)
    unpacked = load(f"{name}:{SMALL}")
    check_dataset(unpacked)
    assert sorted(unpacked.ids) == sorted(images)
    assert sorted(unpacked.labels) == list(range(len(folders)))
    monkeypatch.setenv("HOLDFAST_DATA", str(root / "other"))
    write_tar(root / "other" / name / tar, [f"{before}{image}" for image in images])
    packed = load(f"{name}:{SMALL}")
    check_dataset(packed)
    assert (packed.ids, packed.labels.tolist()) == (unpacked.ids, unpacked.labels.tolist())


def test_the_folders_of_v2_are_class_numbers_and_not_sorted_as_words(root: Path) -> None:
    write_tree(root / "imagenet-v2" / f"{V2}-format-val", [f"{i}/a.jpeg" for i in range(1000)])
    dataset = load(f"imagenet-v2:{SMALL}")
    assert all(int(name.partition("/")[0]) == label for name, label in zip(dataset.ids, dataset.labels, strict=True))
    assert dataset.card.reference == "imagenet:size=8,resize=8"
    part = load(f"imagenet-v2:{SMALL},classes=imagenet-125")
    assert (len(part.ids), part.card.answers.classes) == (125, 125)


@pytest.mark.parametrize(
    ("variant", "stem"),
    [("threshold-0.7", "threshold0.7"), ("threshold-0.7", "threshold-0.7"), ("top-images", "topimages")],
)
def test_each_variant_and_form_of_v2_has_a_folder_of_its_own(root: Path, variant: str, stem: str) -> None:
    write_tree(root / "imagenet-v2" / f"imagenetv2-{stem}-format-val", [f"{i}/a.jpeg" for i in range(1000)])
    assert load(f"imagenet-v2:variant={variant},{SMALL}").card.name == f"imagenet-v2 {variant}"
    for other in (f"variant={variant},form=original", "variant=matched-frequency"):
        with pytest.raises(Absent, match="there is no"):
            load(f"imagenet-v2:{other},{SMALL}")
    write_tree(root / "imagenet-v2" / f"imagenetv2-{stem}", [f"{i}/b.jpeg" for i in range(1000)])
    assert load(f"imagenet-v2:variant={variant},form=original,{SMALL}").ids[0] == "0/b.jpeg"


def test_subset_and_full_differ_in_labels_and_answers_alone(root: Path) -> None:
    write_tree(root / "imagenet-a" / "imagenet-a", [f"{wnid}/a.jpg" for wnid in A_CLASSES])
    part, full = (load(f"imagenet-a:answers={how},{SMALL}") for how in ("subset", "full"))
    assert part.ids == full.ids
    assert (part.labels[0], full.labels[0]) == (0, 6)
    assert [part.card.classes[i] for i in part.labels] == [full.card.classes[i] for i in full.labels]
    assert part.card.answers.groups[0] == (6,)
    assert full.card.answers.is_whole


@pytest.mark.parametrize("name", LAYOUTS)
def test_wrong_layouts_missing_classes_and_nothing_at_all_are_told_apart(root: Path, name: str) -> None:
    inside, folders, *_ = LAYOUTS[name]
    with pytest.raises(HoldfastError, match=f"`{name}` is not on this machine"):
        load(f"{name}:{SMALL}")
    write_tree(root / name, ["readme/a.jpg"])
    with pytest.raises(HoldfastError, match=f"not laid out as `{name}`: it holds readme"):
        load(f"{name}:{SMALL}")
    (root / name / "readme" / "a.jpg").unlink()
    write_tree(root / name / inside, [f"{folder}/a.jpg" for folder in folders[1:]])
    with pytest.raises(HoldfastError, match=rf"no images for 1 of the {len(folders)} .* `{folders[0]}` first"):
        load(f"{name}:{SMALL}")


def test_a_class_of_imagenet_that_the_set_does_not_have_is_passed_over(root: Path) -> None:
    write_tree(root / "imagenet-a" / "imagenet-a", [f"{wnid}/a.jpg" for wnid in (*A_CLASSES, "n01440764")])
    assert len(load(f"imagenet-a:{SMALL}").ids) == 200


OBJECTS = [f"{folder}/a.png" for folder in groups("objectnet")]


def test_objectnet_cuts_its_frame_off(root: Path) -> None:
    write_tree(root / "objectnet" / "images", [*OBJECTS, "air_freshener/b.png"], size=(12, 12))
    framed = np.full((12, 12, 3), 90, np.uint8)
    framed[:2] = framed[-2:] = framed[:, :2] = framed[:, -2:] = (255, 0, 0)
    Image.fromarray(framed).save(root / "objectnet" / "images" / OBJECTS[0])
    dataset = load(f"objectnet:{SMALL}")
    check_dataset(dataset)
    assert len(dataset.ids) == 113, "classes that ImageNet does not have are left out"
    assert dataset.images([0]).pixels.unique().tolist() == [90]
    assert 255 in load(f"objectnet:{SMALL},border=0").images([0]).pixels
    with pytest.raises(Misuse, match="`border` is 0 or more"):
        load("objectnet:border=-1")


def test_objectnet_answers_in_each_of_the_published_ways(root: Path) -> None:
    write_tree(root / "objectnet" / "objectnet-1.0" / "images", OBJECTS)
    part, full = (load(f"objectnet:answers={how},{SMALL}") for how in ("subset", "full"))
    assert (part.card.answers.classes, full.card.answers.classes) == (113, 114)
    assert full.card.classes[-1] == "something else"
    assert part.labels.tolist() == full.labels.tolist() == list(range(113))
    single = load(f"objectnet:classes=objectnet-104,answers=full,{SMALL}")
    assert single.card.answers.is_whole
    assert len(single.ids) == 104
    number = {wnid: i for i, wnid in enumerate(names())}
    at = single.ids.index("banana/a.png")
    assert single.labels[at] == number["n07753592"]
    assert single.card.reference == "imagenet:classes=objectnet-104,answers=full,size=8,resize=8"


def test_objectnet_in_folders_by_wnid_is_read_too(root: Path) -> None:
    images = [f"{members[0]}/a.png" for members in groups("objectnet-104").values()]
    write_tree(root / "objectnet" / "objectnet", images)
    dataset = load(f"objectnet:classes=objectnet-104,answers=full,border=0,{SMALL}")
    assert sorted(dataset.ids) == sorted(images)
    number = {wnid: i for i, wnid in enumerate(names())}
    assert dataset.labels.tolist() == [number[name.partition("/")[0]] for name in dataset.ids]
