"""Metrics as functions of rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import registry
from holdfast.core.types import Score
from holdfast.metrics.accuracy import RobustAccuracy, TopK, accuracy, aligned, worst_case
from holdfast.metrics.compare import compare, comparisons
from holdfast.metrics.summary import lines
from holdfast.store import ChangeRecord, Footer, Rows, Store

RowsFor = Callable[..., Rows]
FooterFor = Callable[..., Footer]
ATTACK = (ChangeRecord("attack", "pgd-linf", 1, "pgd-linf", {"radius": 0.1}),)


def test_accuracy_is_the_share_right(rows_for: RowsFor) -> None:
    score = accuracy(rows_for([True, True, False, True]))
    assert (score.value, score.n) == (0.75, 4)
    assert score.low < 0.75 < score.high


def test_no_usable_answer_counts_as_wrong(rows_for: RowsFor) -> None:
    logits = np.zeros((4, 10), np.float32)
    logits[:, 0] = 1
    logits[2:] = np.nan
    rows = rows_for([True] * 4, logits=logits, labels=np.zeros(4, np.int64))
    assert accuracy(rows).value == 0.5
    assert TopK(k=5)(rows).value == 0.5


def test_top_k_grows_with_k_and_starts_at_accuracy(rows_for: RowsFor) -> None:
    rows = rows_for([True, False, False, True, False])
    shares = [TopK(k=k)(rows).value for k in range(1, 11)]
    assert shares[0] == accuracy(rows).value
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_robust_accuracy_is_for_attacks(rows_for: RowsFor, footer_for: FooterFor) -> None:
    assert RobustAccuracy()(rows_for([True])) is None
    attacked = rows_for([True, True, False], footer=footer_for(changes=ATTACK))
    clean = rows_for([True, False, True])
    score = RobustAccuracy()(attacked)
    assert score is not None
    assert score.value == pytest.approx(2 / 3)
    mended = RobustAccuracy()(attacked, clean)
    assert mended is not None
    assert mended.value == pytest.approx(1 / 3), "a mistake the attack happens to mend is not robustness"


outcomes = st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4)


@given(outcomes)
def test_the_worst_case_is_never_better_than_any_run(runs: list[list[bool]]) -> None:
    made = [_rows(right) for right in runs]
    worst = worst_case(made)
    assert worst.value == pytest.approx(np.all(runs, axis=0).mean())
    assert all(worst.value <= accuracy(rows).value for rows in made)


def test_the_worst_case_over_nothing_is_refused() -> None:
    with pytest.raises(HoldfastError, match="no runs"):
        worst_case([])


def test_rows_align_by_id_whatever_their_order(rows_for: RowsFor) -> None:
    rows = rows_for([True, False, True], ids=["a", "b", "c"])
    assert aligned(rows, ["c", "b"]).correct.tolist() == [True, False]
    assert aligned(rows, rows.ids) is rows
    with pytest.raises(HoldfastError, match="1 of 2 samples are not in run"):
        aligned(rows, ["a", "z"])


def test_a_comparison_is_paired(rows_for: RowsFor) -> None:
    one = rows_for([True, True, False, True], ids=list("abcd"))
    other = rows_for([True, False, False, True], ids=list("abcd"))
    made = compare(one, other)
    assert made.difference.value == pytest.approx(0.25)
    assert (made.only_one, made.only_other, made.left_out) == (1, 0, 0)
    assert made.chance == pytest.approx(0.5)  # the one sample that differs may lie on either side, counted half
    assert made.verdict == "no difference shown"
    assert made.record()["difference"] == pytest.approx(0.25)


@pytest.mark.parametrize(("right", "verdict"), [(True, "better"), (False, "worse")])
def test_the_verdict_needs_the_interval_to_leave_zero_out(rows_for: RowsFor, right: bool, verdict: str) -> None:
    one, other = rows_for([right] * 40), rows_for([not right] * 40)
    assert compare(one, other).verdict == verdict


def test_a_comparison_uses_shared_samples_and_counts_the_rest(rows_for: RowsFor) -> None:
    # labels follow the position, so shared samples stand at the same place in both
    one, other = rows_for([True] * 4, ids=list("abcd")), rows_for([True] * 5, ids=list("abxye"))
    made = compare(one, other)
    assert (made.one.n, made.left_out) == (2, 5)
    with pytest.raises(HoldfastError, match="share no samples"):
        compare(one, rows_for([True], ids=["q"]))


def test_a_comparison_refuses_other_labels(rows_for: RowsFor) -> None:
    with pytest.raises(HoldfastError, match="disagree about the labels"):
        compare(rows_for([True, True], ids=["a", "b"]), rows_for([True, True], ids=["b", "a"]))
    with pytest.raises(HoldfastError, match="disagree about the labels"):  # one label of three is enough
        compare(
            rows_for([True] * 3, ids=list("abc")), rows_for([True] * 3, labels=np.array([0, 1, 0]), ids=list("abc"))
        )


def test_lines_take_the_largest_choice_of_samples(tmp_path: Path, rows_for: RowsFor, footer_for: FooterFor) -> None:
    store = Store(str(tmp_path))
    for key, right in (("a" * 20, [True]), ("b" * 20, [True, False])):
        footer = footer_for(key=key, family="same")
        rows = rows_for(right, footer=footer)
        store.finish([rows], rows.ids, footer)
    (line,) = lines(store)
    assert line.accuracy.n == 2
    assert len(lines(store, best_only=False)) == 2
    assert lines(store, models=["other"]) == []
    assert lines(store, scenarios=["d"])[0].record()["n"] == 2


def test_comparisons_need_models_and_scenarios_in_common(
    tmp_path: Path, rows_for: RowsFor, footer_for: FooterFor
) -> None:
    store = Store(str(tmp_path))
    for model, scenario in (("one", "d"), ("one", "d+x"), ("two", "d"), ("three", "e")):
        footer = footer_for(model, scenario)
        rows = rows_for([True, False], footer=footer)
        store.finish([rows], rows.ids, footer)
    assert [made.scenario for made in comparisons(store, "one", "two")] == ["d"]
    with pytest.raises(Misuse, match="no measured model named `onee`"):
        comparisons(store, "onee", "two")
    with pytest.raises(HoldfastError, match="no scenario in common"):
        comparisons(store, "one", "three")
    with pytest.raises(HoldfastError, match="was not measured under"):
        comparisons(store, "one", "two", scenarios=["d+x"])


def test_every_metric_of_one_run_scores_rows(rows_for: RowsFor, footer_for: FooterFor) -> None:
    radii = np.array([np.inf, 0.5] * 10, np.float32)
    rows = rows_for([True, False] * 10, footer=footer_for(changes=ATTACK), radii=radii)
    made = {name: registry.build(registry.bind("metric", name)) for name in registry.entries("metric")}
    scores = {name: metric(rows, rows) for name, metric in made.items() if callable(metric)}
    assert {"accuracy", "brier", "ece", "nll", "confusion", "error-consistency"} <= set(scores)
    assert scores.pop("mean-over-radii") is None  # no sweep
    assert scores.pop("mean-confidence-when-broken") is None  # nothing is broken
    for name, score in scores.items():
        assert isinstance(score, Score), name
        assert score.n == 20
        assert score.low <= score.value <= score.high if score.has_interval else score.why, name


def test_a_score_reads_as_percent() -> None:
    assert Score(0.8731, 0.851, 0.892, 100).percent() == "87.3 % [85.1, 89.2]"


def _rows(right: list[bool]) -> Rows:
    from holdfast.core.types import ModelCard
    from holdfast.store import Predictions
    from holdfast.store.rows import to_rows

    n = len(right)
    footer = Footer(
        *("k", "f", "m", "m", "s", "s", "d", (), 0, "all", None, None, "w", "d"),
        card=ModelCard("m", "m", 2),
        classes=(),
        population=n,
    )
    logits = np.where(np.array(right)[:, None], [[1.0, 0.0]], [[0.0, 1.0]]).astype(np.float32)
    nothing = np.full(n, np.nan, np.float32)
    counts = np.zeros(n, np.int64)
    ids = [f"s{i}" for i in range(n)]
    return to_rows(
        Predictions(ids, np.zeros(n, np.int64), logits, nothing, nothing, counts, counts, [None] * n), footer
    )
