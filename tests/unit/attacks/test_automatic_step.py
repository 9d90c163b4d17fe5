"""APGD's step against its definition, sample by sample."""

from __future__ import annotations

import torch

from holdfast.attacks.automatic import Automatic
from holdfast.attacks.steps import Point


def walked(losses: list[float], steps: int, radius: float = 1.0) -> list[float]:
    """The step lengths after each evaluation, for a sample whose objective takes these values."""
    step = Automatic(steps)
    variable, reach = torch.zeros(1, 1), torch.tensor([radius])
    state = step.fresh(variable, reach)
    lengths = []
    for taken, loss in enumerate(losses):
        point = Point(
            variable=variable,
            gradient=torch.ones(1, 1),
            loss=torch.tensor([loss]),
            taken=torch.tensor([taken]),
            radius=reach,
            project=lambda moved: moved.clamp(-radius, radius),
            ascent=torch.sign,
        )
        variable = step.advance(point, state)
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
    assert set(walked([float(i) for i in range(101)], steps=100)) == {2.0}


def test_after_a_halving_the_search_goes_on_from_the_best_point() -> None:
    step = Automatic(20)
    state = step.fresh(torch.zeros(1, 1), torch.tensor([1.0]))
    places, losses = [0.0, 0.9, 0.2, 0.1, 0.0], [0.0, 5.0, 1.0, 0.5, 0.2]
    for taken, (place, loss) in enumerate(zip(places, losses, strict=True)):
        point = Point(
            variable=torch.tensor([[place]]),
            gradient=torch.tensor([[1.0]]),
            loss=torch.tensor([loss]),
            taken=torch.tensor([taken]),
            radius=torch.tensor([1.0]),
            project=lambda moved: moved.clamp(-1.0, 1.0),
            ascent=torch.sign,
        )
        moved = step.advance(point, state)
    # at 0.9, the best place: ahead = min(1, 0.9 + 1), then 0.75 of that move and 0.25 of the move from 0.1 to here
    assert float(state["length"]) == 1.0
    assert float(moved) == torch.tensor(0.9 + 0.75 * 0.1 + 0.25 * (0.9 - 0.1)).clamp(-1, 1)


def test_samples_of_different_age_do_not_disturb_each_other() -> None:
    step = Automatic(20)
    alone = walked([-float(i) for i in range(10)], steps=20)
    old = step.fresh(torch.zeros(1, 1), torch.tensor([1.0]))
    variable = torch.zeros(1, 1)
    lengths = []
    for taken in range(10):
        if taken == 3:  # another sample joins
            new = step.fresh(torch.zeros(1, 1), torch.tensor([1.0]))
            old = {name: torch.cat([value, new[name]]) for name, value in old.items()}
            variable = torch.cat([variable, torch.zeros(1, 1)])
        ages = torch.tensor([taken, taken - 3][: len(variable)])
        point = Point(
            variable=variable,
            gradient=torch.ones_like(variable),
            loss=-ages.float(),
            taken=ages,
            radius=torch.ones(len(variable)),
            project=lambda moved: moved.clamp(-1.0, 1.0),
            ascent=torch.sign,
        )
        variable = step.advance(point, old)
        lengths.append(float(old["length"][0]))
    assert lengths == alone
