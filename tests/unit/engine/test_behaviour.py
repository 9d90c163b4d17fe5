"""Rows belong to a behaviour: a model that answers otherwise is measured anew, whatever it is called."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.core.labels import merged
from holdfast.engine.behaviour import alike, behaviour_name, behaviour_probe, known_behaviours
from holdfast.engine.evaluate import Outcome, evaluate
from holdfast.engine.second_probe import gradient_words, second_alike, second_probe
from holdfast.engine.watch import Watcher
from holdfast.models import load, wrap
from holdfast.models.label_mapped import with_label_map
from holdfast.store import Store

DATA = "fashion-mnist-2k"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


class Scaled(nn.Module):
    """A network with a plain number beside its weights."""

    def __init__(self, net: nn.Module, scale: float) -> None:
        super().__init__()
        self.net, self.scale = net, scale

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images) * self.scale


class Notes(Watcher):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def run(model: object, store: Store, watcher: Watcher | None = None, scenario: str = DATA) -> Outcome:
    (outcome,) = evaluate(model, scenario, store=store, samples=60, pictures=0, watcher=watcher or Watcher())  # type: ignore[arg-type]
    assert outcome.rows is not None, outcome.error
    return outcome


def net() -> nn.Module:
    return load("fashion-standard").net


def test_a_number_that_is_no_weight_makes_another_run(store: Store) -> None:
    first = run(wrap(Scaled(net(), 1.0), name="mine", classes=10, channels=1), store)
    heard = Notes()
    other = run(wrap(Scaled(net(), 0.0), name="mine", classes=10, channels=1), store, heard)
    assert other.fresh
    assert other.rows.correct.mean() < 0.3 < 0.8 < first.rows.correct.mean()  # type: ignore[union-attr]
    assert "answers otherwise" in heard.notes[0]
    assert len(store.footers()) == 2, "nothing is overwritten"
    again = run(wrap(Scaled(net(), 1.0), name="mine", classes=10, channels=1), store)
    assert not again.fresh
    assert again.rows.digest == first.rows.digest  # type: ignore[union-attr]


def test_an_attribute_changed_after_wrapping_is_seen(store: Store) -> None:
    scaled = Scaled(net(), 1.0)
    model = wrap(scaled, name="mine", classes=10, channels=1)
    assert run(model, store).fresh
    scaled.scale = 0.0
    assert run(model, store).fresh


def test_training_on_after_wrapping_is_seen(store: Store) -> None:
    own = net().train()
    model = wrap(own, name="mine", classes=10, channels=1)
    assert run(model, store).fresh
    assert not run(model, store).fresh
    with torch.no_grad():
        next(own.parameters()).add_(0.05)
    assert run(model, store).fresh


def test_the_label_map_is_part_of_the_run(store: Store) -> None:
    model = wrap(net(), name="mine", classes=10, channels=1)
    groups = [[i] for i in range(10)]
    forwards = run(with_label_map(model, merged(10, groups, words="own")), store)
    backwards = run(with_label_map(model, merged(10, groups[::-1], words="own")), store)
    assert backwards.fresh
    assert backwards.rows.correct.mean() < 0.3 < 0.8 < forwards.rows.correct.mean()  # type: ignore[union-attr]


FITTED = """
import numpy as np, torch
from holdfast.core.types import ModelCard
class Fitted:
    card = ModelCard(name="fitted", source="", classes=10, channels=1, differentiable=False)
    table = np.load("table.npy")
    def __call__(self, images):
        return torch.from_numpy(images.flatten(1).numpy() @ self.table).float()
def make():
    Fitted.table = np.load("table.npy")
    return Fitted()
