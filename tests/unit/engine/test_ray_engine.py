"""Evaluation on a cluster, without one: the rows of one process, whatever the order and whoever dies."""

from __future__ import annotations

import random
import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_ray import FakeRay, Handle

from holdfast.core.errors import Absent, HoldfastError, Misuse
from holdfast.core.refs import Ref, Run, Scenario
from holdfast.engine import evaluate as evaluate_module
from holdfast.engine.evaluate import Outcome, evaluate, needed
from holdfast.engine.jobs import RunOptions, read_models, read_scenarios
from holdfast.engine.ledger import Ledger
from holdfast.engine.ray import driver
from holdfast.engine.ray.actor import JobContext, portable
from holdfast.engine.ray.cluster import actor_device, device_count
from holdfast.engine.ray.driver import evaluate_on_ray
from holdfast.engine.ray.tasks import ActorTask, ModelQueues, RunHandle, RunRequest
from holdfast.engine.watch import Watcher
from holdfast.models import wrap
from holdfast.store import Footer, Rows, Store
from holdfast.store.files import NoRoom

MODEL = "fashion-at-linf"
OF_THE_MOMENT = {"started", "finished", "seconds", "device", "digest"}


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An actor stays in its process, which here is the one of the tests; shards are small."""
    monkeypatch.setattr(evaluate_module, "shard_size", lambda _: 10)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    with warnings.catch_warnings():
        yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


class Telling(Watcher):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.counts: Counter[str] = Counter()
        self.messages: list[str] = []

    def began(self, run: Run, samples: int, kept: int) -> None:
        self.counts["began"] += 1
        self.counts["kept"] += kept

    def advanced(self, run: Run, samples: int, standing: object) -> None:
        self.counts["measured"] += samples

    def ended(self, run: Run, messages: str, standing: object) -> None:
        self.messages.append(messages)

    def note(self, text: str) -> None:
        self.notes.append(text)


def on_fake(
    fake: FakeRay,
    monkeypatch: pytest.MonkeyPatch,
    models: list[object],
    scenarios: list[str],
    store: Store,
    options: RunOptions | None = None,
    **more: object,
) -> list[Outcome]:
    monkeypatch.setattr(driver, "installed_ray", lambda: fake)
    settings: dict[str, object] = {"pictures": 0, "watcher": Watcher(), "device": "auto", "actors": 2} | more
    requested = read_models(models), read_scenarios(scenarios)  # type: ignore[arg-type]
    return evaluate_on_ray(*requested, store=store, options=options or RunOptions(), **settings)  # type: ignore[arg-type]


def assert_same(one: Rows | None, other: Rows | None) -> None:
    """Equal in everything but timing."""
    assert one is not None
    assert other is not None
    assert one.table.equals(other.table)
    for name in Footer.__dataclass_fields__:
        if name not in OF_THE_MOMENT - {"digest"}:
            assert getattr(one.footer, name) == getattr(other.footer, name), name


@pytest.mark.parametrize(
    ("options", "seed"), [(RunOptions(), 0), (RunOptions(samples=35, seed=1), 1), (RunOptions(precision=0.09), 2)]
)
def test_the_rows_are_those_of_one_process(
    options: RunOptions,
    seed: int,
    store: Store,
    tmp_path: Path,
    tiny_data: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = tiny_data(n=130)
    scenarios = [data, f"{data}+gaussian-noise:severity=2", f"{data}+pgd-linf:radius=1/255,steps=2"]
    names = [MODEL, "fashion-standard"]
    monkeypatch.setattr(driver, "KEEP_EVERY", 0.0)  # share everything out
    local = Store(str(tmp_path / "local"))
    alone = evaluate(names, scenarios, store=local, pictures=1, **_settings(options))  # type: ignore[arg-type]
    watcher = Telling()
    together = on_fake(FakeRay(seed), monkeypatch, names, scenarios, store, options, pictures=1, watcher=watcher)
    assert [(each.model, each.scenario) for each in together] == [(each.model, each.scenario) for each in alone]
    for one, other in zip(together, alone, strict=True):
        assert one.fresh
        assert_same(one.rows, other.rows)
        assert one.rows is not None
        assert store.pictures(one.rows.footer.key) == local.pictures(one.rows.footer.key)
    assert watcher.messages == ["measured"] * 6
    assert store.unfinished() == {}
    assert store.files.leftovers() == []
    again = Telling()
    repeated = on_fake(FakeRay(seed), monkeypatch, names, scenarios, store, options, watcher=again)
    assert not any(each.fresh for each in repeated)
    assert again.messages == ["done before"] * 6
    assert again.counts["measured"] == 0


def _settings(options: RunOptions) -> dict[str, object]:
    return {"seed": options.seed, "samples": options.samples, "precision": options.precision}


def test_one_function_evaluates_here_and_on_ray(
    store: Store, tmp_path: Path, tiny_data: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "installed_ray", FakeRay)
    data = tiny_data(n=40)
    (one,) = evaluate(MODEL, data, store=store, pictures=0, engine="ray", actors=2)
    (other,) = evaluate(MODEL, data, store=str(tmp_path / "local"), pictures=0)
    assert_same(one.rows, other.rows)
    with pytest.raises(Misuse, match="engine is local or ray"):
        evaluate(MODEL, data, store=store, engine="cloud")  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="are for --engine ray"):
        evaluate(MODEL, data, store=store, actors=2)


@pytest.mark.parametrize("seed", range(8))
def test_deaths_at_random_change_nothing(
    seed: int, store: Store, tmp_path: Path, tiny_data: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)

    def deaths(handle: Handle, method: str) -> str | None:
        return rng.choice(["before", "after"]) if rng.random() < 0.25 else None

    data = tiny_data(n=95)
    scenarios = [data, f"{data}+gaussian-noise:severity=2"]
    monkeypatch.setattr(driver, "KEEP_EVERY", rng.choice([0.0, 2.0]))
    alone = evaluate(MODEL, scenarios, store=str(tmp_path / "local"), pictures=0)
    fake, watcher = FakeRay(seed, deaths), Telling()
    together = on_fake(fake, monkeypatch, [MODEL], scenarios, store, watcher=watcher, retries=30)
    for one, other in zip(together, alone, strict=True):
        assert_same(one.rows, other.rows)
    assert fake.killed == fake.hired, "no actor is left behind"
    assert store.unfinished() == {}
    assert watcher.counts["kept"] + watcher.counts["measured"] == 190


def test_a_shard_that_was_written_is_not_measured_again(
    store: Store, tiny_data: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    died: list[str] = []

    def deaths(handle: Handle, method: str) -> str | None:
        if method == "measure" and not died:
            died.append(method)
            return "after"
        return None

    written: list[int] = []
    real = Store.add_part

    def counted(self: Store, rows: Rows) -> None:
        written.append(len(rows))
        real(self, rows)

    monkeypatch.setattr(Store, "add_part", counted)
    on_fake(FakeRay(0, deaths), monkeypatch, [MODEL], [tiny_data(n=60)], store)
    assert died
    assert written == [10] * 6


def test_what_kills_its_actor_every_time_fails_alone(
    store: Store, tiny_data: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tiny_data(n=30)
    fatal = evaluate_module.measure

    def measure(setting: object, shard: object, *, width: int) -> object:
        if setting.changes:  # type: ignore[attr-defined]
            raise Fatal
        return fatal(setting, shard, width=width)  # type: ignore[arg-type]

    class Fatal(BaseException):
        """Stands for the end of the process."""

    class Mortal(FakeRay):
        def get(self, ref: object) -> object:
            try:
                return super().get(ref)  # type: ignore[arg-type]
            except Fatal:
                ref.handle.restart()  # type: ignore[attr-defined]
                raise self.exceptions.RayError("the actor died") from None

    monkeypatch.setattr(evaluate_module, "measure", measure)
    fake, watcher = Mortal(0), Telling()
    fine, failed = on_fake(
        fake, monkeypatch, [MODEL], [data, f"{data}+gaussian-noise:severity=2"], store, watcher=watcher, retries=2
    )
    assert fine.rows is not None
    assert failed.rows is None
    assert "died 3 times at the same place" in str(failed.error)
    assert "hint" in str(failed.error)
    assert any("another does its work" in note for note in watcher.notes)


def test_an_error_of_one_run_leaves_the_others(
    store: Store, tiny_data: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DATA", "/nowhere")  # whatever was downloaded here before
    data, other = tiny_data(n=30), tiny_data(n=30, classes=12, name="twelve")
    watcher = Telling()
    missing, fine, wrong = on_fake(FakeRay(), monkeypatch, [MODEL], ["cifar10", data, other], store, watcher=watcher)
    assert isinstance(missing.error, Absent)
    assert "holdfast data get" in str(missing.error)
    assert fine.rows is not None
    assert "the label map is wrong" in str(wrong.error)
    assert sum("label map" in note for note in watcher.notes) == 1


def test_a_full_disk_stops_everything(
    store: Store, tiny_data: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Store, rows: Rows) -> None:
        raise NoRoom("no room left", hint="free some space")

    monkeypatch.setattr(Store, "add_part", full)
    fake = FakeRay()
    with pytest.raises(NoRoom, match="no room left"):
        on_fake(fake, monkeypatch, [MODEL], [tiny_data(n=60)], store)
    assert fake.killed == fake.hired


def test_ctrl_c_keeps_what_is_written_and_stops_the_actors(
    store: Store, tmp_path: Path, tiny_data: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopping(Telling):
        def advanced(self, run: Run, samples: int, standing: object) -> None:
            super().advanced(run, samples, standing)
            if self.counts["measured"] >= 30:
                raise KeyboardInterrupt

    data, fake = tiny_data(n=80), FakeRay()
    with pytest.raises(KeyboardInterrupt):
        on_fake(fake, monkeypatch, [MODEL], [data], store, watcher=Stopping())
    assert fake.killed == fake.hired
    (parts,) = store.unfinished().values()
    assert sum(map(len, parts)) >= 30
    resumed = Telling()
    (outcome,) = on_fake(FakeRay(1), monkeypatch, [MODEL], [data], store, watcher=resumed)
    assert resumed.counts["kept"] == sum(map(len, parts))
    assert_same(outcome.rows, evaluate(MODEL, data, store=str(tmp_path / "local"), pictures=0)[0].rows)


def test_rows_of_another_choice_of_samples_are_taken_over(
    store: Store, tmp_path: Path, tiny_data: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tiny_data(n=80)
    whole = []
    for target in (store, Store(str(tmp_path / "local"))):
        evaluate(MODEL, data, store=target, samples=25, pictures=0)
        if target is store:
            whole += on_fake(FakeRay(), monkeypatch, [MODEL], [data], store)
        else:
            whole += evaluate(MODEL, data, store=target, pictures=0)
    assert_same(whole[0].rows, whole[1].rows)
    assert whole[0].rows is not None
    assert "rows taken over from" in whole[0].rows.footer.facts


def test_a_live_model_travels_where_it_can(
    store: Store, tiny_data: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tiny_data(n=40)
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", type("ray", (), {"get": lambda thing: thing}))
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(28 * 28, 10))
    model = wrap(net, name="live", classes=10, channels=1)
    (outcome,) = on_fake(fake, monkeypatch, [model], [data], store)
    assert outcome.rows is not None
    assert outcome.rows.footer.model == "live"
    model.unpicklable = lambda: None  # type: ignore[assignment]
    with pytest.raises(Misuse, match="cannot travel") as caught:
        on_fake(fake, monkeypatch, [model], [data], store)
    assert "python:module:factory" in str(caught.value)


def test_files_that_differ_between_nodes_are_refused(
    store: Store, tiny_data: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second actor to load the data finds other labels in it."""
    data = tiny_data(n=60)

    class Late(FakeRay):
        def get(self, ref: object) -> object:
            if ref.method == "measure":  # type: ignore[attr-defined]
                tiny_data(n=60, labels=np.arange(60)[::-1] % 10)
                ref.handle.actor.evaluations.clear()  # type: ignore[attr-defined]
                ref.handle.actor.loader.datasets.clear()  # type: ignore[attr-defined]
            return super().get(ref)  # type: ignore[arg-type]

    (outcome,) = on_fake(Late(), monkeypatch, [MODEL], [data], store)
    assert "the data of" in str(outcome.error)
    assert "not those of the other nodes" in str(outcome.error)


