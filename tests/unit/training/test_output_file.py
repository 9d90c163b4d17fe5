"""The model file of a training: looked at before the first step, and one training at a time writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.training.output_file import InUse, reserved


@pytest.mark.parametrize(
    ("name", "kind", "problem"),
    [
        ("folder.safetensors", Misuse, "is a folder"),
        ("model.pt", Misuse, "a model file ends in .safetensors"),
        ("file/m.safetensors", HoldfastError, "cannot be written: File exists"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path: Path, name: str, kind: type[HoldfastError], problem: str) -> None:
    (tmp_path / "folder.safetensors").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(kind, match=problem) as caught, reserved(tmp_path / name):
        pass
    assert type(caught.value) is kind


def test_one_training_at_a_time_writes_a_file(tmp_path: Path) -> None:
    out = tmp_path / "new" / "m.safetensors"
    with reserved(out):
        with pytest.raises(InUse, match="another training is writing"), reserved(out):
            pass
        with reserved(tmp_path / "new" / "other.safetensors"):
            pass
    with reserved(out):
        pass
    assert list(out.parent.iterdir()) == []


def test_what_a_killed_training_had_half_written_is_removed(tmp_path: Path) -> None:
    ours = {".m.safetensors.abcd1234", ".m.safetensors.checkpoint.abc_1234", ".m-epoch001.safetensors.abcd1234"}
    others = {"m.safetensors.checkpoint", ".m.safetensors.checkpoint", "m.safetensors", ".n.safetensors.abcd1234"}
    for name in ours | others:
        (tmp_path / name).touch()
    with reserved(tmp_path / "m.safetensors"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == others
