"""The quicker version of a model: what is asked of it, and what happens where there can be none."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

from holdfast.models import TorchClassifier, wrap
from holdfast.models.rough import COMPILING_PAYS, Rough, UnlikeError, folded, roughened, settled_speed


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.head = nn.Linear(4 * 36, 3)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.conv(images).flatten(1))


def made(net: nn.Module | None = None) -> TorchClassifier:
    torch.manual_seed(0)
    return wrap(net or Net(), name="net", classes=3, channels=1)


@pytest.fixture(autouse=True)
def quiet() -> None:
    warnings.filterwarnings("ignore", message=".*autocast.*")


def test_auto_compiles_only_where_so_many_passes_pay_for_it() -> None:
    assert settled_speed("auto", COMPILING_PAYS) == "compile"
    assert settled_speed("auto", COMPILING_PAYS - 1) == "graph"
    assert settled_speed("exact", COMPILING_PAYS) == "exact"


def test_it_answers_like_the_model_and_leaves_the_model_alone() -> None:
    model, images = made(), torch.rand(8, 1, 8, 8)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rough = Rough(model, images, width=8, speed="eager")
    torch.testing.assert_close(rough(images), model(images), rtol=0.05, atol=0.05)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not rough.records


class Normed(Net):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(4)
        for part in (self.norm.running_mean, self.norm.running_var, self.norm.weight.data):
            assert part is not None
            nn.init.uniform_(part, 0.5, 2.0)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.norm(self.conv(images)).relu().flatten(1))


class Winding(Normed):
    """Takes a turn that depends on a value, which cannot be traced."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images if images.sum() > 0 else -images)


def test_norms_are_folded_away_without_a_change_in_the_answers() -> None:
    net, images = Normed().eval(), torch.rand(8, 1, 8, 8)
    without = folded(net)
    assert not any(isinstance(part, nn.BatchNorm2d) for part in without.modules())
    assert any(isinstance(part, nn.BatchNorm2d) for part in net.modules()), "the model itself is left alone"
    torch.testing.assert_close(without(images), net(images))
    assert not any(part.requires_grad for part in without.parameters())


def test_a_network_that_cannot_be_traced_keeps_its_norms() -> None:
    net = Winding().eval()
    assert folded(net) is net


class Fickle(Net):
    """Answers otherwise when its copy is asked."""

    def __deepcopy__(self, memo: dict[int, object]) -> nn.Module:
        return Negated(self)


class Negated(nn.Module):
    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = [net]

    def forward(self, images: Tensor) -> Tensor:
        return -Net.forward(self.net[0], images)


def test_a_version_unlike_the_model_is_not_used() -> None:
    model, images, said = made(Fickle()), torch.rand(8, 1, 8, 8), []
    with pytest.raises(UnlikeError):
        Rough(model, images, width=8, speed="eager")
    assert roughened(model, images, width=8, speed="eager", said=said.append) is None
    assert "gradients stay in float32" in said[0]


class Uncopied(Net):
    def __deepcopy__(self, memo: dict[int, object]) -> nn.Module:
        raise RuntimeError("no copies of this one")


def test_a_model_that_cannot_be_copied_is_used_as_it_is_and_the_reason_is_told() -> None:
    said: list[str] = []
    assert roughened(made(Uncopied()), torch.rand(8, 1, 8, 8), width=8, speed="graph", said=said.append) is None
    assert any("no copies of this one" in text for text in said)