"""


def test_a_model_of_code_without_parameters_is_known_by_its_answers(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fitted_once.py").write_text(FITTED)
    monkeypatch.chdir(tmp_path)
    draws = np.random.default_rng(0)
    np.save("table.npy", draws.normal(size=(784, 10)))
    assert run("python:fitted_once:make", store).fresh
    assert not run("python:fitted_once:make", store).fresh
    np.save("table.npy", draws.normal(size=(784, 10)))
    assert run("python:fitted_once:make", store).fresh


def test_rows_of_a_model_of_code_without_a_probe_are_not_used_again(store: Store) -> None:
    """Rows from before behaviours were kept: nobody can tell whose they are."""
    footer = run("fashion-standard", store).rows.footer  # type: ignore[union-attr]
    (known,) = known_behaviours([footer], footer.model_full, footer.weights, footer.data, footer.answers)
    assert not known.probe
    assert not alike((1e-4, 1.0, 2.0), known.probe)


@pytest.mark.parametrize("size", [1, 3, 16])
def test_another_batch_size_is_the_same_behaviour(size: int) -> None:
    model, images = load("fashion-standard"), torch.rand(16, 1, 28, 28)

    def in_parts(given: Tensor) -> Tensor:
        return torch.cat([model(part) for part in given.split(size)])  # type: ignore[no-untyped-call]

    in_parts.card = model.card  # type: ignore[attr-defined]
    assert alike(behaviour_probe(model, images), behaviour_probe(in_parts, images))  # type: ignore[arg-type]


@pytest.mark.parametrize("factor", [1.002, 0.99, -1.0, 1e6])
def test_small_and_large_changes_of_the_logits_are_another_behaviour(factor: float) -> None:
    model, images = load("fashion-standard"), torch.rand(16, 1, 28, 28)

    def changed(given: Tensor) -> Tensor:
        return model(given) * factor

    changed.card = model.card  # type: ignore[attr-defined]
    assert not alike(behaviour_probe(model, images), behaviour_probe(changed, images))  # type: ignore[arg-type]


def test_python_says_when_rows_are_used_again(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate("fashion-standard", [DATA, f"{DATA}+contrast:severity=1"], store=store, samples=20, pictures=0)
    assert "used again" not in capsys.readouterr().err
    evaluate("fashion-standard", [DATA, f"{DATA}+contrast:severity=1"], store=store, samples=20, pictures=0)
    assert "2 of 2 runs were measured before" in capsys.readouterr().err


def test_the_callers_module_is_as_it_was(store: Store) -> None:
    own = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(784), nn.Linear(784, 10), nn.Dropout(0.5))
    own[3].eval()
    own[2].bias.requires_grad_(False)
    state = {name: value.clone() for name, value in own.state_dict().items()}
    model = wrap(own, name="mine", classes=10, channels=1)
    run(model, store, scenario=f"{DATA}+pgd-linf:steps=2")
    assert [part.training for part in own.modules()] == [True, True, True, True, False]
    assert [parameter.requires_grad for parameter in own.parameters()] == [True, True, True, False]
    assert all(torch.equal(value, state[name]) for name, value in own.state_dict().items())
    loss = own(torch.rand(4, 1, 28, 28)).sum()
    loss.backward()
    assert own[2].weight.grad is not None


def test_rows_made_in_bfloat16_are_measured_as_another_run(store: Store) -> None:
    from dataclasses import replace

    scenario = f"{DATA}+pgd-linf:radius=1/255,steps=2"
    rows = run("fashion-standard", store, scenario=scenario).rows
    assert rows is not None
    weak = replace(rows.footer, facts={"gradients": "bfloat16, CUDA graphs; every success confirmed in float32"})
    store.files.remove(f"rows/{weak.key}.parquet")
    store.add_rows(rows.sealed(weak))
    heard = Notes()
    other = run("fashion-standard", Store(store.url), heard, scenario=scenario)
    assert other.fresh
    assert "bfloat16" in heard.notes[0]
    assert other.rows.footer.key != weak.key  # type: ignore[union-attr]
    assert not run("fashion-standard", Store(store.url), scenario=scenario).fresh


def test_boards_and_comparisons_take_the_latest_behaviour(store: Store) -> None:
    from holdfast.metrics.summary import lines
    from holdfast.store.exporting import measured

    run(wrap(Scaled(net(), 0.0), name="mine", classes=10, channels=1), store)
    time.sleep(1.1)  # footers tell seconds
    now = run(wrap(Scaled(net(), 1.0), name="mine", classes=10, channels=1), store).rows
    assert now is not None
    assert [line.footer.key for line in lines(store)][-1] == now.footer.key
    assert measured(store).table.column(DATA)[0] == pytest.approx(float(now.correct.mean()))


def test_a_change_that_touches_one_image_in_six_is_another_behaviour(store: Store) -> None:
    class Few(nn.Module):
        """Answers otherwise for some pictures."""

        def __init__(self, sign: float) -> None:
            super().__init__()
            self.net, self.sign = net(), sign

        def forward(self, images: Tensor) -> Tensor:
            logits = self.net(images)
            light, is_black = images.mean((1, 2, 3)), (images == 0).flatten(1).any(1)
            chosen = is_black & (light > 0.44) & (light < 0.54)
            return torch.where(chosen[:, None], self.sign * logits, logits)

    first = run(wrap(Few(1.0), name="mine", classes=10, channels=1), store)
    other = run(wrap(Few(-1.0), name="mine", classes=10, channels=1), store)
    assert other.fresh
    assert (first.rows.predictions != other.rows.predictions).mean() < 1 / 6  # type: ignore[union-attr]


def test_a_probe_of_fewer_images_is_compared_as_far_as_it_goes() -> None:
    model, images = load("fashion-standard"), torch.rand(40, 1, 28, 28)
    whole = behaviour_probe(model, images)
    former = whole[: 1 + 16 * 4]
    assert alike(whole, former)
    assert not alike(whole, (*former[:-1], former[-1] + 9))
    assert not alike(whole, whole[:20])


class Altered(nn.Module):
    """The images through one function and the logits through another."""

    def __init__(self, before: Callable[[Tensor], Tensor], after: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.net, self.before, self.after = net(), before, after

    def forward(self, images: Tensor) -> Tensor:
        return self.after(images, self.net(self.before(images)))


class Backwards(torch.autograd.Function):
    """The images, with a gradient times a factor."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return images.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0] * ctx.factor, None


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan")])
def test_a_gradient_that_was_mended_makes_another_run(factor: float, store: Store) -> None:
    def made(factor: float) -> object:
        whole = Altered(lambda images: Backwards.apply(images, factor), lambda _, logits: logits)
        return wrap(whole, name="mine", classes=10, channels=1)

    scenario = f"{DATA}+pgd-linf:radius=16/255,steps=5"
    masked = run(made(factor), store, scenario=scenario)
    assert not run(made(factor), store, scenario=scenario).fresh
    mended = run(made(1.0), store, scenario=scenario)
    assert mended.fresh
    assert mended.rows.correct.mean() < 0.1 < 0.5 < masked.rows.correct.mean()  # type: ignore[union-attr]
    assert not run(made(1.0), store, scenario=scenario).fresh
    assert not run(made(factor), store, scenario=scenario).fresh


