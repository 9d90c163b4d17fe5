"""Adam's step against its definition, sample by sample."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from holdfast.attacks.recipes.adam import Adam
from holdfast.attacks.steps import Point, State
from holdfast.attacks.threat import Scene
from holdfast.attacks.threats.balls import Linf
from holdfast.core.errors import Misuse

ENTRIES = 7


def scene(radius: list[float]) -> Scene:
    """Images of 0.5: changes of up to 0.5 leave the radius alone in charge."""
    return Scene(torch.full((len(radius), ENTRIES), 0.5), torch.tensor(radius))


def moved(step: Adam, where: Scene, variable: Tensor, gradient: Tensor, taken: Tensor, state: State) -> Tensor:
    loss = torch.zeros(len(variable))
    wrong = torch.zeros(len(variable), dtype=torch.bool)
    return step.advance(Point(Linf(), where, variable, gradient, loss, wrong, taken, variable, loss), state)


def gradients(steps: int, n: int = 1) -> Tensor:
    """Of very different scales, as the gradients of a table with rarely used entries are."""
    generator = torch.Generator().manual_seed(0)
    scale = 10.0 ** torch.arange(-5, ENTRIES - 5)
    return torch.randn(steps, n, ENTRIES, generator=generator) * scale


def walked(step: Adam, radius: float, gradient: Tensor) -> list[Tensor]:
    where, variable = scene([radius]), torch.zeros(1, ENTRIES)
    state, points = step.fresh(Linf(), where, variable), []
    for taken, row in enumerate(gradient):
        variable = moved(step, where, variable, row, torch.tensor([taken]), state)
        points.append(variable)
    return points


def test_the_walk_is_that_of_the_paper() -> None:
    """Algorithm 1 of arXiv:1412.6980 word for word, in double precision."""
    gradient = gradients(40)
    m = v = point = torch.zeros(1, ENTRIES, dtype=torch.float64)
    for t, (g, ours) in enumerate(zip(gradient.double(), walked(Adam(0.003), 0.5, gradient), strict=True), start=1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        point = point + 0.003 * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
        torch.testing.assert_close(ours.double(), point, rtol=1e-5, atol=1e-7)


def test_the_first_step_moves_every_entry_by_the_rate() -> None:
    gradient = gradients(1)
    (point,) = walked(Adam(0.01), 0.5, gradient)
    # less by the share of ε = 1e-8 in a gradient of about 1e-5
    torch.testing.assert_close(point, 0.01 * gradient[0].sign(), rtol=1e-2, atol=0)


def test_a_relative_rate_is_a_share_of_each_radius() -> None:
    step, where, variable = Adam.at(None), scene([0.18, 0.36]), torch.zeros(2, ENTRIES)
    point = moved(step, where, variable, torch.ones(2, ENTRIES), torch.zeros(2), step.fresh(Linf(), where, variable))
    torch.testing.assert_close(point[:, 0], torch.tensor([0.01, 0.02]))


def test_a_sample_that_joins_later_walks_as_if_alone() -> None:
    step, gradient, late = Adam(0.01), gradients(20), 6
    alone = walked(step, 0.5, gradient)
    state, variable = step.fresh(Linf(), scene([0.5]), torch.zeros(1, ENTRIES)), torch.zeros(1, ENTRIES)
    for taken in range(20):
        if taken == late:
            new = step.fresh(Linf(), scene([0.5]), torch.zeros(1, ENTRIES))
            state = {name: torch.cat([value, new[name]]) for name, value in state.items()}
            variable = torch.cat([variable, torch.zeros(1, ENTRIES)])
        ages = torch.tensor([taken, taken - late][: len(variable)])
        variable = moved(step, scene([0.5] * len(variable)), variable, gradient[ages].squeeze(1), ages, state)
    torch.testing.assert_close(variable[0], alone[19][0], rtol=1e-6, atol=0)
    torch.testing.assert_close(variable[1], alone[19 - late][0], rtol=1e-6, atol=0)


def test_no_step_leaves_the_set() -> None:
    for point in walked(Adam(0.01), 0.015, gradients(10)):
        assert float(point.abs().max()) <= 0.015


@pytest.mark.parametrize("rate", [0.0, -0.1, float("nan")])
def test_a_rate_is_more_than_zero(rate: float) -> None:
    with pytest.raises(Misuse, match="a rate is more than zero"):
        Adam.at(rate)
