"""A quick pass never decides what is close: predictions are those of the model itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from holdfast.core.registry import registry
from holdfast.core.types import FastVersion
from holdfast.engine import jobs, two_step
from holdfast.engine.evaluate import evaluate
from holdfast.engine.measure import MeasureSettings, measure
from holdfast.engine.shards import LogitCache, Shard
from holdfast.engine.two_step import SAFETY, TOGETHER, TwoStepScorer, is_close, two_step_scorer
from holdfast.models import TorchClassifier, wrap


def linear(classes: int = 5) -> TorchClassifier:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, classes))
    return wrap(net, name="linear", classes=classes, channels=3)


def images_of(n: int, seed: int = 1) -> Tensor:
    return torch.rand(n, 3, 2, 2, generator=torch.Generator().manual_seed(seed))


class Rounded:
    """The model with its logits rounded to so many steps, as another precision would."""

    def __init__(self, model: TorchClassifier, step: float) -> None:
        self.model, self.step, self.widths = model, step, []

    def __call__(self, images: Tensor) -> Tensor:
        self.widths.append(len(images))
        return (self.model(images) / self.step).round() * self.step


@settings(max_examples=40, deadline=None)
@given(step=st.floats(1e-4, 0.3), n=st.integers(1, 400), seed=st.integers(0, 99), width=st.integers(1, 300))
def test_predictions_are_those_of_the_model(step: float, n: int, seed: int, width: int) -> None:
    model, images = linear(), images_of(n, seed)
    scorer = TwoStepScorer(model, Rounded(model, step), images_of(64, 7))
    logits, twice = scorer(images, width)
    with torch.no_grad():
        exact = model(images)
    assert torch.equal(logits.argmax(1), exact.argmax(1))
    torch.testing.assert_close(logits[twice], exact[twice])
    assert float((logits - exact).abs().max()) <= step / 2 + 1e-6


def test_the_error_is_the_largest_change_of_a_lead() -> None:
    model = linear()

    def quick(images: Tensor) -> Tensor:  # one class up by 0.3 and another down by 0.1, for one image
        logits = model(images).clone()
        logits[3, 0] += 0.3
        logits[3, 1] -= 0.1
        return logits

    assert TwoStepScorer(model, quick, images_of(8)).error == pytest.approx(0.4, abs=1e-5)


def test_a_lead_is_close_up_to_the_safety_times_the_error() -> None:
    leads = torch.tensor([SAFETY * 0.1 - 1e-4, SAFETY * 0.1 + 1e-4, torch.nan])
    logits = torch.stack([leads, torch.zeros(3), torch.full((3,), -5.0)], dim=1)
    assert is_close(logits, 0.1).tolist() == [True, False, True]


def test_a_larger_error_seen_in_a_shard_reaches_those_that_are_close_by_it() -> None:
    """The trial saw no error; the shard's first images show one, by which a later image is decided again."""
    model, images = linear(2), images_of(64)
    with torch.no_grad():
        exact = model(images)
    lead = exact[:, 0] - exact[:, 1]
    last = int(lead.abs()[two_step.ALWAYS :].argmin()) + two_step.ALWAYS
    trying = [True]

    def quick(given: Tensor) -> Tensor:
        logits = model(given).clone()
        if not trying[0]:
            logits[:, 0] -= 1.01 * lead[last]  # turns the closest one
        return logits

    scorer = TwoStepScorer(model, quick, images[:8])
    trying[0] = False
    logits, twice = scorer(images, 64)
    assert bool(twice[last])
    assert int(logits[last].argmax()) == int(exact[last].argmax())


def test_a_shard_does_not_depend_on_those_before_it() -> None:
    model = linear()
    quick = Rounded(model, 0.05)
    one, two = (TwoStepScorer(model, quick, images_of(32)) for _ in range(2))
    one(images_of(300, 5), 64)
    for first, second in zip(one(images_of(200, 6), 64), two(images_of(200, 6), 64), strict=True):
        assert torch.equal(first, second)


def test_those_scored_again_come_in_batches_of_one_length() -> None:
    model = linear()
    lengths: list[int] = []
    net = model.net
    model.net = nn.Sequential(net)
    model.net.register_forward_pre_hook(lambda _, given: lengths.append(len(given[0])))
    scorer = TwoStepScorer(model, lambda images: net(images) * 1.01, images_of(16))
    scorer(images_of(500), 500)
    assert set(lengths) == {TOGETHER}


def test_no_batch_is_wider_than_fits() -> None:
    model = linear()
    scorer = TwoStepScorer(model, lambda images: model(images) * 1.01, images_of(16))
    lengths: list[int] = []
    model.net.register_forward_pre_hook(lambda _, given: lengths.append(len(given[0])))
    scorer(images_of(100), 32)
    assert max(lengths) == 32


def test_on_a_cpu_the_model_itself_scores() -> None:
    assert two_step_scorer(linear(), images_of(4)) is None


