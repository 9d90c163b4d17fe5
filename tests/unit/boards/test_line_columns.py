"""Columns above a line: on a linear scale, with a pivot, and as the papers print them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from holdfast.boards.column_scores import above_line
from holdfast.core.suites import Column, load_suite
from holdfast.store.published import published

NOTHING = np.array([math.nan])
PRINTED = (
    ("ood-d-effective-accuracy", "ood-d-accuracy", "id-accuracy"),
    ("ood-d-effective-robustness", "ood-d-robustness", "id-robustness"),
    ("ood-t-effective-robustness", "ood-t-robustness", "id-robustness"),
)


def above(column: Column, shifted: float, standard: float) -> float:
    bounds = [(np.array([value]), NOTHING, NOTHING) for value in (shifted, standard)]
    return float(above_line(column, bounds[0], bounds[1:])[0][0])


def column_of(suite: str, name: str) -> Column:
    return next(column for column in load_suite(suite).board if column.name == name)


@pytest.mark.parametrize("name", [name for name, _, _ in PRINTED])
@pytest.mark.parametrize(
    ("suite", "dataset"), [("oodrobustbench-cifar10-linf", "CIFAR10"), ("oodrobustbench-imagenet-linf", "ImageNet")]
)
def test_the_columns_give_every_printed_effective_robustness(suite: str, dataset: str, name: str) -> None:
    table = published("oodrobustbench-training").table
    column = column_of(suite, name)
    printed, shifted, standard = (table.column(setting) for setting in (name, *column.of))
    rows = [i for i, model in enumerate(table.models) if table.fact(model, "trained_on") == dataset]
    assert len(rows) >= 9
    for i in rows:
        # two numbers of two decimals each, and a line known to six: 0.015 points
        assert above(column, shifted[i], standard[i]) == pytest.approx(printed[i], abs=0.00015)


def test_the_columns_of_table_2_agree_with_its_print() -> None:
    table = published("oodrobustbench-defences").table
    for name, y, x in PRINTED[:2]:
        column = column_of("oodrobustbench-cifar10-linf", name)
        for printed, shifted, standard in zip(*(table.column(each) for each in (name, y, x)), strict=True):
            if not math.isnan(printed):
                # three numbers of one decimal, cut or rounded: 0.1 points each
                assert above(column, shifted, standard) == pytest.approx(printed, abs=0.0025)


def test_a_pivot_parts_the_line_and_belongs_to_its_lower_piece() -> None:
    column = Column(
        "y", of=("y", "x"), weights=(1.0,), intercept=-1.0, pivot=0.8, weights_above=(2.0,), intercept_above=0.5
    )

    def logit(share: float) -> float:
        return math.log(share / (1 - share))

    def expit(value: float) -> float:
        return 1 / (1 + math.exp(-value))

    for x in (0.3, 0.8):
        assert above(column, 0.5, x) == pytest.approx(0.5 - expit(logit(x) - 1))
    for x in (0.800001, 0.95):
        assert above(column, 0.5, x) == pytest.approx(0.5 - expit(2 * logit(x) + 0.5))
    assert above(column, 0.0, 0.5) == pytest.approx(-expit(-1))
    assert math.isnan(above(column, 0.5, 1.0))


def test_a_score_of_0_has_a_place_on_a_linear_scale() -> None:
    column = Column("y", of=("y", "x"), weights=(0.5,), intercept=0.1, space="linear")
    assert above(column, 0.0, 0.4) == pytest.approx(-0.3)


def test_every_stored_suite_has_the_columns_of_its_own_and_reads_stored_images() -> None:
    for name, stored in (
        ("cifar10-linf", "cifar10-c:"),
        ("cifar10-l2", "cifar10-c:"),
        ("imagenet-linf", "imagenet-c:"),
    ):
        one, other = load_suite(f"oodrobustbench-{name}"), load_suite(f"oodrobustbench-{name}-stored")
        assert [column.name for column in one.board] == [column.name for column in other.board]
        assert sum(text.startswith(stored) for text in other.scenarios) == 150
        assert not any(text.startswith(stored) for text in one.scenarios)
        assert len(one.scenarios) == len(other.scenarios) == 166
