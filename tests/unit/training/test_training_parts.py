"""The parts of training against closed forms: optimisers, schedules, losses, averages, augmentation, adversaries."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from holdfast.attacks.every_step import last_images
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch
from holdfast.models import load
from holdfast.training import augmentation
from holdfast.training import training_losses as losses
from holdfast.training.adversaries import SteepestOfBalls, WorstAdversary, adversaries_of, adversary
from holdfast.training.optimisers import AdamW, AveragedWeights, Sgd, rate_at
from holdfast.training.recipes import Recipe

GENERATOR = torch.Generator().manual_seed(0)


def noise(count: int) -> Noise:
    return Noise.of(0, [f"{i}" for i in range(count)])


def fashion(count: int) -> Batch:
    from holdfast.datasets import load as load_dataset

    data = load_dataset("fashion-mnist-2k")
    pixels = data.images(range(count)).pixels.float() / 255
    return Batch(pixels, torch.from_numpy(data.labels[:count]), tuple(data.ids[:count]))


def test_sgd_takes_nesterov_steps_and_decays_in_the_gradient() -> None:
    weight = torch.randn(3, 4, generator=GENERATOR)
    expected, velocity, mine = (
        weight.double(),
        torch.zeros(3, 4).double(),
        Sgd([weight], momentum=0.9, weight_decay=0.01),
    )
    for step in range(5):
        gradient, rate = torch.randn(3, 4, generator=GENERATOR), 0.1 / (step + 1)
        mine.rate.fill_(rate)
        mine.step([gradient])
        slope = gradient.double() + 0.01 * expected
        velocity = 0.9 * velocity + slope
        expected = expected - rate * (slope + 0.9 * velocity)
    torch.testing.assert_close(weight, expected.float())


def test_adamw_corrects_its_means_and_decays_apart_from_them() -> None:
    """Algorithm 2 of arXiv:1711.05101."""
    weight = torch.randn(3, 4, generator=GENERATOR)
    expected, mine = weight.double(), AdamW([weight], weight_decay=0.01)
    mean = square = torch.zeros(3, 4).double()
    for step in range(5):
        gradient, rate = torch.randn(3, 4, generator=GENERATOR), 0.1 / (step + 1)
        mine.rate.fill_(rate)
        mine.step([gradient])
        mean, square = 0.9 * mean + 0.1 * gradient.double(), 0.999 * square + 0.001 * gradient.double() ** 2
        moved = mean / (1 - 0.9 ** (step + 1)) / ((square / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8)
        expected = expected * (1 - rate * 0.01) - rate * moved
    torch.testing.assert_close(weight, expected.float(), rtol=1e-5, atol=1e-6)  # five steps of float32


def test_schedules_have_their_shapes() -> None:
    recipe = Recipe("r", rate=0.4, peak=0.25, milestones=(0.5, 0.75))
    cyclic = [rate_at(recipe, step, 1000) for step in range(1000)]
    assert max(cyclic) == pytest.approx(0.4, rel=5e-3)
    assert cyclic.index(max(cyclic)) in (249, 250)
    assert cyclic[-1] < 0.001
    piecewise = [rate_at(replace(recipe, schedule="piecewise"), step, 4) for step in range(4)]
    assert piecewise == pytest.approx([0.4, 0.4, 0.04, 0.004])
    cosine = [rate_at(replace(recipe, schedule="cosine"), step, 1000) for step in range(1000)]
    assert cosine[524] == pytest.approx(0.2, rel=5e-3), "half of the rate halfway through what follows the warm-up"
    assert rate_at(replace(recipe, schedule="constant"), 3, 4) == 0.4


def test_an_average_with_shares_of_one_over_k_is_the_mean() -> None:
    net = nn.Linear(2, 2)
    averaged, seen = AveragedWeights(net), []
    for count in range(4):
        with torch.no_grad():
            net.weight.copy_(torch.randn(2, 2, generator=GENERATOR))
        seen.append(net.weight.detach().clone())
        averaged.share.fill_(count / (count + 1))
        averaged.follow()
    other = nn.Linear(2, 2)
    averaged.write_to(other)
    torch.testing.assert_close(other.weight.detach(), torch.stack(seen).mean(0))


def test_the_penalty_of_irm_is_the_squared_slope_in_a_common_factor() -> None:
    logits, labels = torch.randn(30, 4, generator=GENERATOR), torch.randint(0, 4, (30,), generator=GENERATOR)
    environment = torch.arange(30) % 3
    expected = []
    for number in range(3):
        factor = torch.ones((), requires_grad=True)
        mine = environment == number
        (slope,) = torch.autograd.grad(F.cross_entropy(factor * logits[mine], labels[mine]), factor)
        expected.append(slope.square())
    penalty = losses.invariance_penalty(logits, labels, environment, 3)
    torch.testing.assert_close(penalty, torch.stack(expected).mean())


def test_mart_by_hand() -> None:
    clean, attacked = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    p, q = clean.softmax(1)[0].tolist(), attacked.softmax(1)[0].tolist()
    boosted = -math.log(q[0]) - math.log(1.0001 - q[1])
    divergence = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    by_hand = boosted + 5.0 * divergence * (1 - p[0])
    assert float(losses.mart_loss(clean, attacked, torch.tensor([0]), beta=5.0)) == pytest.approx(by_hand, rel=1e-5)


def test_the_divergence_of_equal_predictions_is_zero_and_mixed_labels_share_the_loss() -> None:
    logits = torch.randn(6, 3, generator=GENERATOR)
    assert losses.divergence(logits, logits.softmax(1)).abs().max() < 1e-6
    labels, other, own = torch.zeros(6).long(), torch.ones(6).long(), torch.full((6,), 0.25)
    mixed = losses.label_loss(logits, labels, other=other, own=own)
    one, two = (F.cross_entropy(logits, each, reduction="none") for each in (labels, other))
    torch.testing.assert_close(mixed, 0.25 * one + 0.75 * two)


@pytest.mark.parametrize("name", ["pgd-linf", "pgd-l2", "pgd-l1"])
def test_training_attacks_with_the_loop_of_the_evaluation(name: str) -> None:
    model, batch = load("fashion-at-linf"), fashion(12)
    attack = registry.build(registry.bind("attack", f"{name}:steps=3,all_steps=true"))
    evaluated = attack(model, batch, noise(12), width=12).images
    assert torch.equal(last_images(attack, model, batch, noise(12)), evaluated)


def test_apgd_trains_on_the_best_point_that_the_evaluation_keeps() -> None:
    model, batch = load("fashion-at-linf"), fashion(12)
    attack = registry.build(registry.bind("attack", "apgd-ce-l1:radius=8,steps=6"))
    whole = replace(attack, stop_when_broken=False)
    radius = torch.full((12,), 8.0)
    result = whole.run(model, batch, noise(12), radius, width=12)
    expected = (batch.images + result.variable).clamp(0, 1)
    torch.testing.assert_close(last_images(attack, model, batch, noise(12)), expected)


def test_a_union_takes_the_image_of_largest_loss() -> None:
    model, batch = load("fashion-standard"), fashion(16)
    parts = [adversary(text) for text in ("pgd-linf:radius=4/255,steps=2", "pgd-l2:radius=0.5,steps=2")]
    worst = WorstAdversary(tuple(parts))(model, batch, noise(16))
    alone = [part(model, batch, noise(16).scope(f"threat {i}")) for i, part in enumerate(parts)]
    loss = [F.cross_entropy(model(images), batch.labels, reduction="none") for images in (*alone, worst)]
    torch.testing.assert_close(loss[2], torch.maximum(loss[0], loss[1]))


def test_msd_stays_in_the_union_and_is_no_weaker_than_its_first_norm_alone() -> None:
    model, batch = load("fashion-standard"), fashion(16)
    threats = ("pgd-linf:radius=4/255,steps=4", "pgd-l2:radius=0.5,steps=4")
    (msd,) = adversaries_of(Recipe("r", loss="pgd-at", threats=threats, union="msd"))
    assert isinstance(msd, SteepestOfBalls)
    images = msd(model, batch, noise(16))
    change = (images - batch.images).flatten(1)
    inside = (change.abs().amax(1) <= 4 / 255 + 1e-6) | (change.norm(dim=1) <= 0.5 + 1e-5)
    assert inside.all()
    assert images.min() >= 0
    assert images.max() <= 1
    clean, attacked = (F.cross_entropy(model(each), batch.labels) for each in (batch.images, images))
    assert attacked > clean


def test_a_corruption_without_severity_leaves_half_of_the_images_as_they_are() -> None:
    batch = Batch(torch.full((400, 3, 8, 8), 0.5), torch.zeros(400).long(), ("",) * 400)
    changed = adversary("gaussian-noise")(load("fashion-standard"), batch, noise(400))
    same = (changed == batch.images).flatten(1).all(1)
    assert 150 < int(same.sum()) < 250  # 200 ± 5 standard deviations of a fair coin
    spread = (changed[~same] - 0.5).flatten(1).std(1)
    assert spread.min() > 0.02
    assert spread.max() < 0.15


def test_shifts_and_mirrors_invent_no_pixels() -> None:
    images = torch.zeros(200, 1, 8, 8)
    images[:, :, 3, 2] = 1.0
    moved = augmentation.shifted_and_flipped(images, noise(200), shift=2, flip=True)
    assert moved.sum((1, 2, 3)).tolist() == [1.0] * 200
    positions = {tuple(where) for where in moved.nonzero()[:, 2:].tolist()}
    assert {row for row, _ in positions} == {1, 2, 3, 4, 5}
    assert {column for _, column in positions} == {0, 1, 2, 3, 4} | {3, 4, 5, 6, 7}, "its own columns and their mirrors"
    assert torch.equal(augmentation.shifted_and_flipped(images, noise(200), shift=0, flip=False), images)


def test_a_hole_covers_at_most_a_quarter_and_cutmix_counts_its_pixels() -> None:
    images = torch.rand(100, 3, 32, 32, generator=GENERATOR) * 0.4
    hole = (augmentation.with_hole(images, noise(100)) == 0.5).all(1).float().mean((1, 2))
    assert hole.max() <= 0.25
    assert hole.min() >= 0.0625 - 1e-6, "in a corner a quarter of the square is left"
    mixed, partner, own = augmentation.cut_and_mixed(images, noise(100))
    from_partner = (mixed == images[partner]).all(1).float().mean((1, 2))
    torch.testing.assert_close(1 - own, from_partner)
    assert own.min() >= 0
    assert 0.5 < float(own.mean()) < 0.8, "cut at the borders, the mean of a uniform share grows"


def test_random_changes_keep_images_valid_and_leave_none_as_it_was() -> None:
    images = torch.rand(50, 3, 16, 16, generator=GENERATOR)
    changed = augmentation.randomly_changed(images, noise(50))
    assert changed.shape == images.shape
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert int(((changed - images).abs().flatten(1).amax(1) > 1e-3).sum()) >= 45
    assert torch.equal(changed, augmentation.randomly_changed(images, noise(50)))
