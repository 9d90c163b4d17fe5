"""The Square attack's windows and proposals: laws, closed forms, and the published schedule."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from holdfast.attacks.recipes import square as windows
from holdfast.attacks.recipes.square import Bumps, Sides, Squares
from holdfast.attacks.search import BLOCK, Proposal, RandomSearch
from holdfast.attacks.success import is_within
from holdfast.attacks.threat import Scene, Threat
from holdfast.attacks.threats.balls import L1, L2, Linf
from holdfast.core.errors import Misuse
from holdfast.core.noise import Noise
from holdfast.core.registry import registry

NORMS = ("linf", "l2", "l1")
WORDS = st.integers(0, (1 << windows.WORD) - 1)


def recipe(norm: str, **given: object) -> RandomSearch:
    text = ",".join(f"{name}={str(value).lower()}" for name, value in given.items())
    made = registry.build(registry.bind("attack", f"square-{norm}:{text}" if text else f"square-{norm}"))
    assert isinstance(made, RandomSearch)
    return made


def parts(norm: str) -> tuple[Threat, Proposal]:
    made = recipe(norm, queries=600)
    return made.threat, made.proposal


def a_scene(
    n: int, channels: int, height: int, width: int, radius: float, *, grey: bool = False, seed: int = 0
) -> Scene:
    images = torch.rand(n, channels, height, width, generator=torch.Generator().manual_seed(seed))
    return Scene(torch.full_like(images, 0.5) if grey else images, torch.full((n,), radius))


def noise_for(scene: Scene, seed: int = 0) -> Noise:
    return Noise.of(seed, [f"s{i}" for i in range(len(scene))])


def proposed(threat: Threat, proposal: Proposal, scene: Scene, *, age: int, count: int) -> list[Tensor]:
    """The start and what follows when every proposal is accepted."""
    noise, draw = noise_for(scene), torch.zeros(len(scene), dtype=torch.int64)
    made = [proposal.start(threat, scene, noise, draw)]
    plan = proposal.plan(scene, noise, draw + 1, torch.full((len(scene), count), age))
    for query in range(count):
        made.append(proposal.propose(threat, scene, made[-1], {name: part[:, query] for name, part in plan.items()}))
    return made


@pytest.mark.parametrize("norm", NORMS)
@given(
    channels=st.integers(1, 4),
    height=st.integers(1, 13),
    width=st.integers(1, 13),
    radius=st.sampled_from([0.0, 0.03, 0.5, 12.0]),
    age=st.sampled_from([0, 11, 51, 201, 501]),
    seed=st.integers(0, 99),
)
def test_starts_and_proposals_lie_inside_the_set(
    norm: str, channels: int, height: int, width: int, radius: float, age: int, seed: int
) -> None:
    threat, proposal = parts(norm)
    scene = a_scene(3, channels, height, width, radius, seed=seed)
    for variable in proposed(threat, proposal, scene, age=age, count=3):
        assert variable.shape == scene.images.shape
        assert bool(variable.isfinite().all())
        assert bool(is_within(threat.size(scene, variable), scene.radius).all())
        changed = threat.render(scene, variable)
        assert float(changed.min()) >= -1e-6
        assert float(changed.max()) <= 1 + 1e-6


@pytest.mark.parametrize("norm", NORMS)
def test_a_proposal_depends_on_its_own_sample_alone(norm: str) -> None:
    threat, proposal = parts(norm)
    scene, some = a_scene(6, 3, 11, 9, 0.7), torch.tensor([4, 1])
    noise, ages = noise_for(scene), torch.arange(6)[:, None] * 60 + torch.arange(BLOCK)
    draw = torch.arange(6)
    start = proposal.start(threat, scene, noise, draw)
    plan = proposal.plan(scene, noise, draw, ages)
    alone = proposal.plan(scene.take(some), noise.take(some), draw[some], ages[some])
    assert torch.equal(proposal.start(threat, scene.take(some), noise.take(some), draw[some]), start[some])
    for query in (0, BLOCK - 1):
        every = proposal.propose(threat, scene, start, {name: part[:, query] for name, part in plan.items()})
        few = proposal.propose(
            threat, scene.take(some), start[some], {name: part[:, query] for name, part in alone.items()}
        )
        torch.testing.assert_close(few, every[some], rtol=1e-6, atol=1e-6)


@given(words=st.lists(WORDS, min_size=1, max_size=9), extent=st.integers(1, 300), data=st.data())
def test_a_window_lies_inside_the_image(words: list[int], extent: int, data: st.DataObject) -> None:
    side = torch.tensor([data.draw(st.integers(1, extent)) for _ in words])
    begin = windows.starts(torch.tensor(words), side, extent)
    assert bool((begin >= 0).all())
    assert bool((begin + side <= extent).all())
    assert torch.equal(windows.cover(begin, side, extent).sum(-1), side)


@pytest.mark.parametrize(("side", "extent"), [(1, 28), (25, 28), (28, 28), (3, 7)])
def test_every_place_is_as_likely_as_the_others(side: int, extent: int) -> None:
    """The published draw never reaches the last place, and so never the last row and column."""
    room = extent - side + 1
    even = (torch.arange(100 * room) * (1 << windows.WORD)) // (100 * room)
    counts = windows.starts(even, torch.tensor(side), extent).bincount(minlength=room)
    assert len(counts) == room
    assert int((counts - 100).abs().max()) <= 1, "up to where a word falls on a border"


def test_sides_follow_the_published_schedule() -> None:
    """Of a CIFAR image: √(0.8 · 1024 / 2^level), rounded."""
    sides, ages = Sides(0.8, 10_000), [0, 10, 11, 50, 51, 200, 201, 500, 501, 1001, 2001, 4001, 6001, 8001, 9999]
    assert [sides.side(sides.level(age), 32, 32) for age in ages] == [
        29,
        29,
        20,
        20,
        14,
        14,
        10,
        10,
        7,
        5,
        4,
        3,
        2,
        1,
        1,
    ]
    odd = Sides(0.8, 10_000, least=3, odd=True)
    assert [odd.side(odd.level(age), 32, 32) for age in ages[::2]] == [29, 21, 15, 11, 7, 5, 3, 3]
    assert [Sides(1.0, 5, odd=True, least=3).side(0, size, 28) for size in (2, 28)] == [2, 28], "never beyond the image"


def test_a_rescaled_schedule_is_that_of_ten_thousand_queries() -> None:
    short, long = Sides(0.8, 1000, rescale=True), Sides(0.8, 10_000)
    assert [short.level(age) for age in range(1000)] == [long.level(10 * age) for age in range(1000)]
    assert Sides(0.8, 1000).level(999) == long.level(999) == 4


@pytest.mark.parametrize("side", [1, 2, 3, 4, 5, 9, 28])
@pytest.mark.parametrize(("power", "fall"), [(2, 2), (1, 4)])
def test_a_bump_has_length_one_and_two_halves_of_the_same_weight(side: int, power: int, fall: int) -> None:
    upright, lying = windows.bump(side, power=power, fall=fall)
    assert torch.equal(lying, upright.T)
    mass = upright.abs() ** power
    assert float(mass.sum()) == pytest.approx(1, abs=1e-6)
    if side > 1:
        assert float(mass[: side // 2].sum()) == pytest.approx(0.5, abs=1e-6)
        assert bool((upright[: side // 2] > 0).all())
    assert bool((upright[side // 2 :] < 0).all())


def test_the_smallest_bump_is_the_published_one() -> None:
    """Above: 1 + ¼ at the centre, ¼ beside it; below: the same with a row of ¼ on top."""
    above, below = torch.tensor([[0.25, 1.25, 0.25]]), torch.tensor([[0.25, 0.25, 0.25], [0.25, 1.25, 0.25]])
    expected = torch.cat([above / above.norm(), -below / below.norm()]) / 2**0.5
    torch.testing.assert_close(windows.bump(3, power=2, fall=2)[0], expected)
    terms = 1 + 1 / 16, 1 / 16
    steep = windows.bump(3, power=1, fall=4)[0]
    torch.testing.assert_close(steep[0], torch.tensor([terms[1], terms[0], terms[1]]) / (2 * (terms[0] + 2 * terms[1])))


def test_a_stamp_is_its_bump_in_its_place() -> None:
    sides = Sides(0.8, 600, least=3, odd=True)
    images = torch.zeros(5, 1, 9, 12)
    level, turned = torch.tensor([0, 1, 2, 3, 4]), torch.tensor([0, 1, 0, 1, 0])
    side = [sides.side(int(k), 9, 12) for k in level]
    row = torch.tensor([9 - s for s in side])
    column = torch.tensor([0, 1, 12 - side[2], 12 - side[3], 4])
    made = windows.stamps(sides, images, power=2, fall=2)
    drawn = made.at(made.keys(level, turned, row, column))
    for i in range(5):
        expected = torch.zeros(9, 12)
        expected[row[i] : row[i] + side[i], column[i] : column[i] + side[i]] = windows.bump(side[i], power=2, fall=2)[
            turned[i]
        ]
        assert torch.equal(drawn[i, 0], expected)


@pytest.mark.parametrize("age", [0, 11, 51, 201, 501])
def test_in_linf_one_square_takes_one_colour_and_all_else_stays(age: int) -> None:
    scene, proposal = a_scene(20, 3, 16, 16, 0.1, grey=True), Squares(Sides(0.8, 600))
    before, after = proposed(Linf(), proposal, scene, age=age, count=1)
    side = Sides(0.8, 600).side(Sides(0.8, 600).level(age), 16, 16)
    begins = set()
    for old, new in zip(before, after, strict=True):
        rows = (new != old).any(dim=0).any(dim=1).nonzero().flatten()
        columns = (new != old).any(dim=0).any(dim=0).nonzero().flatten()
        assert int(rows[-1] - rows[0]) < side
        assert int(columns[-1] - columns[0]) < side
        inside = new[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert torch.equal(inside, inside[:, :1, :1].expand_as(inside)), "one colour"
        begins.add((int(rows[0]), int(columns[0])))
    torch.testing.assert_close(after.abs(), torch.full_like(after, 0.1), rtol=0, atol=1e-7)
    if age:
        assert len(begins) > 3, "each sample has a window of its own"


def test_in_linf_the_start_is_vertical_stripes() -> None:
    scene = a_scene(8, 3, 10, 14, 0.05, grey=True)
    (start,) = proposed(Linf(), Squares(Sides(0.8, 600)), scene, age=0, count=0)
    assert torch.equal(start, start[:, :, :1].expand_as(start))
    torch.testing.assert_close(start.abs(), torch.full_like(start, 0.05))
    assert 0.3 < float((start > 0).float().mean()) < 0.7
    assert not torch.equal(start[0], start[1])


@pytest.mark.parametrize("channels", [1, 3])
def test_in_l2_a_proposal_uses_the_radius_in_full(channels: int) -> None:
    """Far from the box: what one window gives up, and what was never used, goes to the other."""
    scene, proposal = a_scene(9, channels, 16, 15, 0.3, grey=True), Bumps(Sides(0.8, 600, least=3, odd=True), 2, 2)
    made = proposed(L2(), proposal, scene, age=201, count=6)
    for variable in made:
        torch.testing.assert_close(variable.flatten(1).norm(dim=1), scene.radius, rtol=1e-5, atol=0)
    half = proposal.plan(scene, noise_for(scene), torch.zeros(9, dtype=torch.int64), torch.full((9, 1), 201))
    again = proposal.propose(L2(), scene, made[-1] / 2, {name: part[:, 0] for name, part in half.items()})
    torch.testing.assert_close(again.flatten(1).norm(dim=1), scene.radius, rtol=1e-5, atol=0)


@pytest.mark.parametrize(("power", "fall", "threat"), [(2, 2, L2()), (1, 4, L1())])
def test_a_bump_clears_one_window_and_leaves_the_rest(power: int, fall: int, threat: Threat) -> None:
    scene, proposal = a_scene(1, 1, 20, 20, 0.5, grey=True), Bumps(Sides(0.8, 600, least=3, odd=True), power, fall)
    best = torch.full_like(scene.images, 1e-4)
    plan = {
        name: part[:, 0]
        for name, part in proposal.plan(
            scene, noise_for(scene), torch.zeros(1, dtype=torch.int64), torch.full((1, 1), 501)
        ).items()
    }
    new = proposal.propose(threat, scene, best, plan)
    here = plan["rows"][0, :, None] & plan["columns"][0]
    cleared = plan["cleared rows"][0, :, None] & plan["cleared columns"][0] & ~here
    assert int(here.sum()) == 25
    assert bool((new[0, 0][cleared] == 0).all())
    rest = ~(here | cleared)
    torch.testing.assert_close(new[0, 0][rest], best[0, 0][rest], rtol=1e-3, atol=1e-7)
    assert float(threat.size(scene, new)) == pytest.approx(0.5, rel=1e-4)
    assert bool((new[0, 0][here] > 0).any())
    assert bool((new[0, 0][here] < 0).any())


@pytest.mark.parametrize("size", [5, 9, 12, 14, 19, 24, 28, 32])
def test_tiles_cover_the_middle_of_the_image(size: int) -> None:
    """Of 12, 14, 18, 19 and 24 pixels the published code lays more tiles than there is room for, and fails."""
    scene = a_scene(2, 1, size, size, 1.0, grey=True)
    (start,) = proposed(L2(), Bumps(Sides(0.8, 600, least=3, odd=True), 2, 2), scene, age=0, count=0)
    side = size // 5
    painted = (start[0, 0] != 0).any(dim=1).nonzero().flatten()
    assert len(painted) == size // side * side
    assert abs(int(painted[0]) - int(size - 1 - painted[-1])) <= 1


def test_the_recipes_have_the_published_defaults() -> None:
    for norm, radius in zip(NORMS, (8 / 255, 0.5, 12.0), strict=True):
        made = recipe(norm)
        assert made.radius == radius
        assert made.queries == 5000
        assert made.restarts == 1
        assert made.objective.__name__ == "margin"
        assert made.proposal.sides.share == 0.8
        assert not made.proposal.sides.rescale


@pytest.mark.parametrize("share", [0.0, 1.2])
def test_the_first_window_covers_a_share_of_the_image(share: float) -> None:
    with pytest.raises(Misuse, match="a share of the image"):
        recipe("linf", share=share)
