"""Choosing samples: stratified, keyed, nested."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.order import chosen_samples, stratified_order

labels = st.lists(st.integers(0, 4), min_size=1, max_size=200).map(lambda items: np.array(items, dtype=np.int64))


@given(labels)
def test_the_order_is_a_permutation(y: np.ndarray) -> None:
    order = stratified_order([f"{i}" for i in range(len(y))], y)
    assert sorted(order.tolist()) == list(range(len(y)))


@given(labels, st.integers(1, 200))
def test_every_prefix_holds_each_class_in_proportion(y: np.ndarray, n: int) -> None:
    first = stratified_order([f"{i}" for i in range(len(y))], y)[:n]
    for label in np.unique(y):
        exact = (y == label).mean() * len(first)
        # at most one sample away per class and border
        assert abs((y[first] == label).sum() - exact) <= 1 + len(np.unique(y)) / 2


@given(labels, st.integers(1, 100), st.integers(1, 100))
def test_a_larger_choice_contains_the_smaller(y: np.ndarray, one: int, other: int) -> None:
    names = [f"{i}" for i in range(len(y))]
    small, large = sorted((one, other))
    assert set(chosen_samples(names, y, small)) <= set(chosen_samples(names, y, large))


@given(labels, st.randoms())
def test_the_choice_does_not_depend_on_the_order_of_the_dataset(y: np.ndarray, random: object) -> None:
    names = np.array([f"{i}" for i in range(len(y))])
    mixed = list(range(len(y)))
    random.shuffle(mixed)  # type: ignore[attr-defined]
    half = len(y) // 2 + 1
    one = set(names[chosen_samples(names.tolist(), y, half)])
    other = set(names[mixed][chosen_samples(names[mixed].tolist(), y[mixed], half)])
    assert one == other


def test_classes_of_one_size_come_in_turn() -> None:
    y = np.repeat(np.arange(4), 50)
    order = stratified_order([f"{i}" for i in range(200)], y)
    for n in range(4, 201, 4):
        assert np.bincount(y[order[:n]]).tolist() == [n // 4] * 4


def test_the_order_of_a_dataset_is_found_once() -> None:
    """A suite asks for it in every cell, and 50,000 names take a quarter of a second."""
    ids, labels = [f"image {i}" for i in range(50)], np.arange(50) % 7
    order = stratified_order(ids, labels)
    assert stratified_order(list(ids), labels.copy()) is order
    assert not order.flags.writeable
    assert stratified_order(ids, labels[::-1]) is not order
