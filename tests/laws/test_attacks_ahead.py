"""A sweep that makes attacks ahead of their turn ends where the search that asks one at a time ends, to the bit."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from holdfast.attacks.attack import Attack
from holdfast.attacks.recipes.level_search import LevelResult, LevelSearch, next_attacks, splits
from holdfast.attacks.recipes.sweep import Sweep
from holdfast.core.noise import Noise
from holdfast.core.registry import registry
from holdfast.core.types import AttackResult, Batch, Classifier, Cost
from holdfast.models import TorchClassifier, wrap


@dataclass(frozen=True)
class Outcome:
    """What an attack on one sample at one level does. `broken_at`: None where it fails, though it may claim not to."""

    broken_at: int | None
    claimed: bool = False
    reason: str | None = None


Table = list[list[Outcome]]  # by sample, then by level less one


@st.composite
def outcomes(draw: st.DrawFn, level: int, *, broken: bool) -> Outcome:
    if broken:
        return Outcome(draw(st.integers(1, level)) if draw(st.booleans()) else level, claimed=True)
    return Outcome(None, draw(st.booleans()), draw(st.sampled_from([None, None, "it left its set"])))


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Samples with thresholds, and samples that break here and there."""
    levels, table = draw(st.integers(1, 21)), []
    for _ in range(draw(st.integers(1, 6))):
        first = draw(st.integers(1, levels + 1))
        flags = [level >= first for level in range(1, levels + 1)]
        if draw(st.booleans()):
            flags = draw(st.lists(st.booleans(), min_size=levels, max_size=levels))
        table.append([draw(outcomes(level, broken=flag)) for level, flag in enumerate(flags, 1)])
    return table


@dataclass
class Played(Attack):
    """An attack that does what a table says. Its images show sample, level and whether the model is wrong there."""

    table: Table
    grid: tuple[float, ...]
    radius: float = math.nan

    def __post_init__(self) -> None:
        self.made: list[tuple[int, int]] = []

    @property
    def cost(self) -> Cost:
        return Cost(10, 10)

    def attempt(
        self, model: Classifier, batch: Batch, noise: Noise, radius: Tensor, *, width: int, first: Tensor | None = None
    ) -> AttackResult:
        assert first is None
        levels = [round(each * len(self.grid)) for each in radius.tolist()]
        made = [(int(name), level) for name, level in zip(batch.ids, levels, strict=True)]
        shown = [self.table[sample][level - 1] for sample, level in made]
        self.made += made
        images = batch.images.clone()
        for row, ((sample, level), each) in enumerate(zip(made, shown, strict=True)):
            images[row] = torch.tensor([sample, level, each.broken_at is not None]).view(1, 1, 3)
        sizes = [self.grid[(each.broken_at or level) - 1] for (_, level), each in zip(made, shown, strict=True)]
        passes = torch.tensor(levels)
        return AttackResult(
            images,
            size=torch.tensor(sizes),
            broken=torch.tensor([each.claimed for each in shown]),
            forwards=passes + 1,
            backwards=passes.clone(),
            reasons={row: each.reason for row, each in enumerate(shown) if each.reason is not None},
        )


class Third(nn.Module):
    """Wrong where the third pixel is set."""

    def forward(self, images: Tensor) -> Tensor:
        return torch.stack([torch.full((len(images),), 0.5), images[:, 0, 0, 2]], dim=1)


def played(table: Table, filled: int | None, width: int) -> tuple[AttackResult, list[tuple[int, int]]]:
    levels, names = len(table[0]), tuple(map(str, range(len(table))))
    grid = tuple(level / levels for level in range(1, levels + 1))
    attack, n = Played(table, grid), len(table)
    batch = Batch(torch.zeros(n, 1, 1, 3), torch.zeros(n, dtype=torch.int64), names)
    model = wrap(Third(), name="third", classes=2, channels=1)
    sweep = Sweep(attack, grid, filled=filled)
    return sweep.attempt(model, batch, Noise.of(0, names), torch.full((n,), math.nan), width=width), attack.made


def asked_in_turn(outcomes: list[Outcome]) -> tuple[int, list[int]]:
    """The threshold of one sample, and the levels that are asked for, one after the other."""
    low, high, asked = 0, len(outcomes) + 1, []
    while high - low > 1:
        level = low + splits(high - low)[high - low]
        asked.append(level)
        broken_at = outcomes[level - 1].broken_at
        low, high = (level, high) if broken_at is None else (low, min(high, broken_at))
    return high, asked


@given(table=tables(), filled=st.integers(0, 40), width=st.integers(1, 9))
def test_attacks_made_ahead_change_no_result(table: Table, filled: int, width: int) -> None:
    made, attacks = played(table, filled, width)
    alone, in_turn = played(table, None, width)
    for name in ("images", "size", "radius", "broken"):
        assert torch.equal(getattr(made, name), getattr(alone, name)), name
    assert made.reasons == alone.reasons
    assert made.radius is not None
    known = [asked_in_turn(outcomes) for outcomes in table]
    grid = [level / len(table[0]) for level in range(1, len(table[0]) + 1)]
    assert made.radius.tolist() == pytest.approx([[0.0, *grid, math.inf][high] for high, _ in known])
    # on a CPU nothing is made ahead; made ahead or not, no sample meets a level twice
    assert sorted(in_turn) == sorted((sample, level) for sample, (_, asked) in enumerate(known) for level in asked)
    assert set(in_turn) <= set(attacks)
    assert max(Counter(attacks).values()) == 1