def test_an_attacked_image_that_comes_out_wrong_is_scored_by_the_model_itself() -> None:
    model, images = linear(), images_of(200)
    with torch.no_grad():
        exact = model(images)
    labels = exact.argmax(1)
    labels[::3] = (labels[::3] + 1) % 5
    scorer = TwoStepScorer(model, Rounded(model, 1e-3), images_of(64, 7))
    logits, twice = scorer(images, 64, labels)
    assert bool(twice[::3].all())
    assert not bool(twice.all()), "what is right by a clear lead is left as it is"
    torch.testing.assert_close(logits[::3], exact[::3])
    assert not bool(scorer(images, 64)[1][::3].all()), "without an attack only a close lead counts"


@pytest.mark.parametrize("change", ["pgd-linf:steps=1", "contrast:severity=3"])
def test_only_under_an_attack_is_it_told_the_labels(change: str) -> None:
    told: list[bool] = []

    class Told(TwoStepScorer):
        def __call__(self, images: Tensor, width: int, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
            told.append(labels is not None)
            return super().__call__(images, width, labels)

    ref, data = (
        registry.bind("dataset", "fashion-mnist-2k"),
        registry.build(registry.bind("dataset", "fashion-mnist-2k")),
    )
    changed = registry.bind("attack" if "pgd" in change else "corruption", change)
    model = wrap(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), name="linear", classes=10, channels=1)
    scorer = Told(model, model, torch.rand(4, 1, 28, 28))
    changes = ((changed, registry.build(changed)),)
    setting = MeasureSettings(model, data, changes, 0, torch.device("cpu"), None, ref, scorer)
    measure(setting, Shard(np.arange(8), data.images(range(8))), width=8)
    assert told == ["pgd" in change]


def test_the_copy_that_answers_in_tf32_has_no_other_versions_of_the_model() -> None:
    class Held:
        """What cannot be copied, as a recording cannot."""

        def __deepcopy__(self, memo: object) -> None:
            raise RuntimeError("a graph has one owner")

    model = linear()
    model.fast = model.exact = Held()  # type: ignore[assignment]
    made = two_step.copied(model)
    assert isinstance(made, TorchClassifier)
    assert made.fast is made.exact is None
    torch.testing.assert_close(made(images_of(3)), model(images_of(3)))


def test_an_attack_is_scored_in_two_steps_only_with_a_fast_version(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = jobs.ModelLoader(torch.device("cpu"))
    scenario = registry.scenario("fashion-mnist-2k+pgd-linf:steps=3")
    job = loader.job(registry.bind("model", "fashion-standard"), scenario, jobs.RunOptions(samples=600))
    monkeypatch.setattr(loader, "device", torch.device("cuda"))
    monkeypatch.setattr(loader, "_first_images", lambda _: images_of(4))
    monkeypatch.setattr(jobs, "two_step_scorer", lambda *_: TwoStepScorer(linear(), linear(), images_of(4)))
    assert loader.scorer(job, "auto") is None
    assert "logits" not in job.notes
    job.model.fast = FastVersion  # type: ignore[assignment]
    assert loader.scorer(job, "auto") is not None
    assert job.notes["logits"].startswith("TF32")
    assert loader.scorer(job, "exact") is None
    job.model.fast = None
    fast = type("Fast", (FastVersion,), {})()
    monkeypatch.setattr(loader.fast, "version", lambda *_: fast)
    monkeypatch.setattr(loader.fast, "exact", lambda _: None)
    loader.make_fast(job, "auto", 64, lambda _: None)
    assert fast.scores is not None
    monkeypatch.setattr(jobs, "two_step_scorer", lambda *_: None)
    loader.scorers.clear()
    loader.make_fast(job, "auto", 64, lambda _: None)
    assert fast.scores is None, "it is not to keep those of another job"
    job.model.fast = None


def test_a_run_counts_both_passes_and_says_how_it_was_scored(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def scorer(loader: jobs.ModelLoader, job: jobs.Job, speed: str) -> TwoStepScorer | None:
        if speed == "exact":
            return None
        made = TwoStepScorer(job.model, lambda images: job.model(images) + 0.0, loader._first_images(job))
        job.notes["logits"] = made.words
        return made

    monkeypatch.setattr(jobs.ModelLoader, "scorer", scorer)
    run = [
        evaluate(
            "fashion-standard", "fashion-mnist-2k", store=f"{tmp_path}/{speed}", samples=40, speed=speed, pictures=0
        )[0].rows
        for speed in ("auto", "exact")
    ]
    quick, exact = run
    assert quick is not None
    assert exact is not None
    assert np.array_equal(quick.predictions, exact.predictions)
    assert quick.footer.facts["logits"].startswith("TF32")
    assert exact.footer.forwards == 40
    assert quick.footer.forwards == 40 + two_step.ALWAYS


def test_logits_of_a_quick_pass_are_not_kept_for_attacks() -> None:
    """Targets of an attack follow the logits, and must not depend on what ran before."""
    model, ref = linear(10), registry.bind("dataset", "fashion-mnist-2k")
    data = registry.build(ref)
    model.net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    for scorer, is_kept in ((None, True), (TwoStepScorer(model, model, torch.rand(4, 1, 28, 28)), False)):
        cache = LogitCache()
        setting = MeasureSettings(model, data, (), 0, torch.device("cpu"), cache, ref, scorer)
        measure(setting, Shard(np.arange(8), data.images(range(8))), width=8)
        assert bool(cache.kept) == is_kept
