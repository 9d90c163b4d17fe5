"""Training a reference model from a recipe: AdamW, one cycle, shifts and flips, averaged weights."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.threat import Scene
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Change, Dataset, ModelCard
from holdfast.models import TorchClassifier, save_model
from holdfast.training.recipes import Recipe

OnEpoch = Callable[[int, float, float], None]  # epoch, loss, share right on the training images as trained


def train(recipe: Recipe, *, out: Path, device: torch.device, on_epoch: OnEpoch = lambda *_: None) -> Path:
    """Trains and writes a model file. The same recipe on the same device gives the same weights up to rounding."""
    torch.manual_seed(recipe.seed)
    dataset: Dataset = registry.build(registry.bind("dataset", recipe.dataset))
    images, labels = _on_device(dataset, device)
    classes = int(labels.max()) + 1
    joint = "," if ":" in recipe.architecture else ":"
    architecture = f"{recipe.architecture}{joint}channels={images.shape[1]},classes={classes}"
    net: nn.Module = registry.build(registry.bind("architecture", architecture)).to(device)
    mixed = recipe.mixed and device.type == "cuda"
    if mixed:
        net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        images = images.to(memory_format=torch.channels_last)
    averaged = copy.deepcopy(net).requires_grad_(False)
    # the card says what the published file will say: parameters and digest are completed on saving
    card = ModelCard(
        name=recipe.name,
        source="",
        classes=classes,
        channels=images.shape[1],
        trained_on=_data_in_words(recipe),
        threats=() if recipe.attack is None else (str(registry.bind("attack", recipe.attack)),),
        licence="Apache-2.0",
        notes=f"trained by `holdfast train {recipe.name}`",
    )
    classifier = TorchClassifier(net, card)
    per_epoch = -(-len(images) // recipe.batch)
    optimiser = torch.optim.AdamW(net.parameters(), lr=recipe.rate, weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.rate, total_steps=recipe.epochs * per_epoch)
    harden = _hardening(recipe, classifier)
    step = 0
    for epoch in range(recipe.epochs):
        losses, right = torch.zeros((), device=device), torch.zeros((), device=device)
        for index in _batches(len(images), recipe, epoch, device):
            noise = Noise(index * 1_000_003 + epoch)
            batch = Batch(_augmented(images[index], noise, recipe.shift), labels[index], ("",) * len(index))
            with torch.autocast(device.type, torch.bfloat16, enabled=mixed):
                logits = net(harden(batch, noise))
            loss = F.cross_entropy(logits.float(), batch.labels)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
            step += 1
            _average(averaged, net, min(recipe.average, step / (step + 10)))
            losses += loss.detach() * len(index)
            right += (logits.detach().argmax(1) == batch.labels).sum()
        on_epoch(epoch, float(losses) / len(images), float(right) / len(images))
    if not all(bool(tensor.isfinite().all()) for tensor in averaged.state_dict().values()):
        raise HoldfastError("training diverged: weights are not finite", hint="lower the recipe's rate")
    return save_model(out, averaged.cpu(), card, architecture=architecture)


def _data_in_words(recipe: Recipe) -> str:
    dataset = str(registry.bind("dataset", recipe.dataset))
    return f"{dataset} half under {recipe.corruption} of random severity" if recipe.corruption else dataset


def _on_device(dataset: Dataset, device: torch.device) -> tuple[Tensor, Tensor]:
    read = dataset.images(range(len(dataset.ids)))
    if read.failed:
        raise HoldfastError(f"{len(read.failed)} training images cannot be read", hint=next(iter(read.failed.values())))
    pixels = read.pixels.to(device)
    images = pixels.float() / 255.0 if pixels.dtype == torch.uint8 else pixels.float()
    return images, torch.from_numpy(dataset.labels).to(device)


def _batches(count: int, recipe: Recipe, epoch: int, device: torch.device) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(1000 * recipe.seed + epoch)
    yield from torch.randperm(count, generator=generator).to(device).split(recipe.batch)  # type: ignore[no-untyped-call]


def _augmented(images: Tensor, noise: Noise, shift: int) -> Tensor:
    """Shifts by up to `shift` pixels and mirrors half of the images, each by its own draw."""
    n, _, height, width = images.shape
    padded = F.pad(images, (shift,) * 4)
    moved = noise.integers("shift", (2,), low=0, high=2 * shift + 1)
    rows = moved[:, :1] + torch.arange(height, device=images.device)
    columns = moved[:, 1:] + torch.arange(width, device=images.device)
    flipped = noise.integers("flip", (1,), low=0, high=2).bool()
    columns = torch.where(flipped, columns.flip(1), columns)
    every = torch.arange(n, device=images.device)[:, None, None]
    return padded[every, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def _hardening(recipe: Recipe, classifier: TorchClassifier) -> Callable[[Batch, Noise], Tensor]:
    """What the recipe does to a batch before the network learns from it."""
    if recipe.attack is not None:
        attack = registry.build(registry.bind("attack", recipe.attack))
        if not isinstance(attack, GradientAttack):
            raise Misuse(f"`{recipe.attack}` cannot be trained on", hint="use an attack inside a radius, as `pgd-linf`")
        return functools.partial(_attacked, classifier, replace(attack, stop_when_broken=False))
    if recipe.corruption is not None:
        rungs: list[Change] = [
            registry.build(registry.bind("corruption", f"{recipe.corruption},severity={rung}")) for rung in range(1, 6)
        ]
        return lambda batch, noise: _corrupted(classifier, rungs, batch, noise)
    return lambda batch, _: batch.images


def _attacked(classifier: TorchClassifier, attack: GradientAttack, batch: Batch, noise: Noise) -> Tensor:
    radius = torch.full((len(batch),), attack.radius, device=batch.images.device)
    result = attack.run(classifier, batch, noise, radius, width=len(batch))
    return attack.threat.render(Scene(batch.images, radius, result.props), result.variable).detach()


def _corrupted(classifier: TorchClassifier, rungs: list[Change], batch: Batch, noise: Noise) -> Tensor:
    """Half of the images as they are, the others at a random severity."""
    draw = noise.integers("severity", (), low=0, high=2 * len(rungs))
    images = batch.images.clone()
    for rung, change in enumerate(rungs):
        chosen = (draw == rung).nonzero().squeeze(1)
        part = Batch(batch.images[chosen], batch.labels[chosen], ("",) * len(chosen))
        images[chosen] = change(classifier, part, noise.take(chosen), width=max(1, len(chosen))).images
    return images


@torch.no_grad()
def _average(averaged: nn.Module, net: nn.Module, share: float) -> None:
    for kept, new in zip(averaged.state_dict().values(), net.state_dict().values(), strict=True):
        if kept.is_floating_point():
            kept.mul_(share).add_(new, alpha=1 - share)
        else:
            kept.copy_(new)
