"""The random-search loop, driven by proposals that follow a script."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from holdfast.attacks import search as module
from holdfast.attacks.active_set import ActiveSet
from holdfast.attacks.asked_model import AskedModel
from holdfast.attacks.objectives import margin
from holdfast.attacks.replay import Replays
from holdfast.attacks.search import BLOCK, RandomSearch
from holdfast.attacks.steps import State
from holdfast.attacks.threat import Scene, Threat
from holdfast.attacks.threats.balls import Linf
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import Batch, FastVersion
from holdfast.models import TorchClassifier, wrap


@dataclass(frozen=True)
class Script:
    """Proposes the heights of a script, one per query; `seen` are the draws it was asked to plan with."""

    heights: tuple[float, ...]
    begin: float = 0.0
    seen: list[int] = field(default_factory=list)

    def start(self, threat: Threat, scene: Scene, noise: Noise, draw: Tensor) -> Tensor:
        return torch.full_like(scene.images, self.begin)

    def plan(self, scene: Scene, noise: Noise, draw: Tensor, ages: Tensor) -> State:
        assert ages.shape == (len(scene), BLOCK)
        self.seen.extend(draw.tolist())
        return {"height": torch.tensor(self.heights)[ages]}

    def propose(self, threat: Threat, scene: Scene, best: Tensor, plan: State) -> Tensor:
        return plan["height"][:, None, None, None].expand_as(best).clone()


@dataclass(frozen=True)
class Drift:
    """Adds noise of its own to every pixel, a little at a time."""

    def start(self, threat: Threat, scene: Scene, noise: Noise, draw: Tensor) -> Tensor:
        return threat.start(scene, noise, draw)

    def plan(self, scene: Scene, noise: Noise, draw: Tensor, ages: Tensor) -> State:
        return {"push": noise.uniform("push", (ages.shape[1], *scene.images.shape[1:]), draw=draw) - 0.5}

    def propose(self, threat: Threat, scene: Scene, best: Tensor, plan: State) -> Tensor:
        return threat.project(scene, best + 0.05 * plan["push"])


class Brightness(nn.Module):
    """Class 1 leads where the mean of an image is above the level."""

    def __init__(self, level: float) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.tensor(level))

    def forward(self, images: Tensor) -> Tensor:
        lead = images.flatten(1).mean(1) - self.level
        return torch.stack([torch.zeros_like(lead), lead], dim=1)


def bright(level: float) -> TorchClassifier:
    return wrap(Brightness(level), name="bright", classes=2, channels=1)


def greys(n: int, *, value: float = 0.5, label: int = 0) -> Batch:
    return Batch(torch.full((n, 1, 2, 2), value), torch.full((n,), label), tuple(f"s{i}" for i in range(n)))


def hunt(proposal: module.Proposal, *, queries: int, restarts: int = 1, radius: float = 0.4) -> RandomSearch:
    return RandomSearch(Linf(), proposal, queries, restarts, margin, radius=radius)


def rising(n: int) -> tuple[float, ...]:
    return tuple(0.01 * (i + 1) for i in range(n))


@pytest.mark.parametrize("nth", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_a_sample_leaves_at_its_first_success(nth: int) -> None:
    model = bright(0.5 + 0.01 * nth - 0.005)  # the nth proposal is the first beyond
    made = hunt(Script(rising(30)), queries=30)(model, greys(5), Noise.of(0, greys(5).ids), width=2)
    assert made.forwards.tolist() == [2 + nth] * 5, "the clean image, the start, and the proposals up to the break"
    torch.testing.assert_close(made.images, torch.full((5, 1, 2, 2), 0.5 + 0.01 * nth))


def test_a_start_that_breaks_costs_one_query() -> None:
    made = hunt(Script((0.0,) * 20, begin=0.2), queries=20)(bright(0.6), greys(3), Noise.of(0, "abc"), width=3)
    assert made.forwards.tolist() == [2, 2, 2]
    torch.testing.assert_close(made.images, torch.full((3, 1, 2, 2), 0.7))


def test_only_what_is_better_is_kept() -> None:
    script = (0.1, 0.05, 0.3, -0.2, 0.29, 0.2)
    made = hunt(Script(script), queries=len(script))(bright(0.9), greys(2), Noise.of(0, "ab"), width=2)
    torch.testing.assert_close(made.images, torch.full((2, 1, 2, 2), 0.8))
    assert made.tallies == {"searches": 2, "flat searches": 0}


def test_a_search_that_never_rises_is_counted_as_flat() -> None:
    made = hunt(Script((-0.1, 0.0, -0.3)), queries=3, restarts=2)(bright(0.9), greys(4), Noise.of(0, "abcd"), width=3)
    assert made.tallies == {"searches": 8, "flat searches": 8}


@pytest.mark.parametrize("queries", [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
@pytest.mark.parametrize("restarts", [1, 3])
def test_who_holds_out_takes_every_query_and_no_more(queries: int, restarts: int) -> None:
    made = hunt(Script((0.0,) * queries), queries=queries, restarts=restarts)
    changed = made(bright(0.9), greys(5), Noise.of(0, "abcde"), width=2)
    assert changed.forwards.tolist() == [made.cost.forwards] * 5 == [1 + restarts * (1 + queries)] * 5
    assert changed.backwards.tolist() == [0] * 5
    assert made.cost.backwards == 0


def test_wrong_samples_are_passed_over_with_one_query() -> None:
    batch = greys(4, label=1)
    changed = hunt(Script((0.3,) * 5), queries=5)(bright(0.6), batch, Noise.of(0, batch.ids), width=2)
    assert torch.equal(changed.images, batch.images)
    assert changed.forwards.tolist() == [1] * 4
    assert changed.size.tolist() == [0.0] * 4


def test_every_run_and_block_draws_anew() -> None:
    script = Script((0.0,) * (3 * BLOCK))
    hunt(script, queries=3 * BLOCK, restarts=3)(bright(0.9), greys(1), Noise.of(0, "a"), width=1)
    assert len(script.seen) == 12, "three runs of 1 + 3 · BLOCK queries take four blocks each"
    assert sorted(script.seen) == list(range(12)), "run by run and block by block, none left out"


def test_a_given_start_replaces_that_of_the_first_run_only() -> None:
    made = hunt(Script((0.0,) * 3, begin=0.1), queries=3, restarts=2)
    batch, radius = greys(2), torch.full((2,), 0.4)
    first = torch.stack([torch.full((1, 2, 2), 0.3), torch.full((1, 2, 2), -0.3)])
    found = made.attempt(bright(0.9), batch, Noise.of(0, batch.ids), radius, width=2, first=first)
    torch.testing.assert_close(found.variable.flatten(1)[:, 0], torch.tensor([0.3, 0.1]))


def test_a_given_start_outside_the_radius_is_brought_inside() -> None:
    made = hunt(Script((0.0,) * 3), queries=3)
    batch, radius = greys(2), torch.tensor([0.1, 0.2])
    found = made.attempt(bright(0.9), batch, Noise.of(0, "ab"), radius, width=2, first=torch.full((2, 1, 2, 2), 0.3))
    torch.testing.assert_close(found.size, radius)


def test_samples_of_different_radii_share_a_batch() -> None:
    made, radius = hunt(Drift(), queries=200), torch.tensor([0.02, 0.05, 0.1, 0.2])
    found = made.attempt(bright(0.56), greys(4), Noise.of(0, "abcd"), radius, width=4)
    assert found.broken.tolist() == [False, False, True, True]
    assert bool((found.size <= radius * (1 + 1e-4)).all())


def test_a_model_without_gradients_is_asked_without_them() -> None:
    class Blind(Brightness):
        def forward(self, images: Tensor) -> Tensor:
            assert not torch.is_grad_enabled()
            assert not images.requires_grad
            return super().forward(images)

    model = wrap(Blind(0.55), name="blind", classes=2, channels=1)
    model.card = replace(model.card, differentiable=False)
    changed = hunt(Script(rising(10)), queries=10)(model, greys(3), Noise.of(0, "abc"), width=3)
    with torch.no_grad():
        assert model(changed.images).argmax(1).tolist() == [1, 1, 1]


def broken_at_random(width: int, *, replays: Replays | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Samples that break at different times, some never."""
    model = bright(0.55)
    if replays is not None:
        model.fast = Same(model, replays)
    batch = greys(17)
    images = batch.images + torch.linspace(-0.1, 0.04, 17)[:, None, None, None]
    made = hunt(Drift(), queries=45, restarts=2, radius=0.08)
    found = made.attempt(
        model,
        Batch(images, batch.labels, batch.ids),
        Noise.of(0, batch.ids),
        torch.full((17,), 0.08),
        width=width,
    )
    return found.images, found.forwards, found.broken


