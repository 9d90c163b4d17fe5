"""Attacks and corruptions on arrays: the numbers of `evaluate`, in the arrays that people hold."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import holdfast
from holdfast import datasets
from holdfast.core.errors import HoldfastError, Misuse

ATTACK = "pgd-linf:radius=4/255,steps=5"


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 4))


def data(count: int = 20) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    images = rng.random((count, 1, 6, 6), dtype=np.float32)
    labels = net().eval()(torch.from_numpy(images)).argmax(1).numpy()
    labels[0] = (labels[0] + 1) % 4
    return images, labels


def test_numpy_gives_numpy_and_torch_gives_torch() -> None:
    images, labels = data()
    arrays = holdfast.attack(net(), images, labels, ATTACK)
    tensors = holdfast.attack(net(), torch.from_numpy(images), torch.from_numpy(labels), ATTACK)
    for field in fields(arrays):
        one, other = getattr(arrays, field.name), getattr(tensors, field.name)
        assert (type(one), type(other)) == (np.ndarray, torch.Tensor)
        np.testing.assert_array_equal(one, other.numpy())
    assert np.abs(arrays.images - images).max() <= 4 / 255 + 1e-6
    assert arrays.broken[0], "wrong before the attack is broken, at size zero"
    assert arrays.sizes[0] == 0
    assert repr(arrays) == f"AttackedImages({arrays.broken.sum()} of 20 broken)"


def test_the_module_stays_as_it_was() -> None:
    module, (images, labels) = net().train(), data()
    module[1].weight.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    holdfast.attack(module, images, labels, ATTACK)
    assert all(part.training for part in module.modules())
    assert [p.requires_grad for p in module.parameters()] == [False, True, True, True]
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert all(p.grad is None for p in module.parameters())


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_the_batch_size_changes_nothing(batch_size: int) -> None:
    images, labels = data()
    whole = holdfast.attack(net(), images, labels, "pgd-l2:radius=0.3,steps=4")
    parts = holdfast.attack(net(), images, labels, "pgd-l2:radius=0.3,steps=4", batch_size=batch_size)
    np.testing.assert_allclose(parts.images, whole.images, atol=1e-5)
    np.testing.assert_array_equal(parts.broken, whole.broken)


def test_the_result_is_that_of_evaluate_on_the_same_arrays(tmp_path: Path) -> None:
    dataset = datasets.load("fashion-mnist-2k")
    index = list(range(0, 2000, 80))
    images, labels = dataset.images(index).pixels, dataset.labels[index]
    np.savez(tmp_path / "x.npz", images=images.squeeze(1).numpy(), labels=labels)
    scenario = f"arrays:{tmp_path / 'x.npz'}+pgd-linf:radius=8/255,steps=5"
    (outcome,) = holdfast.evaluate("fashion-at-linf", scenario, store=str(tmp_path / "store"), pictures=0)
    result = holdfast.attack("fashion-at-linf", images, labels, "pgd-linf:radius=8/255,steps=5")
    assert (~result.broken).tolist() == outcome.rows.correct.tolist()
    noisy = holdfast.corrupt(images, "gaussian-noise:severity=3")
    (outcome,) = holdfast.evaluate(
        "fashion-at-linf",
        f"arrays:{tmp_path / 'x.npz'}+gaussian-noise:severity=3",
        store=str(tmp_path / "store"),
        pictures=0,
    )
    with torch.no_grad():
        predictions = holdfast.load("fashion-at-linf")(noisy).argmax(1)
    assert predictions.tolist() == outcome.rows.predictions.tolist()


def test_corrupting_bytes_and_floats_is_the_same() -> None:
    levels = np.random.default_rng(0).integers(0, 256, (5, 3, 16, 16), dtype=np.uint8)
    one, other = (
        holdfast.corrupt(levels, "fog:severity=2"),
        holdfast.corrupt(levels / np.float32(255), "fog:severity=2"),
    )
    assert isinstance(one, np.ndarray)
    np.testing.assert_array_equal(one, other)
    again = holdfast.corrupt(levels[1:], "fog:severity=2", ids=["1", "2", "3", "4"])
    np.testing.assert_array_equal(again, one[1:])


def test_no_images_are_no_error() -> None:
    images, labels = data()
    result = holdfast.attack(net(), images[:0], labels[:0], ATTACK)
    assert len(result.images) == len(result.broken) == 0
    assert holdfast.corrupt(images[:0], "fog:severity=1").shape == (0, 1, 6, 6)


def test_what_cannot_be_attacked_is_said() -> None:
    images, labels = data()
    with pytest.raises(HoldfastError, match=r"images must lie in \[0, 1\]"):
        holdfast.attack(net(), images * 255 - 300, labels, ATTACK)
    with pytest.raises(Misuse, match="as many labels"):
        holdfast.attack(net(), images, labels[:3], ATTACK)
    with pytest.raises(Misuse, match="count, channels, height, width"):
        holdfast.attack(net(), images[0], labels, ATTACK)
    with pytest.raises(Misuse, match="no attack named `pdg-linf`"):
        holdfast.attack(net(), images, labels, "pdg-linf")
    with pytest.raises(Misuse, match="different ids"):
        holdfast.corrupt(images, "fog:severity=1", ids=["a"] * 20)
    with pytest.raises(Misuse, match="a module, a classifier or the ref"):
        holdfast.attack(3, images, labels, ATTACK)  # type: ignore[arg-type]


def test_a_list_of_tensors_gives_tensors() -> None:
    images, labels = data()
    tensors = torch.as_tensor(images)
    assert isinstance(holdfast.corrupt(list(tensors), "fog:severity=2"), torch.Tensor)
    made, plain = (holdfast.attack(net(), given, labels, ATTACK) for given in (list(tensors), tensors))
    assert torch.equal(made.images, plain.images)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"batch_size": 0}, "--batch-size is 1 or more"),
        ({"batch_size": -1}, "--batch-size is 1 or more"),
        ({"batch_size": 2.5}, "--batch-size is a whole number"),
        ({"seed": 1.5}, "--seed is a whole number"),
        ({"seed": "a"}, "--seed is a whole number"),
        ({"ref": "pgd-linf:radius={1/255,2/255}"}, "more than one attack"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], problem: str) -> None:
    images, labels = data()
    with pytest.raises(Misuse, match=problem):
        holdfast.attack(net(), images, labels, **{"ref": ATTACK, **options})


class Cut(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)[:, :4].detach()


class Failing(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if len(images) > 2:
            raise ValueError("two at most")
        return images.flatten(1)[:, :4]


class NotANumber(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)[:, :4] * torch.nan


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (Cut(), "gives no gradients, which"),
        (Failing(), "ValueError: two at most"),
        (NotANumber(), "image 0: the logits of `NotANumber` are not finite"),
        ("cifar10-standard-r20", "takes 3 channels, the images of `arrays` have 1"),
    ],
)
def test_a_model_that_cannot_be_attacked_is_an_error_of_ours(model: Any, problem: str) -> None:
    images, labels = data()
    with pytest.raises(HoldfastError, match=problem):
        holdfast.attack(model, images, np.asarray(labels) % 4, ATTACK)