def test_a_store_in_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Misuse, match="the memory of one process"):
        on_fake(FakeRay(), monkeypatch, [MODEL], ["fashion-mnist-2k"], Store("memory://rows"))


def test_a_node_that_does_not_see_the_store_is_left_out(
    store: Store, tiny_data: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = {1}

    class Apart(FakeRay):
        def made(self, number: int, context: JobContext) -> object:
            return super().made(number, replace(context, store="/somewhere/else") if number in blind else context)

    watcher = Telling()
    (outcome,) = on_fake(Apart(), monkeypatch, [MODEL], [tiny_data(n=30)], store, watcher=watcher)
    assert outcome.rows is not None
    assert sum("does not see the store" in note for note in watcher.notes) == 1
    blind.add(2)
    with pytest.raises(Misuse, match="does not see the store"):
        on_fake(Apart(), monkeypatch, [MODEL], [tiny_data(n=30)], store)


def test_actors_that_never_start_end_the_job_in_words(
    store: Store, tiny_data: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeRay(0, lambda handle, method: "before")
    with pytest.raises(HoldfastError, match="no actor stays alive"):
        on_fake(fake, monkeypatch, [MODEL], [tiny_data(n=30)], store)
    assert fake.killed == fake.hired == 2
    assert len(fake.messages) == 2 * 4, "Ray starts each again three times"


def test_ray_is_asked_for_where_it_is_absent(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(HoldfastError, match="not installed") as caught:
        evaluate_on_ray([], [], store, RunOptions(), "auto", 0, Watcher())
    assert 'pip install "holdfast[ray]"' in str(caught.value)


@pytest.mark.parametrize(
    ("address", "environment", "joined"), [("a:1", None, "a:1"), (None, "b:2", "b:2"), (None, None, None)]
)
def test_what_is_joined_is_joined_and_what_is_started_is_stopped(
    address: str | None,
    environment: str | None,
    joined: str | None,
    store: Store,
    tiny_data: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if environment is not None:
        monkeypatch.setenv("RAY_ADDRESS", environment)
    fake = FakeRay()
    fake.is_running = False
    on_fake(fake, monkeypatch, [MODEL], [tiny_data(n=20)], store, address=address)
    assert fake.init_seen["address"] == (joined or "local")
    assert fake.init_seen.get("num_cpus") == (None if joined else 2)
    assert fake.stops == 1


def test_a_cluster_out_of_reach_is_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(FakeRay):
        def init(self, **options: object) -> None:
            raise ConnectionError("nobody there\nand a stack")

    fake = Gone()
    fake.is_running = False
    with pytest.raises(HoldfastError) as caught:
        on_fake(fake, monkeypatch, [MODEL], [], store, address="nowhere:1")
    assert caught.value.problem == "cannot reach the Ray cluster at nowhere:1: nobody there"


def test_actors_are_one_per_device(
    store: Store, tiny_data: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeRay()
    fake.resources = {"CPU": 3.0}
    on_fake(fake, monkeypatch, [MODEL], [tiny_data(n=20)], store, actors=None)
    assert fake.hired == 3
    assert (fake.options_seen["num_cpus"], fake.options_seen["num_gpus"]) == (1, 0)
    fake.resources = {"CPU": 8.0, "GPU": 2.0}
    assert actor_device(fake, "auto") == "cuda"
    assert device_count(fake, "cuda") == 2
    assert device_count(fake, actor_device(fake, "cpu")) == 8
    for device, resources in (("cuda:1", fake.resources), ("cuda", {"CPU": 1.0})):
        fake.resources = resources
        with pytest.raises(Misuse, match="cluster"):
            actor_device(fake, device)
    with pytest.raises(Misuse, match="--actors"):
        on_fake(fake, monkeypatch, [MODEL], [], store, actors=0)


def test_an_error_travels_as_the_nearest_kind_everyone_knows() -> None:
    class Mine(Absent):
        """A kind that a plug-in made up."""

    sent = portable(Mine("gone", hint="look again"))
    assert type(sent) is Absent
    assert str(sent) == "gone\n\nhint: look again"
    assert type(portable(NoRoom("full", hint="h"))) is NoRoom


# which task an idle actor gets next


def queues_of(models: str, scenarios: int) -> ModelQueues:
    requests = [
        RunRequest(Ref("model", model, (), 1), Scenario(Ref("dataset", f"d{i}", (), 1)))
        for model in models
        for i in range(scenarios)
    ]
    return ModelQueues(requests, alone=2.0)


def key(model: str) -> str:
    return Ref("model", model, (), 1).key


def taken(queues: ModelQueues, loaded: str | None, held: dict[str, int], actors: int) -> ActorTask:
    task = queues.next(loaded, held, actors)
    assert task is not None
    return task


def begun(queues: ModelQueues, shards: int, *, pace: float = 0.0, precision: float | None = None) -> ActorTask:
    """The first task of the first run, which then has so many shards."""
    task = taken(queues, None, {}, 2)
    request = task.run.request
    handle = RunHandle(request, Run(request.model, request.scenario), 1, (), "", ())  # type: ignore[arg-type]
    spans = [range(10 * i, 10 * i + 10) for i in range(shards)]
    task.run.begun(handle, Ledger.empty(10 * shards, precision), spans, pace)
    task.run.out -= 1
    return task


def test_an_actor_stays_with_its_model_and_idle_ones_take_what_nobody_holds() -> None:
    queues = queues_of("abc", 3)
    assert taken(queues, None, {}, 2).run.request.name == "a"
    assert taken(queues, None, {key("a"): 1}, 2).run.request.name == "b"
    for _ in range(2):
        assert taken(queues, key("a"), {key("a"): 1, key("b"): 1}, 2).run.request.name == "a"
    assert taken(queues, key("a"), {key("a"): 1, key("b"): 1}, 2).run.request.name == "c", "no actor has it"


def test_idle_actors_help_with_the_longest_queue() -> None:
    queues = queues_of("ab", 2)
    held = {key("a"): 1, key("b"): 1, key("z"): 1}
    assert taken(queues, key("b"), held, 3).run.request.name == "b"
    begun(queues, 5)
    assert taken(queues, key("z"), held, 3).run.request.name == "a"


def test_a_run_is_kept_whole_only_while_others_wait() -> None:
    queues = queues_of("a", 4)
    assert [taken(queues, None, {}, 2).alone for _ in range(4)] == [2.0, 2.0, 0.0, 0.0]


def test_quick_shards_travel_together_but_leave_enough_for_others() -> None:
    queues = queues_of("a", 1)
    begun(queues, 40, pace=0.5)
    share = taken(queues, key("a"), {}, 2)
    assert share.method == "measure"
    assert len(share.shards) == 4, "two seconds of them"
    share.run.pace = 0.001
    shares = []
    while (more := queues.next(key("a"), {}, 2)) is not None:
        shares.append(len(more.shards))
    assert sum(shares) == 36
    assert shares[0] == 9
    assert shares[-1] == 1


def test_slow_shards_travel_in_pairs_only_while_others_have_enough() -> None:
    """So that an actor reads one while it measures the other."""
    queues = queues_of("a", 1)
    begun(queues, 7, pace=100.0)
    shares = []
    while (share := queues.next(key("a"), {}, 2)) is not None:
        shares.append(len(share.shards))
    assert shares == [2, 2, 1, 1, 1]


def test_a_run_is_finished_once_and_after_its_last_shard() -> None:
    queues = queues_of("a", 1)
    begun(queues, 1)
    share = taken(queues, key("a"), {}, 1)
    assert queues.next(key("a"), {}, 1) is None
    share.run.out -= 1
    assert share.run.measured([(range(10), np.ones(10, bool))], 1.0) == 10
    assert taken(queues, key("a"), {}, 1).method == "finish"
    assert queues.next(key("a"), {}, 1) is None
    queues.end(share.run)
    assert queues.is_empty


def test_what_was_lost_comes_first_and_is_looked_for_in_the_store() -> None:
    queues = queues_of("a", 1)
    begun(queues, 8, pace=0.1)
    share = taken(queues, key("a"), {}, 1)
    assert share.args[-1] is False
    share.run.out -= 1
    share.deaths += 1
    share.run.lost.append(share)
    assert taken(queues, key("a"), {}, 1) is share
    assert share.args[-1] is True
    assert share.run.out == 1


def test_a_precision_that_is_reached_ends_the_shares() -> None:
    queues = queues_of("a", 1)
    begun(queues, 100, precision=0.05)
    run = taken(queues, key("a"), {}, 1).run
    run.measured([(range(400), np.ones(400, bool))], 1.0)
    assert run.waiting == deque()
    assert run.ledger.reached() == 100


# the ledger


def test_the_ledger_says_what_is_missing_of_a_fixed_division() -> None:
    ledger = Ledger.empty(25, None)
    ledger.enter(range(10, 20), np.ones(10, bool))
    ledger.enter([0, 24], np.array([True, False]))
    assert ledger.missing(10) == [range(10), range(20, 25)]
    assert (ledger.known, ledger.standing.value) == (12, 11 / 12)
    assert not ledger.is_whole


def test_a_precision_counts_only_up_to_the_first_gap() -> None:
    ledger = Ledger.empty(1000, 0.04)
    ledger.enter(range(100, 1000), np.ones(900, bool))
    assert ledger.reached() is None
    ledger.enter(range(100), np.ones(100, bool))
    assert ledger.reached() == 100
    assert ledger.is_whole


def test_a_shard_measured_twice_counts_once(rows_for: Callable[..., Rows]) -> None:
    one = rows_for([True] * 3, ids=["a", "b", "c"])
    same = rows_for([True] * 3, ids=["c", "b", "a"])
    more = rows_for([True] * 2, ids=["c", "d"])
    assert needed([one, same, more], ["a", "b", "c", "d"]) == [one, more]
    assert needed([one, same, more], ["a"]) == [one]
