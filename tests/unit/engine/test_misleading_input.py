"""Input that would give a number without meaning is an error or a flag, in every command."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.core.errors import HoldfastError, HoldfastWarning, Misuse
from holdfast.core.registry import registry
from holdfast.engine.behaviour import gives_gradients
from holdfast.engine.evaluate import evaluate
from holdfast.engine.flags import radius_flags
from holdfast.engine.jobs import RunOptions
from holdfast.engine.plan import plan
from holdfast.models import wrap
from holdfast.store import Store

MODEL = "fashion-standard"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


class Wide(nn.Module):
    """Many classes, of which the first ones answer."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(28 * 28, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.last(images.flatten(1))


@pytest.mark.parametrize("classes", [3, 9, 11, 1000])
def test_a_model_of_other_classes_is_an_error_that_names_both_counts(
    classes: int, store: Store, tiny_data: Callable[..., str]
) -> None:
    data = tiny_data(classes=5, name="five")
    model = wrap(Wide(classes), name="wide", channels=1, size=28)
    (outcome,) = evaluate(model, data, store=store)
    assert outcome.rows is None
    assert f"`wide` has {classes:,} classes and `five` has 5" in str(outcome.error)
    assert "answers=" in str(outcome.error)
    (planned,) = plan([model], [data], store=store)
    assert planned.problem is not None
    assert "has 5" in planned.problem


def test_every_command_refuses_other_counts_of_classes(
    run: Callable[..., object], tiny_data: Callable[..., str]
) -> None:
    data = tiny_data(classes=5, name="five")
    for words in (("evaluate", MODEL, "--scenario", data), ("check", MODEL, "--dataset", data)):
        answer = run(*words)
        assert answer.code == 1, answer  # type: ignore[attr-defined]
        assert "has 10 classes and `five` has 5" in answer.err.replace("\n", " ")  # type: ignore[attr-defined]
    assert "cannot run" in run("plan", MODEL, "--scenario", data).out  # type: ignore[attr-defined]


@pytest.mark.parametrize("answers", ["10", "[0,1,2,3,4]"])
def test_answers_make_the_same_pair_run(answers: str, store: Store, tiny_data: Callable[..., str]) -> None:
    data = tiny_data(classes=5, name="five")
    (outcome,) = evaluate(MODEL, f"{data},answers={answers}", store=store)
    assert outcome.error is None
    assert outcome.rows is not None
    assert int(outcome.rows.predictions.max()) < (10 if answers == "10" else 5)


def test_other_answers_are_another_run(store: Store, tiny_data: Callable[..., str], tmp_path: Path) -> None:
    data, file = tiny_data(classes=3, name="three"), tmp_path / "map.txt"
    keys = set()
    for content in ("7\n2\n5\n", "5\n2\n7\n"):
        file.write_text(content)
        (outcome,) = evaluate(MODEL, f"{data},answers={file}", store=store)
        assert outcome.rows is not None
        assert outcome.fresh
        keys.add(outcome.rows.footer.key)
    assert len(keys) == 2


@pytest.mark.parametrize(
    "scenario",
    [
        "pgd-linf:radius=8",
        "square-linf:radius=1.01",
        "fgsm:radius=2",
        "sweep:attack=(pgd-linf),radii=[0.1,8]",
        "worst-of:attacks=[(pgd-l2),(fgsm:radius=4)]",
        "worst-of:attacks=[(pgd-l2),(fgsm)],radius=4",
        "sweep:attack=(worst-of:attacks=[(fgsm)]),radii=[8]",
        "autoattack-linf:radius=8",
    ],
)
def test_a_linf_radius_above_one_is_flagged(scenario: str) -> None:
    (flag,) = radius_flags(registry.scenario(f"fashion-mnist-2k+{scenario}"))
    assert flag.level == "warning"


@pytest.mark.parametrize(
    "scenario",
    [
        "pgd-linf",
        "pgd-linf:radius=1",
        "pgd-l2:radius=8",
        "fmn-linf",
        "jpeg-linf:radius=8",
        "contrast",
        "sweep:attack=(fgsm:radius=4),radii=[0.1]",
        "worst-of:attacks=[(fgsm),(pgd-l1)]",
    ],
)
def test_a_radius_that_can_be_meant_is_not_flagged(scenario: str) -> None:
    assert radius_flags(registry.scenario(f"fashion-mnist-2k+{scenario}")) == ()


