"""What a run counts and keeps, worked out by hand: the ledger, sums over parts, faults, trials, probes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.attacks.asked_model import CLOSE
from holdfast.attacks.attack import Attack
from holdfast.core.errors import HoldfastError, Misuse, NotRead
from holdfast.core.intervals import wilson
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import AttackResult, Batch, Classifier, Cost, Dataset, Images
from holdfast.engine import evaluate as evaluate_module
from holdfast.engine import precision
from holdfast.engine.behaviour import (
    alike,
    behaviour_probe,
    gives_gradients,
    known_behaviours,
    matching_behaviour,
)
from holdfast.engine.device import Width
from holdfast.engine.evaluate import Evaluation, evaluate
from holdfast.engine.fast_versions import _forward_share, cycled
from holdfast.engine.jobs import Job, ModelLoader, RunOptions
from holdfast.engine.ledger import Ledger, marks
from holdfast.engine.measure import measure
from holdfast.engine.order import stratified_order
from holdfast.engine.passes_ahead import PassesAhead
from holdfast.engine.precision import Reference, References, Trial, references, tried, worth_seconds
from holdfast.engine.shards import ImageCache, Shard, on_device, out_of_range, shard_size, shards_ahead
from holdfast.engine.stored_rows import needed
from holdfast.engine.watch import Watcher
from holdfast.models import TorchClassifier, wrap
from holdfast.store import Footer, Rows, Store
from holdfast.store.rows import to_rows

CPU = torch.device("cpu")
MODEL, DATA = "fashion-standard", "fashion-mnist-2k"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


def job_of(loader: ModelLoader, scenario: str = DATA, samples: int = 40) -> Job:
    return loader.job(registry.bind("model", MODEL), registry.scenario(scenario), RunOptions(samples=samples))


def evaluation_of(
    store: Store, watcher: Watcher | None = None, dataset: Callable[[Dataset], Dataset] = lambda data: data
) -> Evaluation:
    """Forty samples in shards of eight."""
    loader = ModelLoader(CPU)
    job = job_of(loader)
    job = replace(job, dataset=dataset(job.dataset))
    made = Evaluation(job, store, loader, RunOptions(samples=40), Width(8), (), watcher or Watcher())
    made.size = 8
    return made


# the ledger


@given(
    marks=st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=60),
    size=st.integers(1, 20),
)
def test_what_is_missing_is_every_shard_with_a_sample_not_known(marks: list[int], size: int) -> None:
    ledger = Ledger(np.array(marks, dtype=np.int8))
    spans = [(start, min(start + size, len(marks))) for start in range(0, len(marks), size)]
    expected = [span for span in spans if -1 in marks[span[0] : span[1]]]
    assert [(span.start, span.stop) for span in ledger.missing(size)] == expected
    assert ledger.known == sum(mark != -1 for mark in marks)
    assert ledger.is_whole == (-1 not in marks)
    assert ledger.reached() is None
    assert ledger.standing == wilson(marks.count(1), ledger.known)


def test_a_precision_is_looked_at_after_every_hundred_samples_in_order() -> None:
    right = np.random.default_rng(0).integers(0, 2, 1000).astype(np.int8)
    halves = {
        n: (score.high - score.low) / 2 for n in range(100, 1001, 100) for score in [wilson(int(right[:n].sum()), n)]
    }
    for n, half in halves.items():
        assert Ledger(right, half).reached() == next(m for m, other in halves.items() if other <= half)
        assert Ledger(right[:n], half).reached() is not None, "exactly so precise is enough"
        assert Ledger(right[: n - 1], half).reached() is None or min(halves[m] for m in halves if m < n) <= half
    assert halves[300] > halves[400] > halves[500]
    at = Ledger(right.copy(), halves[400])
    assert at.reached() == 400
    at.correct[399] = -1
    assert at.reached() is None, "samples after a gap do not count"
    at.correct[399], at.correct[400] = right[399], -1
    assert at.reached() == 400
    assert at.is_whole
    assert not Ledger(at.correct, halves[500] / 2).is_whole


def test_marks_tell_right_wrong_and_unlabelled(rows_for: Callable[..., Rows]) -> None:
    assert marks(rows_for([True, False, True])).tolist() == [1, 0, 1]
    unlabelled = marks(rows_for([True, True], labels=np.full(2, -1)))
    assert unlabelled.tolist() == [2, 2]
    ledger = Ledger.empty(4, None)
    ledger.enter([3, 1], np.array([1, 0], dtype=np.int8))
    assert ledger.correct.tolist() == [-1, 0, -1, 1]
    assert ledger.standing == wilson(1, 2)
    ledger.enter(range(2), unlabelled)
    assert (ledger.standing, ledger.known) == (None, 3)


# runs


def test_a_shard_holds_four_batches_and_64_samples_at_least() -> None:
    assert [shard_size(width) for width in (1, 16, 17, 128)] == [64, 64, 68, 512]


class Faulty:
    """A dataset of which shards that hold some samples cannot be read."""

    def __init__(self, dataset: Dataset, *positions: int) -> None:
        self.dataset, self.positions = dataset, set(positions)
        self.card, self.ids, self.labels = dataset.card, dataset.ids, dataset.labels

    def images(self, index: Sequence[int]) -> Images:
        if self.positions & set(index):
            raise NotRead(f"the disk is gone at {min(index)}", hint="find it")
        return self.dataset.images(index)


def test_shards_that_cannot_be_read_are_counted_and_the_others_are_kept(store: Store) -> None:
    order = evaluation_of(store).job.order
    faulty: list[Faulty] = []

    def broken(dataset: Dataset) -> Dataset:
        faulty.append(Faulty(dataset, order[9], order[26]))  # in the second and the fourth of five shards
        return faulty[0]

    evaluation = evaluation_of(store, dataset=broken)
    with pytest.raises(NotRead) as caught:
        evaluation.advance()
    assert caught.value.problem == (
        f"the disk is gone at {order[8:16].min()} (and 1 more shards likewise); the run is unfinished, "
        "16 samples are left"
    )
    assert caught.value.hint == "find it"
    kept = {name for rows in store.parts(evaluation.job.run.key) for name in rows.ids}
    assert kept == {evaluation.order[i] for i in range(40) if i // 8 not in (1, 3)}
    assert [span.start for span in evaluation.missing()] == [8, 24]
    faulty[0].positions = {order[26]}
    with pytest.raises(NotRead, match=r"unfinished, 8 samples are left") as caught:
        evaluation.advance()
    assert "likewise" not in str(caught.value)
    faulty[0].positions = set()
    evaluation.advance()
    rows = evaluation.joined(0)
    assert rows.ids == evaluation_of(Store(f"{store.url}-other")).order
    assert rows.footer.forwards == 40


def test_a_run_goes_on_for_as_long_as_it_may_and_keeps_what_it_has(store: Store) -> None:
    class Seen(Watcher):
        def __init__(self) -> None:
            self.told: list[tuple[int, int]] = []

        def advanced(self, run: object, samples: int, standing: object) -> None:
            self.told.append((samples, standing.n))  # type: ignore[attr-defined]

    seen = Seen()
    evaluation = evaluation_of(store, seen)
    evaluation.advance(0.0)
    assert (evaluation.ledger.known, seen.told) == (8, [(8, 8)])
    assert [len(rows) for rows in store.parts(evaluation.job.run.key)] == [8]
    evaluation.advance()
    assert (evaluation.ledger.known, seen.told[-1]) == (40, (8, 40))
    assert len(store.parts(evaluation.job.run.key)) == 1, "the rest is about to be joined"
    assert len(evaluation.kept) == 5
    assert len(evaluation.joined(0)) == 40
    assert store.parts(evaluation.job.run.key) == []


def test_a_run_made_of_parts_carries_their_sums(store: Store) -> None:
    """Parts of two workers, one of which measured a shard that the other had: that one counts once."""
    evaluation = evaluation_of(store)
    job = evaluation.job

    def part(chosen: slice, **facts: object) -> Rows:
        index = job.order[chosen]
        measured = measure(job.setting(CPU), Shard(index, job.dataset.images(index.tolist())), width=64)
        return to_rows(measured.predictions(), replace(job.footer, **facts))  # type: ignore[arg-type]

    one = part(slice(0, 20), seconds=2.0, forwards=7, backwards=3, started="2020-02-02", tallies={"a": 1, "b": 2})
    two = part(slice(20, 40), seconds=3.5, forwards=11, backwards=4, started="2020-01-01", tallies={"b": 5})
    twice = part(slice(5, 15), seconds=100.0, forwards=1000, started="2019-01-01")
    assert needed([one, twice, two], evaluation.order) == [one, two]
    assert needed([one, two], evaluation.order[:20]) == [one]
    evaluation.adopt([one, twice, two])
    assert evaluation.ledger.known == 40
    footer = evaluation.joined(0).footer
    assert (footer.seconds, footer.forwards, footer.backwards, footer.started) == (5.5, 18, 7, "2020-01-01")
    assert Counter(footer.tallies) >= Counter({"a": 1, "b": 7})
    assert "rows taken over from" not in footer.facts


def test_what_is_taken_over_is_named_and_its_passes_are_not_counted_again(store: Store) -> None:
    """70 samples in shards of 64 and 6: those 20 that are there lie in both, so both are measured."""
    evaluate(MODEL, DATA, store=store, samples=20, pictures=0, watcher=Watcher())
    (small,) = store.footers().values()
    (outcome,) = evaluate(MODEL, DATA, store=store, samples=70, pictures=0, batch_size=16, watcher=Watcher())
    footer = outcome.result.footer
    assert footer.facts["rows taken over from"] == small.key
    assert (footer.forwards, len(outcome.result)) == (70, 70)
    assert small.forwards == 20


def test_the_passes_ahead_are_those_of_all_runs_to_come(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ModelLoader] = []

    class Noted(ModelLoader):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)  # type: ignore[arg-type]
            made.append(self)

    class Planned(Watcher):
        runs = 0

        def planned(self, runs: Sequence[object]) -> None:
            self.runs = len(runs)

    left: list[int] = []

    def not_now(*_: object) -> object:
        left.append(made[0].ahead.left)
        raise HoldfastError("not now")

    monkeypatch.setattr(evaluate_module, "ModelLoader", Noted)
    monkeypatch.setattr(evaluate_module, "_done", not_now)
    scenarios = [DATA, f"{DATA}+pgd-linf:steps=3", f"{DATA}+pgd-linf:steps=2"]
    watcher = Planned()
    evaluate([MODEL, "fashion-noise"], scenarios, store=store, samples=4, pictures=0, watcher=watcher)
    assert left == [20, 20, 8] * 2, "all of a model's, less those of the runs that have ended"
    assert watcher.runs == 6


def test_what_runs_took_tells_what_others_will_take() -> None:
    ahead = PassesAhead({"a": 100, "b": 300, "c": 10_000, "clean": 0})
    assert (ahead.left, ahead.share_taken(), ahead.share_taken(1.0)) == (10_400, None, 1.0)
    ahead.ended("clean", 0)
    ahead.ended("a", 20)
    assert ahead.share_taken() is None, "of a hundredth of the passes: too early to tell"
    ahead.ended("c", None)
    assert ahead.left == 300
    assert ahead.share_taken() == 0.2, "a run that was measured before says nothing of what runs take"
    ahead.ended("b", 60)
    assert (ahead.left, ahead.share_taken()) == (0, 0.2)


def test_engines_and_their_options_are_checked_before_anything_runs(store: Store) -> None:
    for wrong, text in (
        ({"engine": "abacus"}, "local or ray"),
        ({"address": "here"}, "for --engine ray"),
        ({"actors": 2}, "for --engine ray"),
    ):
        with pytest.raises(Misuse, match=text):
            evaluate(MODEL, DATA, store=store, **wrong)  # type: ignore[arg-type]


def test_only_rows_used_again_are_told(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate(MODEL, DATA, store=store, samples=4, pictures=0)
    assert "measured before" not in capsys.readouterr().err
    evaluate(
        MODEL, [DATA, f"{DATA}+contrast:severity=1", "no-such-data:path=x"][:2], store=store, samples=4, pictures=0
    )
    assert "1 of 2 runs were measured before" in capsys.readouterr().err


# order and shards


@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_the_order_is_by_the_share_of_its_class_that_a_sample_ends(labels: list[int]) -> None:
    """The j-th of a class of m stands at (j + 1/2) / m, whichever samples those are."""
    order = stratified_order([f"s{i}" for i in range(len(labels))], np.array(labels))
    met: Counter[int] = Counter()
    places = []
    for i in order:
        places.append((met[labels[i]] + 0.5) / labels.count(labels[i]))
        met[labels[i]] += 1
    assert places == sorted(places)


def test_images_are_bytes_over_255_and_out_of_range_where_a_pixel_is() -> None:
    assert on_device(torch.tensor([0, 51, 255], dtype=torch.uint8), CPU).tolist() == pytest.approx([0, 0.2, 1])
    images = torch.full((5, 1, 2, 2), 0.5)
    images[1, 0, 0, 0], images[2, 0, 1, 1], images[3, 0, 0, 1] = -0.01, 1.01, math.nan
    images[4, 0, 0, 0], images[4, 0, 1, 1] = 0.0, 1.0
    assert list(out_of_range(images)) == [1, 2, 3]
    assert "[-0.01, 0.5]" in out_of_range(images)[1]
    assert out_of_range(images[:0]) == {}


def test_decoded_images_are_kept_up_to_exactly_the_bytes_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.engine import shards

    monkeypatch.setattr(shards, "SLOW", -1.0)
    dataset = job_of(ModelLoader(CPU)).dataset
    each = dataset.images([0]).pixels.nbytes
    cache = ImageCache(dataset, most=3 * each)
    for index in ([0, 1], [2, 3], [4], [5]):
        cache.images(index)
    assert (len(cache.kept), cache.held) == (2, 3 * each)
    assert torch.equal(cache.images([4]).pixels, dataset.images([4]).pixels)


def test_shards_come_in_order_with_faults_between_and_other_errors_raised() -> None:
    dataset = job_of(ModelLoader(CPU)).dataset
    divided = [np.array([0, 1]), np.array([2, 3]), np.array([4])]
    first, fault, last = shards_ahead(Faulty(dataset, 2), divided)
    assert isinstance(fault, NotRead)
    assert isinstance(first, Shard)
    assert isinstance(last, Shard)
    assert (first.index.tolist(), last.index.tolist()) == ([0, 1], [4])
    assert torch.equal(last.images.pixels, dataset.images([4]).pixels)
    with pytest.raises(IndexError):
        list(shards_ahead(dataset, [np.array([10**9])]))


# trials of faster versions


@pytest.mark.parametrize(
    ("gain", "error", "decides", "weaker"),
    [
        (0.98, 0.0, True, True),
        (0.98, 0.0, False, False),
        (0.99, 0.0, True, False),  # as much as it must
        (0.9, 0.04, True, True),
        (0.9, 0.06, True, False),  # within two standard errors of all
        (0.5, 0.25, True, False),
        (1.2, 0.0, True, False),
    ],
)
def test_a_version_is_weaker_below_99_percent_and_beyond_two_errors(
    gain: float, error: float, decides: bool, weaker: bool
) -> None:
    assert Trial("pgd", gain, error, 128, decides).is_weaker == weaker


class Moved(Attack):
    """Moves every sample by as much as its first pixel says, so that its margin is known."""

    radius = 0.5

    def __init__(self, by: Tensor) -> None:
        self.by = by

    @property
    def cost(self) -> Cost:
        return Cost(1, 1)

    def attempt(
        self, model: Classifier, batch: Batch, noise: Noise, radius: Tensor, *, width: int, first: Tensor | None = None
    ) -> AttackResult:
        moved = batch.images.clone()
        at = torch.tensor([int(name) for name in batch.ids])
        moved[:, 0, 0, 0] += (self.by * (0.5 if getattr(model, "fast", None) is not None else 1.0))[at] * radius * 2
        n = torch.zeros(len(batch), dtype=torch.int64)
        return AttackResult(moved, size=radius, broken=n.bool(), forwards=n, backwards=n, variable=moved)


class Level(nn.Module):
    """Two classes: the second leads by what the first pixel is above a half."""

    def forward(self, images: Tensor) -> Tensor:
        lead = images[:, 0, 0, 0] - 0.5
        return torch.stack([torch.zeros_like(lead), lead], dim=1)


def level(starts: Sequence[float]) -> tuple[TorchClassifier, Batch]:
    """Samples of the first class whose margins are `starts`."""
    model = wrap(Level(), name="level", classes=2, channels=1)
    images = torch.zeros(len(starts), 1, 2, 2)
    images[:, 0, 0, 0] = torch.tensor(starts) + 0.5
    return model, Batch(images, torch.zeros(len(starts), dtype=torch.int64), tuple(map(str, range(len(starts)))))


STARTS = (-0.4, 0.2, -0.2, -0.1, -0.3)  # the second is wrong already
BY = torch.tensor([0.1, 0.9, 0.3, 0.05, 0.3])  # of which the third and fifth are broken


def test_what_an_attack_gains_is_what_margins_rise_up_to_zero() -> None:
    model, batch = level(STARTS)
    made = references(model, Moved(BY), batch, 2)
    (part,) = made.parts
    assert made.right == 4 / 5
    assert part.batch.ids == ("0", "2", "3", "4")
    assert part.start.tolist() == pytest.approx([-0.4, -0.2, -0.1, -0.3], abs=1e-6)
    assert part.gain.tolist() == pytest.approx([0.1, 0.2, 0.05, 0.3], abs=1e-6)
    assert part.unbroken == 0.5
    assert made.unbroken == pytest.approx(4 / 5 * 0.5)
    assert part.radius == 0.5
    nothing = references(model, Moved(BY), batch.take(torch.tensor([1])), 2)
    assert (nothing.parts, nothing.right, nothing.unbroken) == ((), 0, 0)
    assert References((), 0.7).unbroken == 0.7
    few = Reference(Moved(BY), 0.5, batch, torch.tensor([-1.0, -1.0]), torch.tensor([1.0, 0.5]))
    assert References((part, few, replace(few, gain=torch.zeros(2))), 1.0).unbroken == 0.5
    assert few.unbroken == 0.5, "a margin of 0 is broken"


def test_a_trial_is_the_ratio_of_mean_gains_with_its_standard_error() -> None:
    model, batch = level(STARTS)

    class Half:
        words, error, exact = "half", 0.0, None

    (trial,) = tried(model, Half(), references(model, Moved(BY), batch, 2), 2)  # type: ignore[arg-type]
    full, half = np.array([0.1, 0.2, 0.05, 0.3]), np.array([0.05, 0.15, 0.025, 0.15])
    assert trial.gain == pytest.approx(half.mean() / full.mean(), abs=1e-5)
    assert trial.error == pytest.approx((half - full).std(ddof=1) / math.sqrt(4) / full.mean(), abs=1e-5)
    assert (trial.samples, trial.kind, trial.decides, trial.is_weaker) == (4, None, True, True)
    assert model.fast is None
    unmoved = references(model, Moved(torch.zeros(5)), batch, 2)
    assert tried(model, Half(), unmoved, 2) == [], "nothing is gained, so nothing is compared"  # type: ignore[arg-type]
    alone = references(model, Moved(BY), batch.take(torch.tensor([0])), 2)
    assert tried(model, Half(), alone, 2)[0].error == 0  # type: ignore[arg-type]


def test_an_attack_is_far_where_ten_times_its_gain_breaks_nothing() -> None:
    _, batch = level(STARTS)
    for gain, far in ((0.09, True), (0.11, False)):
        known = Reference(Moved(BY), 0.5, batch, torch.tensor([-5.0, -1.0]), torch.tensor([0.0, gain]))
        assert precision._is_far(known) == far


@pytest.mark.parametrize(("text", "is_run_again"), [("pgd-linf", True), ("square-linf", False)])
def test_a_loss_is_covered_up_to_the_reach_of_the_second_attack(text: str, is_run_again: bool) -> None:
    """Of a hundred samples the version misses the 98 % quantile, here 0.3, and twice that in a longer attack."""
    _, batch = level(STARTS)
    attack = registry.build(registry.bind("attack", text))
    missed = torch.linspace(-1.0, 1.0, 101) * 0.3 / 0.96
    known = Reference(attack, 0.5, batch, torch.full((101,), -1.0), torch.full((101,), 0.5))
    for reach, covered in ((0.599, False), (0.601, True)):
        assert precision._is_covered(known, known.gain - missed, reach / CLOSE) == (covered and is_run_again)
    assert precision._is_covered(known, known.gain + 1, 0.0) == is_run_again, "more gained is no loss"


def test_a_trial_takes_few_samples_of_an_attack_that_cannot_be_cut_short() -> None:
    model, batch = level([-0.1] * 300)
    (part,) = references(model, Moved(torch.full((300,), 0.05)), batch, 64).parts
    assert len(part.batch) == len(part.start) == len(part.gain) == 32
    (cut,) = references(model, registry.build(registry.bind("attack", "pgd-linf:steps=1")), batch, 64).parts
    assert len(cut.batch) == 128


def test_grouped_convolutions_take_longer_to_be_worth_it() -> None:
    assert worth_seconds(nn.Sequential(nn.Conv2d(4, 4, 1), nn.Linear(2, 2))) == 8
    assert worth_seconds(nn.Sequential(nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1, groups=2))) == 200


def test_passes_without_gradients_take_a_third_of_those_with() -> None:
    """Three backward passes and five forward ones: two alone, each a third, of 3 + 2/3."""

    class Priced:
        def __init__(self, forwards: int, backwards: int) -> None:
            self.cost = Cost(forwards, backwards)

    def share(*costs: tuple[int, int]) -> float:
        job = job_of(ModelLoader(CPU))
        ref = registry.bind("attack", "pgd-linf")
        return _forward_share(replace(job, changes=tuple((ref, Priced(*cost)) for cost in costs)))  # type: ignore[arg-type, misc]

    assert share((5, 3)) == pytest.approx((2 / 3) / (3 + 2 / 3))
    assert share((3, 3), (6, 0)) == pytest.approx(2 / (3 + 2))
    assert share((1, 4)) == 0
    assert share((4, 0)) == 1
    assert share() == 0
    assert cycled(torch.arange(3), 7).tolist() == [0, 1, 2, 0, 1, 2, 0]


# how a model behaves


def test_probes_are_alike_within_the_larger_tolerance_of_the_largest_number() -> None:
    assert alike((0.1, 10.0, 0.0), (0.01, 9.0, 0.0))
    assert not alike((0.1, 10.0, 0.0), (0.01, 8.9, 0.0))
    assert alike((0.01, 9.0, 0.0), (0.1, 10.0, 0.0)), "either way round"
    assert alike((0.1, 1.0, -10.0), (0.1, 2.0, -10.0)), "the largest, whatever its sign"
    assert not alike((0.1, 1.0), (0.1, 1.0, 1.0))
    assert alike((5.0,), (7.0,))
    assert not alike((0.001, 1.0), (0.001, -1.0))


class Answering:
    """Gives logits from a table, moved by a tenth of a number where images come alone."""

    def __init__(self, logits: NDArray[np.float64], alone: float = 0.0) -> None:
        self.logits, self.alone = torch.from_numpy(logits), alone

    def __call__(self, images: Tensor) -> Tensor:
        rows = self.logits[images[:, 0].long()]
        return rows + self.alone * torch.tensor([1.0, -1.0, 0.0]) if len(images) == 1 else rows


def test_a_probe_is_of_differences_of_logits_with_a_tolerance_by_what_batches_change() -> None:
    logits = np.array([[3.0, 0.0, -3.0], [1.0, 1.0, -2.0], [0.0, 2.0, -2.0], [4.0, -4.0, 0.0]])
    images = torch.arange(4.0)[:, None]
    plain = behaviour_probe(Answering(logits), images)  # type: ignore[arg-type]
    assert plain == behaviour_probe(Answering(logits + 7), images), "a constant is no answer"  # type: ignore[arg-type]
    assert plain[0] == pytest.approx(2e-4)
    table = np.array(plain[1:]).reshape(4, 4)
    assert table[:, 3].tolist() == [3, 1, 2, 4], "the largest logit about the mean"
    # projections by signs: each is a sum of ± logits over √3
    for row, values in zip(logits, table, strict=True):
        sums = {round(float(row @ (2 * np.array(signs) - 1)) / math.sqrt(3), 9) for signs in np.ndindex(2, 2, 2)}
        assert {round(value, 9) for value in values[:3]} <= sums
    for alone in (1e-3, 0.5):
        moved_logits = logits + np.array([[alone, -alone, 0.0]])
        moved = np.array(behaviour_probe(Answering(moved_logits), images)[1:]).reshape(4, 4) - table  # type: ignore[arg-type]
        found = behaviour_probe(Answering(logits, alone), images)[0]  # type: ignore[arg-type]
        largest = np.abs(table).max(1)
        unit = np.maximum(largest, np.median(largest))
        assert found == pytest.approx(min(0.1, 10 * (np.abs(moved).max(1) / unit)[[0, 3]].max()))


def test_a_known_behaviour_is_of_the_same_model_weights_data_and_labels(footer_for: Callable[..., Footer]) -> None:
    same = footer_for("m", behaviour="b1", probe=(0.1, 1.0))
    again = footer_for("m", behaviour="b1", probe=(0.1, 5.0), key="k2")
    other = footer_for("m", behaviour="b2", probe=(0.1, 9.0), key="k3")
    others = [footer_for("n"), footer_for("m", weights="v"), footer_for("m", data="e")]
    known = known_behaviours([same, again, other, *others], "m", "w", "d", same.answers)
    assert [(one.name, one.probe) for one in known] == [("b1", (0.1, 1.0)), ("b2", (0.1, 9.0))]
    assert matching_behaviour((0.1, 9.1), known) == "b2"
    assert matching_behaviour((0.1, 4.0), known) is None
    detailed = footer_for("m", behaviour="b1", probe=(0.1, 1.0), second_probe=(1.0, 2.0, 3.0), key="k4")
    known = known_behaviours([same, detailed], "m", "w", "d", same.answers)
    assert [one.second for one in known] == [(1.0, 2.0, 3.0)], "the rows that say more"


def test_gradients_are_given_where_they_reach_the_images() -> None:
    images = torch.rand(2, 3)
    assert gives_gradients(lambda given: given * 2, images)  # type: ignore[arg-type, return-value]
    assert not gives_gradients(lambda given: given.detach() * 2, images)  # type: ignore[arg-type, return-value]
    weight = torch.ones(3, requires_grad=True)
    assert not gives_gradients(lambda given: given.detach() * weight, images)  # type: ignore[arg-type, return-value]
    assert not gives_gradients(lambda given: torch.from_numpy(given.numpy()), images)  # type: ignore[arg-type, return-value]

    def failing(given: Tensor) -> Tensor:
        raise ValueError("no answer at all")

    assert gives_gradients(failing, images), "left to fail later"  # type: ignore[arg-type]
