"""The quicker version of a model: what is asked of it, and what happens where there can be none."""

from __future__ import annotations

import copy
import io
import warnings

import pytest
import torch
from torch import Tensor, nn

from holdfast.models import TorchClassifier, wrap
from holdfast.models.fast import FastModel, UnlikeError, fast_version, folded, in_float16
from holdfast.models.weights import architecture


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


def test_it_answers_like_the_model_and_leaves_the_model_alone() -> None:
    model, images = made(Normed()), torch.rand(8, 1, 8, 8)
    assert model.net.training, "its norms would follow the images"
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fast = FastModel(model, images, width=8, speed="eager")
    torch.testing.assert_close(fast(images), model(images), rtol=0.05, atol=0.05)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not fast.records


class Normed(Net):
    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__()
        self.norm = nn.BatchNorm2d(4)
        for part in (self.norm.running_mean, self.norm.running_var, self.norm.weight.data):
            assert part is not None
            nn.init.uniform_(part, 0.5, 2.0)
        nn.init.constant_(self.norm.bias, 10.0)  # so that gradients pass

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


@pytest.mark.parametrize(
    "text",
    [
        *("convnet", "convnext", "preact-resnet-cifar", "preact-resnet-dm", "resnet18-cifar", "resnet20-cifar"),
        *("resnet-imagenet:depth=18", "small-cnn", "vit-tiny", "wide-resnet:depth=10,width=1"),
        *("wide-resnet-dm:depth=10,width=1", "xcit:depth=2"),
    ],
)
def test_every_architecture_can_be_handed_to_the_process_that_compiles(text: str) -> None:
    net = architecture(text).net.eval()
    handed = io.BytesIO()
    torch.save(in_float16(folded(copy.deepcopy(net)), ""), handed)
    handed.seek(0)
    assert isinstance(torch.load(handed, weights_only=False), nn.Module)


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
    model, images, reasons = made(Fickle()), torch.rand(8, 1, 8, 8), []
    with pytest.raises(UnlikeError):
        FastModel(model, images, width=8, speed="eager")
    assert fast_version(model, images, width=8, speed="eager", report=reasons.append) is None
    assert "gradients stay in float32" in reasons[0]


class Uncopied(Net):
    def __deepcopy__(self, memo: dict[int, object]) -> nn.Module:
        raise RuntimeError("no copies of this one")


def test_a_model_that_cannot_be_copied_is_used_as_it_is_and_the_reason_is_told() -> None:
    reasons: list[str] = []
    assert fast_version(made(Uncopied()), torch.rand(8, 1, 8, 8), width=8, speed="graph", report=reasons.append) is None
    assert any("no copies of this one" in text for text in reasons)


def test_gradients_are_those_of_float32_whatever_the_size_of_the_objective() -> None:
    """A factor of 1e-30 or 1e30 on the objective would leave float16 without scaling."""
    model, images = made(Normed()), torch.rand(8, 1, 8, 8)
    fast = FastModel(model, images, width=8, speed="eager")
    for factor in (1e-30, 1.0, 1e30):
        gradients = []
        for classifier in (model, fast):
            leaf = images.clone().requires_grad_()
            (gradient,) = torch.autograd.grad((classifier(leaf)[:, 0] * factor).sum(), leaf)
            assert bool((gradient != 0).any())
            gradients.append(gradient / factor)
        torch.testing.assert_close(gradients[1], gradients[0], rtol=0.02, atol=2e-3)  # 11 bits, summed over 100 terms
    assert not fast.overflows()


def test_the_smallest_gradients_there_are_leave_no_range() -> None:
    """Below 5e-35 the factor that brings a gradient to its scale is itself too large for float32."""
    model, images = made(Normed()), torch.rand(8, 1, 8, 8)
    fast = FastModel(model, images, width=8, speed="eager")
    leaf = images.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((fast(leaf).logsumexp(1) * 1e-36).sum(), leaf)
    assert not fast.overflows()
    assert bool((gradient != 0).any())


def test_a_sample_whose_values_leave_the_range_is_counted_and_only_that_one() -> None:
    model, images = made(), torch.rand(8, 1, 8, 8)
    fast = FastModel(model, images, width=8, speed="eager")
    huge = images.clone()
    huge[3] *= 1e6
    with torch.no_grad():
        fast(huge)
    assert fast.overflows() == 1
    leaf = images.clone().requires_grad_()
    fast.scale = 1e8
    torch.autograd.grad(fast(leaf).sum(), leaf)
    assert fast.overflows() == 8
    assert not fast.overflows(), "counted once"


def test_the_first_layer_sees_a_change_that_float16_would_lose() -> None:
    model, images = made(), torch.full((4, 1, 8, 8), 0.9)
    fast = FastModel(model, images, width=4, speed="eager")
    step = 1e-5  # far below the spacing of float16 numbers near 0.9, 5e-4
    with torch.no_grad():
        moved = fast.plain.conv(images + step) - fast.plain.conv(images)
        expected = model.net.conv(images + step) - model.net.conv(images)
    torch.testing.assert_close(moved, expected, rtol=1e-2, atol=1e-7)
    assert bool((moved != 0).any())
