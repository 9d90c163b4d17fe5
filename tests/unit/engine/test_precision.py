"""A fast version is trusted only where a short attack with its gradients is as strong as one with float32's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.attacks import saved_loops
from holdfast.attacks.gradient import GradientAttack
from holdfast.attacks.replay import Replays
from holdfast.attacks.search import RandomSearch
from holdfast.core.registry import registry
from holdfast.core.types import Batch, FastVersion
from holdfast.engine import fast_versions
from holdfast.engine.evaluate import Evaluation, evaluate
from holdfast.engine.fast_versions import FastVersions
from holdfast.engine.jobs import ModelLoader, RunOptions
from holdfast.engine.measure import final_logits
from holdfast.engine.passes_ahead import PassesAhead
from holdfast.engine.precision import QUERIES, STEPS, Trial, references, short_parts, tried
from holdfast.engine.watch import Watcher
from holdfast.models import TorchClassifier, wrap
from holdfast.models.fast import FastModel
from holdfast.models.lengths import Padded
from holdfast.store import Store


def curved() -> TorchClassifier:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 32), nn.Tanh(), nn.Linear(32, 10))
    return wrap(net, name="curved", classes=10, channels=3)


def batch_of(model: TorchClassifier, n: int = 96) -> Batch:
    images = torch.rand(n, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        labels = model(images).argmax(1)
    return Batch(images, labels, tuple(str(i) for i in range(n)))


def attack(text: str) -> Any:
    return registry.build(registry.bind("attack", text))


class Same(FastVersion):
    """The model as its own fast version."""

    words = "the model itself"
    compiling: object = None

    def __init__(self, model: TorchClassifier) -> None:
        self.model, self.count = model, 0
        self.notes: list[str] = []
        self.told: list[str] = []

    def __call__(self, images: Tensor) -> Tensor:
        return self.model(images)

    def expect(self, seconds: float, *, gradients: bool) -> None:
        self.expected = {**getattr(self, "expected", {}), gradients: seconds}
        self.told.append(f"expect {'gradients' if gradients else 'forwards'}")

    def improve(self, length: int, *, gradients: bool) -> None:
        self.told.append(f"improve {length}")
        self.compiling = self.compiling or object()

    def stop_compiling(self) -> None:
        self.told.append("stop")

    def overflows(self) -> int:
        count, self.count = self.count, 0
        return count


class Coarse(Same):
    """Sees images in steps of 1/64, so that a small perturbation is lost; gradients pass."""

    words = "coarse"

    def __call__(self, images: Tensor) -> Tensor:
        return self.model(images + ((images * 64).round() / 64 - images).detach())


def trials(model: TorchClassifier, fast: Same, text: str, batch: Batch) -> list[Trial]:
    return tried(model, fast, references(model, attack(text), batch, 32), 32)  # type: ignore[arg-type]


ATTACKS = ("pgd-linf:radius=0.5/255", "apgd-t-l2:radius=0.02,targets=3", "square-linf:radius=0.5/255,queries=100")


@pytest.mark.parametrize("text", ATTACKS)
def test_the_model_itself_gains_what_it_gains(text: str) -> None:
    model = curved()
    (trial,) = trials(model, Same(model), text, batch_of(model))
    assert trial.gain == pytest.approx(1.0, abs=0.02)
    assert not trial.is_weaker
    assert model.fast is None, "left as it was"


@pytest.mark.parametrize("text", ATTACKS)
def test_a_version_that_loses_small_perturbations_is_weaker(text: str) -> None:
    model = curved()
    (trial,) = trials(model, Coarse(model), text, batch_of(model))
    assert trial.is_weaker, trial


@pytest.mark.parametrize("text", ATTACKS)
def test_gaining_less_does_not_count_where_nothing_is_in_reach(text: str) -> None:
    """The same loss of small perturbations, on samples that ten times the gain would not break."""
    far = curved()
    with torch.no_grad():
        far.net[3].bias[0] += 8.0  # type: ignore[index, operator]
    (trial,) = trials(far, Coarse(far), text, batch_of(far))
    assert replace(trial, decides=True).is_weaker, trial
    assert not trial.is_weaker


@pytest.mark.parametrize(("error", "is_weaker"), [(0.0, True), (1e-4, True), (1.0, False)])
def test_gaining_less_does_not_count_where_float32_attacks_again(error: float, is_weaker: bool) -> None:
    """A sample that a version with so large an error misses ends within three errors of the boundary."""
    model = curved()
    fast = Coarse(model)
    fast.error = error
    (trial,) = trials(model, fast, "pgd-linf:radius=0.5/255", batch_of(model))
    assert trial.is_weaker == is_weaker


def test_a_random_search_is_not_run_again_so_its_loss_counts() -> None:
    model = curved()
    fast = Coarse(model)
    fast.error = 1.0
    (trial,) = trials(model, fast, "square-linf:radius=0.5/255,queries=100", batch_of(model))
    assert trial.is_weaker


def test_every_part_of_a_union_is_tried_and_cut_short() -> None:
    parts = list(short_parts(attack("autoattack-linf:radius=2/255")))
    assert [type(part) for part, _ in parts] == [GradientAttack, GradientAttack, GradientAttack, RandomSearch]
    assert all(radius == 2 / 255 for _, radius in parts)
    assert all(part.steps <= STEPS and part.runs == 1 for part, _ in parts if isinstance(part, GradientAttack))
    assert parts[3][0].queries <= QUERIES  # type: ignore[attr-defined]


def test_a_sweep_is_tried_at_its_smallest_radius() -> None:
    (part,) = short_parts(attack("sweep:attack=(pgd-linf:steps=40),radii=[0.5,0.01,0.1]"))
    assert part[1] == 0.01


@pytest.fixture
def deciding(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[object, str]]:
    """What is decided for a job on `fashion-mnist-2k`, with a given fast version."""

    loader = ModelLoader(torch.device("cpu"))

    def decided(
        made: type[Same],
        text: str,
        *,
        pace: float = 100.0,
        ahead: int = 0,
        taken: float | None = None,
        versions: FastVersions | None = None,
    ) -> tuple[object, str]:
        monkeypatch.setattr(fast_versions, "fast_version", lambda model, *_, **__: made(model))
        monkeypatch.setattr(fast_versions, "issuing_share", lambda *_: 0.0)
        monkeypatch.setattr(fast_versions, "pace", lambda model, *_: 1000.0 if isinstance(model, Same) else pace)
        scenario = registry.scenario(f"fashion-mnist-2k+{text}")
        job = loader.job(registry.bind("model", "fashion-standard"), scenario, RunOptions(samples=200))
        passes = PassesAhead(left=ahead, bound=0 if taken is None else ahead, taken=int((taken or 0.0) * ahead))
        chosen = versions or FastVersions(torch.device("cpu"))
        fast = chosen.version(job, "auto", 64, passes, lambda _: None)
        return fast, job.footer.facts["gradients"]

    return decided


def test_a_strong_and_faster_version_is_used_and_the_footer_says_so(deciding: Any) -> None:
    fast, words = deciding(Same, "pgd-linf:radius=2/255,steps=40")
    assert isinstance(fast, Same)
    assert "the model itself" in words
    assert "100.0 % of float32's gain" in words
    assert "; 1,000 gradients a second at first, float32 100;" in words, "the pace of either"


def test_the_footer_says_what_was_compiled_while_the_job_ran() -> None:
    told: list[str] = []
    loader, fast = ModelLoader(torch.device("cpu")), Same(curved())
    scenario = registry.scenario("fashion-mnist-2k+pgd-linf")
    job = loader.job(registry.bind("model", "fashion-standard"), scenario, RunOptions(samples=20))
    job.notes["gradients"] = "the model itself, tried: well; every success confirmed in float32"
    loader.fast.note_changes(job, fast, told.append)
    assert job.footer.facts["gradients"].startswith("the model itself, tried")
    fast.words += ", compiled"
    for _ in range(2):
        loader.fast.note_changes(job, fast, told.append)
        assert job.footer.facts["gradients"].startswith("the model itself, compiled, tried: well;")
    assert not told
    fast.notes.append("not compiled: no such kernel")
    fast.replays = Replays()
    fast.replays.refused += ["RuntimeError: a copy to the host"] * 2
    for _ in range(2):
        loader.fast.note_changes(job, fast, told.append)
    assert told == ["not compiled: no such kernel", "steps not recorded: RuntimeError: a copy to the host"]
    assert job.footer.facts["gradients"].endswith("; ".join(["", *told]))


def test_a_part_that_was_run_before_is_not_run_again() -> None:
    model, asked = curved(), []
    batch = batch_of(model)
    first = references(model, attack("autoattack-linf:radius=2/255"), batch, 32, parts=1)
    model.net.register_forward_pre_hook(lambda *_: asked.append(1))
    all_parts = references(model, attack("autoattack-linf:radius=2/255"), batch, 32)
    alone, asked[:] = len(asked), []
    whole = references(model, attack("autoattack-linf:radius=2/255"), batch, 32, known=first)
    assert len(asked) < alone
    assert len(whole.parts) == len(all_parts.parts) == 4
    assert all(torch.equal(one.gain, other.gain) for one, other in zip(whole.parts, all_parts.parts, strict=True))


def test_a_weaker_version_is_not_used_and_the_footer_says_why(deciding: Any) -> None:
    fast, words = deciding(Coarse, "pgd-linf:radius=0.5/255,steps=40")
    assert fast is None
    assert words.startswith("float32: coarse reaches")


def test_a_part_for_which_it_is_weaker_takes_the_model(deciding: Any) -> None:
    class Mixed(Coarse):
        """Coarse after a few queries without gradients, so that only the random search suffers."""

        queries = 0

        def __call__(self, images: Tensor) -> Tensor:
            self.queries = 0 if torch.is_grad_enabled() else self.queries + 1
            return super().__call__(images) if self.queries > 8 else self.model(images)

    fast, words = deciding(Mixed, "worst-of:attacks=[(pgd-linf:radius=0.5/255,steps=40),(square-linf:radius=0.5/255)]")
    assert isinstance(fast, Mixed), words
    assert len(fast.weak) == 1
    assert "float32 in parts" in words


def test_a_slower_version_or_a_short_job_stays_in_float32(deciding: Any) -> None:
    assert deciding(Same, "pgd-linf:radius=2/255,steps=40", pace=999.0)[0] is None
    assert "too short" in deciding(Same, "pgd-linf:radius=2/255,steps=10")[1]


def test_a_version_that_is_there_is_taken_for_the_rest_of_a_job(deciding: Any) -> None:
    """What is left, 6.7 seconds at most, is too short to make one."""
    there = FastVersions(torch.device("cpu"))

    def chosen(steps: int) -> tuple[object, str]:
        result: tuple[object, str] = deciding(Same, f"pgd-linf:radius=1/255,steps={steps}", pace=900, versions=there)
        return result

    assert "the job is too short" in chosen(30)[1]
    assert isinstance(chosen(80)[0], Same)
    assert isinstance(chosen(30)[0], Same)
    assert "the job is too short" in chosen(20)[1]


def test_a_job_is_short_where_the_attack_breaks_nearly_all_at_once(deciding: Any) -> None:
    """The same passes at most, but few samples are left to take them."""
    assert isinstance(deciding(Same, "pgd-linf:radius=1/255,steps=40")[0], Same)
    assert "too short" in deciding(Same, "pgd-linf:radius=64/255,steps=40")[1]


def test_a_run_that_takes_less_than_its_trial_stays_in_float32(deciding: Any) -> None:
    attack = "pgd-linf:radius=1/255,steps=20"  # 4,000 passes of 200 samples, and a trial is worth 1,920
    assert "the run is too short to try" in deciding(Same, attack, ahead=1_000_000)[1]
    assert isinstance(deciding(Same, attack.replace("20", "40"), ahead=1_000_000)[0], Same)
    assert "too short to try" in deciding(Same, attack.replace("20", "40"), ahead=1_000_000, taken=0.5)[1]


@pytest.mark.parametrize(("samples_per_second", "lengths"), [(1_000.0, [128]), (100_000.0, [128, 512])])
def test_a_slow_network_is_timed_on_few_samples(
    samples_per_second: float, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[int] = []

    def pace(_: object, images: Tensor) -> float:
        timed.append(len(images))
        return samples_per_second

    monkeypatch.setattr(fast_versions, "pace", pace)
    loader = ModelLoader(torch.device("cpu"))
    scenario = registry.scenario("fashion-mnist-2k+pgd-linf")
    job = loader.job(registry.bind("model", "fashion-standard"), scenario, RunOptions(samples=20))
    for _ in range(2):
        assert FastVersions._pace(loader.fast, job, 512) == samples_per_second
    assert timed == lengths


def test_a_network_that_waits_for_the_host_is_tried_where_its_seconds_are_worth_it(deciding: Any) -> None:
    """A trial of ten steps takes its 0.15 seconds however many passes a second the model makes."""
    there, attack = FastVersions(torch.device("cpu")), "pgd-linf:radius=1/255,steps=40"
    assert isinstance(deciding(Same, attack, pace=900.0, ahead=1_000_000, versions=there)[0], Same)
    there.paces.clear()
    assert "too short" not in deciding(Same, attack, pace=90_000.0, ahead=10_000_000, versions=there)[1], "tried before"
    words = deciding(Same, attack, pace=90_000.0, ahead=10_000_000)[1]
    assert words == "float32: the run is too short to try a faster version"


def test_a_job_is_short_where_the_runs_before_took_few_of_their_passes(deciding: Any) -> None:
    attack = "pgd-linf:radius=1/255,steps=1000"
    assert isinstance(deciding(Same, attack, ahead=200_000, taken=0.05)[0], Same)
    assert "too short" in deciding(Same, attack, ahead=200_000, taken=0.003)[1]


def test_a_fast_version_is_told_what_is_ahead_of_it(deciding: Any) -> None:
    fast, _ = deciding(Same, "pgd-linf:radius=1/255,steps=40", ahead=100_000)
    assert 20 < fast.expected[True] <= 100.0, "passes at the pace of the fast version"
    assert fast.expected[False] < 0.1 * fast.expected[True]


def test_compiling_begins_before_the_trial_and_ends_where_that_refuses(deciding: Any, monkeypatch: Any) -> None:
    seen: list[Same] = []

    class Seen(Same):
        def __init__(self, model: TorchClassifier) -> None:
            super().__init__(model)
            seen.append(self)

    class Refused(Coarse, Seen):
        """Too weak for the attack."""

    deciding(Seen, "pgd-linf:radius=1/255,steps=40")
    told = seen[-1].told
    assert told[:2] == ["expect gradients", "improve 64"]
    assert told[-1] == "expect forwards"
    assert all(word.startswith("improve") for word in told[2:-1]), "rounds of the trial"
    assert deciding(Refused, "pgd-linf:radius=0.5/255,steps=40")[0] is None
    assert seen[-1].told[-1] == "stop"
    assert "expect forwards" not in seen[-1].told


def test_a_compiler_is_started_only_where_much_may_be_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(fast_versions, "prepare", started.append)
    loader = ModelLoader(torch.device("cpu"))
    scenario = registry.scenario("fashion-mnist-2k+pgd-linf:steps=100")
    job = loader.job(registry.bind("model", "fashion-standard"), scenario, RunOptions())
    on_gpu = FastVersions(torch.device("cuda"))
    much = PassesAhead(left=7_000_000)  # of 784 pixels
    for versions, speed, ahead in (
        (on_gpu, "auto", PassesAhead(left=6_000_000)),
        (on_gpu, "exact", much),
        (FastVersions(torch.device("cpu")), "auto", much),
    ):
        versions.prepare(job, speed, ahead)  # type: ignore[arg-type]
    assert not started
    for _ in range(2):
        on_gpu.prepare(job, "auto", much)
    assert started == [torch.device("cuda")]
    job.model.net = torch.nn.Conv2d(4, 4, 3, groups=2)
    FastVersions(torch.device("cuda")).prepare(job, "auto", much)
    assert len(started) == 1, "grouped convolutions are seldom worth it"


def test_an_evaluation_says_what_is_ahead_before_its_model_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int]] = []
    monkeypatch.setattr(FastVersions, "prepare", lambda _, __, speed, ahead: told.append((speed, ahead.left)))
    evaluate("fashion-standard", "fashion-mnist-2k+pgd-linf:steps=3", samples=20, store=tmp_path, pictures=0)
    assert told == [("auto", 60)]
    evaluate("fashion-standard", "fashion-mnist-2k+pgd-linf:steps=3", samples=20, store=tmp_path, pictures=0)
    assert len(told) == 1, "what is done starts no compiler"


def test_a_version_whose_trial_overflows_is_refused(deciding: Any) -> None:
    class Overflowing(Same):
        def __call__(self, images: Tensor) -> Tensor:
            self.count += 1
            return super().__call__(images)

    fast, words = deciding(Overflowing, "pgd-linf:radius=2/255,steps=40")
    assert fast is None
    assert "left the range of float16" in words


def test_a_shard_that_overflows_is_measured_in_float32_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of what float16 found is taken over, though it was saved on the way."""
    monkeypatch.setattr(saved_loops, "EVERY", 0.0)
    monkeypatch.setattr(saved_loops, "COST", 0.0)
    rows = {}
    for way in ("exact", "overflowing"):
        store, loader = Store(str(tmp_path / way)), ModelLoader(torch.device("cpu"))
        scenario = registry.scenario("fashion-mnist-2k+pgd-linf:radius=4/255,steps=4")
        options = RunOptions(samples=40, batch_size=16)
        job = loader.job(registry.bind("model", "fashion-standard"), scenario, options)
        evaluation = Evaluation.of(job, store, loader, options, Watcher())
        if way == "overflowing":
            assert isinstance(job.model, TorchClassifier)
            fast = FastModel(job.model, torch.rand(8, 1, 28, 28), width=16, speed="eager")
            fast.scale = 1e30  # every gradient overflows and is taken for zero
            job.model.fast = fast
        evaluation.advance()
        rows[way] = evaluation.joined(0)
    assert rows["overflowing"].digest == rows["exact"].digest


