"""Which leads are close, and which scenarios are attacked."""

from __future__ import annotations

import pytest
import torch

from holdfast.core.registry import registry
from holdfast.engine.order import is_attacked
from holdfast.engine.two_step import SAFETY, is_close


def test_a_lead_of_exactly_the_safety_times_the_error_is_close() -> None:
    error = 0.25
    leads = torch.tensor([SAFETY * error, SAFETY * error + 0.125, 0.0, torch.nan])
    logits = torch.stack([leads, torch.zeros(4)], dim=1)
    assert is_close(logits, error).tolist() == [True, False, True, True]
    assert is_close(logits, 0.0).tolist() == [False, False, True, True], "a tie is close without an error too"


def test_a_single_class_is_always_close_and_a_single_sample_is_not() -> None:
    assert is_close(torch.tensor([[5.0], [1.0], [0.0]]), 0.1).tolist() == [True, True, True]
    assert is_close(torch.tensor([[50.0, 0.0]]), 0.1).tolist() == [False]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ("", False),
        ("+fog:severity=3", False),
        ("+pgd-linf:radius=8/255", True),
        ("+fog:severity=3+pgd-linf:radius=8/255", True),
    ],
)
def test_a_scenario_is_attacked_whatever_else_changes_its_images(changes: str, expected: bool) -> None:
    assert is_attacked(registry.scenario(f"fashion-mnist-2k{changes}")) is expected
