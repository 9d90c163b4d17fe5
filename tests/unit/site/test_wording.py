from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.intervals import wilson
from holdfast.core.types import Score
from holdfast.site import wording

COUNTS = st.integers(1, 200_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(COUNTS)
def test_a_share_never_shows_more_digits_than_its_interval_supports(counts: tuple[int, int]) -> None:
    score = wilson(*counts)
    number = wording.percent_text(score).replace("\u00a0%", "").split()[-1]
    decimals = len(number.partition(".")[2])
    assert decimals <= 1
    if score.high - score.low >= 0.1:
        assert decimals == 0


@given(COUNTS)
def test_a_share_is_all_or_nothing_only_when_it_is(counts: tuple[int, int]) -> None:
    right, n = counts
    shown = wording.percent_text(wilson(right, n)).replace("\u00a0", " ")
    assert (shown in ("0.0 %", "0 %")) == (right == 0)
    assert (shown in ("100.0 %", "100 %")) == (right == n)


def test_the_words_agree_with_the_command_line() -> None:
    score = wilson(1824, 2000)
    assert score.percent() == "91.2 % [89.9, 92.4]"
    assert wording.percent_text(score) == "91.2\u00a0%"
    assert wording.interval_text(score) == "89.9 to 92.4"


def test_a_wide_interval_costs_the_decimal() -> None:
    score = wilson(17, 30)
    assert wording.percent_text(score) == "57\u00a0%"
    assert wording.interval_text(score) == "38 to 74"


def test_differences_carry_a_true_minus_and_no_sign_for_nought() -> None:
    assert wording.points_text(Score(-0.571, -0.59, -0.551, 100)) == "−57.1"
    assert wording.points_text(Score(0.021, 0.01, 0.03, 100)) == "+2.1"
    assert wording.points_text(Score(-0.0001, -0.01, 0.01, 100)) == "0.0"
    assert wording.interval_text(Score(-0.02, -0.031, 0.012, 100)) == "−3.1 to 1.2"


def test_a_score_without_samples_has_no_value() -> None:
    assert wording.percent_text(Score(math.nan, 0, 1, 0)) == "no value"


def test_a_p_value_is_never_nought() -> None:
    assert [wording.p_text(p) for p in (0.0, 0.0004, 0.0321, 0.5)] == ["< 0.001", "< 0.001", "0.032", "0.50"]


def test_times_become_days() -> None:
    assert wording.period(["2026-03-01T10:00:00+00:00", "2026-03-01T11:00:00+00:00", ""]) == "1 March 2026"
    assert wording.period(["2026-03-12T10:00:00", "2026-03-01"]) == "1 March 2026 to 12 March 2026"
    assert wording.period(["", ""]) == ""
    assert wording.period(["yesterday"]) == "yesterday"


def test_counts_and_durations_read_easily() -> None:
    assert wording.counted(1, "run") == "1 run"
    assert wording.counted(12_345, "run") == "12,345 runs"
    assert [wording.large(n) for n in (999, 11_173_962, 2_500_000_000)] == ["999", "11.2 million", "2.5 billion"]
    assert [wording.duration_text(s) for s in (0.2, 48, 725, 12_000)] == ["under 1 s", "48 s", "12 min", "3 h 20 min"]
    assert wording.confidence_text(0.9999) == "over 99\u00a0%"
    assert wording.confidence_text(1.0) == "100\u00a0%"
