"""One proposal of the Square attack in l2 and l1, channel by channel (arXiv:1912.00049, Algorithm 3)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from holdfast.attacks.recipes.square import Bumps, Sides, Squares, cover, signs, stamps, starts
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.balls import L1, L2, Linf
from holdfast.core.noise import Noise

IDS = tuple("abcd")
NOISE, DRAW = Noise.of(0, IDS), torch.zeros(len(IDS), dtype=torch.int64)
SHAPE = (3, 9, 11)


def scene(radius: float) -> Scene:
    return Scene(0.3 + 0.4 * NOISE.uniform("images", SHAPE), torch.full((4,), radius))


def one_of(plan: dict[str, Tensor], query: int) -> dict[str, Tensor]:
    return {name: part[:, query] for name, part in plan.items()}


def window(rows: Tensor, columns: Tensor) -> np.ndarray:
    return rows.numpy()[:, None] & columns.numpy()[None, :]


@pytest.mark.parametrize(("power", "fall", "radius", "filled"), [(2, 2, 0.8, 0.5), (2, 2, 0.8, 1.0), (1, 4, 6.0, 0.5)])
def test_a_bump_takes_over_two_windows_and_what_is_left_of_the_radius(
    power: int, fall: int, radius: float, filled: float
) -> None:
    """The bump, and the direction of what its window held, are given the length of both windows and the spare."""
    proposal = Bumps(Sides(0.2, 100, least=3, odd=True), power, fall)  # type: ignore[arg-type]
    threat, where = (L2() if power == 2 else L1()), scene(radius)
    best = threat.project(where.within(where.radius * filled), NOISE.normal("best", SHAPE))
    ages = torch.tensor([[0, 11, 60]]).expand(4, 3)
    whole = proposal.plan(where, NOISE, DRAW, ages)
    for query in range(3):
        plan = one_of(whole, query)
        placed = stamps(proposal.sides, where.images, power=power, fall=fall).at(plan["stamp"]).numpy()
        made = proposal.propose(threat, where, best, plan)
        expected = np.zeros((4, *SHAPE))
        for i in range(4):
            here = window(plan["rows"][i], plan["columns"][i])
            freed = here | window(plan["cleared rows"][i], plan["cleared columns"][i])
            held = best[i].numpy()
            spare = max(radius**power - (np.abs(held) ** power).sum(), 0.0)
            for c in range(3):
                old = held[c] * here
                size = (np.abs(old) ** power).sum() ** (1 / power)
                new = float(plan["signs"][i, c]) * placed[i, 0] + (old / size if size else 0.0)
                due = spare / 3 + (np.abs(held[c] * freed) ** power).sum()
                due = (due * 3 if power == 1 else due) ** (1 / power)
                new = new * due / (np.abs(new) ** power).sum() ** (1 / power)
                expected[i, c] = np.where(freed, new, held[c])
        if power == 2:
            image = where.images.numpy()
            expected = np.clip(image + expected, 0, 1) - image
        else:
            expected = threat.project(where, torch.from_numpy(expected).float()).numpy()
        np.testing.assert_allclose(made.numpy(), expected, atol=2e-5)


def test_a_square_is_painted_by_the_signs_of_its_channels() -> None:
    proposal, where = Squares(Sides(0.2, 100)), scene(0.35)
    best = Linf().project(where, NOISE.normal("best", SHAPE))
    plan = one_of(proposal.plan(where, NOISE, DRAW, torch.zeros(4, 1, dtype=torch.int64)), 0)
    made = proposal.propose(Linf(), where, best, plan)
    words = NOISE.integers("windows", (1, 5), low=0, high=1 << 31, draw=DRAW)[:, 0]
    side = round((0.2 * 9 * 11) ** 0.5)
    for i, c, row, column in itertools.product(range(4), range(3), range(9), range(11)):
        top = (int(words[i, 0]) * (9 + 1 - side)) >> 31
        left = (int(words[i, 1]) * (11 + 1 - side)) >> 31
        expected = float(best[i, c, row, column])
        if top <= row < top + side and left <= column < left + side:
            image = float(where.images[i, c, row, column])
            sign = 1 if int(words[i, 2 + c]) >= 1 << 30 else -1
            expected = min(max(image + sign * 0.35, 0.0), 1.0) - image
        assert float(made[i, c, row, column]) == pytest.approx(expected, abs=1e-6)


def test_places_and_signs_of_words() -> None:
    words = torch.tensor([0, (1 << 30) - 1, 1 << 30, (1 << 31) - 1])
    assert signs(words).tolist() == [-1.0, -1.0, 1.0, 1.0]
    assert starts(words, torch.tensor(3), 10).tolist() == [0, 3, 4, 7]
    inside = cover(torch.tensor([0, 7]), torch.tensor([3, 3]), 10)
    assert [row.nonzero().flatten().tolist() for row in inside] == [[0, 1, 2], [7, 8, 9]]


def test_windows_of_a_long_search_are_halved_nine_times() -> None:
    sides = Sides(0.8, 10_000)
    borders = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
    for level, border in enumerate(borders):
        assert (sides.level(border), sides.level(border + 1)) == (level, level + 1)
    assert sides.side(0, 32, 32) == round((0.8 * 1024) ** 0.5)
    assert sides.side(3, 32, 32) == round((0.1 * 1024) ** 0.5)
    assert Sides(0.8, 100, rescale=True).level(21) == Sides(0.8, 10_000).level(2100)
    assert [Sides(0.01, 100, least=3, odd=True).side(0, *size) for size in ((8, 8), (40, 40), (2, 9))] == [3, 5, 2]