def _exploding(images: Tensor, logits: Tensor) -> Tensor:
    has_black = (images == 0).flatten(1).any(1)
    return torch.where(has_black[:, None], logits, 1e7 * logits.abs())


def _infinite(images: Tensor, logits: Tensor) -> Tensor:
    has_black = (images == 0).flatten(1).any(1)
    return torch.where(has_black[:, None], logits, torch.inf)


def _without_last(value: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda _, logits: torch.cat([logits[:, :9], torch.full_like(logits[:, :1], value)], 1)


HUGE = {
    "noise explodes": _exploding,
    "noise is infinite": _infinite,
    "a class switched off": _without_last(-1e9),
    "a class at minus infinity": _without_last(-torch.inf),
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_logits_hide_no_other_behaviour(name: str, store: Store) -> None:
    def made(sign: float) -> object:
        whole = Altered(lambda images: images, lambda images, logits: HUGE[name](images, sign * logits))
        return wrap(whole, name="mine", classes=10, channels=1)

    assert run(made(1.0), store).fresh
    assert not run(made(1.0), store).fresh
    assert run(made(-1.0), store).fresh


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["fashion-standard", "fashion-at-linf"])
def test_a_second_probe_is_the_same_however_it_is_computed(name: str, threads: int) -> None:
    model, images = load(name), torch.rand(40, 1, 28, 28)
    before = torch.get_num_threads()
    whole = second_probe(model, images)
    try:
        torch.set_num_threads(threads)
        noisy = second_probe(model, images * (1 + 1e-6))
    finally:
        torch.set_num_threads(before)
    assert second_alike(whole, noisy, 2e-4, images=40)
    assert gradient_words(whole, 40) == gradient_words(noisy, 40)
    assert second_alike(whole, (), 2e-4, images=40), "rows from before have none"
    assert not second_alike(whole, whole[:-3], 2e-4, images=40)


def test_a_behaviour_is_named_by_its_logits_until_another_has_that_name() -> None:
    probe, other = (1e-4, *np.linspace(-3, 3, 18)), (1e-4, *(np.linspace(-3, 3, 18) * (1 + 1e-9)))
    second = tuple(np.linspace(-1, 1, 12))
    name = behaviour_name(probe, second)
    assert name == behaviour_name(probe), "keys from before gradients were kept stay"
    fuller = behaviour_name(probe, second, {name})
    assert fuller != name
    assert behaviour_name(other, second, {name, fuller}) not in {name, fuller}
