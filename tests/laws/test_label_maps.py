"""Laws of label maps: what a mapped model answers follows from what the model answers."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from holdfast.core.errors import Misuse
from holdfast.core.labels import LabelMap, merged, subset, whole
from holdfast.models.label_mapped import LabelMapLayer


class Case(NamedTuple):
    known: int
    groups: tuple[tuple[int, ...], ...]
    logits: Tensor


@st.composite
def cases(draw: st.DrawFn, *, empty: bool = False) -> Case:
    """A model's classes dealt to groups, some to none, and logits of which no two are equal."""
    known = draw(st.integers(2, 12))
    count = draw(st.integers(1, known))
    dealt = draw(st.permutations([*range(count), *draw(st.lists(st.integers(-1, count - 1), max_size=known))][:known]))
    groups = [tuple(i for i, group in enumerate(dealt) if group == label) for label in range(count)]
    kept = tuple(group for group in groups if group or empty)
    rows = draw(st.integers(1, 4))
    order = [draw(st.permutations(range(known))) for _ in range(rows)]
    return Case(known, kept if any(kept) else ((0,),), torch.tensor(order, dtype=torch.float32))


@given(case=cases(), data=st.data())
def test_a_subset_keeps_the_order_of_the_logits_it_keeps(case: Case, data: st.DataObject) -> None:
    classes = data.draw(st.lists(st.integers(0, case.known - 1), min_size=1, unique=True))
    mapped = LabelMapLayer(subset(case.known, classes, words="some"))(case.logits)
    assert torch.equal(mapped, case.logits[:, classes])


@given(case=cases())
def test_the_largest_merged_answer_is_the_group_of_the_largest_logit(case: Case) -> None:
    answers = merged(case.known, case.groups, words="groups")
    members = sorted(member for group in case.groups for member in group)
    best = [members[i] for i in case.logits[:, members].argmax(1)]
    assert LabelMapLayer(answers)(case.logits).argmax(1).tolist() == [answers.meaning(member) for member in best]


@given(case=cases())
def test_with_the_rest_an_answer_is_right_exactly_if_the_model_s_own_is_in_the_group(case: Case) -> None:
    listed = {member for group in case.groups for member in group}
    if len(listed) == case.known:
        with pytest.raises(Misuse, match="nothing is left"):
            merged(case.known, case.groups, words="groups", other=True)
        return
    answers = merged(case.known, case.groups, words="groups", other=True)
    mapped = LabelMapLayer(answers)(case.logits).argmax(1).tolist()
    for label, group in enumerate(case.groups):
        assert [answer == label for answer in mapped] == [int(own) in group for own in case.logits.argmax(1)]


@given(case=cases())
def test_summing_gives_the_probability_of_the_group(case: Case) -> None:
    mapped = LabelMapLayer(merged(case.known, case.groups, words="groups", merge="sum"))(case.logits)
    shares = case.logits.softmax(1)
    totals = torch.stack([shares[:, list(group)].sum(1) for group in case.groups], dim=1)
    expected = totals / totals.sum(1, keepdim=True)
    torch.testing.assert_close(mapped.softmax(1), expected, rtol=1e-4, atol=1e-6)  # float32, a dozen terms


@given(case=cases(empty=True), merge=st.sampled_from(["max", "sum"]))
def test_a_class_that_nobody_knows_is_never_answered_and_all_is_finite(case: Case, merge: str) -> None:
    answers = LabelMap("groups", case.known, case.groups, merge=merge)  # type: ignore[arg-type]
    leaf = case.logits.clone().requires_grad_()
    mapped = LabelMapLayer(answers)(leaf)
    assert bool(mapped.isfinite().all())
    assert all(case.groups[answer] for answer in mapped.argmax(1))
    (slope,) = torch.autograd.grad(mapped.sum(), leaf)
    assert bool(slope.isfinite().all())


@given(case=cases(), merge=st.sampled_from(["max", "sum"]))
def test_gradients_reach_the_members_of_a_group_and_nothing_else(case: Case, merge: str) -> None:
    answers = LabelMap("groups", case.known, case.groups, merge=merge)  # type: ignore[arg-type]
    for label, group in enumerate(case.groups):
        leaf = case.logits.clone().requires_grad_()
        (slope,) = torch.autograd.grad(LabelMapLayer(answers)(leaf)[:, label].sum(), leaf)
        torch.testing.assert_close(slope.sum(1), torch.ones(len(slope)))
        outside = [member for member in range(case.known) if member not in group]
        assert not bool(slope[:, outside].any())


@given(known=st.integers(1, 9))
def test_the_whole_map_changes_nothing(known: int) -> None:
    answers, logits = whole(known, words="all"), torch.randn(3, known)
    assert answers.is_whole
    assert torch.equal(LabelMapLayer(answers)(logits), logits)
    assert not subset(known + 1, range(known), words="all but one").is_whole


@pytest.mark.parametrize(
    ("groups", "other", "message"),
    [
        (((),), False, "at least one class"),
        (((0,), (3,)), False, "names class 3, the model knows 0 to 2"),
        (((0, 1), (1,)), False, "class 1 of the model appears twice"),
        (((0, 1), (2,)), True, "nothing is left"),
    ],
)
def test_a_map_that_makes_no_sense_is_refused(groups: tuple[tuple[int, ...], ...], other: bool, message: str) -> None:
    with pytest.raises(Misuse, match=message):
        LabelMap("wrong", 3, groups, other)
