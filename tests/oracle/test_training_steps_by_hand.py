"""One step of training on a linear network, against the loss of the paper written out and torch's own gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.attacks.objectives import Objective
from holdfast.core.noise import Noise
from holdfast.core.types import Batch, ModelCard
from holdfast.training.adversaries import adversaries_of, adversary
from holdfast.training.learning_model import LearningModel
from holdfast.training.optimisers import Sgd
from holdfast.training.recipes import Recipe
from holdfast.training.training_data import TrainingData, training_data
from holdfast.training.training_losses import divergence, far_from, logit_distance
from holdfast.training.training_step import SEEDS, TrainingStep

COUNT, CLASSES = 8, 3
GENERATOR = torch.Generator().manual_seed(0)
IMAGES = 0.35 + 0.3 * torch.rand(COUNT, 1, 4, 4, generator=GENERATOR)  # no change below leaves [0, 1]
LABELS = torch.randint(0, CLASSES, (COUNT,), generator=GENERATOR)
ENVIRONMENT = torch.arange(COUNT) % 2
EVERY = torch.arange(COUNT)
DATA = TrainingData(IMAGES, LABELS, ENVIRONMENT, EVERY, EVERY[:0], CLASSES, 2)
PLAIN = Recipe("by-hand", augment=())
LINF, L2 = "pgd-linf:radius=0.05,steps=1", "pgd-l2:radius=0.3,steps=2"
TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}  # float32, sums in another order


def linear() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, CLASSES))


def learning(net: nn.Module) -> LearningModel:
    return LearningModel(net.train(), ModelCard(name="m", source="", classes=CLASSES, channels=1), mixed=False)


def attacked(text: str, *scopes: str, objective: Objective | None = None) -> Tensor:
    """The images as this threat makes them, by the draws that the step gives it."""
    model, noise = learning(linear()), Noise(EVERY * SEEDS)
    for scope in scopes:
        noise = noise.scope(scope)
    with model.attacked():
        return adversary(text)(model, Batch(IMAGES, LABELS, ("",) * COUNT), noise, objective).detach()


def gradients_of(recipe: Recipe) -> tuple[list[Tensor], float]:
    """What a step of plain descent at rate 1 takes from the weights, and its loss."""
    model = learning(linear())
    optimiser = Sgd(model.weights, momentum=0.0, weight_decay=0.0)
    optimiser.rate.fill_(1.0)
    step = TrainingStep(recipe, model, DATA, optimiser, None, batch=COUNT)
    step.index.copy_(EVERY)
    before = [weight.detach().clone() for weight in model.weights]
    step()
    return [old - new.detach() for old, new in zip(before, model.weights, strict=True)], float(step.losses)


def assert_step_is(recipe: Recipe, loss_of: Callable[[nn.Module], Tensor]) -> None:
    net = linear()
    loss = loss_of(net)
    expected = torch.autograd.grad(loss, list(net.parameters()))
    gradients, value = gradients_of(recipe)
    torch.testing.assert_close(value, float(loss.detach()), **TOLERANCE)
    torch.testing.assert_close(gradients, list(expected), **TOLERANCE)


def test_trades_adds_beta_times_the_divergence_of_attacked_from_clean_predictions() -> None:
    clean = linear()(IMAGES).detach().softmax(1)
    images = attacked(LINF, "threat 0", objective=far_from(clean, divergence))

    def loss_of(net: nn.Module) -> Tensor:  # 1901.08573, Equation 5
        p, q = net(IMAGES).softmax(1), net(images).softmax(1)
        return F.cross_entropy(net(IMAGES), LABELS) + 4.0 * (p * (p / q).log()).sum(1).mean()

    assert_step_is(replace(PLAIN, loss="trades", beta=4.0, threats=(LINF,)), loss_of)


def test_an_average_union_is_the_mean_of_the_losses() -> None:
    one, two = attacked(LINF, "threat 0"), attacked(L2, "threat 1")
    recipe = replace(PLAIN, loss="pgd-at", threats=(LINF, L2), union="avg")
    assert_step_is(recipe, lambda net: 0.5 * (F.cross_entropy(net(one), LABELS) + F.cross_entropy(net(two), LABELS)))


def test_variation_is_the_distance_of_the_logits_of_two_attacked_versions() -> None:
    one = attacked(LINF, "threat 0")
    away = far_from(linear()(one).detach(), logit_distance)
    two = attacked(LINF, "threat 0", "second", objective=away)
    recipe = replace(PLAIN, loss="pgd-at", threats=(LINF,), variation=0.7)
    assert_step_is(
        recipe, lambda net: F.cross_entropy(net(one), LABELS) + 0.7 * (net(one) - net(two)).norm(dim=1).mean()
    )


def test_irm_adds_the_mean_penalty_to_the_mean_loss_of_the_environments() -> None:
    def loss_of(net: nn.Module) -> Tensor:  # 1907.02893, Equation (IRMv1)
        total = torch.zeros(())
        for number in range(2):
            factor, mine = torch.ones((), requires_grad=True), number == ENVIRONMENT
            loss = F.cross_entropy(factor * net(IMAGES[mine]), LABELS[mine])
            (slope,) = torch.autograd.grad(loss, factor, create_graph=True)
            total = total + (loss + 3.0 * slope.square()) / 2
        return total

    assert_step_is(replace(PLAIN, environments=("a", "b"), method="irm", penalty=3.0), loss_of)


def test_adversarial_weights_are_left_as_they_were_and_give_the_gradient() -> None:
    images, net = attacked(LINF, "threat 0"), linear()
    slopes = torch.autograd.grad(F.cross_entropy(net(images), LABELS), list(net.parameters()))
    weight = next(net.parameters())
    with torch.no_grad():  # 2004.05884, Equation 10, on matrices alone
        weight += 0.1 * weight.norm() * slopes[0] / slopes[0].norm()
    loss = F.cross_entropy(net(images), LABELS)
    expected = torch.autograd.grad(loss, list(net.parameters()))
    gradients, value = gradients_of(replace(PLAIN, loss="pgd-at", threats=(LINF,), awp=0.1))
    torch.testing.assert_close(value, float(loss.detach()), **TOLERANCE)
    torch.testing.assert_close(gradients, list(expected), **TOLERANCE)


def test_msd_takes_the_norm_of_largest_loss_at_every_step() -> None:
    net, share, steps = linear(), 2.5 / 3, 3  # of the radius, the default of both attacks
    change = torch.zeros_like(IMAGES)
    for _ in range(steps):  # 1909.04068, Algorithm 1
        here = (IMAGES + change).requires_grad_(True)
        (slope,) = torch.autograd.grad(F.cross_entropy(net(here), LABELS, reduction="sum"), here)
        one = (change + share * 0.02 * slope.sign()).clamp(-0.02, 0.02)
        two = change + share * 0.1 * slope / slope.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        two = two * (0.1 / two.flatten(1).norm(dim=1).view(-1, 1, 1, 1)).clamp(max=1.0)
        with torch.no_grad():
            worse = [F.cross_entropy(net(IMAGES + each), LABELS, reduction="none") for each in (one, two)]
        change = torch.where((worse[1] > worse[0]).view(-1, 1, 1, 1), two, one)
    threats = ("pgd-linf:radius=0.02,steps=3", "pgd-l2:radius=0.1,steps=3")
    (msd,) = adversaries_of(replace(PLAIN, loss="pgd-at", threats=threats, union="msd"))
    model = learning(linear())
    with model.attacked():
        images = msd(model, Batch(IMAGES, LABELS, ("",) * COUNT), Noise(EVERY))
    torch.testing.assert_close(images, IMAGES + change, **TOLERANCE)


def test_lisa_mixes_an_image_with_one_of_its_class_from_another_environment() -> None:
    recipe = Recipe(
        "lisa",
        environments=("subsample:fashion-mnist-2k,count=60", "subsample:fashion-mnist-2k,count=60,seed=1"),
        method="lisa",
        augment=(),
    )
    data = training_data(recipe, torch.device("cpu"))
    flat = data.labels.float() + 100.0 * data.environment.float()  # a pixel that tells class and environment
    data = replace(data, pixels=flat.view(-1, 1, 1, 1).expand(-1, 1, 4, 4).clone())
    step = TrainingStep(
        recipe, learning(linear()), data, Sgd([torch.zeros(1)], momentum=0, weight_decay=0), None, batch=120
    )
    step.index.copy_(data.used)
    mixed = step._augmented(Noise(data.used)).images[:, 0, 0, 0]
    share = (mixed - data.labels) / 100.0  # of the second environment
    own = torch.where(data.environment == 1, share, 1.0 - share)
    assert own.min() >= -1e-5
    assert own.max() <= 1 + 1e-5
    torch.testing.assert_close(own.mean(), torch.tensor(0.5), rtol=0, atol=0.13)  # 5 standard errors of a uniform share
