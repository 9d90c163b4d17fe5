"""Projection onto hyperplane ∩ box. Optimality is checked by the conditions that tell a convex problem's solution."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from holdfast.attacks.recipes.hyperplane import FEW, dual_norm, onto_plane

NORMS = ("linf", "l2", "l1")
each_norm = pytest.mark.parametrize("norm", NORMS)
POWERS = {"linf": float("inf"), "l2": 2.0, "l1": 1.0}


class Problem:
    """Planes of weights over several decades, from points of which some sit on the border of the box."""

    def __init__(self, seed: int, entries: int, decades: float, share: float, n: int = 6) -> None:
        random = torch.Generator().manual_seed(seed)
        size = 10 ** (-decades * torch.rand(n, entries, generator=random))
        self.weight = size * torch.randn(n, entries, generator=random).sign()
        self.weight[torch.rand(n, entries, generator=random) < 0.1] = 0.0
        points = (1.6 * torch.rand(n, entries, generator=random) - 0.3).clamp(0, 1)
        self.low, self.high = -points, 1 - points
        self.signs = torch.where(torch.rand(n, generator=random) < 0.5, -1.0, 1.0)
        ends = torch.stack([self.weight * self.low, self.weight * self.high])
        self.reach = torch.where(self.signs > 0, ends.amax(0).sum(1), -ends.amin(0).sum(1))
        self.gap = self.signs * share * self.reach

    def solved(self, norm: str) -> Tensor:
        return onto_plane(norm, self.weight, self.gap, self.low, self.high)


problems = st.builds(
    Problem,
    seed=st.integers(0, 10_000),
    entries=st.sampled_from([1, 2, 7, 50, FEW + 60]),
    decades=st.sampled_from([0.0, 1.0, 4.0]),
    share=st.sampled_from([0.0, 0.01, 0.3, 0.9, 0.999]),
)


@each_norm
@given(problem=problems)
def test_the_change_stays_in_the_box_and_meets_the_plane(norm: str, problem: Problem) -> None:
    change = problem.solved(norm)
    assert bool((change >= problem.low).all())
    assert bool((change <= problem.high).all())
    met = (problem.weight.double() * change.double()).sum(1)
    torch.testing.assert_close(met.float(), problem.gap, rtol=1e-5, atol=1e-6 * float(problem.reach.max()))


@each_norm
@given(problem=problems)
def test_from_the_plane_there_is_nowhere_to_go(norm: str, problem: Problem) -> None:
    change = problem.solved(norm)
    left = problem.gap - (problem.weight * change).sum(1)
    again = onto_plane(norm, problem.weight, left, problem.low - change, problem.high - change)
    # what rounding left of the gap may still move the entries of smallest weight
    assert float((problem.weight * again).sum(1).abs().max()) <= 1e-5 * max(float(problem.reach.max()), 1e-6)
    torch.testing.assert_close(
        onto_plane(norm, problem.weight, torch.zeros_like(left), problem.low, problem.high),
        torch.zeros_like(change),
    )


@given(problem=problems)
def test_in_linf_only_the_box_keeps_an_entry_from_going_as_far_as_the_farthest(problem: Problem) -> None:
    change = problem.solved("linf").abs()
    held = change >= room(problem) * (1 - 1e-6)
    far = change.amax(1, keepdim=True)
    free = ~held & (problem.weight != 0)
    torch.testing.assert_close(change[free], far.expand_as(change)[free])


@given(problem=problems)
def test_in_l2_every_entry_that_the_box_does_not_hold_follows_its_weight(problem: Problem) -> None:
    change, weight = problem.solved("l2").abs().double(), problem.weight.abs().double()
    held = change >= room(problem) * (1 - 1e-6)
    level = torch.where(~held & (weight > 0), change / weight.clamp_min(1e-30), 0.0).amax(1, keepdim=True)
    free = ~held & (weight > 0)
    torch.testing.assert_close(change[free], (level * weight)[free], rtol=1e-5, atol=1e-9)
    some = free.any(1, keepdim=True).expand_as(free)
    assert bool((change <= level * weight * (1 + 1e-5))[held & some].all()), "an entry at its limit would go farther"


@given(problem=problems)
def test_in_l1_no_entry_moves_before_the_steeper_are_at_their_limits(problem: Problem) -> None:
    change, weight = problem.solved("l1").abs(), problem.weight.abs()
    held = change >= room(problem) * (1 - 1e-5)
    steepest_loose = torch.where(held, 0.0, weight).amax(1, keepdim=True)
    assert float(change[weight < steepest_loose].sum()) == 0


@each_norm
@given(problem=problems)
def test_out_of_reach_all_go_as_far_as_they_can(norm: str, problem: Problem) -> None:
    problem.gap = problem.signs * (1.5 * problem.reach + 0.1)
    change = problem.solved(norm)
    torch.testing.assert_close((problem.weight * change).sum(1).abs(), problem.reach, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(change.abs(), room(problem) * (problem.weight != 0))


@each_norm
@given(problem=problems, scale=st.sampled_from([1e-30, 1e-12, 1e12]))
def test_the_scale_of_the_weights_does_not_matter(norm: str, problem: Problem, scale: float) -> None:
    before = problem.solved(norm)
    problem.weight, problem.gap = problem.weight * scale, problem.gap * scale
    after = problem.solved(norm)
    close = torch.isclose(after, before, rtol=1e-3, atol=1e-4)
    assert bool(close.all()) or sizes_agree(norm, before, after)


@each_norm
@given(problem=problems)
def test_a_sample_does_not_depend_on_its_neighbours(norm: str, problem: Problem) -> None:
    whole = problem.solved(norm)
    for i in range(len(whole)):
        row = slice(i, i + 1)
        alone = onto_plane(norm, problem.weight[row], problem.gap[row], problem.low[row], problem.high[row])
        torch.testing.assert_close(alone, whole[row], rtol=1e-4, atol=1e-5)


@each_norm
def test_one_plane_is_met_from_several_points(norm: str) -> None:
    one, other = Problem(0, 50, 1.0, 0.3), Problem(1, 50, 1.0, 0.3)
    gaps, low, high = (torch.stack(pair, dim=1) for pair in zip(*map(sides, (one, other)), strict=True))
    both = onto_plane(norm, one.weight[:, None], gaps, low, high)
    torch.testing.assert_close(both[:, 0], one.solved(norm))
    torch.testing.assert_close(both[:, 1], onto_plane(norm, one.weight, other.gap, other.low, other.high))


@each_norm
def test_far_from_the_box_the_size_is_the_gap_over_the_dual_norm(norm: str) -> None:
    random = torch.Generator().manual_seed(0)
    weight, gap = torch.randn(5, 40, generator=random), torch.randn(5, generator=random)
    far = torch.full((5, 40), 100.0)
    change = onto_plane(norm, weight, gap, -far, far)
    torch.testing.assert_close(change.norm(p=POWERS[norm], dim=1), gap.abs() / dual_norm(norm, weight))


def test_a_case_by_hand() -> None:
    """Weights 3, -2, 1 from (0.9, 0.5, 0.5) to a rise of 1.3: room 0.1, 0.5 and 0.5."""
    weight, low, high = (
        torch.tensor([[3.0, -2.0, 1.0]]),
        torch.tensor([[-0.9, -0.5, -0.5]]),
        torch.tensor([[0.1, 0.5, 0.5]]),
    )
    gap = torch.tensor([1.3])
    by_hand = {"linf": [0.1, -1 / 3, 1 / 3], "l2": [0.1, -0.4, 0.2], "l1": [0.1, -0.5, 0.0]}
    for norm, expected in by_hand.items():
        torch.testing.assert_close(onto_plane(norm, weight, gap, low, high), torch.tensor([expected]))


@each_norm
def test_without_a_weight_nothing_moves(norm: str) -> None:
    box = torch.full((2, 9), 0.5)
    assert float(onto_plane(norm, torch.zeros(2, 9), torch.ones(2), -box, box).abs().sum()) == 0


def room(problem: Problem) -> Tensor:
    """How far each entry may go in the direction that closes the gap."""
    up = problem.weight * problem.signs[:, None] > 0
    return torch.where(up, problem.high, -problem.low)


def sides(problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
    return problem.gap, problem.low, problem.high


def sizes_agree(norm: str, one: Tensor, other: Tensor) -> bool:
    """Equal weights make equally small changes: then the size is what must not change."""
    sizes = [change.norm(p=POWERS[norm], dim=1) for change in (one, other)]
    return torch.allclose(*sizes, rtol=1e-4, atol=1e-5)
