"""Sets of ImageNet's classes: lists, files, datasets and what several have in common; any head in one column."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from image_trees import picture, write_tree
from torch import nn

import holdfast
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.labels import LabelMapChoice, merged
from holdfast.core.registry import registry
from holdfast.core.types import ModelCard
from holdfast.datasets import load
from holdfast.datasets.imagenet_classes import class_scheme, groups, names, synonyms
from holdfast.engine.compatible import fits
from holdfast.store import Store

NUMBER = {wnid: i for i, wnid in enumerate(names())}


def test_a_list_of_classes_is_of_wnids_names_or_numbers() -> None:
    expected = {"tench": ("n01440764",), "goldfish": ("n01443537",)}
    for written in (("n01440764", "goldfish"), (0, 1), ("Tench", "Carassius auratus"), ("0", "n01443537")):
        assert groups(written) == expected
    ref = registry.bind("dataset", "imagenet:classes=[n01440764,goldfish]")
    assert groups(ref.arg("classes")) == expected
    with pytest.raises(Misuse, match="no class of ImageNet"):
        groups(("unicorn",))
    with pytest.raises(Misuse, match="two classes of ImageNet"):  # the bird and the machine
        groups(("crane",))
    with pytest.raises(Misuse, match="twice"):
        groups(("tench", "n01440764"))


def test_every_class_has_one_name_and_every_word_of_its_synset() -> None:
    assert len(set(names().values())) == len(names()) == len(synonyms()) == 1000
    assert list(synonyms()) == list(names())
    for wnid, name in names().items():
        first = name.split(" (")[0].split(",")[0]
        assert synonyms()[wnid][0] == first
        assert groups((name,)) == {name: (wnid,)}  # also `Cardigan`, the dog, and `cardigan`, the garment


def test_a_file_of_classes_is_a_list_or_groups(tmp_path: Path) -> None:
    plain, grouped = tmp_path / "a.txt", tmp_path / "b.txt"
    plain.write_text("# a comment\nn01443537\n\ngreat white shark\n4\n")
    assert [wnids[0] for wnids in groups(str(plain)).values()] == ["n01443537", "n01484850", "n01494475"]
    grouped.write_text("fish: n01440764 n01443537\nshark: n01484850\n")
    assert groups(str(grouped)) == {"fish": ("n01440764", "n01443537"), "shark": ("n01484850",)}
    for content, message in (
        ("", "no classes"),
        ("a: n00000000\n", "no class of ImageNet"),
        ("x: n01440764\ny: n01440764", "twice"),
    ):
        plain.write_text(content)
        with pytest.raises(HoldfastError, match=message):
            groups(str(plain))
    with pytest.raises(HoldfastError, match="no set of classes"):
        groups(str(tmp_path / "absent.txt"))


def test_common_classes_are_those_of_all_sets_in_the_groups_of_one() -> None:
    r, a = (set().union(*groups(name).values()) for name in ("imagenet-r", "imagenet-a"))
    both = groups("imagenet-r&imagenet-a")
    assert {wnid for (wnid,) in both.values()} == r & a
    assert list(groups("imagenet-a&imagenet-r&all").values()) == [
        one for one in groups("imagenet-a").values() if one[0] in r
    ]
    objects = groups("imagenet-r&objectnet")
    assert objects
    assert groups("[tiger,n01440764]&imagenet-r") == {"tiger": ("n02129604",)}
    for name, members in objects.items():
        assert set(members) == set(groups("objectnet")[name]) & r
    with pytest.raises(Misuse, match="in common"):
        groups("imagenet-r&[n01440764]".replace("[n01440764]", "n02412080"))


@pytest.mark.parametrize("classes", ["imagenet-r&imagenet-a", "imagenet-r&objectnet", "cifar10"])
def test_models_of_either_head_are_given_the_map_for_theirs(classes: str) -> None:
    made = class_scheme(classes, "model")
    assert isinstance(made.label_map, LabelMapChoice)
    count = len(groups(classes))
    assert made.label_map.of(count).is_whole
    assert made.label_map.of(1000) == class_scheme(classes, "subset").label_map
    with pytest.raises(HoldfastError, match=r"a model of 7 classes has no label map"):
        made.label_map.of(7)


@pytest.fixture
def sets(root: Path) -> None:
    """ImageNet's validation images, one per class of CIFAR-10, and CIFAR-10 itself, of noise."""
    wnids = [wnid for members in groups("cifar10").values() for wnid in members]
    write_tree(root / "imagenet" / "val", [f"{wnid}/a.jpg" for wnid in wnids], (40, 40))
    random = np.random.default_rng(0)
    (root / "cifar10").mkdir(parents=True, exist_ok=True)
    pixels = random.integers(0, 256, (60, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(60) % 10
    np.savez(
        root / "cifar10" / "cifar10.npz",
        test_images=pixels,
        test_labels=labels,
        train_images=pixels[:2],
        train_labels=labels[:2],
    )


class Means(nn.Module):
    """Logits that are a linear function of the image at whatever side it comes."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        torch.manual_seed(classes)
        self.head = nn.Linear(3 * 16, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(nn.functional.adaptive_avg_pool2d(images, 4).flatten(1))


def test_models_of_ten_and_of_a_thousand_classes_stand_in_one_column(sets: None, tmp_path: Path) -> None:
    small, large = Means(10), Means(1000)
    models = [holdfast.wrap(net, name=name, group=name) for net, name in ((small, "ten"), (large, "thousand"))]
    store = Store(str(tmp_path / "s"))
    for scenario in ("cifar10:answers=model", "imagenet:classes=cifar10,answers=model,size=40,resize=40"):
        outcomes = holdfast.evaluate(models, [scenario], store=str(tmp_path / "s"))
        data = load(scenario)
        images = data.images(list(range(len(data.ids)))).pixels.float() / 255
        with torch.no_grad():
            logits = large(images)
            members = [[NUMBER[wnid] for wnid in group] for group in groups("cifar10").values()]
            mapped = torch.stack([logits[:, group].amax(1) for group in members], 1)
            brought = nn.functional.interpolate(images, size=(32, 32), mode="bilinear", antialias=True)
            own = small(images if images.shape[-1] == 32 else brought)
        for outcome, expected in zip(outcomes, (own, mapped), strict=True):
            assert outcome.rows.predictions.tolist() == expected.argmax(1).tolist()
            assert len(outcome.rows.footer.classes) == 10
            assert outcome.rows.footer.card.group in ("ten", "thousand")
        assert "own 10 classes" in outcomes[0].rows.footer.facts["answers"]
        assert "10 groups of cifar10" in outcomes[1].rows.footer.facts["answers"]
        if "imagenet" in scenario:  # brought to CIFAR-10's size, as its card says none
            assert outcomes[0].rows.footer.answers
    assert len({footer.scenario for footer in store.footers().values()}) == 2
    with pytest.raises(HoldfastError, match="7 classes"):
        fits(ModelCard("seven", "", 7), data.card, data.labels)


@pytest.fixture
def captions(tmp_path: Path) -> Path:
    """Captioned images: 6 of tench, 6 of tiger, 6 that name two classes or one ambiguously."""
    rows = [(f"t{i}.jpg", f"A Tinca tinca, nr {i}") for i in range(6)] + [
        (f"p{i}.jpg", f"a tiger {i}") for i in range(6)
    ]
    rows += [
        ("both.jpg", "tench and tiger"),
        ("crane.jpg", "a crane"),
        ("maillot.jpg", "the maillot"),
        ("shark.jpg", "tiger shark!"),
    ]
    with (tmp_path / "captions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "caption"), *rows])
    for name, _ in rows:
        (tmp_path / name).write_bytes(picture(name))
    return tmp_path / "captions.csv"


def test_captions_are_matched_with_imagenets_names_and_the_rest_is_kept(captions: Path) -> None:
    ref = f"matched:{captions},classes=imagenet,at_least=5,per_class=4,size=8"
    test, rest = load(ref), load(f"{ref},rest=true")
    assert len(test.card.classes) == 1000
    assert sorted({test.card.classes[label] for label in test.labels}) == ["tench", "tiger"]
    assert len(test.ids) == 8
    assert not set(test.ids) & set(rest.ids)
    assert len(rest.ids) == 4  # what names two classes, or a word of two, has no label
    with_sharks = load(f"{ref},rest=true,longest=true")
    assert {with_sharks.card.classes[label] for label in with_sharks.labels} == {"tench", "tiger", "tiger shark"}
    assert groups(f"({ref})") == {"tench": ("n01440764",), "tiger": ("n02129604",)}
    assert groups(f"({ref})&imagenet-r") == {"tiger": ("n02129604",)}
    some = load(f"{ref},only=imagenet-r")
    assert some.card.classes == ("tiger",)
    assert some.card.answers == merged(1000, [[NUMBER["n02129604"]]], words=some.card.answers.words)  # type: ignore[union-attr]
    assert set(some.ids) <= set(test.ids)
    with pytest.raises(Misuse, match="classes=imagenet"):
        load(f"matched:{captions},classes={captions},only=imagenet-r,size=8")


def test_a_shifted_set_is_taken_on_common_classes(root: Path, captions: Path) -> None:
    write_tree(root / "imagenet-r" / "imagenet-r", [f"{wnid}/a.jpg" for (wnid,) in groups("imagenet-r").values()])
    ref = f"matched:{captions},classes=imagenet,at_least=5,per_class=4,size=8"
    made = load(f"imagenet-r:classes=({ref})&imagenet-r,size=8,resize=8")
    assert made.card.classes == ("tiger",)
    assert [name.split("/")[0] for name in made.ids] == ["n02129604"]
    assert registry.bind("dataset", "imagenet-r").key == registry.bind("dataset", "imagenet-r:classes=imagenet-r").key
    with pytest.raises(Misuse, match="has no images of 1 of the 2 classes"):
        load("imagenet-r:classes=[n02129604,n01440764],size=8,resize=8")


def test_the_command_lists_classes_that_a_file_reads_back(run: Any, tmp_path: Path) -> None:
    done = run("data", "classes", "imagenet-r&objectnet")
    (tmp_path / "common.txt").write_text(done.out)
    assert groups(str(tmp_path / "common.txt")) == groups("imagenet-r&objectnet")
    assert run("data", "classes", "imagenet-q").code == 2
