"""The wrapper, the preprocessing inside, and the digest."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.types import Classifier, ModelCard
from holdfast.models import TorchClassifier, normalised, weights_digest

unit = st.floats(0, 1, width=32)
positive = st.floats(0.0625, 1, width=32)


@given(st.lists(st.tuples(unit, positive), min_size=1, max_size=4), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_normalised_is_images_minus_mean_over_std(channels: list[tuple[float, float]], seed: int) -> None:
    images = torch.rand(2, len(channels), 3, 3, generator=torch.Generator().manual_seed(seed))
    mean, std = zip(*channels, strict=True)
    result = normalised(nn.Identity(), mean, std)(images)
    for c, (m, s) in enumerate(channels):
        torch.testing.assert_close(result[:, c], (images[:, c] - m) / s)


def test_gradients_flow_through_normalisation_and_resizing() -> None:
    images = torch.rand(2, 3, 8, 8, requires_grad=True)
    normalised(nn.Flatten(), [0.5] * 3, [0.25] * 3)(images).sum().backward()
    torch.testing.assert_close(images.grad, torch.full_like(images, 4.0))  # d/dx (x - m) / s = 1 / s
    images.grad = None
    normalised(nn.Flatten(), None, None, size=4)(images).sum().backward()
    assert images.grad is not None
    torch.testing.assert_close(images.grad.sum(), torch.tensor(2 * 3 * 16.0))  # each output is a weighted mean


def test_resizing_keeps_a_constant_image_and_skips_the_right_size() -> None:
    net = normalised(nn.Identity(), None, None, size=6)
    torch.testing.assert_close(net(torch.full((1, 1, 9, 4), 0.3)), torch.full((1, 1, 6, 6), 0.3))
    exact = torch.rand(1, 1, 6, 6)
    assert torch.equal(net(exact), exact)


def test_one_number_stands_for_all_channels() -> None:
    images = torch.rand(1, 3, 2, 2)
    assert torch.equal(
        normalised(nn.Identity(), (0.5,), (0.2,))(images), normalised(nn.Identity(), [0.5] * 3, [0.2] * 3)(images)
    )


def test_without_preprocessing_the_network_itself_comes_back() -> None:
    net = nn.Identity()
    assert normalised(net, None, None) is net


@pytest.mark.parametrize(
    ("mean", "std", "words"),
    [
        ((0.5,), None, "belong together"),
        ((0.5, 0.5, 0.5), (0.2, 0.2), "3 channels"),
        ((0.5,), (0.0,), "positive"),
        ((123.7,), (58.4,), r"\[0, 1\]"),
    ],
)
def test_impossible_normalisation_is_refused(
    mean: tuple[float, ...], std: tuple[float, ...] | None, words: str
) -> None:
    with pytest.raises(Misuse, match=words):
        normalised(nn.Identity(), mean, std)


def test_wrapping_changes_nothing_and_remembers_the_mode() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    net[0].eval()
    wrapped = TorchClassifier(net, ModelCard("net", "live", 2))
    assert wrapped.was_training
    assert net[1].training
    assert not net[0].training
    assert all(parameter.requires_grad for parameter in net.parameters())
    assert not TorchClassifier(net.eval(), ModelCard("net", "live", 2)).was_training
    assert isinstance(wrapped, Classifier)


def test_a_forward_only_model_refuses_images_that_want_gradients() -> None:
    wrapped = TorchClassifier(nn.Flatten(), ModelCard("net", "live", 4, differentiable=False))
    assert wrapped(torch.rand(1, 1, 2, 2)).shape == (1, 4)
    assert "gradients" in str(wrapped.cannot_take)
    with pytest.raises(HoldfastError, match="forward only") as caught:
        wrapped(torch.rand(1, 1, 2, 2, requires_grad=True))
    assert "logits" in str(caught.value.hint)
    assert TorchClassifier(nn.Flatten(), ModelCard("net", "live", 4)).cannot_take is None


class Holder(nn.Module):
    """Tensors under names, in the order given."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)


@given(st.permutations(["a", "b", "c", "d"]))
@settings(max_examples=10, deadline=None)
def test_the_digest_does_not_depend_on_order_or_memory_layout(order: list[str]) -> None:
    tensors = {
        "a": torch.arange(6.0).reshape(2, 3),
        "b": torch.tensor(3),
        "c": torch.ones(2, 3, 4, 4).mul(torch.arange(4.0)),
        "d": torch.ones(3, dtype=torch.bfloat16),
    }
    moved = {name: tensors[name] for name in order}
    moved["c"] = moved["c"].to(memory_format=torch.channels_last)
    moved["a"] = moved["a"].t().contiguous().t()
    assert weights_digest(Holder(moved)) == weights_digest(Holder(tensors))


def test_the_digest_sees_name_type_shape_and_every_bit() -> None:
    base = {"a": torch.zeros(4)}
    others = [
        {"b": torch.zeros(4)},
        {"a": torch.zeros(4, dtype=torch.int32)},
        {"a": torch.zeros(2, 2)},
        {"a": torch.tensor([0.0, 0.0, 0.0, -0.0])},
        {"a": torch.zeros(4), "b": torch.zeros(0)},
    ]
    digests = [weights_digest(Holder(tensors)) for tensors in (base, *others)]
    assert len(set(digests)) == len(digests)
    assert all(len(digest) == 64 for digest in digests)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a second device")
def test_the_digest_does_not_depend_on_the_device() -> None:
    net = nn.Linear(3, 3)
    here = weights_digest(net)
    assert weights_digest(net.cuda()) == here
