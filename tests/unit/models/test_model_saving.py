"""One file is a whole model: card in the header, atomic, checked; and the folder of bundled ones."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import registry
from holdfast.core.types import ModelCard
from holdfast.models import load, read_card, save_model, zoo
from holdfast.models.architectures import small_cnn

CARD = ModelCard(
    "tiny",
    "",
    classes=3,
    channels=1,
    size=20,
    trained_on="toys",
    threats=("pgd-linf:radius=0.1",),
    licence="MIT",
    notes="A tiny one.",
)
ARCHITECTURE = "small-cnn:classes=3,width=2"
IMAGES = torch.rand(2, 1, 20, 20, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def net() -> nn.Module:
    return small_cnn(classes=3, width=2)


@pytest.fixture
def saved(tmp_path: Path, net: nn.Module) -> Path:
    return save_model(tmp_path / "tiny.safetensors", net, CARD, architecture=ARCHITECTURE, mean=[0.3], std=[0.25])


def test_a_saved_model_loads_from_its_path_alone(saved: Path, net: nn.Module) -> None:
    model = load(f"file:{saved}")
    torch.testing.assert_close(model(IMAGES), net.eval()((IMAGES - 0.3) / 0.25))
    assert model.card.trained_on == "toys"
    assert model.card.threats == ("pgd-linf:radius=0.1",)
    assert model.card.source == f"file:{saved}"
    assert not model.was_training
    assert model(torch.rand(1, 1, 40, 40)).shape == (1, 3), "other sizes are brought to the card's"


def test_the_card_reads_back_with_digest_and_count(saved: Path) -> None:
    found, loaded = read_card(saved), load(f"file:{saved}").card
    assert found is not None
    assert (found.architecture, found.mean, found.std) == (ARCHITECTURE, (0.3,), (0.25,))
    assert (found.card.weights, found.card.parameters) == (loaded.weights, loaded.parameters)
    assert found.card.name == "tiny"


def test_saving_again_gives_the_same_bytes(saved: Path, net: nn.Module) -> None:
    again = save_model(
        saved.with_name("again.safetensors"), net, CARD, architecture=ARCHITECTURE, mean=[0.3], std=[0.25]
    )
    assert again.read_bytes() == saved.read_bytes()


def test_the_header_needs_neither_torch_nor_the_weights(saved: Path) -> None:
    folder = Path(sys.modules["holdfast.models.header"].__file__ or "")
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('header', {str(folder)!r})\n"
        "module = sys.modules['header'] = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        f"print(module.read_card({str(saved)!r}).card.name, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["tiny", "False"]


def test_words_in_the_text_win_over_the_card(saved: Path, net: nn.Module) -> None:
    model = load(f"file:{saved},mean=0.5,std=0.5")
    torch.testing.assert_close(model(IMAGES), net.eval()((IMAGES - 0.5) / 0.5))
    assert model.card.trained_on == "toys"
    assert model.card.weights != load(f"file:{saved}").card.weights


def test_what_would_not_load_is_not_saved(tmp_path: Path, net: nn.Module) -> None:
    path = tmp_path / "m.safetensors"
    with pytest.raises(Misuse, match="2 of another shape"):
        save_model(path, net, CARD, architecture="small-cnn:width=2")
    with pytest.raises(Misuse, match="bare network"):
        save_model(path, nn.Sequential(net), CARD, architecture=ARCHITECTURE)
    with pytest.raises(Misuse, match=r"\.safetensors"):
        save_model(tmp_path / "m.pt", net, CARD, architecture=ARCHITECTURE)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    saved: Path, net: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        save_model(saved, small_cnn(classes=3, width=2), CARD, architecture=ARCHITECTURE)
    assert saved.read_bytes() == before
    assert [file.name for file in saved.parent.iterdir()] == [saved.name]


def test_weights_that_are_not_those_of_the_card_are_refused(saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    content[-5] ^= 1
    saved.write_bytes(content)
    with pytest.raises(HoldfastError, match="not those its card was written for"):
        load(f"file:{saved}")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content[:-1], "its header speaks of"),
        (lambda content: content + b"x", "its header speaks of"),
        (lambda content: content[:4], "header cannot be read"),
        (lambda content: struct.pack("<Q", 1 << 60) + content[8:], "header cannot be read"),
        (lambda content: b"version https://git-lfs.github.com/spec/v1", "header cannot be read"),
    ],
)
def test_a_damaged_header_says_so(saved: Path, change: Any, words: str) -> None:
    saved.write_bytes(change(saved.read_bytes()))
    with pytest.raises(HoldfastError, match="is damaged") as caught:
        read_card(saved)
    assert words in caught.value.problem


def test_a_card_that_is_no_card_says_so_and_plain_weights_have_none(saved: Path) -> None:
    tensors = load_file(saved)
    for card in ("{", json.dumps({"name": "x", "classes": 3}), "[]"):
        save_file(tensors, saved, metadata={"card": card})
        with pytest.raises(HoldfastError, match=r"card in .* cannot be read"):
            read_card(saved)
    save_file(tensors, saved)
    assert read_card(saved) is None


@pytest.fixture
def registered(saved: Path) -> Iterator[tuple[str, ...]]:
    registry.entries("model")
    before = dict(registry.components["model"])
    (saved.parent / "broken.safetensors").write_bytes(b"cut")
    save_file({"a": torch.ones(1)}, saved.parent / "cardless.safetensors")
    yield zoo.register_folder(saved.parent)
    registry.components["model"] = before


def test_every_file_of_the_folder_is_a_model_by_its_stem(registered: tuple[str, ...]) -> None:
    assert registered == ("broken", "cardless", "tiny")
    assert load("tiny").card.source == "tiny"
    assert (
        registry.entry("model", "tiny").summary == "small-cnn trained on toys against pgd-linf:radius=0.1, 3 classes."
    )
    assert registry.entry("model", "tiny").doc.endswith("A tiny one.")
    assert registry.entry("model", "tiny").tags == ("zoo",)


def test_a_damaged_bundled_file_is_listed_and_only_fails_when_loaded(registered: tuple[str, ...]) -> None:
    assert "is damaged" in registry.entry("model", "broken").summary
    with pytest.raises(HoldfastError, match="is damaged"):
        load("broken")


def test_an_empty_folder_registers_nothing(tmp_path: Path) -> None:
    assert zoo.register_folder(tmp_path) == ()


def test_every_bundled_model_loads_and_classifies() -> None:
    for file in sorted(zoo.FOLDER.glob("*.safetensors")):
        model = load(file.stem)
        size = model.card.size or 32
        logits = model(torch.full((1, model.card.channels, size, size), 0.5))
        assert logits.shape == (1, model.card.classes)


ODD_FIELDS = [
    ("architecture", {"a": 1}),
    ("classes", "ten"),
    ("classes", -1),
    ("size", [32]),
    ("threats", [1]),
    ("name", None),
]


@pytest.mark.parametrize(("field", "value"), [*ODD_FIELDS, ("channels", 1 << 70), ("differentiable", "no")])
def test_a_card_with_a_field_of_another_kind_is_refused(field: str, value: object, saved: Path) -> None:
    content = saved.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    card = json.loads(header["__metadata__"]["card"]) | {field: value}
    header["__metadata__"]["card"] = json.dumps(card)
    text = json.dumps(header).encode()
    saved.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    with pytest.raises(HoldfastError, match="cannot be read"):
        load(f"file:{saved}")
