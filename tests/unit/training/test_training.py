"""Training: the recipe decides the weights, and adversarial training does what it is for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.models import load, read_card
from holdfast.training.recipes import Recipe
from holdfast.training.train import _augmented, train

CPU = torch.device("cpu")
QUICK = Recipe("quick", dataset="fashion-mnist-2k", architecture="small-cnn", epochs=1, batch=250)


def test_the_same_recipe_gives_the_same_weights(tmp_path: Path) -> None:
    made = [load(f"file:{train(QUICK, out=tmp_path / f'{i}.safetensors', device=CPU)}") for i in range(2)]
    assert made[0].card.weights == made[1].card.weights
    other = train(replace(QUICK, seed=1), out=tmp_path / "other.safetensors", device=CPU)
    assert load(f"file:{other}").card.weights != made[0].card.weights


@pytest.mark.parametrize(
    ("more", "threats"),
    [
        ({"attack": "pgd-linf:radius=8/255,steps=1"}, ("pgd-linf:radius=8/255,steps=1",)),
        ({"attack": "pgd-l2:radius=0.5,steps=1"}, ("pgd-l2:radius=0.5,steps=1",)),
        ({"corruption": "gaussian-noise:ladder=imagenet"}, ()),
    ],
)
def test_a_card_tells_what_a_model_was_trained_on(
    tmp_path: Path, more: dict[str, str], threats: tuple[str, ...]
) -> None:
    saved = read_card(train(replace(QUICK, **more), out=tmp_path / "m.safetensors", device=CPU))  # type: ignore[arg-type]
    assert saved is not None
    assert saved.card.threats == threats
    corrupted = " half under gaussian-noise:ladder=imagenet of random severity"
    assert saved.card.trained_on == "fashion-mnist-2k" + (corrupted if "corruption" in more else "")
    assert saved.card.classes == 10


def test_only_attacks_inside_a_radius_can_be_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.core.registry import Component

    registry.entries("attack")
    monkeypatch.setitem(
        registry.components["attack"], "odd", Component("attack", "odd", lambda: object(), 1, "", (), ())
    )
    with pytest.raises(Misuse, match="cannot be trained on"):
        train(replace(QUICK, attack="odd"), out=tmp_path / "m.safetensors", device=CPU)


def test_augmentation_shifts_and_mirrors_without_inventing_pixels() -> None:
    images = torch.zeros(200, 1, 8, 8)
    images[:, :, 3, 2] = 1.0
    moved = _augmented(images, Noise.of(0, [f"{i}" for i in range(200)]), shift=2)
    assert moved.shape == images.shape
    assert moved.sum((1, 2, 3)).tolist() == [1.0] * 200
    places = {tuple(place) for place in moved.nonzero()[:, 2:].tolist()}
    rows, columns = {row for row, _ in places}, {column for _, column in places}
    assert rows == {1, 2, 3, 4, 5}
    assert columns == {0, 1, 2, 3, 4} | {3, 4, 5, 6, 7}, "the pixel's own columns and their mirror images"
