"""Each probe: a model in order triggers none, and each broken one triggers its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from holdfast.core.registry import registry
from holdfast.core.types import Flag, ModelCard
from holdfast.models import TorchClassifier, check, load, prepared, weights_digest, wrap
from holdfast.models.check import MOST_IMAGES, PROBES
from holdfast.models.subject import NOISY


def classifier_of(net: nn.Module, *, classes: int = 4, differentiable: bool = True) -> TorchClassifier:
    return TorchClassifier(net, ModelCard("net", "live", classes, channels=1, differentiable=differentiable))


class Around(nn.Module):
    """A good network with something done around it: `change(net, images)`."""

    def __init__(self, net: nn.Module, change: Callable[[nn.Module, Tensor], Any]) -> None:
        super().__init__()
        self.net = net
        self.change = change
        self.eval()

    def forward(self, images: Tensor) -> Any:
        return self.change(self.net, images)


class Insists(nn.Dropout):
    """Dropout that never stops."""

    def train(self, mode: bool = True) -> nn.Module:
        return super().train(True)


def of(flags: tuple[Flag, ...]) -> dict[str, str]:
    return {flag.name: flag.level for flag in flags}


def raises(net: nn.Module, images: Tensor) -> Tensor:
    raise ValueError("out of cheese")


def optimises(net: nn.Module, images: Tensor) -> Tensor:
    with torch.enable_grad():
        moved = images.detach().clone().requires_grad_(True)
        (gradient,) = torch.autograd.grad(net(moved).logsumexp(1).sum(), moved)
    return net(images + 1e-4 * gradient)


def optimises_backward(net: nn.Module, images: Tensor) -> Tensor:
    with torch.enable_grad():
        moved = images.detach().clone().requires_grad_(True)
        net(moved).sum().backward()
    return net(images)


def writes(net: nn.Module, images: Tensor) -> Tensor:
    if images.requires_grad:
        images = images.clone()
    return net(images.sub_(0.0001))


def infinite_slope(net: nn.Module, images: Tensor) -> Tensor:
    """√0 in every logit: finite forward, infinite backward."""
    return net(images) + (images - images.detach()).sum((1, 2, 3)).abs().sqrt()[:, None]


FIRST = torch.tensor([1.0, 0, 0, 0])


class Backward(torch.autograd.Function):
    """The identity, whose gradient is changed on the way back."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.change = change
        return images.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return ctx.change(gradient), None


def corner(gradient: Tensor) -> Tensor:
    """The gradient of a few pixels alone."""
    return gradient * torch.nn.functional.pad(torch.ones(1, 1, 2, 2), (0, 6, 0, 6))


