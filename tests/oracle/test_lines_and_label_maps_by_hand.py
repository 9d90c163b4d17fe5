"""Lines of a table and maps of labels in small cases: what counts, which run is shown, how a score is written."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import wilson
from holdfast.core.labels import LabelMap, LabelMapChoice, by_model, is_labelled, merged, no_labels, subset, whole
from holdfast.core.types import ModelCard, Score
from holdfast.metrics.run_scores import RunScores
from holdfast.metrics.scopes import unit_of, written
from holdfast.metrics.summary import Line, largest_selection, line, line_of
from holdfast.store import Footer, Rows

# scores


@pytest.mark.parametrize(
    ("score", "unit", "text"),
    [
        (Score(0.9325, 0.9, 0.95, 100), "percent", "93.3 % [90.0, 95.0]"),
        (Score(-0.02, -0.05, 0.01, 100), "points", "-2.0 points [-5.0, 1.0]"),
        (Score(1.2345678, 1.0, 2.0, 100), "nats", "1.235 [1, 2]"),
        (Score(0.5, math.nan, math.nan, 0), "number", "0.5"),
        (Score(math.nan, 0.0, 1.0, 0), "percent", ""),
        (None, "percent", ""),
    ],
)
def test_a_score_is_written_in_its_unit_with_the_interval_it_has(score: Score | None, unit: str, text: str) -> None:
    assert written(score, unit) == text


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("balanced-accuracy", "percent"),
        ("per-class-accuracy:label=3", "percent"),
        ("ece", "percent"),
        ("brier", "number"),
        ("nll", "number"),
    ],
)
def test_shares_are_in_percent_and_other_scores_are_numbers(name: str, unit: str) -> None:
    assert unit_of(name, object()) == unit


def test_a_metric_may_say_its_unit() -> None:
    class InPoints:
        unit = "points"

    assert unit_of("some-accuracy", InPoints()) == "points"


def test_records_and_texts_of_runs_hold_every_score() -> None:
    one, none = Score(0.25, 0.2, 0.3, 40), Score(0.5, math.nan, math.nan, 3, why="too few")
    made = RunScores(
        ("a", "b", "c"),
        ("percent", "number", "percent"),
        {"run": (one, none, None)},
        {"run": {"a": [1, 2]}},
        {"run": {"b": "of three"}},
    )
    record = made.record("run")
    assert (record["a"], record["a low"], record["a high"]) == (0.25, 0.2, 0.3)
    assert record["b without an interval"] == "too few"
    assert "a without an interval" not in record
    assert (record["c"], record["c low"], record["c high"]) == (None, None, None)
    assert record["a details"] == [1, 2]
    assert made.texts("run") == ["25.0 % [20.0, 30.0]", "0.5 (of three)", ""]
    assert made.reasons() == [("b", "too few")]


# lines


def test_a_line_counts_the_right_the_failed_and_the_first_five(
    rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    rows = rows_for([True, True, False, True, False, True, True, True])
    made = line(rows)
    assert made.accuracy == wilson(6, 8)
    assert made.failed == 0
    assert made.top5 is not None
    ranks = rows.table.column("rank").to_numpy()
    assert made.top5 == wilson(int((ranks < 5).sum()), 8)
    footer = footer_for(n=8, right=6, in_top5=7, failed=1)
    assert line_of(footer) == Line(footer, wilson(6, 8), wilson(7, 8), 1)


def test_the_first_five_count_from_ten_classes_on(
    rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    nine = footer_for(card=ModelCard(name="m", source="m", classes=9), n=4, right=2, in_top5=3, failed=0)
    made = line_of(nine)
    assert made is not None
    assert made.top5 is None
    assert line(rows_for([True] * 4, footer=nine, classes=9)).top5 is None
    ten = line_of(footer_for(n=4, right=2, in_top5=3, failed=0))
    assert ten is not None
    assert ten.top5 == wilson(3, 4)


@pytest.mark.parametrize("unknown", ["right", "failed"])
def test_a_footer_that_counts_nothing_gives_no_line(unknown: str, footer_for: Callable[..., Footer]) -> None:
    counts = {"n": 4, "right": 2, "in_top5": 3, "failed": 0} | {unknown: None}
    assert line_of(footer_for(**counts)) is None
    no_ranks = line_of(footer_for(n=4, right=2, in_top5=None, failed=0))
    assert no_ranks is not None
    assert no_ranks.top5 is None


def test_of_one_measurement_the_most_samples_count_and_of_equal_ones_the_first(
    footer_for: Callable[..., Footer],
) -> None:
    few, many, same = (footer_for(key=key, n=n) for key, n in (("a", 3), ("b", 9), ("c", 9)))
    other = footer_for(model="other", key="d", n=1)
    assert [footer.key for footer in largest_selection([few, many, same, other])] == ["b", "d"]
    assert [footer.key for footer in largest_selection([same, many, few])] == ["c"]


# label maps


def test_labels_are_missing_for_all_samples_or_for_none() -> None:
    assert no_labels(3).tolist() == [-1, -1, -1]
    assert no_labels(3).dtype == np.int64
    assert not is_labelled(no_labels(2))
    assert is_labelled(np.array([0, 1]))
    assert is_labelled(np.array([], dtype=np.int64))


def test_classes_rest_and_meaning_of_a_map_with_something_else() -> None:
    made = merged(6, [(4, 1), (), (2,)], words="groups", other=True)
    assert made.classes == 4
    assert made.rest == (0, 3, 5)
    assert [made.meaning(answer) for answer in range(6)] == [3, 0, 2, 3, 0, 3]
    alone = merged(6, [(4, 1), (), (2,)], words="groups")
    assert alone.classes == 3
    assert [alone.meaning(answer) for answer in range(6)] == [None, 0, 2, None, 0, None]


def test_a_map_of_any_model_becomes_one_of_a_known_model() -> None:
    open_map = subset(None, [3, 1], words="some")
    assert open_map.of(5) == LabelMap("some", 5, ((3,), (1,)))
    assert open_map.of(5).of(9).known == 5
    with pytest.raises(Misuse, match="the model knows 0 to 2"):
        open_map.of(3)
    with pytest.raises(Misuse, match="names class -1, they count from 0"):
        subset(None, [-1], words="wrong")
    assert subset(4, [3], words="the last one").rest == (0, 1, 2)
    with pytest.raises(Misuse, match="names class 4, the model knows 0 to 3"):
        subset(4, [4], words="wrong")


def test_a_whole_map_is_every_class_in_order() -> None:
    assert whole(3, words="all").groups == ((0,), (1,), (2,))
    assert whole(3, words="all").is_whole
    assert not subset(3, [0, 2, 1], words="turned").is_whole
    assert not subset(None, [0], words="open").is_whole


def test_the_number_of_its_classes_chooses_a_model_s_map() -> None:
    imagenet = merged(1000, [(1, 2), (7,)], words="by groups")
    choice = by_model(2, imagenet, words="own or groups", side=32)
    assert choice.of(2) == whole(2, words="the model's own 2 classes")
    assert choice.of(1000) is imagenet
    assert (choice.side(2), choice.side(1000), choice.side(5)) == (32, None, None)
    assert choice.classes == 2
    with pytest.raises(HoldfastError, match="a model of 5 classes has no label map here: own or groups") as refused:
        choice.of(5)
    assert "2 or 1,000 classes" in str(refused.value.hint)
    own = merged(2, [(1,), (0,)], words="turned")
    assert by_model(2, own, words="own") == LabelMapChoice("own", (own,))
