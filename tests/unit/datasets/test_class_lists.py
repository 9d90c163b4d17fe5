from __future__ import annotations

import csv
from pathlib import Path
from typing import get_args

import pytest

from holdfast.core.registry import registry
from holdfast.datasets import load
from holdfast.datasets.imagenet_classes import BUILT_IN, FOLDER, MapMode, class_scheme, groups, names

SAMPLE = Path(__file__).parents[4] / "shared" / "imagenet-sample" / "labels.csv"
COUNTS = {  # dataset classes and the ImageNet classes they are made of, as published
    "cifar10": (10, 142),
    "imagenet-125": (125, 125),
    "imagenet-a": (200, 200),
    "imagenet-r": (200, 200),
    "imagenet-vid-robust": (30, 288),
    "objectnet": (113, 125),
    "objectnet-104": (104, 104),
    "ytbb-robust": (24, 231),
}


def test_the_thousand_classes_are_in_the_order_of_sorted_wnids() -> None:
    assert len(names()) == 1000
    assert list(names()) == sorted(names())
    assert len(set(names().values())) == 1000
    assert (names()["n01440764"], tuple(names().values())[999]) == ("tench", "toilet tissue")


@pytest.mark.skipif(not SAMPLE.is_file(), reason="the shared sample of ImageNet is not here")
def test_the_order_is_that_of_the_shared_sample() -> None:
    with SAMPLE.open(encoding="utf-8") as file:
        assert [row["wnid"] for row in csv.DictReader(file)] == list(names())


@pytest.mark.parametrize("classes", COUNTS)
def test_every_list_has_its_published_size_and_names_imagenet_classes_once(classes: str) -> None:
    listed = [wnid for group in groups(classes).values() for wnid in group]
    assert (len(groups(classes)), len(listed)) == COUNTS[classes]
    assert set(listed) <= names().keys()
    assert len(set(listed)) == len(listed)


def test_every_list_states_its_source() -> None:
    for file in FOLDER.glob("*.txt"):
        assert "\n# Source: " in file.read_text(encoding="utf-8"), file.name
    assert set(BUILT_IN) == {"all", *COUNTS}


@pytest.mark.parametrize("how", get_args(MapMode))
@pytest.mark.parametrize("classes", BUILT_IN)
def test_a_model_s_class_means_the_label_that_images_of_it_have(classes: str, how: MapMode) -> None:
    found = class_scheme(classes, how)
    assert len(found.names) == found.label_map.classes
    number = {wnid: i for i, wnid in enumerate(names())}
    label_map = found.label_map.of(1000)  # what `model` picks for a model of ImageNet's classes
    for wnid, label in found.labels.items():
        assert label_map.meaning(number[wnid]) == label


def test_one_to_one_sets_answered_in_full_keep_the_model_s_own_numbers() -> None:
    found = class_scheme("imagenet-a", "full")
    assert found.label_map.is_whole
    assert found.labels["n01498041"] == 6  # stingray
    assert class_scheme("imagenet-a", "subset").labels["n01498041"] == 0


def test_every_reference_names_a_set_that_can_be_asked_for(root: Path) -> None:
    from image_trees import write_tree

    write_tree(
        root / "imagenet-a" / "imagenet-a", [f"{wnid}/a.jpg" for wnid in class_scheme("imagenet-a", "full").labels]
    )
    for how in ("subset", "full"):
        dataset = load(f"imagenet-a:answers={how},size=16,resize=16")
        assert dataset.card.reference == f"imagenet:classes=imagenet-a,answers={how},size=16,resize=16"
        scenario = registry.scenario(dataset.card.reference)
        assert scenario.dataset.arg("classes") == "imagenet-a"
    assert load("imagenet-a").card.reference == "imagenet:classes=imagenet-a,answers=subset"
