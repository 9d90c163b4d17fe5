"""The parts of attacks worked out by hand: objectives, verdicts, steps, APGD's halving, projections, random starts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from holdfast.attacks.aimed import (
    NEEDED_CLASSES,
    gradient_of,
    highest,
    lead,
    leads,
    passes_per_gradient,
    targeted_dlr,
)
from holdfast.attacks.objectives import (
    cross_entropy,
    dlr,
    margin,
)
from holdfast.attacks.recipes.automatic import Automatic, Sparse
from holdfast.attacks.recipes.pgd_variants import capped_margin
from holdfast.attacks.steps import Point, State, Steepest
from holdfast.attacks.success import is_ahead, is_near, is_within, is_wrong, may_be_wrong
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.balls import L1, L2, Linf, farthest_in_l1, movable, sparse_ascent
from holdfast.core.noise import Noise

LOGITS = torch.tensor([[5.0, 3.0, 1.0, 0.0], [5.0, 3.0, 1.0, 0.0], [2.0, 2.0, 0.0, -4.0]])
LABELS, TARGETS = torch.tensor([0, 1, 1]), torch.tensor([2, 3, 0])


def listed(values: torch.Tensor) -> list:
    return values.tolist()


def test_objectives_by_hand() -> None:
    assert listed(margin(LOGITS, LABELS, LABELS)) == [-2, 2, 0]
    assert listed(capped_margin(LOGITS, LABELS, LABELS)) == [-2, 0, 0]
    assert listed(lead(LOGITS, LABELS, TARGETS)) == [-4, -3, 0]
    # the margin over first minus third: (3 - 5) / (5 - 1), (5 - 3) / (5 - 1), 0
    assert listed(dlr(LOGITS, LABELS, LABELS)) == pytest.approx([-0.5, 0.5, 0])
    # the target's lead over first minus the mean of third and fourth: 5 - 0.5, 5 - 0.5, 2 + 2
    assert listed(targeted_dlr(LOGITS, LABELS, TARGETS)) == pytest.approx([-4 / 4.5, -3 / 4.5, 0])
    three = targeted_dlr(torch.tensor([[3.0, 0.0, -1.0, -5.0]]), torch.tensor([0]), torch.tensor([1]))
    assert listed(three) == pytest.approx([-3 / (3 + 3)])
    assert listed(cross_entropy(torch.tensor([[0.0, 0.0]]), torch.tensor([1]), LABELS)) == pytest.approx([math.log(2)])
    assert listed(leads(LOGITS, LABELS, LABELS))[0] == [-math.inf, -2, -4, -5]
    assert listed(leads(LOGITS, LABELS, LABELS))[1] == [2, -math.inf, -2, -3]


def test_too_few_classes_for_a_third_or_fourth_fall_back_to_differences() -> None:
    two, three = LOGITS[:2, :2], LOGITS[:2, :3]
    assert listed(dlr(two, LABELS[:2], LABELS[:2])) == [-2, 2]
    assert listed(dlr(three, LABELS[:2], LABELS[:2])) == pytest.approx([-0.5, 0.5])
    assert listed(targeted_dlr(three, LABELS[:2], torch.tensor([2, 2]))) == [-4, -2]
    assert (NEEDED_CLASSES[dlr], NEEDED_CLASSES[targeted_dlr]) == (3, 4)


def test_dlr_where_all_logits_are_equal_is_zero_and_finite() -> None:
    flat = torch.zeros(1, 4)
    assert listed(dlr(flat, LABELS[:1], LABELS[:1])) == [0]
    assert listed(targeted_dlr(flat, LABELS[:1], TARGETS[:1])) == [0]


def test_a_size_may_pass_its_radius_by_rounding_alone() -> None:
    radius = torch.tensor([0.5, 0.5, 0.0, 0.0])
    sizes = torch.tensor([0.50004, 0.50007, 9e-7, 3e-6])
    assert listed(is_within(sizes, radius)) == [True, False, True, False]


def test_a_tie_goes_to_the_first_class_and_what_is_not_finite_is_wrong() -> None:
    logits = torch.tensor([[1.0, 1.0], [1.0, 1.0], [math.nan, 0.0], [0.0, math.inf], [2.0, 1.0]])
    assert listed(is_wrong(logits, torch.tensor([0, 1, 1, 1, 0]))) == [False, True, True, True, False]


def test_ahead_is_by_more_than_asked() -> None:
    logits = torch.tensor([[1.0, 2.0], [1.0, 1.5], [1.0, 0.0], [math.nan, 0.0]])
    labels = torch.zeros(4, dtype=torch.int64)
    assert listed(is_ahead(logits, labels, by=torch.tensor([0.9, 0.5, 0.0, 0.0]))) == [True, False, False, True]
    assert listed(is_ahead(logits[:1], labels[:1], by=torch.tensor([1.0]))) == [False]


def test_near_and_possible_errors_are_measured_against_the_lead() -> None:
    logits = torch.tensor([[10.0, 9.8], [10.0, 9.6], [10.0, 11.0], [-10.0, -10.2]])
    labels = torch.zeros(4, dtype=torch.int64)
    # 3 % of the largest logit: 0.3, and 0.306 for the last
    assert listed(is_near(logits, labels)) == [True, False, True, True]
    assert listed(may_be_wrong(logits, labels, error=0.3)) == [True, False, True, True]
    assert listed(may_be_wrong(logits, labels, error=0.1)) == [False, False, True, False]
    # a lead of exactly the error is enough; the largest logit sets the scale, whichever class it is of
    exact = torch.tensor([[1.0, 0.5]])
    assert listed(may_be_wrong(exact, labels[:1], error=0.5)) == [False]
    assert listed(is_near(torch.tensor([[10.0, 9.8, 0.1], [0.1, 0.0, -10.0]]), labels[:2])) == [True, True]
    assert listed(may_be_wrong(torch.tensor([[math.nan, 0.0]]), labels[:1], error=0.0)) == [True]


# steps


def scene(n: int = 1, radius: float = 0.5, width: int = 1) -> Scene:
    return Scene(torch.full((n, width), 0.5), torch.full((n,), radius))


def point(variable: float, loss: float, taken: int, *, best: float = 0.0, gradient: float = 1.0) -> Point:
    here = torch.tensor([[variable]])
    return Point(
        threat=Linf(),
        scene=scene(),
        variable=here,
        gradient=torch.full_like(here, gradient),
        loss=torch.tensor([loss]),
        wrong=torch.tensor([False]),
        taken=torch.tensor([taken]),
        best=torch.tensor([[best]]),
        best_loss=torch.tensor([loss]),
    )


def lengths(losses: list[float], steps: int, progress: float = 0.75) -> list[float]:
    """The step after each evaluation of an objective that takes these values."""
    step = Automatic(steps, progress)
    state: State = step.fresh(Linf(), scene(), torch.zeros(1, 1))
    made = []
    for taken, loss in enumerate(losses):
        step.advance(point(0.0, loss, taken), state)
        made.append(float(state["length"]))
    return made


def test_a_step_starts_at_twice_the_radius() -> None:
    assert lengths([0.0], 100) == [1.0]


def test_apgd_halves_where_no_more_than_the_share_of_moves_rose() -> None:
    """T = 20, so the first checkpoint comes after 4 moves: 3 of 4 that rise are no more than 75 %; 4 of 4 are."""
    assert lengths([0, 1, 2, 3, 4], 20) == [1, 1, 1, 1, 1]
    assert lengths([0, 1, 2, 3, 2], 20) == [1, 1, 1, 1, 0.5]
    assert lengths([0, 1, 2, 3, 3], 20) == [1, 1, 1, 1, 0.5]  # to stay is not to rise
    assert lengths([0, 1, 2, 3, 2], 20, progress=0.74) == [1, 1, 1, 1, 1]


def test_apgd_halves_where_neither_the_step_nor_the_best_value_changed() -> None:
    """Condition 2: four rises below the best of the checkpoint before, which did not halve, are no progress."""
    # 4 rises, no halving, best 4; then a fall to -9 and two rises: 2 of 3 at progress 0.5 are enough, yet no new best
    assert lengths([0, 1, 2, 3, 4, -9, -8, -7], 20, progress=0.5)[-1] == 0.5
    # the same with a new best
    assert lengths([0, 1, 2, 3, 4, -9, -8, 5], 20, progress=0.5)[-1] == 1.0
    # a halving at the checkpoint before: the second condition waits
    after = lengths([0, -1, -2, -3, -4, -9, -8, -7], 20, progress=0.5)
    assert after[4] == 0.5
    assert after[-1] == 0.5
    # once more without a new best, now one checkpoint later: 2 moves, 2 rises, not halved before, no new best
    assert lengths([0, -1, -2, -3, -4, -9, -8, -7, -6, -5], 20, progress=0.5)[-1] == 0.25


def test_checkpoints_of_a_thousand_steps() -> None:
    """Gaps of 0.22 T, each 0.03 T shorter than the one before, never below 0.06 T."""
    made = lengths([-float(i) for i in range(1001)], 1000)
    halved = [i for i in range(1, 1001) if made[i] < made[i - 1]]
    assert halved == [220, 410, 570, 700, 800, 870, 930, 990]


def test_apgd_s_first_move_has_no_momentum_and_the_next_carry_a_quarter() -> None:
    step = Automatic(100)
    wide_box = Scene(torch.full((1, 1), 0.5), torch.tensor([0.1]))
    state = step.fresh(Linf(), wide_box, torch.zeros(1, 1))
    state["length"] = torch.tensor([0.02])

    def advance(here: float, taken: int, loss: float) -> float:
        at = point(here, loss, taken, best=here)
        return float(
            step.advance(Point(**{name: getattr(at, name) for name in at.__slots__} | {"scene": wide_box}), state)
        )

    first = advance(0.0, 0, 0.0)
    assert first == pytest.approx(0.02)
    # from 0.02: three quarters of the way to 0.04, a quarter of the last move
    assert advance(first, 1, 1.0) == pytest.approx(0.02 + 0.75 * 0.02 + 0.25 * 0.02)
    # projected twice: never beyond the radius
    assert advance(0.1, 2, 2.0) == pytest.approx(0.1)


def test_apgd_goes_back_with_the_gradient_of_its_best_point() -> None:
    step = Automatic(20)
    state = step.fresh(Linf(), scene(), torch.zeros(1, 1))
    gradients, losses = [1.0, -1.0, 1.0, 1.0, 1.0], [0.0, 5.0, 1.0, 0.5, 0.2]
    for taken, (gradient, loss) in enumerate(zip(gradients, losses, strict=True)):
        moved = step.advance(point(0.0, loss, taken, best=0.2, gradient=gradient), state)
    # halved to 0.5 and back at 0.2, whose gradient pointed down: ahead is -0.3; a quarter of the move from 0 to 0.2
    assert float(moved) == pytest.approx(0.2 - 0.75 * 0.5 + 0.25 * 0.2)


def test_a_steepest_step_is_a_share_of_the_radius_and_momentum_adds_normalised_gradients() -> None:
    plain = Steepest(0.2)
    assert plain.fresh(Linf(), scene(), torch.zeros(1, 1)) == {}
    assert float(plain.advance(point(0.1, 0.0, 0, gradient=-7.0), {})) == pytest.approx(0.1 - 0.2 * 0.5)
    heavy = Steepest(0.2, momentum=0.5)
    state = heavy.fresh(L2(), scene(width=2), torch.zeros(1, 2))

    def at(gradient: list[float]) -> Point:
        here, slope = torch.zeros(1, 2), torch.tensor([gradient])
        nothing = torch.zeros(1)
        return Point(L2(), scene(width=2), here, slope, nothing, nothing.bool(), nothing.long(), here, nothing)

    heavy.advance(at([3.0, 1.0]), state)
    assert listed(state["drift"]) == [[1.5, 0.5]]  # over the mean magnitude, 2
    moved = heavy.advance(at([0.0, -4.0]), state)
    assert listed(state["drift"]) == [[0.75, 0.25 - 2.0]]
    expected = torch.tensor([0.75, -1.75]) / math.hypot(0.75, 1.75) * 0.2 * 0.5
    torch.testing.assert_close(moved[0], expected)
    still = heavy.advance(at([0.0, 0.0]), heavy.fresh(L2(), scene(width=2), torch.zeros(1, 2)))
    assert listed(still) == [[0, 0]]  # no gradient, no move, no division by zero


def test_a_steepest_step_ends_inside_the_ball() -> None:
    assert float(Steepest(0.4).advance(point(0.4, 0.0, 0, gradient=3.0), {})) == 0.5  # 0.4 + 0.2 lies outside
    assert float(Steepest(0.4).advance(point(-0.4, 0.0, 0, gradient=-3.0), {})) == -0.5


# balls


def box(images: list[float], radius: float) -> Scene:
    return Scene(torch.tensor([images]), torch.tensor([radius]))


def test_projections_by_hand() -> None:
    assert listed(Linf().project(box([0.5, 0.95, 0.02], 0.1), torch.tensor([[0.3, 0.3, -0.3]])))[0] == pytest.approx(
        [0.1, 0.05, -0.02]
    )
    assert listed(L2().project(box([0.5, 0.5], 0.25), torch.tensor([[0.3, 0.4]])))[0] == pytest.approx([0.15, 0.2])
    # the box holds the first entry at 0.1; the rest of the radius goes to the other: √(0.25² - 0.1²)
    assert listed(L2().project(box([0.9, 0.5], 0.25), torch.tensor([[3.0, 3.0]])))[0] == pytest.approx(
        [0.1, math.sqrt(0.0525)], abs=1e-5
    )
    # every entry gives up the same: 0.4 + 0.2 - 2 t = 0.4
    assert listed(L1().project(box([0.5, 0.5], 0.4), torch.tensor([[0.4, -0.2]])))[0] == pytest.approx(
        [0.3, -0.1], abs=1e-6
    )
    # less than t is lost altogether
    assert listed(L1().project(box([0.5, 0.5], 0.2), torch.tensor([[0.4, -0.1]])))[0] == pytest.approx(
        [0.2, 0.0], abs=1e-6
    )
    # inside both: as it was
    for ball in (Linf(), L2(), L1()):
        inside = torch.tensor([[0.05, -0.03]])
        assert torch.equal(ball.project(box([0.5, 0.5], 0.5), inside), inside)


def test_the_farthest_point_is_that_of_a_search_over_the_set() -> None:
    images, gradient, ball = [0.9, 0.4, 0.2], torch.tensor([[2.0, -1.0, 0.5]]), L1()
    here = box(images, 0.3)
    made = farthest_in_l1(gradient, here.radius, -here.images, 1.0 - here.images)
    assert float(ball.size(here, made)) <= 0.3 * (1 + 1e-4) + 1e-6
    random = np.random.default_rng(0)
    others = ball.project(
        Scene(here.images.expand(4000, 3), here.radius.expand(4000)),
        torch.from_numpy(random.normal(size=(4000, 3))).float() * 0.6,
    )
    best = float((others @ gradient[0]).max())
    assert float((made * gradient).sum()) >= best - 1e-4


def test_an_l1_step_moves_a_share_of_the_entries_that_can_move() -> None:
    gradient = torch.tensor([[4.0, -3.0, 2.0, -1.0]])
    assert listed(sparse_ascent(gradient, torch.tensor([0.5])))[0] == [0.5, -0.5, 0, 0]
    assert listed(sparse_ascent(gradient, torch.tensor([0.25])))[0] == [1, 0, 0, 0]
    assert listed(sparse_ascent(gradient, torch.tensor([1.0])))[0] == [0.25, -0.25, 0.25, -0.25]
    assert listed(sparse_ascent(gradient, torch.tensor([0.001])))[0] == [1, 0, 0, 0]
    # the first stands at the end of the box already
    here = box([1.0, 0.5, 0.5, 0.5], 1.0)
    assert listed(L1(share=0.25).ascent(here, torch.zeros(1, 4), gradient))[0] == [0, -1, 0, 0]
    assert listed(movable(box([1.0, 0.0, 1.0, 0.0], 1.0), torch.zeros(1, 4), gradient))[0] == [
        False,
        False,
        False,
        False,
    ]
    assert listed(movable(box([0.0, 1.0, 0.5, 0.5], 1.0), torch.zeros(1, 4), gradient))[0] == [True] * 4


def test_sizes_are_measured_on_the_image_inside_the_box() -> None:
    here, change = box([0.9, 0.5], 1.0), torch.tensor([[0.3, -0.2]])  # the first ends at 1
    assert float(Linf().size(here, change)) == pytest.approx(0.2)
    assert float(L1().size(here, change)) == pytest.approx(0.3)
    assert float(L2().size(here, change)) == pytest.approx(math.hypot(0.1, 0.2))


# random starts: 20,000 samples of three entries, in the middle of a box that is never reached

MANY = 20_000


def starts(ball: Linf | L2 | L1, *, border: bool = False) -> np.ndarray:
    noise = Noise.of(0, tuple(map(str, range(MANY))))
    middle = Scene(torch.full((MANY, 3), 0.5), torch.full((MANY,), 0.4))
    return ball.start(middle, noise, torch.zeros(MANY, dtype=torch.int64), border=border).double().numpy() / 0.4


def is_uniform(values: np.ndarray) -> bool:
    """Kolmogorov and Smirnov at one in 10,000."""
    return bool(stats.kstest(values, "uniform").pvalue > 1e-4)


def test_starts_in_linf_are_uniform_in_the_cube() -> None:
    made = starts(Linf())
    assert all(is_uniform((made[:, i] + 1) / 2) for i in range(3))
    assert is_uniform(np.abs(made).max(axis=1) ** 3)  # P(all entries below r) = r³
    np.testing.assert_allclose(np.abs(starts(Linf(), border=True)).max(axis=1), 1, rtol=1e-5)


def test_starts_in_l2_are_uniform_in_the_ball() -> None:
    made = starts(L2())
    far = np.linalg.norm(made, axis=1)
    assert is_uniform(far**3)
    assert is_uniform((made[:, 0] / far + 1) / 2)  # Archimedes: a coordinate on the sphere is uniform
    np.testing.assert_allclose(np.linalg.norm(starts(L2(), border=True), axis=1), 1, rtol=1e-5)


def test_starts_in_l1_are_uniform_in_the_cross_polytope() -> None:
    made = starts(L1())
    far = np.abs(made).sum(axis=1)
    assert is_uniform(far**3)
    # on its border a share |x| / far is that of one of three parts of a stick: P(share > s) = (1 - s)²
    assert is_uniform((1 - np.abs(made[:, 0]) / far) ** 2)
    assert abs(np.sign(made).mean()) < 4 / math.sqrt(3 * MANY)
    # a Gaussian of three entries is now and then too short to be cast onto the border; one of an image never is
    assert np.isclose(np.abs(starts(L1(), border=True)).sum(axis=1), 1, rtol=1e-4).mean() > 0.99


def test_draws_and_samples_start_apart() -> None:
    noise = Noise.of(0, ("a", "b"))
    two = Scene(torch.full((2, 3), 0.5), torch.full((2,), 0.4))
    for ball in (Linf(), L2(), L1()):
        first, second = (ball.start(two, noise, torch.full((2,), draw)) for draw in (0, 1))
        assert not torch.equal(first, second)
        assert not torch.equal(first[0], first[1])


def test_the_farthest_point_of_a_ball_larger_than_the_box_is_its_corner() -> None:
    low, high = torch.tensor([[-0.2, -0.2]]), torch.tensor([[0.8, 0.8]])
    made = farthest_in_l1(torch.tensor([[3.0, -0.1]]), torch.tensor([2.0]), low, high)
    torch.testing.assert_close(made, torch.tensor([[0.8, -0.2]]))


# gradients of several numbers, and the sparse step


def test_gradients_of_one_and_of_several_numbers_per_sample() -> None:
    """The numbers are x² and 3x, and one that is out of reach: slopes 2x, 3 and 0."""
    x = torch.tensor([[1.0], [2.0]], requires_grad=True)
    assert listed(gradient_of(x[:, 0] ** 2, x)) == [[2.0], [4.0]]
    several = torch.stack([x[:, 0] ** 2, 3 * x[:, 0], torch.full((2,), -torch.inf)], dim=1)
    several = several + 0 * x
    assert listed(gradient_of(several.nan_to_num(nan=-torch.inf), x)) == [[[2.0], [3.0], [0.0]], [[4.0], [3.0], [0.0]]]
    assert listed(highest(several[:, :2].detach())) == [3.0, 6.0]
    assert (passes_per_gradient(several), passes_per_gradient(x[:, 0])) == (3, 1)


def test_stages_of_the_sparse_step_and_where_it_looks_again() -> None:
    step = Sparse(10)
    assert step.stages == ((3.0, 3), (2.0, 3), (1.0, 4))
    assert step.moves == 12
    assert Sparse(10, inwards=False).stages == ((1.0, 10),)
    multiple, following, turn, checking = step._stage(torch.arange(13))
    assert listed(multiple) == [3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 1]
    assert listed(following) == [2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    assert [i for i, at in enumerate(listed(turn)) if at] == [3, 7]
    assert [i for i, at in enumerate(listed(checking)) if not at] == [0, 4, 8]  # every step but the first of a stage


def test_the_sparse_step_follows_the_entries_of_its_best_point() -> None:
    """Of ten entries the best points use 4, 9 and 4, where 5, 9 and 5 were used before; the last is not checked."""
    best = torch.zeros(3, 10)
    best[0, :4], best[1, :9], best[2, :4] = 0.1, -0.1, 0.1
    state = {
        "stage best": best,
        "used": torch.tensor([5.0, 9.0, 5.0]),
        "share": torch.full((3,), 0.5),
        "length": torch.full((3,), 0.9),
    }
    back = Sparse(100)._checked(state, torch.full((3,), 1.2), torch.tensor([True, True, False]))
    assert listed(back) == [True, False, False]  # fewer than 95 %: back to the best point, with a long step
    assert state["length"].tolist() == pytest.approx([1.2, 0.6, 0.9])
    assert state["share"].tolist() == pytest.approx([4 / 10 / 1.5, 9 / 10 / 1.5, 0.5])
    assert listed(state["used"]) == [4, 9, 5]
    state["length"] = torch.full((3,), 0.13)
    Sparse(100)._checked(state, torch.full((3,), 1.2), torch.tensor([True, True, True]))
    assert state["length"].tolist() == pytest.approx([0.12, 0.12, 1.2])  # a tenth of the radius is the least
    turned = torch.zeros(3, 10)
    turned[:, :6] = 1.0
    state["stage loss"] = torch.ones(3)
    Sparse(100)._turned(state, torch.full((3,), 1.2), torch.full((3,), 2.0), torch.tensor([True, False, False]), turned)
    assert state["length"].tolist() == pytest.approx([2.4, 0.12, 1.2])
    assert state["share"][0].item() == pytest.approx(0.6 / 1.5)
    assert listed(state["stage loss"]) == [-math.inf, 1.0, 1.0]
    assert listed(state["used"])[0] == 6


def test_a_sparse_step_of_one_sample() -> None:
    state = {name: torch.ones(1) for name in ("used", "share", "length")} | {"stage best": torch.ones(1, 4)}
    assert listed(Sparse(10)._checked(state, torch.ones(1), torch.tensor([True]))) == [False]
    assert state["share"].item() == pytest.approx(1 / 1.5)