@pytest.mark.parametrize("width", [1, 4, 16])
def test_results_do_not_depend_on_who_shares_the_batch(width: int) -> None:
    images, forwards, broken = broken_at_random(17)
    assert 0 < int(broken.sum()) < 17, "some break and some do not, else the test says nothing"
    assert len(set(forwards.tolist())) > 4, "and not all at the same time"
    again = broken_at_random(width)
    torch.testing.assert_close(again[0], images, rtol=0, atol=1e-6)
    assert torch.equal(again[1], forwards)


@pytest.mark.parametrize("width", [1, 4, 16])
def test_leaving_at_the_end_of_a_block_finds_the_same(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: who is broken stays in the batch until the block ends, and is left as it was."""
    images, forwards, broken = broken_at_random(17)

    class Patient(module._SearchLoop):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)  # type: ignore[arg-type]
            self.drops_broken = False

    monkeypatch.setattr(module, "_SearchLoop", Patient)
    again = broken_at_random(width)
    torch.testing.assert_close(again[0], images, rtol=0, atol=1e-6)
    assert torch.equal(again[2], broken)
    assert bool((again[1] >= forwards).all())
    assert bool((again[1] < forwards + BLOCK).all()), "at most the rest of a block is wasted"


@pytest.mark.parametrize("width", [16, 64])
def test_replayed_blocks_find_the_same(width: int) -> None:
    """As with CUDA graphs: the samples keep their memory, with free rows at the end."""
    images, _, broken = broken_at_random(17)
    replays = Replays(recorded=False)
    again = broken_at_random(width, replays=replays)
    assert replays.recordings, "else nothing was replayed"
    assert not replays.refused
    torch.testing.assert_close(again[0], images, rtol=0, atol=1e-6)
    assert torch.equal(again[2], broken)


class NoAnswers(TorchDispatchMode):
    """Fails where a value would have to come back from a GPU, or a shape would depend on one."""

    ASKING = ("_local_scalar_dense", "nonzero", "masked_select", "item")

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = call._schema.name.removeprefix("aten::")
        assert name not in self.ASKING, f"{name} waits for the device"
        masks = [
            part.dtype == torch.bool
            for part in (args[1] if name in ("index", "index_put_") else ())
            if part is not None
        ]
        assert not any(masks), f"{name} by a mask waits for the device"
        return call(*args, **(kwargs or {}))


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_a_block_of_queries_asks_nothing_of_the_device(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.attacks.threats.balls.may_stop_early", lambda condition: False)  # as it is on a GPU
    attack = registry.build(registry.bind("attack", f"square-{norm}:queries=20"))
    batch = Batch(torch.rand(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64), tuple("abcd"))
    noise, radius, model = Noise.of(0, batch.ids), torch.full((4,), 0.2), AskedModel(bright(2.0), attack)
    loop = module._SearchLoop(attack, ActiveSet(model, batch, noise, radius, 4, None, BLOCK))
    samples = loop.started(torch.arange(4), torch.zeros(4, dtype=torch.int64))
    loop.drops_broken = False
    loop.draw(samples)
    with torch.no_grad(), NoAnswers():
        loop.block(samples)
    assert samples.taken.tolist() == [BLOCK] * 4


class Same(FastVersion):
    """A model as its own fast version."""

    def __init__(self, model: TorchClassifier, replays: Replays | None = None) -> None:
        self.model, self.replays = model, replays

    def __call__(self, images: Tensor) -> Tensor:
        return self.model(images)


class WithFast:
    """A model whose fast version sees everything a little brighter than it is."""

    def __init__(self, level: float, brighter: float) -> None:
        self.model, self.card, self.asked = bright(level), bright(level).card, 0
        self.fast = Same(bright(level - brighter))

    def __call__(self, images: Tensor) -> Tensor:
        self.asked += len(images)
        return self.model(images)


def test_a_success_of_the_rough_model_counts_once_the_model_confirms_it() -> None:
    """A height of 0.07 and more breaks the fast model, of 0.1 and more the model itself."""
    model, script = WithFast(0.6 - 0.005, brighter=0.03), Script(rising(30))
    found = hunt(script, queries=30).attempt(model, greys(2), Noise.of(0, "ab"), torch.full((2,), 0.4), width=2)
    assert found.broken.tolist() == [True, True]
    # the 7th proposal ends the first block and is denied; so is the 8th, and the block is over; the 16th is a success
    torch.testing.assert_close(found.images, torch.full((2, 1, 2, 2), 0.66))
    assert model.asked == 2 * 3, "three confirmations; at the clean image the fast version is sure"
    assert found.forwards.tolist() == [1 + 8 + 1 + 1 + 3] * 2


def test_what_the_model_never_confirms_is_not_broken() -> None:
    model, script = WithFast(0.95, brighter=0.4), Script(rising(20))
    found = hunt(script, queries=20).attempt(model, greys(3), Noise.of(0, "abc"), torch.full((3,), 0.4), width=2)
    assert found.broken.tolist() == [False] * 3


@pytest.mark.parametrize("radius", [-0.1, float("inf"), float("nan")])
def test_a_radius_is_finite_and_not_negative(radius: float) -> None:
    with pytest.raises(Misuse, match="a radius is zero or more"):
        hunt(Script(()), queries=5, radius=radius)


@pytest.mark.parametrize(("queries", "restarts"), [(0, 1), (5, 0)])
def test_there_is_at_least_one_query_and_one_run(queries: int, restarts: int) -> None:
    with pytest.raises(Misuse, match="queries and restarts are 1 or more"):
        hunt(Script(()), queries=queries, restarts=restarts)


def test_no_query_after_the_last_one_counts() -> None:
    """Proposals rise with every draw, whatever their age: the one after the last would be higher."""

    class Rising(Script):
        def plan(self, scene: Scene, noise: Noise, draw: Tensor, ages: Tensor) -> State:
            return {"height": 0.01 * (draw[:, None] * BLOCK + torch.arange(BLOCK)).float()}

    for queries in (1, 3, BLOCK - 1, BLOCK, BLOCK + 2):
        made = hunt(Rising(()), queries=queries)(bright(0.95), greys(3), Noise.of(0, "abc"), width=2)
        torch.testing.assert_close(made.images, torch.full((3, 1, 2, 2), 0.5 + 0.01 * queries))