class Counts(nn.Module):
    """Counts its calls, and could act on it."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.calls = net, 0
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        logits: Tensor = self.net(images)
        return logits


BROKEN: list[tuple[str, str, Callable[[nn.Module, Tensor], Any]]] = [
    ("forward", "error", raises),
    ("forward", "error", lambda net, x: None),
    ("wrong-outputs", "error", lambda net, x: net(x)[:, :3]),
    ("wrong-outputs", "error", lambda net, x: net(x).sum(1)),
    ("wrong-outputs", "error", lambda net, x: (net(x), x)),
    ("non-finite-logits", "error", lambda net, x: net(x) / (x[:, :, :1, :1].flatten(1) > 0.2)),
    ("constant-logits", "error", lambda net, x: net(x * 0 + 0.5) + torch.arange(4.0)),
    ("probabilities", "warning", lambda net, x: net(x).softmax(1)),
    ("at-chance", "warning", lambda net, x: net(x).roll(1, 1)),
    ("random-forward", "warning", lambda net, x: net(x + 0.01 * torch.randn_like(x))),
    ("batch-dependent", "error", lambda net, x: net(x) - 0.1 * net(x).mean(0)),
    ("optimisation-loop", "warning", optimises),
    ("optimisation-loop", "warning", optimises_backward),
    ("optimisation-loop", "warning", lambda net, x: torch.stack([net(x) for _ in range(8)]).mean(0)),
    ("not-differentiable", "error", lambda net, x: net(x.detach())),
    ("not-differentiable", "error", lambda net, x: torch.from_numpy(net(x).detach().numpy())),
    ("gradient-nan", "error", infinite_slope),
    ("gradient-zero", "error", lambda net, x: net((x * 255).round() / 255)),
    ("gradient-zero", "warning", lambda net, x: net(torch.where(x[:, :, :1, :1] > 0.5, x.round(), x))),
    (
        "random-forward",
        "warning",
        lambda net, x: net(x + 0.01 * torch.randn_like(x)) if torch.rand(()) < 0.3 else net(x),
    ),
    ("batch-dependent", "error", lambda net, x: net(x) * (1.0 if len(x) <= 16 else 0.9)),
    ("batch-dependent", "error", lambda net, x: net(x) + 0.3 * net(x[-1:])),
    ("gradient-mode", "error", lambda net, x: net(x.flip(3)) if torch.is_grad_enabled() else net(x)),
    ("gradient-mode", "error", lambda net, x: net(x.flip(3)) if x.requires_grad else net(x)),
    ("memory-dependent", "error", lambda net, x: net(x) * (1.0 if x.is_contiguous() or len(x) != 8 else 0.9)),
    ("noisy-logits", "error", lambda net, x: net(x) + 0 * (x.flatten(1).amax(1) < 1).float().log()[:, None]),
    ("gradient-false", "warning", lambda net, x: net(Backward.apply(x, torch.neg))),
    ("gradient-false", "warning", lambda net, x: net(Backward.apply(x, lambda g: 100 * g))),
    ("gradient-false", "warning", lambda net, x: net(Backward.apply(x, lambda g: g.flip(3)))),
    ("gradient-false", "warning", lambda net, x: net(Backward.apply(x, corner))),
    ("gradient-false", "warning", lambda net, x: net(x) + 0.1 * torch.sin(1e5 * x.sum((1, 2, 3)))[:, None] * FIRST),
    ("input-rounded", "warning", lambda net, x: net(x + ((x * 100).round() / 100 - x).detach())),
]


def test_a_model_in_order_has_no_flags(brightest: nn.Module, images: Tensor, labels: Tensor) -> None:
    assert check(classifier_of(brightest), images, labels) == ()
    assert check(prepared(classifier_of(brightest)), images, labels) == ()


@pytest.mark.parametrize(("name", "level", "change"), BROKEN)
def test_each_fault_has_its_own_flag(
    name: str, level: str, change: Any, brightest: nn.Module, images: Tensor, labels: Tensor
) -> None:
    flags = check(classifier_of(Around(brightest, change)), images, labels)
    assert of(flags) == {name: level}


def test_every_probe_has_a_model_that_triggers_it() -> None:
    elsewhere = {"train-mode", "images-outside", "keeps-state", "one-class", "writes-input"}
    assert {probe.__name__.replace("_", "-") for probe in PROBES} == {name for name, *_ in BROKEN} | elsewhere


def test_training_mode_is_remembered_and_noted(brightest: nn.Module, images: Tensor, labels: Tensor) -> None:
    model = classifier_of(nn.Sequential(brightest, nn.Dropout()))
    assert of(check(model, images, labels)) == {"train-mode": "note"}
    assert model.training, "check leaves the modes as they were"
    assert of(check(prepared(model), images, labels)) == {"train-mode": "note"}
    stubborn = classifier_of(nn.Sequential(Insists(0.1), brightest))
    assert of(check(prepared(stubborn), images, labels)) == {"train-mode": "error", "random-forward": "warning"}


def test_a_model_that_cannot_change_its_mode_is_flagged(brightest: nn.Module, images: Tensor, labels: Tensor) -> None:
    class NoMode(nn.Identity):
        def train(self, mode: bool = True) -> nn.Module:
            raise NotImplementedError("no modes here")

    flags = check(classifier_of(nn.Sequential(brightest, NoMode())), images, labels)
    assert flags[0].name == "train-mode"
    assert "NotImplementedError here: no modes here" in flags[0].explanation


def test_a_missing_normalisation_is_named(images: Tensor, labels: Tensor, brightest: nn.Module) -> None:
    trained_on_bytes = Around(brightest, lambda net, x: net(x) + torch.tensor([20.0, 0, 0, 0]))
    one_class, flag = check(classifier_of(trained_on_bytes), images, labels)
    assert (one_class.name, flag.name) == ("one-class", "at-chance")
    assert "With images in [0, 255] it is 16" in flag.explanation
    shuffled = Around(brightest, lambda net, x: net(x).roll(1, 1))
    (flag,) = check(classifier_of(shuffled), images, labels)
    assert "order of the classes" in flag.explanation


def test_few_images_are_not_enough_to_speak_of_chance(images: Tensor, labels: Tensor, brightest: nn.Module) -> None:
    assert check(classifier_of(brightest), images[:4], (labels[:4] + 1) % 4) == ()


def test_labels_the_model_does_not_know_are_flagged(images: Tensor, labels: Tensor, brightest: nn.Module) -> None:
    (flag,) = check(classifier_of(brightest), images, labels + 1)
    assert (flag.name, flag.level) == ("wrong-outputs", "error")
    assert "Labels go from 1 to 4" in flag.explanation


@pytest.mark.parametrize("scale", [2.0, -1.0, float("nan")])
def test_images_outside_the_range_are_flagged_first(
    scale: float, images: Tensor, labels: Tensor, brightest: nn.Module
) -> None:
    assert of(check(classifier_of(brightest), scale * images, labels)) == {"images-outside": "error"}
    assert of(check(classifier_of(brightest), (images * 255).byte(), labels)) == {"images-outside": "error"}


def test_a_saturated_loss_is_told_from_a_cut_gradient(images: Tensor, labels: Tensor, brightest: nn.Module) -> None:
    sure = Around(brightest, lambda net, x: 1e4 * net(x))  # exp(-1000) is zero in float32
    (flag,) = check(classifier_of(sure), images, labels)
    assert (flag.name, flag.level) == ("gradient-zero", "warning")
    assert "margin or DLR" in flag.explanation


def test_a_forward_only_card_is_a_warning(images: Tensor, labels: Tensor, brightest: nn.Module) -> None:
    flags = check(classifier_of(brightest, differentiable=False), images, labels)
    assert of(flags) == {"not-differentiable": "warning"}


def test_a_part_without_weights_may_be_used_often(images: Tensor, labels: Tensor, brightest: nn.Module) -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = brightest
            self.relu = nn.ReLU()
            self.eval()

        def forward(self, images: Tensor) -> Tensor:
            for _ in range(20):
                images = self.relu(images)
            logits: Tensor = self.net(images)
            return logits

    assert check(classifier_of(Shared()), images, labels) == ()


def test_a_model_that_fails_late_gets_a_flag_for_it(images: Tensor, labels: Tensor, brightest: nn.Module) -> None:
    def only_batches(net: nn.Module, x: Tensor) -> Tensor:
        if len(x) == 1:
            raise IndexError("squeezed")
        if x.requires_grad:
            raise RuntimeError
        logits: Tensor = net(x)
        return logits

    flags = check(classifier_of(Around(brightest, only_batches)), images, labels)
    raised = {flag.name: flag.explanation for flag in flags}
    assert "IndexError here: squeezed" in raised["batch-dependent"]
    assert "RuntimeError here: no message" in raised["not-differentiable"]
    assert all(flag.level == "error" for flag in flags)


def test_a_check_is_cheap_and_leaves_no_trace(images: Tensor, labels: Tensor, brightest: nn.Module) -> None:
    seen: list[int] = []
    model = classifier_of(Around(brightest, lambda net, x: seen.append(len(x)) or net(x)))
    before, grad = weights_digest(model), torch.autograd.grad
    many = images.repeat(10, 1, 1, 1)
    copy = many.clone()
    assert check(model, many, labels.repeat(10)) == ()
    assert max(seen) == MOST_IMAGES + NOISY
    assert sum(seen) <= 14 * MOST_IMAGES
    assert torch.equal(many, copy)
    assert weights_digest(model) == before
    assert torch.autograd.grad is grad
    assert not any(part._forward_pre_hooks for part in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_every_explanation_is_a_few_plain_sentences(images: Tensor, labels: Tensor, brightest: nn.Module) -> None:
    for _, _, change in BROKEN:
        for flag in check(classifier_of(Around(brightest, change)), images, labels):
            assert flag.level in ("note", "warning", "error")
            assert flag.explanation.endswith(".")
            assert 30 < len(flag.explanation) < 400


def test_a_classifier_of_ones_own_that_writes_into_its_images_is_flagged(
    brightest: nn.Module, images: Tensor, labels: Tensor
) -> None:
    """A network gets images of its own; other classifiers are called with those of the run."""

    def writing(given: Tensor) -> Tensor:
        return writes(brightest, given)

    writing.card = classifier_of(brightest).card  # type: ignore[attr-defined]
    assert of(check(writing, images, labels)) == {"writes-input": "error"}  # type: ignore[arg-type]
    assert of(check(classifier_of(Around(brightest, writes)), images, labels)) == {}


def test_a_model_that_writes_to_itself_is_flagged(images: Tensor, labels: Tensor, brightest: nn.Module) -> None:
    (flag,) = check(classifier_of(Counts(brightest)), images, labels)
    assert flag.name == "keeps-state"
    assert "net.calls" in flag.explanation


def test_a_cache_that_is_full_after_the_first_call_is_no_state(images: Tensor, labels: Tensor) -> None:
    class Caches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.grids: dict[int, Tensor] = {}
            self.sharpness = nn.Parameter(torch.tensor(20.0))
            self.eval()

        def forward(self, images: Tensor) -> Tensor:
            side = images.shape[-1] // 2
            grid = self.grids.setdefault(side, torch.ones(1, 1, side, side))
            quarters = [q * grid for half in images.tensor_split(2, dim=2) for q in half.tensor_split(2, dim=3)]
            return self.sharpness * torch.stack([q.mean((1, 2, 3)) for q in quarters], dim=1)

    assert check(classifier_of(Caches()), images, labels) == ()


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_predictor_of_one_class_is_flagged_however_common_the_class(share: float) -> None:
    """Seen: on a dataset of which 90 % have one label it passed, since that many answers were right."""
    random = torch.Generator().manual_seed(0)
    images = torch.rand(200, 1, 8, 8, generator=random)
    labels = (torch.arange(200) >= 200 * share).long()
    leans = Around(nn.Identity(), lambda net, x: torch.stack([x.mean((1, 2, 3)) + 5, x[:, 0, 0, 0]], dim=1))
    flags = {flag.name: flag.explanation for flag in check(classifier_of(leans, classes=2), images, labels)}
    assert "one-class" in flags
    assert f"has {100 * share:.1f} % of all images" in flags["one-class"]
    assert "16 of 16 images of 2 labels" in flags["one-class"]


def test_a_good_model_on_uneven_labels_is_not_flagged() -> None:
    random = torch.Generator().manual_seed(0)
    images = torch.rand(200, 1, 8, 8, generator=random)
    labels = (torch.arange(200) >= 190).long()
    images[labels == 1, :, :4] += 0.5 * (1 - images[labels == 1, :, :4])
    good = Around(
        nn.Identity(),
        lambda net, x: 20 * torch.stack([0.61 - x[:, :, :4].mean((1, 2, 3)), x[:, :, :4].mean((1, 2, 3)) - 0.61], 1),
    )
    assert check(classifier_of(good, classes=2), images, labels) == ()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_honest_precision_of_any_kind_raises_no_flag(dtype: torch.dtype, images: Tensor, labels: Tensor) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimiser.step()
    model = Around(net.to(dtype), lambda inner, x: inner(x.to(dtype)).float())
    assert check(classifier_of(model), images, labels) == ()


class PerImage(nn.Module):
    """A network that takes images one by one, as some are written."""

    def __init__(self, net: nn.Module, times: int = 1) -> None:
        super().__init__()
        self.net, self.times = net, times

    def forward(self, images: Tensor) -> Tensor:
        return torch.cat([sum(self.net(image[None]) for _ in range(self.times)) for image in images])


def test_images_taken_one_by_one_are_no_optimisation(images: Tensor, labels: Tensor, brightest: nn.Module) -> None:
    many = images.repeat(4, 1, 1, 1)[:16], labels.repeat(4)[:16]
    model = classifier_of(PerImage(brightest))
    assert "optimisation-loop" not in {flag.name for flag in check(model, *many)}
    model = classifier_of(PerImage(brightest, times=8))
    assert "optimisation-loop" in {flag.name for flag in check(model, *many)}


class Moved(nn.Module):
    """Logits that have a large number in common."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images) + 3e3


def test_what_all_logits_have_in_common_makes_no_gradient_false() -> None:
    data = registry.build(registry.bind("dataset", "fashion-mnist-2k"))
    some = data.images(range(16)).pixels.float() / 255
    model = wrap(Moved(load("fashion-standard").net).eval(), name="moved", classes=10, channels=1)
    assert {flag.name for flag in check(model, some, torch.from_numpy(data.labels[:16]))} == set()
