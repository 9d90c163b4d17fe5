from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from holdfast.core.errors import HoldfastError
from holdfast.core.types import Dataset
from holdfast.datasets import DEFAULT, load, mnist


def test_the_default_needs_no_download_and_has_200_of_each_class() -> None:
    dataset = load(DEFAULT)
    assert isinstance(dataset, Dataset)
    assert np.bincount(dataset.labels).tolist() == [200] * 10
    assert dataset.images(range(2000)).pixels.shape == (2000, 1, 28, 28)
    assert dataset.card.licence == "MIT"


def test_its_ids_rise_through_the_test_split_and_it_begins_with_the_published_labels() -> None:
    dataset = load(DEFAULT)
    assert list(dataset.ids) == sorted(set(dataset.ids))
    assert dataset.ids[0] == "test-00000"
    assert dataset.labels[:10].tolist() == [9, 2, 1, 1, 6, 1, 4, 6, 5, 7]  # the first of Fashion-MNIST's test labels


def test_it_ships_small_with_its_licence() -> None:
    folder = Path(mnist.__file__).parent / "bundled"
    assert (folder / mnist.FILE.name).stat().st_size < 1_500_000
    assert "MIT License" in (folder / "LICENSE.txt").read_text(encoding="utf-8")


def test_a_damaged_copy_is_refused(root: Path) -> None:
    (root / DEFAULT).mkdir(parents=True)
    (root / DEFAULT / mnist.FILE.name).write_bytes(b"not it")
    with pytest.raises(HoldfastError, match="missing or damaged"):
        load(DEFAULT)
