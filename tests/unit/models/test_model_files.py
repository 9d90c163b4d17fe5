"""Weights on disk: what is read, what is refused, and that nothing in them runs."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.models import load
from holdfast.models.architectures import small_cnn

IMAGES = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def net() -> nn.Module:
    return small_cnn(width=2, classes=5).eval()


ARCHITECTURE = "architecture=(small-cnn:width=2,classes=5)"


@pytest.mark.parametrize(
    "wrapping",
    ["plain", "state_dict", "model", "module.", "_orig_mod.", "model._orig_mod.", "ema", "safetensors", "legacy"],
)
def test_every_usual_layout_of_weights_loads(in_folder: Path, net: nn.Module, wrapping: str) -> None:
    state: dict[str, Tensor] = net.state_dict()
    content: object = state
    if wrapping in ("state_dict", "model", "ema"):
        content = {"epoch": 3, wrapping: state}
    elif wrapping.endswith("."):
        content = {"state_dict": {wrapping + name: tensor for name, tensor in state.items()}}
    name = "w.safetensors" if wrapping == "safetensors" else "w.pt"
    if wrapping == "safetensors":
        save_file(state, name)
    else:
        torch.save(content, name, _use_new_zipfile_serialization=wrapping != "legacy")
    model = load(f"file:{name},{ARCHITECTURE}")
    assert torch.equal(model(IMAGES), net(IMAGES))
    assert (model.card.name, model.card.classes, model.card.channels) == ("w", 5, 1)
    assert not model.was_training


def test_classes_and_normalisation_come_from_the_text(in_folder: Path, net: nn.Module) -> None:
    torch.save(net.state_dict(), "w.pth")
    model = load("file:w.pth,architecture=(small-cnn:width=2),classes=5,mean=0.25,std=0.5")
    torch.testing.assert_close(model(IMAGES), net((IMAGES - 0.25) / 0.5))
    with pytest.raises(Misuse, match="has 5 classes, and classes=6"):
        load(f"file:w.pth,{ARCHITECTURE},classes=6")


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("form", ["zip", "legacy", "pickle"])
def test_a_payload_in_a_checkpoint_does_not_run(
    in_folder: Path, net: nn.Module, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = in_folder / "the payload ran"
    content = {"state_dict": net.state_dict(), "extra": Payload(mark)}
    if form == "pickle":
        Path("w.pt").write_bytes(pickle.dumps(content))
    else:
        torch.save(content, "w.pt", _use_new_zipfile_serialization=form == "zip")
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(HoldfastError, match="code from a checkpoint never runs"):
        load(f"file:w.pt,{ARCHITECTURE}")
    assert not mark.exists()
    torch.load("w.pt", weights_only=False) if form != "pickle" else pickle.loads(Path("w.pt").read_bytes())
    assert mark.exists(), "the payload is live, so its silence above means something"


def test_a_whole_pickled_module_is_refused_with_its_name(in_folder: Path) -> None:
    torch.save(nn.Linear(2, 2), "w.pt")
    with pytest.raises(HoldfastError, match=r"torch\.nn\.modules\.linear\.Linear") as caught:
        load(f"file:w.pt,{ARCHITECTURE}")
    assert "state_dict" in str(caught.value.hint)


def test_a_torchscript_archive_is_refused(in_folder: Path, recwarn: pytest.WarningsRecorder) -> None:
    torch.jit.trace(nn.Linear(2, 2), torch.rand(1, 2)).save("w.pt")
    with pytest.raises(HoldfastError, match="TorchScript"):
        load(f"file:w.pt,{ARCHITECTURE}")


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
@pytest.mark.parametrize("kept", [0.0, 0.001, 0.5, 0.99])
def test_a_file_cut_short_is_called_damaged(in_folder: Path, net: nn.Module, name: str, kept: float) -> None:
    save_file(net.state_dict(), name) if name.endswith("safetensors") else torch.save(net.state_dict(), name)
    whole = Path(name).read_bytes()
    Path(name).write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(HoldfastError, match="is damaged") as caught:
        load(f"file:{name},{ARCHITECTURE}")
    assert "again" in str(caught.value.hint)


def test_weights_of_another_network_are_listed_by_name_and_shape(in_folder: Path, net: nn.Module) -> None:
    state = net.state_dict()
    state["extra.weight"] = torch.ones(1)
    del state["stem.bias"]
    torch.save(state, "w.pt")
    with pytest.raises(HoldfastError) as caught:
        load("file:w.pt,architecture=(small-cnn:width=2)")
    problem = caught.value.problem
    assert "1 missing: stem.bias" in problem
    assert "1 not in the architecture: extra.weight" in problem
    assert "2 of another shape: head.weight (5, 32) for (10, 32), head.bias (5,) for (10,)" in problem


def test_long_lists_of_names_are_cut(in_folder: Path, net: nn.Module) -> None:
    torch.save(net.state_dict(), "w.pt")
    with pytest.raises(HoldfastError, match=r"\d\d missing: conv1\.weight, bn1\.weight, bn1\.bias, …"):
        load("file:w.pt,architecture=resnet18-cifar")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("file:absent.pt,architecture=small-cnn", "there is no weights file `absent.pt`"),
        ("file:absent.safetensors", "there is no weights file `absent.safetensors`"),
        ("file:w.pt", "no card that says which network it is"),
        ("file:w.txt,architecture=small-cnn", "`w.txt` is no weights file"),
        ("file:w.pt,architecture=small-cn", "no architecture named `small-cn`"),
    ],
)
def test_misuse_is_named(in_folder: Path, net: nn.Module, text: str, problem: str) -> None:
    torch.save(net.state_dict(), "w.pt")
    Path("w.txt").write_text("weights?")
    with pytest.raises(Misuse) as caught:
        load(text)
    assert problem in caught.value.problem
    assert caught.value.hint


def test_a_file_without_a_state_dict_says_what_it_holds(in_folder: Path) -> None:
    torch.save({"epoch": 3, "optimiser": {"lr": 0.1}}, "w.pt")
    with pytest.raises(HoldfastError, match="holds no state dict, but the keys epoch, optimiser"):
        load(f"file:w.pt,{ARCHITECTURE}")


def test_a_network_among_other_tensors_is_found(in_folder: Path, net: nn.Module) -> None:
    """As Lightning saves a module that also holds a loss."""
    state = {f"model.{name}": tensor for name, tensor in net.state_dict().items()}
    torch.save({"state_dict": state | {"loss.weight": torch.ones(3)}}, "w.ckpt")
    assert torch.equal(load(f"file:w.ckpt,{ARCHITECTURE}")(IMAGES), net(IMAGES))


@pytest.mark.parametrize("prefixes", [("", "ema."), ("model.", "model_ema.")])
def test_a_network_that_is_there_twice_is_no_guess(in_folder: Path, net: nn.Module, prefixes: tuple[str, str]) -> None:
    state = {prefix + name: tensor for prefix in prefixes for name, tensor in net.state_dict().items()}
    torch.save(state, "w.pt")
    with pytest.raises(HoldfastError, match="holds the weights of this network 2 times") as caught:
        load(f"file:w.pt,{ARCHITECTURE}")
    assert all(f"`{prefix}" in caught.value.problem for prefix in prefixes)
    torch.save({"averaged": net.state_dict(), "raw": net.state_dict()}, "w.pt")
    with pytest.raises(HoldfastError, match="holds several state dicts: averaged, raw"):
        load(f"file:w.pt,{ARCHITECTURE}")


def test_a_mean_for_other_channels_is_refused(in_folder: Path, net: nn.Module) -> None:
    torch.save(net.state_dict(), "w.pt")
    with pytest.raises(Misuse, match="takes 1 channels, `mean` has 2 numbers"):
        load(f"file:w.pt,{ARCHITECTURE},mean=[0.5,0.5],std=[1,1]")
