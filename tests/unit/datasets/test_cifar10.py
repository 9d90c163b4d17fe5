from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.types import Dataset
from holdfast.datasets import load

PER_BATCH = 6
IMAGES = np.random.default_rng(0).integers(0, 256, (6 * PER_BATCH, 3, 32, 32), dtype=np.uint8)
LABELS = (np.arange(6 * PER_BATCH) * 7 % 10).tolist()
BATCHES = {"test_batch": slice(0, PER_BATCH)} | {
    f"data_batch_{i}": slice(PER_BATCH * i, PER_BATCH * (i + 1)) for i in range(1, 6)
}


def write_pickles(root: Path) -> None:
    folder = root / "cifar10" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for name, rows in BATCHES.items():
        batch = {b"data": IMAGES[rows].reshape(PER_BATCH, -1), b"labels": LABELS[rows], b"batch_label": b"batch"}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))


def write_strips(root: Path) -> None:
    folder = root / "cifar10"
    folder.mkdir(parents=True)
    for name, rows in BATCHES.items():
        strip = IMAGES[rows].transpose(0, 2, 3, 1).reshape(PER_BATCH, 1024, 3)
        Image.fromarray(strip).save(folder / f"{name}.png")
    (folder / "test_lables.json").write_text(json.dumps(LABELS[:PER_BATCH]))
    (folder / "train_lables.json").write_text(json.dumps(LABELS[PER_BATCH:]))


def write_npz(root: Path) -> None:
    (root / "cifar10").mkdir(parents=True)
    images, labels = IMAGES.transpose(0, 2, 3, 1), np.array(LABELS)[:, None]
    names = {"x_test": images[:6], "y_test": labels[:6], "x_train": images[6:], "y_train": labels[6:]}
    np.savez(root / "cifar10" / "cifar10.npz", **names)


FORMS = [write_pickles, write_strips, write_npz]


@pytest.mark.parametrize("write", FORMS)
def test_every_form_gives_the_pixels_labels_and_ids_it_was_made_of(root: Path, write: Any) -> None:
    write(root)
    for split, rows in (("test", slice(0, 6)), ("train", slice(6, 36))):
        for _ in ("decoded", "from the cache"):
            dataset = load(f"cifar10:split={split}")
            assert isinstance(dataset, Dataset)
            assert np.array_equal(dataset.images(range(len(dataset.ids))).pixels.numpy(), IMAGES[rows])
            assert dataset.labels.tolist() == LABELS[rows]
            assert dataset.ids[3] == f"{split}-00003"
            assert dataset.card.classes[3] == "cat"


def test_every_form_has_the_same_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prints = set()
    for write in FORMS:
        monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / write.__name__))
        write(tmp_path / write.__name__)
        prints.add((load("cifar10").card.fingerprint, load("cifar10:split=train").card.fingerprint))
    assert len(prints) == 1


def test_nothing_here_names_the_path_and_the_command(root: Path) -> None:
    with pytest.raises(HoldfastError) as error:
        load("cifar10")
    assert str(root / "cifar10" / "cifar-10-batches-py" / "test_batch") in error.value.problem
    assert "holdfast data get cifar10" in str(error.value.hint)


def test_one_missing_training_batch_is_not_overlooked(root: Path) -> None:
    write_strips(root)
    (root / "cifar10" / "data_batch_4.png").unlink()
    assert len(load("cifar10").ids) == 6
    with pytest.raises(HoldfastError, match="not on this machine"):
        load("cifar10:split=train")


def test_another_split_is_misuse(root: Path) -> None:
    with pytest.raises(Misuse, match="one of test, train"):
        load("cifar10:split=validation")


def test_a_pickle_that_runs_code_is_refused_and_does_not_run(root: Path, tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "ran"),)

    write_pickles(root)
    (root / "cifar10" / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps({"data": Payload()}))
    with pytest.raises(HoldfastError, match="mkdir"):
        load("cifar10")
    assert not (tmp_path / "ran").exists()


def test_batches_of_another_shape_are_errors(root: Path) -> None:
    write_pickles(root)
    batch = root / "cifar10" / "cifar-10-batches-py" / "test_batch"
    for content, message in (
        ({"data": IMAGES[:2].reshape(2, -1)[:, :-1], "labels": [1, 2]}, "3072 per image"),
        ({"data": IMAGES[:2].reshape(2, -1), "labels": [1]}, "2 images and 1 labels"),
        ({"data": IMAGES[:2].reshape(2, -1), "labels": [1, 10]}, r"0…9, got 1…10"),
        ({"labels": [1, 10]}, "no `data`"),
    ):
        batch.write_bytes(pickle.dumps(content))
        with pytest.raises(HoldfastError, match=message):
            load("cifar10")


def test_a_damaged_strip_is_an_error_that_names_it(root: Path) -> None:
    write_strips(root)
    strip = root / "cifar10" / "test_batch.png"
    strip.write_bytes(strip.read_bytes()[:5000])
    with pytest.raises(HoldfastError, match=r"test_batch\.png is damaged"):
        load("cifar10")
    Image.new("RGB", (512, 6)).save(strip)
    with pytest.raises(HoldfastError, match="1024 pixels wide, got 512"):
        load("cifar10")


def test_a_changed_source_is_decoded_again_and_its_old_cache_goes(root: Path) -> None:
    write_strips(root)
    before = load("cifar10").card.fingerprint
    Image.fromarray(IMAGES[6:12].transpose(0, 2, 3, 1).reshape(6, 1024, 3)).save(root / "cifar10" / "test_batch.png")
    after = load("cifar10")
    assert after.card.fingerprint != before
    assert np.array_equal(after.images([0]).pixels[0].numpy(), IMAGES[6])
    assert len(list((root / "cifar10" / "decoded").iterdir())) == 2


def test_a_cache_that_cannot_be_written_is_no_failure(root: Path) -> None:
    write_strips(root)
    (root / "cifar10" / "decoded").write_text("in the way")
    assert len(load("cifar10").ids) == 6


def test_a_half_written_cache_is_not_believed(root: Path) -> None:
    write_strips(root)
    before = load("cifar10").card.fingerprint
    for file in (root / "cifar10" / "decoded").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    assert load("cifar10").card.fingerprint == before
