"""RobustBench's checkpoints: files in its public layout load, and what is missing is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.models import load
from holdfast.models import robustbench_zoo as source
from holdfast.models.robustbench_zoo import ZooEntry, zoo
from holdfast.models.weights import architecture

SMALL = "wide-resnet:depth=10,width=1"


def random_net(ref: str) -> nn.Module:
    torch.manual_seed(0)
    net = architecture(ref).net
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)  # type: ignore[union-attr]
            module.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr]
    return net.eval()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    entries = {
        ("cifar10", "Linf", "Carmon2019Unlabeled"): ZooEntry(SMALL, None, None, None),
        ("cifar10", "Linf", "Rice2020Overfitting"): ZooEntry(SMALL, (0.4, 0.5, 0.6), (0.2, 0.25, 0.3), None),
        ("cifar10", "corruptions", "Kireev2021Effectiveness_RLAT"): ZooEntry(SMALL, (0.5,) * 3, (0.5,) * 3, None),
    }
    monkeypatch.setattr(source, "zoo", lambda: entries)
    return tmp_path


def saved(folder: Path, threat: str, name: str, content: object) -> None:
    path = folder / "cifar10" / threat / f"{name}.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path)


def logits(folder: Path, name: str, images: Tensor, threat: str = "Linf") -> Tensor:
    with torch.no_grad():
        return load(f"robustbench:{name},threat={threat},folder={folder}")(images)


def test_prefixes_and_the_unused_block_are_left_out(folder: Path) -> None:
    net, images = random_net(SMALL), torch.rand(4, 3, 32, 32)
    state = {f"module.{key}": value for key, value in net.state_dict().items()}
    state |= {f"module.sub_block1.{key}": value for key, value in net.block1.state_dict().items()}  # type: ignore[operator, union-attr]
    saved(folder, "Linf", "Carmon2019Unlabeled", {"state_dict": state, "epoch": 76})
    assert torch.equal(logits(folder, "Carmon2019Unlabeled", images), net(images).detach())


def test_the_zoos_normalisation_is_applied_and_that_of_a_checkpoint_before_it(folder: Path) -> None:
    net, images = random_net(SMALL), torch.rand(4, 3, 32, 32)
    mean, std = torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1), torch.tensor([0.2, 0.25, 0.3]).view(3, 1, 1)
    saved(folder, "Linf", "Rice2020Overfitting", net.state_dict())
    torch.testing.assert_close(logits(folder, "Rice2020Overfitting", images), net((images - mean) / std).detach())
    own = {"mu": torch.full((1, 3, 1, 1), 0.1), "sigma": torch.full((1, 3, 1, 1), 0.9)}
    saved(folder, "Linf", "Rice2020Overfitting", dict(net.state_dict()) | own)
    torch.testing.assert_close(logits(folder, "Rice2020Overfitting", images), net((images - 0.1) / 0.9).detach())


def test_of_a_last_and_a_best_state_the_last_is_taken(folder: Path) -> None:
    net, images = random_net(SMALL), torch.rand(2, 3, 32, 32)
    zeros = {key: torch.zeros_like(value) for key, value in net.state_dict().items()}
    saved(folder, "corruptions", "Kireev2021Effectiveness_RLAT", {"best": zeros, "last": net.state_dict()})
    expected = net((images - 0.5) / 0.5).detach()
    torch.testing.assert_close(logits(folder, "Kireev2021Effectiveness_RLAT", images, "corruptions"), expected)


def test_a_missing_file_is_named_with_what_to_do(folder: Path) -> None:
    with pytest.raises(HoldfastError, match=r"cifar10/Linf/Carmon2019Unlabeled\.pt") as raised:
        load(f"robustbench:Carmon2019Unlabeled,folder={folder}")
    assert "folder=PATH" in str(raised.value.hint)


def test_a_package_that_does_not_import_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a torchvision that was built for another torch makes it."""
    (tmp_path / "fake" / "robustbench").mkdir(parents=True)
    (tmp_path / "fake" / "robustbench" / "__init__.py").write_text("")
    (tmp_path / "fake" / "robustbench" / "utils.py").write_text("raise RuntimeError('nms does not exist')")
    monkeypatch.syspath_prepend(str(tmp_path / "fake"))
    try:
        with pytest.raises(HoldfastError, match="cannot be imported: nms does not exist"):
            load(f"robustbench:Carmon2019Unlabeled,folder={folder}")
    finally:
        sys.modules.pop("robustbench", None)


def test_an_unknown_name_is_answered_with_the_closest(folder: Path) -> None:
    with pytest.raises(Misuse, match="Carmon2019Unlabelled") as raised:
        load(f"robustbench:Carmon2019Unlabelled,folder={folder}")
    assert "Carmon2019Unlabeled" in str(raised.value.hint)


def test_weights_of_another_network_are_refused(folder: Path) -> None:
    saved(folder, "Linf", "Carmon2019Unlabeled", random_net("wide-resnet:depth=16,width=1").state_dict())
    with pytest.raises(HoldfastError, match="not in the architecture"):
        load(f"robustbench:Carmon2019Unlabeled,folder={folder}")


def test_every_network_of_the_list_can_be_built() -> None:
    refs = {entry.architecture for (dataset, _, _), entry in zoo().items() if dataset != "imagenet"}
    assert len(zoo()) > 120
    for ref in refs:
        with torch.device("meta"):
            assert architecture(ref).net.state_dict()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for RobustBench's package: one model, one that cannot be downloaded."""
    (tmp_path / "fake" / "robustbench").mkdir(parents=True)
    (tmp_path / "fake" / "robustbench" / "__init__.py").write_text("")
    (tmp_path / "fake" / "robustbench" / "utils.py").write_text(
        "import torch\n"
        "def load_model(name, model_dir, dataset, threat_model):\n"
        "    if name == 'Offline2024': raise OSError('no network')\n"
        "    assert (dataset, threat_model) == ('cifar10', 'L2'), (dataset, threat_model)\n"
        "    net = {'Ours2024': torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))}[name]\n"
        "    torch.nn.init.constant_(net[1].weight, len(model_dir) and 1.0)\n"
        "    return net\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "fake"))
    for name in ("robustbench", "robustbench.utils"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("package")
def test_a_network_not_defined_here_is_loaded_by_the_package(folder: Path) -> None:
    model = load(f"robustbench:Ours2024,threat=L2,folder={folder}")
    images = torch.rand(2, 3, 32, 32)
    expected = images.flatten(1).sum(1, keepdim=True) + model.net[1].bias  # type: ignore[index]
    torch.testing.assert_close(model(images), expected.expand(-1, 10))
    assert (model.card.classes, model.card.trained_on) == (10, "cifar10")


@pytest.mark.usefixtures("package")
def test_what_the_package_does_not_have_or_cannot_download_is_said(folder: Path) -> None:
    with pytest.raises(Misuse, match="has no cifar10 model 'None2024' for L2"):
        load(f"robustbench:None2024,threat=L2,folder={folder}")
    with pytest.raises(HoldfastError, match="cannot load `Offline2024`: no network") as raised:
        load(f"robustbench:Offline2024,threat=L2,folder={folder}")
    assert "Offline2024.pt" in str(raised.value.hint)


def test_every_listed_model_names_where_its_checkpoint_is() -> None:
    assert all(entry.download.startswith("https://") for entry in zoo().values())
