"""What is not on this machine: told by dataset, with the way to get it, without reading an image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from holdfast.core.errors import Absent
from holdfast.core.suites import load_suite, suites
from holdfast.engine.diagnosis import absences


@pytest.fixture(autouse=True)
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", suites())
def test_every_dataset_of_a_suite_is_bundled_or_says_how_to_get_it(name: str) -> None:
    suite = load_suite(name)
    found = absences(suite.scenarios)
    needed = {text.split("+")[0] for text in suite.scenarios}
    assert set(found) == needed - {"fashion-mnist-2k"}
    for missing in found.values():
        assert isinstance(missing, Absent)
        assert "not on this machine" in missing.problem
        assert missing.hint


def test_built_datasets_lack_what_they_are_built_of() -> None:
    texts = ["diagvib:(mnist),env=test3", "mix:[(fashion-mnist-2k),(cifar10)]", "subsample:(fashion-mnist-2k),count=3"]
    found = absences([f"{text}+fog" for text in texts])
    assert list(found) == texts[:2]
    assert "`cifar10`" in found[texts[1]].problem


def test_one_variant_does_not_stand_for_another(nothing_here: Path) -> None:
    for i in range(1000):
        folder = nothing_here / "imagenet-v2" / "imagenetv2-matched-frequency-format-val" / str(i)
        folder.mkdir(parents=True)
        (folder / "a.jpeg").touch()
    here, absent = "imagenet-v2:variant=matched-frequency", "imagenet-v2:variant=top-images"
    found = absences([here, absent, f"{absent}+fog"])
    assert list(found) == [absent]
    assert "imagenetv2-top-images" in found[absent].problem


def test_damage_is_no_absence(nothing_here: Path) -> None:
    (nothing_here / "cifar10").mkdir()
    np.savez(nothing_here / "cifar10" / "cifar10.npz", nothing=np.zeros(1))
    assert absences(["cifar10"]) == {}


def test_what_is_ones_own_is_not_looked_for() -> None:
    assert absences(["folder:/nowhere,size=32", "scenes", "fashion-mnist-2k+fog"]) == {}