def test_a_run_with_such_a_radius_warns_and_keeps_the_flag(store: Store, tiny_data: Callable[..., str]) -> None:
    with pytest.warns(HoldfastWarning, match="8/255 meant"):
        (outcome,) = evaluate(MODEL, f"{tiny_data(n=10)}+fgsm:radius=8", store=store)
    assert outcome.rows is not None
    assert "radius-above-1" in [flag.name for flag in outcome.rows.footer.flags]


@pytest.mark.parametrize(
    ("scale", "hint"), [(255.0, "divide them by 255"), (1.5, "clip them"), (-2.0, "normalisation inside")]
)
def test_floats_outside_the_range_get_the_right_hint(
    scale: float, hint: str, store: Store, tiny_data: Callable[..., str]
) -> None:
    images = (np.random.default_rng(0).random((60, 28, 28)) * scale).astype(np.float32)
    (outcome,) = evaluate(MODEL, tiny_data(images=images), store=store)
    assert hint in str(outcome.error)


class Numpy(nn.Module):
    """Answers through numpy, as a model of scikit-learn does."""

    def __init__(self, *, detached: bool) -> None:
        super().__init__()
        self.last, self.detached = nn.Linear(28 * 28, 10), detached

    def forward(self, images: Tensor) -> Tensor:
        if self.detached:
            return self.last(images.detach().flatten(1))
        pixels = images.numpy().reshape(len(images), -1)
        return torch.from_numpy(pixels @ self.last.weight.detach().numpy().T)


@pytest.mark.parametrize("detached", [False, True])
def test_a_model_without_gradients_is_refused_before_the_attack(
    detached: bool, store: Store, tiny_data: Callable[..., str]
) -> None:
    data, model = tiny_data(n=20), wrap(Numpy(detached=detached), name="numpy", channels=1, size=28)
    scenarios = [data, f"{data}+contrast", f"{data}+square-linf:queries=5", f"{data}+fgsm", f"{data}+autoattack-linf"]
    *fine, refused, also = evaluate(model, scenarios, store=store)
    assert [outcome.error for outcome in fine] == [None, None, None]
    assert "`numpy` gives no gradients, which `fgsm` needs" in str(refused.error)
    assert "gives no gradients" in str(also.error)
    assert [run.state for run in plan([model], scenarios, store=store)] == ["done"] * 3 + ["cannot run"] * 2


def test_code_named_by_a_ref_gets_the_error_that_onnx_gets(
    run: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "with_numpy.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.from_numpy(x.numpy().reshape(len(x), -1)[:, :10].copy())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    ref = "python:with_numpy:Net,classes=10,channels=1"
    answer = run("evaluate", ref, "--scenario", "fashion-mnist-2k+{fgsm,contrast}", "--samples", "10")
    assert answer.code == 1  # type: ignore[attr-defined]
    assert "gives no gradients, which `fgsm` needs" in " ".join(answer.err.split())  # type: ignore[attr-defined]
    assert answer.out.count("failed") == 2, "one failed, and the heading of that column"  # type: ignore[attr-defined]


def test_a_gradient_that_flows_is_seen(linear: Callable[..., object]) -> None:
    model = linear(classes=10, size=28)
    assert gives_gradients(model, torch.rand(1, 1, 28, 28))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "words", [{"seed": 10**30}, {"samples": 10**30}, {"batch_size": 10**30}, {"batch_size": 0}, {"samples": -1}]
)
def test_numbers_that_no_array_can_hold_are_refused(words: dict[str, int]) -> None:
    with pytest.raises(Misuse) as caught:
        RunOptions(**words)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 300


def test_no_warning_without_reason(store: Store, tiny_data: Callable[..., str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", HoldfastWarning)
        (outcome,) = evaluate(MODEL, f"{tiny_data(n=10)}+fgsm", store=store)
    assert not isinstance(outcome.error, HoldfastError)
