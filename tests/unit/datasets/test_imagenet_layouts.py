"""ImageNet's validation images, in each of the layouts that people have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from image_trees import picture, write_tar, write_tree

from holdfast.conformance import check_dataset
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.datasets import load
from holdfast.datasets.imagenet import classes_in
from holdfast.datasets.imagenet_classes import class_scheme, groups, names

WNIDS = tuple(names())
FEW = "imagenet:size=8,resize=8"
# every class once, in an order of file names that is not the order of classes
VAL = {f"ILSVRC2012_val_{i:08}.JPEG": WNIDS[(i * 7) % 1000] for i in range(1, 1001)}
IDS = sorted(f"{wnid}/{name}" for name, wnid in VAL.items())


def class_folders(root: Path) -> None:
    write_tree(root / "imagenet" / "val", IDS)


def flat(root: Path) -> None:
    write_tree(root / "imagenet" / "val", VAL)


def flat_with_numbers(root: Path) -> None:
    flat(root)
    (root / "imagenet" / "val.txt").write_text("".join(f"{name} {WNIDS.index(w)}\n" for name, w in VAL.items()))


def flat_with_map(root: Path) -> None:
    flat(root)
    (root / "imagenet" / "val_map.txt").write_text("".join(f"val/{name}\t{wnid}\n" for name, wnid in VAL.items()))


def flat_with_one_per_line(root: Path) -> None:
    flat(root)
    lines = "".join(f"{VAL[name]}\n" for name in sorted(VAL))
    (root / "imagenet" / "imagenet_2012_validation_synset_labels.txt").write_text(lines)


def kaggle(root: Path) -> None:
    write_tree(root / "imagenet" / "ILSVRC" / "Data" / "CLS-LOC" / "val", VAL)
    rows = "".join(f"{name.removesuffix('.JPEG')},{wnid} 85 1 499 272 {wnid} 1 2 3 4\n" for name, wnid in VAL.items())
    (root / "imagenet" / "LOC_val_solution.csv").write_text(f"ImageId,PredictionString\n{rows}")


def development_kit(root: Path) -> None:
    from scipy.io import savemat

    flat(root)
    data = root / "imagenet" / "ILSVRC2012_devkit_t12" / "data"
    data.mkdir(parents=True)
    numbers = {wnid: 1 + (i * 3) % 1000 for i, wnid in enumerate(WNIDS)}  # the kit counts in an order of its own
    rows = np.array(
        [(number, wnid) for wnid, number in numbers.items()], dtype=[("ILSVRC2012_ID", "f8"), ("WNID", object)]
    )
    savemat(str(data / "meta.mat"), {"synsets": rows})
    lines = "".join(f"{numbers[VAL[name]]}\n" for name in sorted(VAL))
    (data / "ILSVRC2012_validation_ground_truth.txt").write_text(lines)


def tar_of_folders(root: Path) -> None:
    write_tar(root / "imagenet" / "val.tar", [f"val/{name}" for name in IDS])


def flat_tar(root: Path) -> None:
    write_tar(root / "imagenet" / "ILSVRC2012_img_val.tar", VAL)
    (root / "imagenet" / "val.txt").write_text("".join(f"{name} {WNIDS.index(w)}\n" for name, w in VAL.items()))


LAYOUTS = [
    *(class_folders, flat_with_numbers, flat_with_map, flat_with_one_per_line, kaggle, development_kit),
    *(tar_of_folders, flat_tar),
]


@pytest.mark.parametrize("write", LAYOUTS, ids=lambda write: write.__name__)
def test_every_layout_gives_the_same_ids_and_labels(root: Path, write) -> None:
    write(root)
    dataset = load(FEW)
    check_dataset(dataset)
    assert list(dataset.ids) == IDS
    assert dataset.labels.tolist() == sorted(range(1000))
    assert dataset.card.classes[dataset.labels[3]] == names()[IDS[3].partition("/")[0]]


def test_images_of_a_tar_are_those_that_went_in(root: Path) -> None:
    import io

    from PIL import Image

    tar_of_folders(root)
    pixels = load(FEW).images([5]).pixels[0].permute(1, 2, 0).numpy()
    assert np.array_equal(pixels, np.asarray(Image.open(io.BytesIO(picture(f"val/{IDS[5]}")))))


def test_classes_of_a_shifted_set_are_taken_with_labels_its_way(root: Path) -> None:
    class_folders(root)
    plain = load(f"{FEW},classes=imagenet-a")
    assert len(plain.ids) == 200
    assert plain.labels.tolist() == list(range(200))
    assert load(f"{FEW},classes=imagenet-a,answers=full").labels.tolist()[:3] == [6, 11, 13]
    merged = load(f"{FEW},classes=objectnet")
    assert len(merged.ids) == 125
    by_wnid = dict(zip([name.partition("/")[0] for name in merged.ids], merged.labels.tolist(), strict=True))
    chair = list(groups("objectnet")).index("chair")
    assert [by_wnid[wnid] for wnid in groups("objectnet")["chair"]] == [chair] * 3
    assert merged.card.answers == class_scheme("objectnet", "subset").label_map


def test_a_list_of_ids_chooses_in_its_own_order(root: Path, tmp_path: Path) -> None:
    class_folders(root)
    expected = [IDS[30], IDS[2], IDS[700]]
    (tmp_path / "ids.txt").write_text("\n".join(expected) + "\n")
    assert list(load(f"{FEW},ids={tmp_path / 'ids.txt'}").ids) == expected
    assert list(load(f"{FEW},ids={tmp_path / 'ids.txt'},first=2").ids) == expected[:2]
    assert list(load(f"{FEW},first=4").ids) == IDS[:4]
    with pytest.raises(Misuse, match="`first` is 1 or more, got 0"):
        load(f"{FEW},first=0")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["n01440764/nowhere.JPEG"], "1 of the 1 images in .* are not in .*, `n01440764/nowhere.JPEG` first"),
        ([IDS[0], IDS[1], IDS[0]], f"the id `{IDS[0]}` appears twice"),
        ([""], "lists no images"),
    ],
)
def test_a_list_of_ids_that_does_not_fit_is_an_error(
    root: Path, tmp_path: Path, lines: list[str], message: str
) -> None:
    class_folders(root)
    (tmp_path / "ids.txt").write_text("\n".join(lines))
    with pytest.raises(HoldfastError, match=message):
        load(f"{FEW},ids={tmp_path / 'ids.txt'}")
    with pytest.raises(Misuse, match="no list of ids"):
        load(f"{FEW},ids={tmp_path / 'none.txt'}")


def test_nothing_there_says_how_to_get_it(root: Path) -> None:
    with pytest.raises(HoldfastError, match="`imagenet` is not on this machine") as error:
        load(FEW)
    assert "image-net.org" in str(error.value.hint)


def test_training_images_alone_are_a_wrong_layout(root: Path) -> None:
    write_tree(root / "imagenet" / "train", ["n01440764/a.JPEG"])
    with pytest.raises(HoldfastError, match="not laid out as `imagenet`: it holds train"):
        load(FEW)


def test_flat_images_without_a_list_are_an_error(root: Path) -> None:
    flat(root)
    with pytest.raises(HoldfastError, match="are in no class folders, and no list names their classes") as error:
        load(FEW)
    assert "val_map.txt" in str(error.value.hint)


def test_a_missing_class_is_named(root: Path) -> None:
    write_tree(root / "imagenet" / "val", [name for name in IDS if not name.startswith(("n01443537", "n01484850"))])
    with pytest.raises(HoldfastError, match="no images for 2 of the 1000 class folders of `imagenet`, `n01443537`"):
        load(FEW)


def test_a_folder_that_is_no_class_is_a_wrong_layout(root: Path) -> None:
    class_folders(root)
    write_tree(root / "imagenet" / "val", ["n99999999/a.JPEG"])
    with pytest.raises(HoldfastError, match=r"not laid out as `imagenet`: n99999999/a\.JPEG lies in no class folder"):
        load(FEW)
    write_tree(root / "imagenet" / "val", ["a.JPEG"])
    with pytest.raises(HoldfastError, match="class folders and other images"):
        load(FEW)


def test_a_truncated_image_is_a_failed_sample(root: Path) -> None:
    class_folders(root)
    file = root / "imagenet" / "val" / IDS[4]
    file.write_bytes(file.read_bytes()[:150])
    images = load(FEW).images([3, 4])
    assert list(images.failed) == [1]
    assert images.failed[1].startswith(f"{IDS[4]} cannot be read")


def test_a_file_twice_in_a_tar_is_a_duplicate_id(root: Path) -> None:
    write_tar(root / "imagenet" / "val.tar", [*IDS, IDS[7]])
    with pytest.raises(HoldfastError, match=f"two files of .*val.tar have the id `{IDS[7]}`"):
        load(FEW)


def test_a_tar_that_is_packed_or_cut_off_is_refused(root: Path) -> None:
    write_tar(root / "imagenet" / "val.tar", IDS[:3], mode="w:gz")
    with pytest.raises(HoldfastError, match=r"val\.tar is compressed") as error:
        load(FEW)
    assert "tar -xf" in str(error.value.hint)
    write_tar(root / "imagenet" / "val.tar", IDS)
    whole = (root / "imagenet" / "val.tar").read_bytes()
    (root / "imagenet" / "val.tar").write_bytes(whole[: len(whole) // 3 + 700])
    with pytest.raises(HoldfastError, match=r"not whole|no images for"):
        load(FEW)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.JPEG 1000\n", "says class 1000; classes count from 0 to 999"),
        ("a.JPEG tench\n", "says `tench` of a.JPEG, which is no class"),
        ("n01440764\nn01443537\n", "has 2 lines for 1 images"),
        ("17\n", r"its meta\.mat is not beside it"),
    ],
)
def test_a_list_that_does_not_fit_says_so(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "val.txt").write_text(text)
    with pytest.raises(HoldfastError, match=message):
        classes_in(tmp_path / "val.txt", ["a.JPEG"])


def test_a_list_that_leaves_images_out_is_an_error(root: Path) -> None:
    flat(root)
    (root / "imagenet" / "val.txt").write_text(f"{next(iter(VAL))} 7\n")
    with pytest.raises(HoldfastError, match="does not name 999 of 1000 images"):
        load(FEW)
