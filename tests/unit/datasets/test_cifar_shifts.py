"""The shifts of CIFAR-10: 10.1, 10.2, CINIC-10, CIFAR10-R and C as stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from image_trees import write_tar, write_tree
from PIL import Image
from typer.testing import CliRunner

from holdfast.cli.app import app
from holdfast.conformance import check_dataset
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import registry
from holdfast.datasets import load
from holdfast.datasets.cifar import CLASSES
from holdfast.datasets.imagenet_classes import class_scheme, groups
from holdfast.datasets.stored_corruptions import TARS, Corruption

IMAGES = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
LABELS = np.arange(20, dtype=np.int32) % 10


def save(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, content)


@pytest.mark.parametrize("version", ["v4", "v6"])
def test_cifar10_1_is_read_from_its_arrays(root: Path, version: str) -> None:
    save(root / "cifar10.1" / f"cifar10.1_{version}_data.npy", IMAGES)
    save(root / "cifar10.1" / f"cifar10.1_{version}_labels.npy", LABELS)
    dataset = load(f"cifar10.1:version={version}")
    check_dataset(dataset)
    assert np.array_equal(dataset.images(range(20)).pixels.numpy(), IMAGES.transpose(0, 3, 1, 2))
    assert (dataset.ids[3], dataset.card.reference, dataset.card.answers) == (f"{version}-0003", "cifar10", None)
    with pytest.raises(HoldfastError, match=r"`cifar10\.1` is not on this machine"):
        load(f"cifar10.1:version={'v6' if version == 'v4' else 'v4'}")


def test_cifar10_2_is_read_from_its_npz_and_what_else_lies_in_it_stays_closed(root: Path) -> None:
    (root / "cifar10.2").mkdir(parents=True)
    words = np.array([{"a": 1}] * 20, dtype=object)
    np.savez(root / "cifar10.2" / "cifar102_test.npz", images=IMAGES, labels=LABELS, words=words)
    dataset = load("cifar10.2")
    check_dataset(dataset)
    assert dataset.labels.tolist() == LABELS.tolist()
    np.savez(root / "cifar10.2" / "cifar102_test.npz", images=IMAGES)
    with pytest.raises(HoldfastError, match="has no labels"):
        load("cifar10.2")
    with pytest.raises(HoldfastError, match=r"there is no .*cifar102_train\.npz") as error:
        load("cifar10.2:split=train")
    assert "github.com/modestyachts" in str(error.value.hint)


@pytest.mark.parametrize("name", ["cifar10.1", "cifar10.2"])
def test_an_imagenet_model_may_answer_for_the_classes_of_cifar10(root: Path, name: str) -> None:
    save(root / "cifar10.1" / "cifar10.1_v6_data.npy", IMAGES)
    save(root / "cifar10.1" / "cifar10.1_v6_labels.npy", LABELS)
    (root / "cifar10.2").mkdir(parents=True)
    np.savez(root / "cifar10.2" / "cifar102_test.npz", images=IMAGES, labels=LABELS)
    dataset = load(f"{name}:answers=imagenet")
    assert dataset.card.answers == class_scheme("cifar10", "subset").label_map
    assert dataset.card.reference == "cifar10:answers=imagenet"


@pytest.mark.parametrize("many", [True, False], ids=["five times the labels", "labels once"])
@pytest.mark.parametrize("inside", ["", "CIFAR-10-C"])
def test_a_severity_of_cifar10_c_is_its_fifth_of_the_stack(root: Path, inside: str, many: bool) -> None:
    save(root / "cifar10-c" / inside / "jpeg_compression.npy", IMAGES)
    save(root / "cifar10-c" / inside / "labels.npy", np.tile(LABELS[:4], 5) if many else LABELS[:4])
    dataset = load("cifar10-c:corruption=jpeg,severity=4")
    check_dataset(dataset)
    assert np.array_equal(dataset.images(range(4)).pixels.numpy(), IMAGES[12:16].transpose(0, 3, 1, 2))
    assert (dataset.ids, dataset.labels.tolist()) == (tuple(f"test-0000{i}" for i in range(4)), LABELS[:4].tolist())
    with pytest.raises(Misuse, match="`severity` is 1 to 5, got 6"):
        load("cifar10-c:corruption=jpeg,severity=6")
    with pytest.raises(Misuse, match="must be one of brightness"):
        load("cifar10-c:corruption=rain")


def test_a_stack_that_is_not_five_severities_is_an_error(root: Path) -> None:
    save(root / "cifar10-c" / "fog.npy", IMAGES[:19])
    save(root / "cifar10-c" / "labels.npy", LABELS)
    with pytest.raises(HoldfastError, match="should hold five severities"):
        load("cifar10-c:corruption=fog")


def test_stored_corruptions_have_the_names_of_those_in_memory() -> None:
    names = get_args(Corruption)
    assert set(names) <= set(registry.entries("corruption"))
    assert sorted(names) == sorted(name for members in TARS.values() for name in members)


CORRUPTED = [f"{wnid}/ILSVRC2012_val_1.JPEG" for wnid in class_scheme("all", "full").labels]


@pytest.mark.parametrize("at", ["ImageNet-C", "", "weather"])
def test_imagenet_c_is_read_from_its_folders(root: Path, at: str) -> None:
    write_tree(root / "imagenet-c" / at / "fog" / "2", CORRUPTED)
    dataset = load("imagenet-c:corruption=fog,severity=2,size=8")
    check_dataset(dataset)
    assert list(dataset.ids) == CORRUPTED
    assert dataset.card.reference == "imagenet"
    with pytest.raises(HoldfastError, match="not laid out as `imagenet-c`"):
        load("imagenet-c:corruption=fog,severity=3,size=8")


def test_imagenet_c_is_read_from_its_tars(root: Path) -> None:
    names = [f"{kind}/{severity}/{name}" for kind in ("fog", "snow") for severity in (1, 2) for name in CORRUPTED]
    write_tar(root / "imagenet-c" / "weather.tar", names)
    dataset = load("imagenet-c:corruption=snow,severity=2,size=8")
    check_dataset(dataset)
    assert list(dataset.ids) == CORRUPTED


CINIC = [f"{name}/{file}.png" for name in CLASSES for file in ("n01_1", "n01_2", "cifar10-test-7")]


@pytest.mark.parametrize("inside", ["test", "CINIC-10/test"])
def test_cinic10_takes_the_part_that_comes_from_imagenet(root: Path, inside: str, tmp_path: Path) -> None:
    write_tree(root / "cinic10" / inside, CINIC, size=(32, 32))
    dataset = load("cinic10")
    check_dataset(dataset)
    assert (len(dataset.ids), dataset.ids[0], dataset.card.reference) == (20, "airplane/n01_1.png", "cifar10")
    assert [len(load(f"cinic10:part={part}").ids) for part in ("imagenet", "cifar", "all")] == [20, 10, 30]
    (tmp_path / "ids.txt").write_text("truck/n01_2.png\nbird/n01_1.png\ncat/n01_1.png\n")
    chosen = load(f"cinic10:ids={tmp_path / 'ids.txt'},first=2")
    assert (list(chosen.ids), chosen.labels.tolist()) == (["truck/n01_2.png", "bird/n01_1.png"], [9, 2])


def test_cinic10_is_read_from_its_tar(root: Path) -> None:
    names = [f"CINIC-10/{split}/{name}" for split in ("test", "train") for name in CINIC]
    write_tar(root / "cinic10" / "CINIC-10.tar", names)
    assert len(load("cinic10").ids) == len(load("cinic10:split=train").ids) == 20


def test_cinic10_with_a_class_missing_a_stray_folder_or_another_size_says_so(root: Path) -> None:
    write_tree(root / "cinic10" / "test", [name for name in CINIC if not name.startswith("frog")], size=(32, 32))
    with pytest.raises(
        HoldfastError, match="no images for 1 of the 10 class folders of `cinic10-test imagenet`, `frog`"
    ):
        load("cinic10")
    write_tree(root / "cinic10" / "test", ["frog/n01_1.png"], size=(40, 40))
    dataset = load("cinic10")
    at = dataset.ids.index("frog/n01_1.png")
    assert "32x32" in dataset.images([at]).failed[0]
    write_tree(root / "cinic10" / "test", ["unicorn/n01_1.png"])
    with pytest.raises(HoldfastError, match=r"unicorn/n01_1\.png lies in no class folder"):
        load("cinic10")


def rendition(colour: tuple[int, int, int]) -> Image.Image:
    pixels = np.zeros((96, 64, 3), np.uint8)
    pixels[:48] = colour
    return Image.fromarray(pixels)


@pytest.mark.parametrize("packed", [False, True])
def test_cifar10_r_is_built_from_imagenet_r_by_box_downscaling(root: Path, tmp_path: Path, packed: bool) -> None:
    wnids = {name: members[0] for name, members in groups("cifar10").items()}
    source = tmp_path / "imagenet-r"
    write_tree(source, [f"{wnid}/misc_3.jpg" for name, wnid in wnids.items() if name not in ("airplane", "horse")])
    write_tree(source, ["n01440764/art_1.jpg"])
    rendition((200, 100, 0)).save(source / wnids["dog"] / "toy_1.png")
    if packed:
        import tarfile

        with tarfile.open(tmp_path / "imagenet-r.tar", "w") as tar:
            tar.add(source, "imagenet-r")
        source = tmp_path / "imagenet-r.tar"
    done = CliRunner().invoke(app, ["data", "build", "cifar10-r", "--from", str(source), "--json"])
    assert done.exit_code == 0, done.output
    assert '"images": 9' in done.stdout
    dataset = load("cifar10-r")
    check_dataset(dataset)
    assert len(dataset.card.classes) == 10, "labels are those of CIFAR-10"
    assert sorted(set(dataset.labels.tolist())) == [1, 2, 3, 4, 5, 6, 8, 9]
    at = dataset.ids.index(f"dog/{wnids['dog']}_toy_1.png")
    image = dataset.images([at]).pixels[0]
    assert image[:, :16].flatten(1).unique(dim=1).tolist() == [[200], [100], [0]]
    assert not image[:, 16:].any(), "squeezed to a square, each pixel the mean of its box"


def test_a_builder_refuses_what_is_not_its_source(tmp_path: Path) -> None:
    from holdfast.datasets.downloads import build_dataset

    with pytest.raises(Misuse, match="there is nothing at"):
        build_dataset("cifar10-r", tmp_path / "nowhere")
    write_tree(tmp_path, ["n02085620/a.jpg"])
    with pytest.raises(HoldfastError, match="has no images for `automobile`"):
        build_dataset("cifar10-r", tmp_path)
    with pytest.raises(Misuse, match="no dataset to build named `cifar10-q`") as error:
        build_dataset("cifar10-q", tmp_path)
    assert "cifar10-r" in str(error.value.hint)
