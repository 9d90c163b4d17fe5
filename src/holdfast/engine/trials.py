"""The check of a model on a dataset: its flags, and attacks that must succeed where gradients can be trusted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.attacks.objectives import margin
from holdfast.attacks.shapes import parts_of
from holdfast.attacks.success import is_wrong
from holdfast.core.labels import is_labelled
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, Classifier, Dataset, Flag
from holdfast.engine.device import full_precision
from holdfast.engine.flags import QUERIES_SHARE, UNBROKEN_SHARE, exceeds
from holdfast.engine.shards import on_device
from holdfast.models.check import balanced_sample, check

PROBES = 16  # images a check looks at
TRIAL_SAMPLES = 64
TRIAL_QUERIES = 200
TRIAL_WIDTH = 64
CHOOSING_SAMPLES = 16
CHOOSING_RADII = tuple(2.0**k / 255 for k in range(-3, 7))  # 1/8 to 64 grey levels
SAME_ANSWER = 1e-3  # relative; another batch size rounds otherwise
FEW, SAME_IN_BATCH = 8, 0.05  # relative; a gradient may jump where rounding takes it over the edge of a ReLU

UNBOUNDED = "pgd-linf:radius=1,steps=50,step_size=0.05"
STRONG = ("apgd-ce-linf:steps=50", "apgd-dlr-linf:steps=50")  # what must find what queries find


def flags_on(model: Classifier, dataset: Dataset, device: torch.device) -> tuple[Flag, ...]:
    """Checks a model on a few images of a dataset."""
    images, labels = _few(model, dataset, PROBES, device)
    known = is_labelled(dataset.labels)
    majority = float(np.bincount(dataset.labels).max()) / len(dataset.labels) if known else None
    with full_precision():  # TF32 alone moves the logits of an honest network by a thousandth from batch to batch
        return check(model, images, labels, majority=majority) if len(images) else ()


def trials_on(
    model: Classifier, dataset: Dataset, device: torch.device, note: Callable[[str], None]
) -> tuple[Flag, ...]:
    """Attacks a model on some images of a dataset, to see whether its gradients can be trusted."""
    images, labels = _few(model, dataset, 2 * TRIAL_SAMPLES, device)
    with full_precision():
        return trials(model, images, labels, note) if len(images) else ()


def _few(model: Classifier, dataset: Dataset, count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Some images, of each class as many as of others, with their labels; unreadable ones are passed over.

    Where there are no labels, what the model predicts takes their place, so that nothing is said about its accuracy.
    """
    index = balanced_sample(np.asarray(dataset.labels), count)
    images = dataset.images(index.tolist())
    kept = [i for i in range(len(index)) if i not in images.failed]
    pixels = on_device(images.pixels[kept], device)
    if not is_labelled(dataset.labels):
        return pixels, _predicted(model, pixels)
    return pixels, torch.from_numpy(np.asarray(dataset.labels[index[kept]])).to(device)


def _predicted(model: Classifier, images: Tensor) -> Tensor:
    """The model's own answers; class 0 where it gives none, which the check tells of."""
    try:
        return _scored(model, images).argmax(1)
    except Exception:  # noqa: BLE001 - models are other people's code
        return torch.zeros(len(images), dtype=torch.int64, device=images.device)


def trials(model: Classifier, images: Tensor, labels: Tensor, note: Callable[[str], None]) -> tuple[Flag, ...]:
    """Attacks a few samples in ways that must succeed if gradients can be trusted, and flags what does not.

    Success is scored as a run scores it: without gradients, in batches of the same width, on the final images.
    """
    before = _scored(model, images)
    right = (~is_wrong(before, labels)).nonzero().squeeze(1)[:TRIAL_SAMPLES]
    if not len(right) or not model.card.differentiable:
        return ()
    batch = Batch(images[right], labels[right], tuple(str(i) for i in range(len(right))))
    tried = _Trials(model, batch)
    flags = [flag for trial in TRIALS if (flag := trial(tried, note)) is not None]
    after = _scored(model, images)
    scale = float(before.abs().max().clamp_min(1e-30))
    if not float((after - before).abs().max()) <= SAME_ANSWER * scale:
        flags.append(
            Flag(
                "answers-change",
                "warning",
                "the same images give other logits after the attacks than before: the model answers at random, or "
                "keeps a state that queries change, and its numbers depend on what was asked before",
            )
        )
    return tuple(flags)


class _Trials:
    """A model and samples it is right about, with the radius at which gradient steps break about half of them."""

    def __init__(self, model: Classifier, batch: Batch) -> None:
        self.model, self.batch = model, batch
        self.unconfirmed = 0
        self.known: dict[str, Tensor] = {}
        few = _some(batch, torch.arange(min(CHOOSING_SAMPLES, len(batch))))
        self.radius, self.is_broken_there = self._half(few)

    def broken(self, ref: str) -> Tensor:
        """Who is wrong on the images an attack made of all samples."""
        if ref not in self.known:
            self.known[ref] = self.broken_of(self.batch, ref)
        return self.known[ref]

    def broken_of(self, batch: Batch, ref: str) -> Tensor:
        """Who of these is wrong on the images an attack made, as a run would score them."""
        attack: Attack = registry.build(registry.bind("attack", ref))
        radius = torch.full((len(batch),), attack.radius, device=batch.images.device)
        noise = Noise.of(0, batch.ids, batch.images.device)
        made = attack.attempt(self.model, batch, noise, radius, width=TRIAL_WIDTH)
        wrong = is_wrong(_scored(self.model, made.images), batch.labels)
        self.unconfirmed = max(self.unconfirmed, int((made.broken & ~wrong).sum()))
        return wrong

    def _half(self, few: Batch) -> tuple[float, bool]:
        """The smallest radius tried that breaks half of the samples, searched by halving; else the largest."""
        low, high = -1, len(CHOOSING_RADII)
        while high - low > 1:
            middle = (low + high) // 2
            ref = f"pgd-linf:radius={CHOOSING_RADII[middle]!r},steps=10"
            if float(self.broken_of(few, ref).float().mean()) >= 0.5:
                high = middle
            else:
                low = middle
        return CHOOSING_RADII[min(high, len(CHOOSING_RADII) - 1)], high < len(CHOOSING_RADII)


