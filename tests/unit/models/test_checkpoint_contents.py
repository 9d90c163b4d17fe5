"""What checkpoints hold beside tensors: numbers, settings and paths are read; what could run code is refused."""

from __future__ import annotations

import argparse
import collections
import functools
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.core.errors import HoldfastError
from holdfast.models import load
from holdfast.models.weights import architecture, read_state

STATE = architecture("small-cnn").net.state_dict()
BESIDE = {
    "numpy-float": {"best": np.float64(0.9)},
    "numpy-float32": {"best": np.float32(0.9)},
    "numpy-int": {"epoch": np.int64(3)},
    "numpy-bool": {"done": np.bool_(True)},
    "numpy-array": {"history": np.arange(6.0).reshape(2, 3)},
    "numpy-words": {"classes": np.array(["cat", "dog"])},
    "numpy-objects": {"history": np.array([None, 1.5, "a"], dtype=object)},
    "namespace": {"args": argparse.Namespace(lr=0.1, name="a", steps=[1, 2], best=np.float64(1.0))},
    "path": {"file": Path("runs/1")},
    "ordered": {"meta": collections.OrderedDict(a=1)},
}


@pytest.mark.parametrize("beside", BESIDE.values(), ids=BESIDE)
def test_numbers_settings_and_paths_beside_the_state_are_read(beside: dict[str, Any], tmp_path: Path) -> None:
    torch.save({"state_dict": STATE, **beside}, tmp_path / "w.pth")
    state = read_state(tmp_path / "w.pth")
    assert all(torch.equal(state[name], tensor) for name, tensor in STATE.items())


def test_a_name_of_older_numpy_is_read(tmp_path: Path) -> None:
    """numpy 1 pickled its scalars as numpy.core.multiarray.scalar."""
    torch.save({"state_dict": STATE, "best": np.float64(0.9)}, tmp_path / "w.pt", _use_new_zipfile_serialization=False)
    content = (tmp_path / "w.pt").read_bytes()
    assert b"numpy._core.multiarray\nscalar" in content
    (tmp_path / "w.pt").write_bytes(content.replace(b"numpy._core.multiarray\n", b"numpy.core.multiarray\n"))
    assert read_state(tmp_path / "w.pt").keys() == STATE.keys()


class Armed:
    def __init__(self, call: Any, *given: Any) -> None:
        self.call, self.given = call, given

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call, self.given


@pytest.mark.parametrize(
    "call",
    [Path.touch, functools.partial, getattr, eval, pickle.loads, np.load, np.fromfile],
    ids=lambda call: call.__name__,
)
def test_functions_are_refused_and_never_called(call: Any, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    torch.save({"state_dict": STATE, "extra": Armed(call, mark)}, tmp_path / "w.pt")
    with pytest.raises(HoldfastError, match="never runs"):
        read_state(tmp_path / "w.pt")
    assert not mark.exists()


def test_an_object_of_another_class_is_refused_by_name(tmp_path: Path) -> None:
    torch.save({"state_dict": STATE, "config": SimpleNamespace(lr=0.1)}, tmp_path / "w.pt")
    with pytest.raises(HoldfastError, match=r"types\.SimpleNamespace"):
        load(f"file:{tmp_path}/w.pt,architecture=small-cnn")


def test_the_list_of_allowed_names_is_left_as_it_was(tmp_path: Path) -> None:
    before = set(torch.serialization.get_safe_globals())
    torch.save({"state_dict": STATE, "args": argparse.Namespace(lr=0.1)}, tmp_path / "w.pt")
    read_state(tmp_path / "w.pt")
    assert set(torch.serialization.get_safe_globals()) == before
