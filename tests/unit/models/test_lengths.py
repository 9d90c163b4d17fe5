"""Few batch lengths: a new one is taken into use once the padding it saves has paid for it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.models.lengths import Lengths, Padded, padded


def known(cost: float, **seconds: float) -> Lengths:
    """Lengths in use: 1 ms per sample, as `at512=0.512`."""
    lengths = Lengths(cost=cost)
    lengths.seconds = {int(name.removeprefix("at")): value for name, value in seconds.items()}
    lengths.each = 0.001
    return lengths


def test_the_first_length_is_the_one_asked_for() -> None:
    assert Lengths().fit(96) == 96


def test_a_batch_is_padded_until_the_padding_has_cost_as_much_as_a_new_length() -> None:
    lengths = known(1.0, at512=0.512)
    asked = [lengths.fit(250) for _ in range(6)]
    assert asked[:3] == [512, 512, 512], "0.256 s are lost each time"
    assert asked[4] == 256


def test_many_passes_count_at_once() -> None:
    assert known(1.0, at512=0.512).fit(250, passes=10) == 256


def test_a_falling_count_does_not_begin_anew_at_every_length() -> None:
    """What padding wastes counts for every length that would have held the batch."""
    lengths = known(1.0, at512=0.512)
    asked = []
    for count in range(250, 0, -10):
        asked.append(lengths.fit(count))
        lengths.seconds[asked[-1]] = asked[-1] / 1000
    assert min(asked) <= 256
    assert len(set(asked)) <= 5, "few lengths"


def test_a_compiled_length_is_kept_where_a_shorter_one_would_be_slower() -> None:
    lengths = known(0.1, at512=0.2)
    assert [lengths.fit(300) for _ in range(100)] == [512] * 100, "an uncompiled 320 takes 0.32 s"
    assert [lengths.fit(100) for _ in range(100)][-1] < 256


@given(st.integers(1, 600), st.integers(1, 600), st.floats(0, 2))
def test_it_always_fits(first: int, count: int, cost: float) -> None:
    lengths = known(cost, **{f"at{first}": first / 1000})
    for _ in range(5):
        assert lengths.fit(count) >= count


def test_a_padded_model_answers_as_the_model_and_passes_gradients() -> None:
    def model(images: torch.Tensor) -> torch.Tensor:
        seen.append(len(images))
        return images.flatten(1)[:, :3] ** 2

    seen: list[int] = []
    asked = Padded(model)
    images = torch.rand(40, 1, 4, 4)
    torch.testing.assert_close(asked(images), model(images))
    asked.lengths.cost = 1e9
    few = images[:7].clone().requires_grad_()
    torch.testing.assert_close(asked(few), model(few))
    (gradient,) = torch.autograd.grad(asked(few).sum(), few)
    torch.testing.assert_close(gradient.flatten(1)[:, :3], 2 * few.detach().flatten(1)[:, :3])
    assert seen[-1] == 40
    assert len(asked(images[:0])) == 0, "nothing is nothing"


def test_what_a_length_costs_is_measured_on_its_first_two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 5.0, 10.0, 10.5])
    monkeypatch.setattr("holdfast.models.lengths.time.perf_counter", lambda: next(clock))
    lengths = Lengths()
    for _ in range(5):
        lengths.timed(100, lambda: None)
    assert (lengths.cost, lengths.seconds[100], lengths.each) == (4.5, 0.5, 0.005)


def test_padding_repeats_the_last_image() -> None:
    images = torch.rand(3, 1, 2, 2)
    longer = padded(images, 5)
    assert torch.equal(longer[:3], images)
    assert torch.equal(longer[3:], images[2:].expand(2, 1, 2, 2))
