"""Training: the recipe decides the weights, whatever interrupts it, and every threat and loss does what it says."""

from __future__ import annotations

import errno
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import dropout

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import registry
from holdfast.models import load, read_card
from holdfast.models.weights import architecture
from holdfast.training import checkpoints
from holdfast.training.recipes import Recipe
from holdfast.training.train import EpochReport, OutOfTimeError, Training, architecture_text, train
from holdfast.training.training_data import training_data

CPU = torch.device("cpu")
PGD = "pgd-linf:radius=8/255,steps=1"
QUICK = Recipe(
    "quick",
    dataset="subsample:fashion-mnist-2k,count=200",
    architecture="small-cnn:width=4",
    epochs=1,
    batch=50,
    optimiser="adamw",
    rate=3e-3,
    shift=2,
)


def trained(recipe: Recipe, folder: Path, **more: Any) -> str:
    """The digest of the weights that a recipe makes."""
    return load(f"file:{train(recipe, out=folder / 'm.safetensors', device=CPU, **more)}").card.weights


def test_the_same_recipe_gives_the_same_weights_and_another_seed_others(tmp_path: Path) -> None:
    first = trained(QUICK, tmp_path)
    assert trained(QUICK, tmp_path) == first
    assert trained(replace(QUICK, seed=1), tmp_path) != first


def test_a_file_in_half_precision_has_half_the_bytes_and_its_own_digest(tmp_path: Path) -> None:
    wide = replace(QUICK, architecture="small-cnn:width=16")
    full = train(wide, out=tmp_path / "full.safetensors", device=CPU)
    half = train(replace(wide, half=True), out=tmp_path / "half.safetensors", device=CPU)
    assert half.stat().st_size < 0.55 * full.stat().st_size
    one, other = (load(f"file:{path}") for path in (full, half))
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert b.dtype == torch.float32
        expected = a.half().float() if a.dim() > 1 else a
        assert torch.equal(b, expected)


@pytest.mark.parametrize(
    ("more", "threats", "trained_on"),
    [
        ({"loss": "pgd-at", "threats": (PGD,)}, (PGD,), ""),
        ({"threats": ("gaussian-noise:ladder=imagenet",)}, (), " half under gaussian-noise:ladder=imagenet"),
        ({"threats": ("fog:severity=2", "contrast")}, (), " under fog:severity=2 half under contrast of random"),
    ],
)
def test_a_card_tells_what_a_model_was_trained_on(
    tmp_path: Path, more: dict[str, Any], threats: tuple[str, ...], trained_on: str
) -> None:
    saved = read_card(train(replace(QUICK, **more), out=tmp_path / "m.safetensors", device=CPU))
    assert saved is not None
    assert saved.card.threats == threats
    assert trained_on in saved.card.trained_on
    assert saved.card.classes == 10
    assert "holdfast train quick" in saved.card.notes