def test_answers_that_are_not_finite_count_as_broken() -> None:
    """As everywhere; they must not make of a weaker version one that cannot be compared."""
    model = curved()
    batch = batch_of(model)
    clean, net = batch.images[0].clone(), model.net

    class Unstable(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            near = (images - clean).flatten(1).abs().amax(dim=1) < 0.01
            away = (images - clean).flatten(1).abs().amax(dim=1) > 0
            return torch.where((near & away)[:, None], torch.nan, net(images))

    model.net = Unstable()
    (trial,) = trials(model, Coarse(model), "pgd-linf:radius=0.5/255", batch)
    assert trial.is_weaker, trial


def test_without_an_image_that_can_be_read_nothing_is_tried() -> None:
    model = curved()
    batch = batch_of(model)
    nothing = Batch(batch.images[:0], batch.labels[:0], ())
    assert references(model, attack("pgd-linf"), nothing, 32).unbroken == 0.0


def test_predictions_decide_who_is_attacked_in_a_trial() -> None:
    """Nothing right, nothing to try."""
    model = curved()
    batch = batch_of(model)
    wrong = Batch(batch.images, (batch.labels + 1) % 10, batch.ids)
    assert trials(model, Same(model), "pgd-linf", wrong) == []
    assert np.isfinite(float(batch.images.mean()))


def evaluation_of(path: Path) -> Evaluation:
    store, loader = Store(str(path)), ModelLoader(torch.device("cpu"))
    scenario = registry.scenario("fashion-mnist-2k+pgd-linf:radius=4/255,steps=4")
    options = RunOptions(samples=40, batch_size=16)
    job = loader.job(registry.bind("model", "fashion-standard"), scenario, options)
    return Evaluation.of(job, store, loader, options, Watcher())


def test_a_batch_too_large_to_try_a_fast_version_on_is_halved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[int] = []

    def make_fast(_: ModelLoader, __: object, ___: str, width: int, ____: object) -> None:
        widths.append(width)
        if width > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(ModelLoader, "make_fast", make_fast)
    assert evaluation_of(tmp_path).width.value == 4
    assert widths == [16, 8, 4]


def test_recorded_steps_go_where_memory_runs_out(tmp_path: Path) -> None:
    evaluation = evaluation_of(tmp_path)
    model = evaluation.job.model
    assert isinstance(model, TorchClassifier)
    model.fast = fast = Same(model)
    fast.replays, held = Replays(recorded=False), []
    forward = model.net.forward

    def once(images: Tensor) -> Tensor:
        held.append(fast.replays)
        if len(held) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(images)

    model.net.forward = once  # type: ignore[method-assign]
    evaluation.advance()
    assert held[0] is not None
    assert held[1] is None
    assert evaluation.width.value == 8


def test_a_model_is_asked_in_few_lengths_on_a_gpu_alone() -> None:
    loader = ModelLoader(torch.device("cpu"))
    job = loader.job(registry.bind("model", "fashion-standard"), registry.scenario("fashion-mnist-2k"), RunOptions())
    assert isinstance(job.model, TorchClassifier)
    loader.make_fast(job, "exact", 8, lambda _: None)
    assert job.model.exact is None
    loader.device = torch.device("cuda")
    loader.make_fast(job, "exact", 8, lambda _: None)
    assert isinstance(job.model.exact, Padded)
    assert job.model.fast is None
    assert job.model.exact is loader.fast.exact(job), "one and the same for all runs of the model"


def test_scores_ask_in_the_lengths_that_suit_the_model() -> None:
    model, asked = curved(), list[int]()
    model.exact = Padded(model)
    images = batch_of(model, 10).images
    expected = model(images).detach()
    model.net.register_forward_pre_hook(lambda _, given: asked.append(len(given[0])))
    torch.testing.assert_close(final_logits(model, images, 4), expected)
    assert asked[0] == 4
    assert len(asked) == 3
    model.exact.lengths.cost = 1e9
    asked.clear()
    torch.testing.assert_close(final_logits(model, images, 4), expected)
    assert asked == [4, 4, 4], "the last two are padded while a new length costs more"