def _batches(tried: _Trials, note: Callable[[str], None]) -> Flag | None:
    note("batches of other sizes")
    images, labels = tried.batch.images, tried.batch.labels
    few = min(FEW, len(images))
    whole, part = _gradients(tried.model, images, labels), _gradients(tried.model, images[:few], labels[:few])
    apart = max(_apart(one[:few], other) for one, other in zip(whole, part, strict=True))
    if apart <= SAME_IN_BATCH:
        return None
    return Flag(
        "batch-dependent",
        "error",
        f"the first {few} of {len(images)} images have other logits or gradients in a batch of their own ({apart:.0e} "
        "relative): results depend on the batch size",
    )


def _gradients(model: Classifier, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Logits, and gradients of the margin."""
    variable = images.clone().requires_grad_(True)
    with torch.enable_grad():
        logits = model(variable).float()
        (gradient,) = torch.autograd.grad(margin(logits, labels, labels).sum(), variable)
    return logits.detach(), gradient.nan_to_num(0.0)


def _apart(one: Tensor, other: Tensor) -> float:
    """The difference relative to the larger, as a length."""
    return float((one - other).norm() / torch.maximum(one.norm(), other.norm()).clamp_min(1e-30))


def _unbounded(tried: _Trials, note: Callable[[str], None]) -> Flag | None:
    note("an attack that may do anything")
    left, total = int((~tried.broken(UNBOUNDED)).sum()), len(tried.batch)
    if not exceeds(left, total, UNBROKEN_SHARE):
        return None
    return Flag(
        "unbounded-attack-fails",
        "warning",
        f"{left} of {total} samples withstand gradient steps that may change every pixel at will: "
        "the gradients lead nowhere, and no number from a gradient attack can be trusted",
    )


def _more_steps(tried: _Trials, note: Callable[[str], None]) -> Flag | None:
    note("more steps")
    few, many = (tried.broken(f"pgd-linf:radius={tried.radius!r},steps={steps}") for steps in (5, 50))
    lost, won = int((few & ~many).sum()), int((many & ~few).sum())
    if not exceeds(lost, lost + won, 0.5):
        return None
    return Flag(
        "more-steps-do-not-help",
        "warning",
        f"at radius {tried.radius:.4f} ten times the steps lose {lost} samples and win {won}: the objective is too "
        "rough to follow, and a search with restarts or without gradients may find more",
    )


def _black_box(tried: _Trials, note: Callable[[str], None]) -> Flag | None:
    note("an attack without gradients")
    radii = (tried.radius,) if tried.is_broken_there else (8 / 255, 32 / 255)
    for radius in radii:
        standing = (~tried.broken(f"pgd-linf:radius={radius!r},steps=50")).nonzero().squeeze(1)
        alone = _broken_by_queries_alone(tried, standing, radius) if len(standing) else 0
        if exceeds(alone, len(standing), QUERIES_SHARE):
            return Flag(
                "black-box-beats-white-box",
                "warning",
                f"{alone} of {len(standing)} samples that gradient steps leave at radius {radius:.4f} are broken by "
                f"{TRIAL_QUERIES} random queries and by no strong attack with gradients: the model may hide them",
            )
    return None


def _broken_by_queries_alone(tried: _Trials, standing: Tensor, radius: float) -> int:
    left = _some(tried.batch, standing)
    by_queries = tried.broken_of(left, f"square-linf:radius={radius!r},queries={TRIAL_QUERIES},rescale=true")
    alone = by_queries
    for ref in STRONG:
        if exceeds(int(alone.sum()), len(left), QUERIES_SHARE):  # all of them again: batches as large as before
            alone = alone & ~tried.broken_of(left, f"{ref},radius={radius!r}")
    return int(alone.sum())


def _unconfirmed(tried: _Trials, note: Callable[[str], None]) -> Flag | None:  # noqa: ARG001 - all passes are made
    if not exceeds(tried.unconfirmed, len(tried.batch), UNBROKEN_SHARE):
        return None
    return Flag(
        "success-not-confirmed",
        "error",
        f"{tried.unconfirmed} of {len(tried.batch)} samples that an attack saw broken are right when scored as a run "
        "scores them: the model answers otherwise with gradients on, in another batch or at another call",
    )


def _some(batch: Batch, rows: Tensor) -> Batch:
    index = rows.to(batch.images.device)
    return Batch(batch.images[index], batch.labels[index], tuple(batch.ids[i] for i in rows.tolist()))


def _scored(model: Classifier, images: Tensor) -> Tensor:
    with torch.no_grad():
        rows = parts_of(torch.arange(len(images), device=images.device), TRIAL_WIDTH)
        return torch.cat([model(images[part]).float() for part in rows])


TRIALS = (_batches, _unbounded, _more_steps, _black_box, _unconfirmed)