@given(table=tables(), filled=st.integers(0, 40), width=st.integers(1, 9))
def test_every_attack_that_was_made_is_counted(table: Table, filled: int, width: int) -> None:
    made, attacks = played(table, filled, width)
    for sample, outcomes in enumerate(table):
        levels = [level for each, level in attacks if each == sample]
        claims = sum(outcomes[level - 1].claimed for level in levels)
        assert int(made.forwards[sample]) == 1 + sum(level + 1 for level in levels) + claims
        assert int(made.backwards[sample]) == sum(levels)


@given(
    spans=st.lists(st.integers(0, 20).flatmap(lambda low: st.tuples(st.just(low), st.integers(low + 1, 21)))),
    filled=st.integers(0, 60),
)
def test_a_round_holds_what_is_asked_for_and_the_rest_is_filled_while_there_is_any(
    spans: list[tuple[int, int]], filled: int
) -> None:
    searches = {sample: LevelSearch(high, low) for sample, (low, high) in enumerate(spans)}
    attacks = next_attacks(searches, filled)
    asked = [(sample, search.level) for sample, search in searches.items() if not search.is_over]
    assert attacks[: len(asked)] == asked
    inside = [(sample, level) for sample, (low, high) in enumerate(spans) for level in range(low + 1, high)]
    assert len(attacks) == max(len(asked), min(filled, len(inside)))
    assert set(attacks) <= set(inside)
    assert len(set(attacks)) == len(attacks)


def test_the_likeliest_to_be_asked_for_comes_first() -> None:
    """Of 21 thresholds 15 lie at level 15 or below: after a success 11 is next, after a failure 19."""
    assert splits(21)[21] == 15
    search = LevelSearch(21)
    assert next_attacks({0: search}, 1) == [(0, 15)]
    assert next_attacks({0: search}, 2) == [(0, 15), (0, splits(15)[15])]
    # a level that is known already is passed over, in the direction that it points
    search.results[15] = LevelResult(torch.zeros(1), 0.0, None)
    assert list(search.follow())
    search.results[19] = LevelResult(torch.zeros(1), 0.0, 17)
    assert search.level == 15 + splits(6)[6]


class Dots(nn.Module):
    """Two products whose sums do not depend on the other images of the batch, and a bend."""

    def forward(self, images: Tensor) -> Tensor:
        weight = torch.sin(torch.arange(images[0].numel(), dtype=torch.float32) * 1.7).view(images.shape[1:])
        dot = (images * weight).flatten(1).sum(dim=1)
        return torch.stack([dot.tanh(), 0.3 * dot.square() - 0.2 * dot], dim=1)


def dotted() -> tuple[TorchClassifier, Batch]:
    model = wrap(Dots(), name="dots", classes=2, channels=1)
    images = torch.rand(24, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        labels = model(images).argmax(dim=1)
    labels[:2] = 1 - labels[:2]
    return model, Batch(images, labels, tuple(map(str, range(len(images)))))


@settings(max_examples=8, deadline=None)
@given(
    attack=st.sampled_from(["apgd-ce-linf:steps=8", "pgd-linf:steps=5,restarts=2", "square-linf:queries=30"]),
    count=st.integers(1, 12),
    filled=st.integers(1, 200),
    width=st.integers(1, 64),
)
def test_attacks_of_the_loops_made_ahead_change_no_result(attack: str, count: int, filled: int, width: int) -> None:
    model, batch = dotted()
    radii = ",".join(repr(0.15 * level / count) for level in range(1, count + 1))
    sweep = registry.build(registry.bind("attack", f"sweep:attack=({attack}),radii=[{radii}]"))
    assert isinstance(sweep, Sweep)
    noise = Noise.of(0, batch.ids)
    alone, made = (replace(sweep, filled=each)(model, batch, noise, width=width) for each in (0, filled))
    for name in ("images", "size", "radius"):
        assert torch.equal(getattr(made, name), getattr(alone, name)), name
    assert bool((made.forwards >= alone.forwards).all())


def test_an_attack_that_goes_on_from_the_last_one_is_never_made_ahead() -> None:
    model, batch = dotted()
    text = "sweep:attack=(pgd-linf:steps=3),radii=[0.02,0.04,0.06,0.08],warm=true"
    sweep = registry.build(registry.bind("attack", text))
    assert isinstance(sweep, Sweep)
    noise = Noise.of(0, batch.ids)
    alone, made = (replace(sweep, filled=each)(model, batch, noise, width=8) for each in (0, 100))
    for name in ("images", "size", "radius", "forwards", "backwards"):
        assert torch.equal(getattr(made, name), getattr(alone, name)), name
