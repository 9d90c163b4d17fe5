"""APGD's step against its definition, sample by sample."""

from __future__ import annotations

import torch

from holdfast.attacks.recipes.automatic import Automatic
from holdfast.attacks.steps import Point, State
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.balls import Linf

# images of 0.5 with changes of up to 0.5 inside a box of [0, 1] leave the radius alone in charge
HALF = 0.5


def scene(n: int = 1) -> Scene:
    return Scene(torch.full((n, 1), 0.5), torch.full((n,), HALF))


def fresh(step: Automatic) -> State:
    return step.fresh(Linf(), scene(), torch.zeros(1, 1))


def point(variable: torch.Tensor, loss: torch.Tensor, taken: torch.Tensor, best: torch.Tensor | None = None) -> Point:
    n = len(variable)
    return Point(
        threat=Linf(),
        scene=scene(n),
        variable=variable,
        gradient=torch.ones_like(variable),
        loss=loss,
        wrong=torch.zeros(n, dtype=torch.bool),
        taken=taken,
        best=variable if best is None else best,
        best_loss=loss,
    )


def walked(losses: list[float], steps: int) -> list[float]:
    """The step lengths after each evaluation, for a sample whose objective takes these values."""
    step, variable = Automatic(steps), torch.zeros(1, 1)
    state = fresh(step)
    lengths = []
    for taken, loss in enumerate(losses):
        variable = step.advance(point(variable, torch.tensor([loss]), torch.tensor([taken])), state)
        lengths.append(float(state["length"]))
    return lengths


def test_checkpoints_come_where_the_paper_has_them() -> None:
    """T = 100: after 22 evaluations, then 19, 16, 13, 10, 7, 6, 6 … further; a falling objective halves at each."""
    lengths = walked([-float(i) for i in range(101)], steps=100)
    halved = [i for i in range(1, 101) if lengths[i] < lengths[i - 1]]
    assert halved == [22, 41, 57, 70, 80, 87, 93, 99]


def test_short_runs_have_short_gaps() -> None:
    """T = 20: 4, 3, 2, 1, 1 …, as the source of MM5 lists them."""
    lengths = walked([-float(i) for i in range(21)], steps=20)
    halved = [i for i in range(1, 21) if lengths[i] < lengths[i - 1]]
    assert halved == [4, 7, 9, *range(10, 21)]


def test_a_rising_objective_keeps_its_step() -> None:
    assert set(walked([float(i) for i in range(101)], steps=100)) == {2 * HALF}


def test_after_a_halving_the_search_goes_on_from_the_best_point() -> None:
    step = Automatic(20)
    state = fresh(step)
    positions, losses = [0.0, 0.45, 0.1, 0.05, 0.0], [0.0, 5.0, 1.0, 0.5, 0.2]
    for taken, (position, loss) in enumerate(zip(positions, losses, strict=True)):
        best = torch.tensor([[0.45 if taken else 0.0]])
        here = point(torch.tensor([[position]]), torch.tensor([loss]), torch.tensor([taken]), best)
        moved = step.advance(here, state)
    # at 0.45, the best: ahead = min(0.5, 0.45 + 0.5), then 0.75 of that move and 0.25 of the move from 0.05 to here
    assert float(state["length"]) == HALF
    assert float(moved) == torch.tensor(0.45 + 0.75 * 0.05 + 0.25 * (0.45 - 0.05)).clamp(-HALF, HALF)


def test_samples_of_different_age_do_not_disturb_each_other() -> None:
    step = Automatic(20)
    alone = walked([-float(i) for i in range(10)], steps=20)
    old, variable = fresh(step), torch.zeros(1, 1)
    lengths = []
    for taken in range(10):
        if taken == 3:  # another sample joins
            new = fresh(step)
            old = {name: torch.cat([value, new[name]]) for name, value in old.items()}
            variable = torch.cat([variable, torch.zeros(1, 1)])
        ages = torch.tensor([taken, taken - 3][: len(variable)])
        variable = step.advance(point(variable, -ages.float(), ages), old)
        lengths.append(float(old["length"][0]))
    assert lengths == alone