@pytest.mark.parametrize(
    "more",
    [
        {"optimiser": "sgd", "rate": 0.02, "average": 0.9},
        {"swa_from": 0.4, "validation": 40, "keep": "accuracy"},
        {"loss": "pgd-at", "threats": (PGD, "pgd-l2:steps=1"), "union": "random"},
    ],
    ids=["average", "swa and the best epoch", "random union"],
)
def test_an_interrupted_training_ends_with_the_weights_of_an_uninterrupted_one(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    recipe = replace(QUICK, epochs=3, **more)
    whole = trained(recipe, tmp_path)
    looks = iter(range(1000))
    out = tmp_path / "again.safetensors"
    import holdfast.training.train as loop

    often, loop.OFTEN = loop.OFTEN, 1
    try:
        with pytest.raises(OutOfTimeError):
            train(recipe, out=out, device=CPU, is_over=lambda: next(looks) >= 5)
    finally:
        loop.OFTEN = often
    assert checkpoints.checkpoint_path(out).exists()
    assert not out.exists()
    assert load(f"file:{train(recipe, out=out, device=CPU)}").card.weights == whole
    assert not checkpoints.checkpoint_path(out).exists()


def test_a_network_with_dropout_continues_with_the_draws_it_would_have_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import holdfast.training.train as loop

    def with_dropout(text: str) -> Any:
        made = architecture(text)
        made.net.register_forward_hook(lambda net, _, logits: dropout(logits, 0.5, net.training))
        return made

    monkeypatch.setattr(loop, "built_architecture", with_dropout)
    recipe, out = replace(QUICK, epochs=3), tmp_path / "again.safetensors"
    whole = trained(recipe, tmp_path)
    looks = iter(range(1000))
    monkeypatch.setattr(loop, "OFTEN", 1)
    with pytest.raises(OutOfTimeError):
        train(recipe, out=out, device=CPU, is_over=lambda: next(looks) >= 5)
    assert load(f"file:{train(recipe, out=out, device=CPU)}").card.weights == whole


def test_the_time_is_over_in_short_epochs_too(tmp_path: Path) -> None:
    reports: list[EpochReport] = []
    recipe = replace(QUICK, epochs=50, batch=200)  # one step each
    with pytest.raises(OutOfTimeError):
        train(
            recipe, out=tmp_path / "m.safetensors", device=CPU, on_epoch=reports.append, is_over=lambda: bool(reports)
        )
    assert len(reports) == 1
    assert checkpoints.checkpoint_path(tmp_path / "m.safetensors").exists()


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "m.safetensors"
    checkpoints.write_checkpoint(checkpoints.checkpoint_path(out), checkpoints.Checkpoint("another", 1, []))
    with pytest.raises(HoldfastError, match="belongs to another recipe"):
        train(QUICK, out=out, device=CPU)
    checkpoints.checkpoint_path(out).write_bytes(b"PK\x03\x04 cut short")
    with pytest.raises(HoldfastError, match="cannot be read"):
        train(QUICK, out=out, device=CPU)


def test_a_checkpoint_with_one_wrong_bit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors.checkpoint"
    checkpoints.write_checkpoint(path, checkpoints.Checkpoint("r", 1, [torch.full((50,), 1.5)]))
    whole = path.read_bytes()
    number = whole.index(torch.full((50,), 1.5).numpy().tobytes())
    path.write_bytes(whole[:number] + b"\x01" + whole[number + 1 :])
    with pytest.raises(HoldfastError, match="it is damaged, or no checkpoint of training"):
        checkpoints.read_checkpoint(path, "r")


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x02.", b"\x80\x02K\x01ee.", {"weight": torch.ones(3)}, [1, 2], {"recipe": "r"}]
)
def test_a_file_that_is_no_checkpoint_is_refused_in_words(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "m.safetensors.checkpoint"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(HoldfastError, match="it is damaged, or no checkpoint of training"):
        checkpoints.read_checkpoint(path, "r")


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    from holdfast.training.train import _digest

    out = tmp_path / "m.safetensors"
    other = checkpoints.Checkpoint(_digest(QUICK), 1, [torch.ones(3)])
    checkpoints.write_checkpoint(checkpoints.checkpoint_path(out), other)
    with pytest.raises(HoldfastError, match="is not of the network"):
        train(QUICK, out=out, device=CPU)


def test_a_checkpoint_of_other_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same name with one pixel or one label changed in between."""
    import numpy as np

    import holdfast.training.train as loop

    draws, file = np.random.default_rng(0), tmp_path / "data.npz"
    images, labels = draws.integers(0, 256, (200, 1, 28, 28), dtype=np.uint8), draws.integers(0, 3, 200)
    images[0, 0, 0, 0] = 7
    np.savez(file, images=images, labels=labels)
    recipe, out = replace(QUICK, dataset=f"arrays:{file}", epochs=9), tmp_path / "m.safetensors"
    monkeypatch.setattr(loop, "OFTEN", 1)
    with pytest.raises(OutOfTimeError):
        train(recipe, out=out, device=CPU, is_over=lambda: True)
    one_pixel = images.copy()
    one_pixel[0, 0, 0, 0] = 8
    for other in ({"images": one_pixel}, {"labels": 2 - labels}):
        np.savez(file, **{"images": images, "labels": labels} | other)
        with pytest.raises(HoldfastError, match="from other images or labels"):
            train(recipe, out=out, device=CPU)
    np.savez(file, images=images, labels=labels)
    train(recipe, out=out, device=CPU)


def test_weights_moved_by_awp_leave_statistics_of_norms_to_the_pass_that_is_learned_from(tmp_path: Path) -> None:
    def buffers(awp: float) -> list[torch.Tensor]:
        recipe = replace(QUICK, architecture="resnet20-cifar", loss="pgd-at", threats=(PGD,), awp=awp)
        training = Training(recipe, tmp_path / "m.safetensors", CPU, lambda _: None, 1e9, "eager", lambda: False)
        training.one_step(training.data.used[: recipe.batch])
        return list(training.bare.buffers())

    for alone, moved in zip(buffers(0.0), buffers(1e-9), strict=True):
        torch.testing.assert_close(moved, alone)


def test_a_full_disk_leaves_the_last_checkpoint_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.safetensors.checkpoint"
    checkpoints.write_checkpoint(path, checkpoints.Checkpoint("r", 1, [torch.ones(3)]))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HoldfastError, match="No space left") as caught:
        checkpoints.write_checkpoint(path, checkpoints.Checkpoint("r", 2, [torch.zeros(3)]))
    assert "is whole" in str(caught.value)
    kept = checkpoints.read_checkpoint(path, "r")
    assert kept is not None
    assert kept.step == 1
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a system without /dev/full")
def test_a_disk_that_is_full_half_way_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = tmp_path / "part"
    part.touch()
    monkeypatch.setattr(checkpoints.tempfile, "mkstemp", lambda **_: (os.open("/dev/full", os.O_WRONLY), str(part)))
    large = checkpoints.Checkpoint("r", 1, [torch.ones(100_000)])
    with pytest.raises(HoldfastError, match="cannot be written: No space left on device"):
        checkpoints.write_checkpoint(tmp_path / "m.safetensors.checkpoint", large)
    assert list(tmp_path.iterdir()) == []


def test_a_loss_that_is_not_a_number_ends_training(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="epoch 1: the loss is not a number") as caught:
        train(replace(QUICK, optimiser="sgd", rate=100.0), out=tmp_path / "m.safetensors", device=CPU)
    assert "lower the recipe's rate" in str(caught.value)
    assert not (tmp_path / "m.safetensors").exists()


def test_training_stops_after_so_many_epochs_without_a_better_one(tmp_path: Path) -> None:
    reports: list[EpochReport] = []
    recipe = replace(QUICK, epochs=9, rate=1e-9, validation=40, keep="accuracy", patience=2)
    saved = read_card(train(recipe, out=tmp_path / "m.safetensors", device=CPU, on_epoch=reports.append))
    assert len(reports) == 3, "the first is the best, since nothing changes, and two more follow"
    assert saved is not None
    assert "epoch 1 of 9 by accuracy" in saved.card.notes


def test_what_is_held_out_is_never_learned_from(tmp_path: Path) -> None:
    data = training_data(replace(QUICK, validation=50, share=0.5), CPU)
    assert len(data.held) == 50
    assert len(data.used) == 75
    assert not set(data.held.tolist()) & set(data.used.tolist())
    other = training_data(replace(QUICK, validation=50, seed=3), CPU)
    assert other.held.tolist() == data.held.tolist(), "the images held out do not depend on the seed"
    orders = [data.order(QUICK, epoch).tolist() for epoch in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == sorted(data.used.tolist())


def test_architectures_are_given_what_they_take(tmp_path: Path) -> None:
    data = training_data(QUICK, CPU)
    texts = [
        architecture_text(replace(QUICK, architecture=text), data) for text in ("vit-tiny", "small-cnn:classes=12")
    ]
    assert texts == ["vit-tiny:channels=1,classes=10,size=28", "small-cnn:classes=12,channels=1"]
    assert (
        architecture_text(replace(QUICK, architecture="torchvision:resnet50"), data)
        == "torchvision:resnet50,classes=10"
    )


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"architecture": "small-cnn:width=4,classes=5"}, "gives 5 logits, and the images have 10 classes"),
        ({"architecture": "small-cnn:width=4,channels=3"}, "does not take images of 1 × 28 × 28"),
        ({"mean": (0.5, 0.5, 0.5), "std": (0.2, 0.2, 0.2)}, "does not take images of 1 × 28 × 28"),
        ({"labels": (3, 30)}, "has the labels 0 to 9, and `labels` names 30"),
        ({"labels": (-1,)}, "has the labels 0 to 9, and `labels` names -1"),
    ],
)
def test_a_network_or_label_that_the_data_do_not_have_is_refused(
    tmp_path: Path, more: dict[str, Any], problem: str
) -> None:
    with pytest.raises(Misuse, match=problem):
        train(replace(QUICK, **more), out=tmp_path / "m.safetensors", device=CPU)


@pytest.mark.parametrize("threat", ["fab-linf", "fmn-l2"])
def test_only_attacks_inside_a_radius_can_be_trained_on(tmp_path: Path, threat: str) -> None:
    with pytest.raises(Misuse, match="radius"):
        train(replace(QUICK, loss="pgd-at", threats=(threat,)), out=tmp_path / "m.safetensors", device=CPU)


@pytest.mark.parametrize("threat", ["square-linf:queries=2", "fast-lpa", "mm5-linf", "pgd-linf:restarts=2", "stadv"])
def test_one_fast_step_is_never_another_attack_in_full(tmp_path: Path, threat: str) -> None:
    with pytest.raises(Misuse, match="takes one steepest step"):
        train(replace(QUICK, loss="fast-at", threats=(threat,)), out=tmp_path / "m.safetensors", device=CPU)


@pytest.mark.parametrize(
    "more",
    [
        {"loss": "trades", "threats": (PGD,)},
        {"loss": "mart", "threats": (PGD,), "awp": 0.01},
        {"loss": "fast-at", "threats": ("pgd-l2",), "variation": 0.5},
        {"loss": "pgd-at", "threats": (PGD, "pgd-l2:steps=1", "pgd-l1:steps=1"), "union": "msd"},
        {"loss": "pgd-at", "threats": (PGD, "stadv:steps=1"), "union": "max"},
        {"loss": "pgd-at", "threats": (PGD, "fog:severity=2"), "union": "avg"},
        {"loss": "pgd-at", "threats": ("apgd-ce-linf:steps=2",)},
        {"loss": "pgd-at", "threats": ("square-linf:queries=2",)},
        pytest.param(
            {"loss": "pgd-at", "threats": ("fast-lpa:steps=1,radius=0.1",), "batch": 100}, marks=pytest.mark.slow
        ),
        {"augment": ("crop", "flip", "cutout", "cutmix", "randaugment"), "smoothing": 0.1, "extra": QUICK.dataset},
        {"environments": (QUICK.dataset, QUICK.dataset), "method": "irm"},
        {"environments": (QUICK.dataset, QUICK.dataset), "method": "lisa"},
        {"validation": 20, "keep": "agreement", "checked": PGD, "every_epoch": True},
    ],
    ids=lambda more: "-".join(str(value) for value in more.values())[:40],
)
def test_every_loss_union_and_method_trains(tmp_path: Path, more: dict[str, Any]) -> None:
    reports: list[EpochReport] = []
    train(replace(QUICK, **more), out=tmp_path / "m.safetensors", device=CPU, on_epoch=reports.append)
    assert all(math.isfinite(report.loss) for report in reports)
    assert len(list(tmp_path.glob("m-epoch*.safetensors"))) == (1 if "every_epoch" in more else 0)


def test_every_attack_of_a_fixed_number_of_steps_can_be_recorded() -> None:
    """Those that read values on the host run as an evaluation runs them; of these only LPIPS and Frank-Wolfe do."""
    from holdfast.training.adversaries import adversary

    reading = {
        name
        for name in registry.entries("attack")
        if name.startswith(("pgd", "jpeg", "stadv", "recolor", "elastic", "snow", "fog", "gabor", "affine", "fast-lpa"))
        and adversary(name).reads_values
    }
    assert reading == {"fast-lpa", "jpeg-l1"}
