"""Rows belong to files as they were read: other content under the same names, sizes and times is another run."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from holdfast.core.errors import HoldfastWarning
from holdfast.engine.evaluate import Outcome, evaluate
from holdfast.engine.watch import Watcher
from holdfast.models import load
from holdfast.models.weights import architecture
from holdfast.store import Store

N = 40


class Notes(Watcher):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture
def model(tmp_path: Path) -> str:
    torch.manual_seed(0)
    torch.save(architecture("resnet20-cifar").net.state_dict(), tmp_path / "net.pt")
    return f"file:{tmp_path}/net.pt,architecture=resnet20-cifar"


def bitmaps(folder: Path, seed: int) -> Path:
    """Bitmaps of one size in bytes, all with one time."""
    draws = np.random.default_rng(seed)
    for i in range(N):
        path = folder / f"c{i % 10}" / f"{i:03}.bmp"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draws.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(path)
        os.utime(path, (1e9, 1e9))
    return folder


def run(model: str, scenario: str, store: Store, watcher: Watcher | None = None) -> Outcome:
    (outcome,) = evaluate(model, scenario, store=store, pictures=0, watcher=watcher or Watcher())
    assert outcome.rows is not None, outcome.error
    return outcome


def test_files_that_hold_something_else_make_another_run(model: str, store: Store, tmp_path: Path) -> None:
    data = f"folder:{bitmaps(tmp_path / 'birds', 0)}"
    first = run(model, data, store)
    assert not run(model, data, store).fresh
    bitmaps(tmp_path / "birds", 1)
    heard = Notes()
    other = run(model, data, store, heard)
    assert other.fresh
    assert "hold something else" in heard.notes[0]
    assert not run(model, data, store).fresh
    bitmaps(tmp_path / "birds", 0)
    again = run(model, data, store)
    assert not again.fresh
    assert again.rows.digest == first.rows.digest  # type: ignore[union-attr]
    assert len(store.footers()) == 2, "nothing is overwritten"


def test_one_changed_file_of_a_small_set_is_seen(model: str, store: Store, tmp_path: Path) -> None:
    data = f"folder:{bitmaps(tmp_path / 'birds', 0)}"
    run(model, data, store)
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(tmp_path / "birds" / "c3" / "013.bmp")
    assert run(model, data, store).fresh


@pytest.mark.parametrize("built", ["subsample:({}),count=20", "mix:[{},{}-too]", "{},labels=none"])
def test_what_is_built_of_files_is_known_by_them(built: str, model: str, store: Store, tmp_path: Path) -> None:
    data = f"folder:{bitmaps(tmp_path / 'birds', 0)}"
    bitmaps(tmp_path / "birds-too", 7)
    scenario = built.format(data, data)
    run(model, scenario, store)
    bitmaps(tmp_path / "birds", 1)
    assert run(model, scenario, store).fresh


def test_parts_of_a_run_are_not_joined_with_those_of_other_files(model: str, store: Store, tmp_path: Path) -> None:
    data = f"folder:{bitmaps(tmp_path / 'birds', 0)}"
    (few,) = evaluate(model, data, store=store, samples=20, pictures=0, watcher=Watcher())
    assert few.rows is not None
    bitmaps(tmp_path / "birds", 1)
    whole, alone = run(model, data, store).rows, run(model, data, Store(f"{store.url}-other")).rows
    assert whole is not None
    assert alone is not None
    assert (whole.predictions == alone.predictions).all()


ARCHITECTURE = """
from torch import nn
from holdfast.core.registry import register
class Edited(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3072, 10)
    def forward(self, images):
        return self.head(images.flatten(1)) * {}
@register("architecture", "edited-net")
def edited(*, classes: int = 10) -> nn.Module:
    return Edited()
"""


def test_the_code_of_an_architecture_that_was_edited_makes_another_run(store: Store, tmp_path: Path) -> None:
    import subprocess
    import sys

    torch.manual_seed(0)
    torch.save({"head.weight": torch.randn(10, 3072), "head.bias": torch.zeros(10)}, tmp_path / "net.pt")
    data = bitmaps(tmp_path / "birds", 0)
    command = [sys.executable, "-m", "holdfast", "evaluate", f"file:{tmp_path}/net.pt,architecture=edited-net,size=32"]
    predictions = []
    for factor in ("1", "(-1)"):
        plug_in = tmp_path / f"plug{len(predictions)}"
        plug_in.mkdir()
        (plug_in / "edited.py").write_text(ARCHITECTURE.format(factor))
        environment = os.environ | {"HOLDFAST_PLUGINS": str(plug_in), "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run(
            [*command, "--scenario", f"folder:{data}", "--store", store.url],
            env=environment,
            check=True,
            capture_output=True,
        )
        predictions = [store.read(key).predictions.tolist() for key in Store(store.url).footers()]
    assert len(predictions) == 2, "one run for each behaviour"
    assert predictions[0] != predictions[1]


MODEL = """
from torch import nn
def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, {}))
"""


def test_a_module_edited_after_its_import_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import sys

    monkeypatch.chdir(tmp_path)
    ref = "python:edited_model:make,classes=10,channels=1,size=28"
    (tmp_path / "edited_model.py").write_text(MODEL.format(10))
    load(ref)
    load(ref)
    (tmp_path / "edited_model.py").write_text(MODEL.format(10) + "# edited\n")
    with pytest.warns(HoldfastWarning, match=r"edited_model\.py was edited after Python had imported it"):
        load(ref)
    importlib.reload(sys.modules["edited_model"])
    load(ref)


def test_a_file_whose_card_names_another_network_makes_another_run(store: Store, tmp_path: Path) -> None:
    from holdfast.core.types import ModelCard
    from holdfast.models import save_model

    torch.manual_seed(0)
    refs = {heads: f"vit-tiny:width=24,depth=2,heads={heads}" for heads in (2, 3)}
    net, path = architecture(refs[2]).net, tmp_path / "net.safetensors"
    card = ModelCard(name="net", source="", classes=10, channels=3, size=32)
    data = f"folder:{bitmaps(tmp_path / 'birds', 0)}"
    logits = []
    for heads in (2, 2, 3, 3, 2):
        save_model(path, net, card, architecture=refs[heads])
        outcome = run(f"file:{path}", data, store)
        logits.append((outcome.fresh, outcome.rows.digest))  # type: ignore[union-attr]
    assert [fresh for fresh, _ in logits] == [True, False, True, False, False]
    assert logits[0][1] == logits[4][1] != logits[2][1] == logits[3][1]
