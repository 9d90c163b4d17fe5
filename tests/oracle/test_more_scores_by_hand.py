"""Scores where few tests looked: which entry an error names, draws without a value, references, classes named."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from holdfast.boards.multi_run_scores import multi_run_scores
from holdfast.core.errors import HoldfastError, HoldfastWarning
from holdfast.core.table import Table
from holdfast.core.types import Score
from holdfast.metrics import agreement, agreement_intervals, summary
from holdfast.metrics import run_scores as scores_of_runs
from holdfast.metrics.agreement import adam_maximum
from holdfast.metrics.agreement_curve import LogitPair, Maximum
from holdfast.metrics.attack_ratios import SingleRatio
from holdfast.metrics.bootstrap_draws import percentiles
from holdfast.metrics.compare import comparisons
from holdfast.metrics.confusion import dominant_class
from holdfast.metrics.decisions import worse
from holdfast.metrics.frames import frame_of, pm_k
from holdfast.metrics.mean_over_radii import radii_survived
from holdfast.metrics.means import mean_of
from holdfast.metrics.multi_attack import CLEAN, Battery, Strength, competitiveness, single_competitiveness
from holdfast.metrics.run_scores import reference_rows, run_scores
from holdfast.metrics.scopes import is_over_models
from holdfast.metrics.summary import lines
from holdfast.metrics.unions import AverageAccuracy, UnionAccuracy
from holdfast.store import Footer, Rows, Store
from holdfast.store.footer import ChangeRecord
from holdfast.store.scores import Scores

RowsFor = Callable[..., Rows]
FooterFor = Callable[..., Footer]
SWEEPS = [ChangeRecord("attack", "sweep", 1, f"sweep:{radii}", {"radii": radii}) for radii in ((1.0, 2.0), (0.1, 0.2))]


def test_a_ratio_to_a_best_accuracy_of_0_names_its_attack() -> None:
    entries = tuple(Strength(name, 0.1) for name in "abc")
    cells = Battery(entries, np.array([0.4, 0.5, 0.6]), np.array([0.5, 1.0, 0.0]))
    with pytest.raises(HoldfastError, match=f"under {entries[2]} is 0"):
        competitiveness(cells)


def test_a_missing_score_of_a_list_is_named_by_its_number_from_1() -> None:
    with pytest.raises(HoldfastError, match="1 of 3 scores are missing, `2` first"):
        mean_of([Score(0.5, 0.4, 0.6, 9), None, Score(0.5, 0.4, 0.6, 9)])


def test_draws_without_a_value_are_not_counted() -> None:
    """Of 0, 1, …, 100 the middle 95 % lie between 2.5 and 97.5, whatever else is drawn that is no number."""
    drawn = np.full((120, 3), np.nan)
    drawn[:101, 0] = np.arange(101)
    drawn[:101, 1] = np.arange(101)[::-1] + 7
    drawn[101:, 1] = np.inf
    low, high = percentiles(drawn, confidence=0.95)
    np.testing.assert_allclose(low, [2.5, 9.5, np.nan])
    np.testing.assert_allclose(high, [97.5, 104.5, np.nan])


@pytest.mark.parametrize(
    ("classes", "named", "others", "expected"),
    [
        (10, 260, 1740, None),  # 13 % of 2,000, surely more than 10 %, and not half as much again
        (10, 400, 1600, 3),  # 20 %
        (100, 60, 1940, None),  # 3 %, three times an even share, and too few to be worth naming
        (100, 140, 1860, 3),  # 7 %
    ],
)
def test_a_class_is_named_where_its_share_is_large_and_larger_than_even(
    classes: int, named: int, others: int, expected: int | None, rows_for: RowsFor, footer_for: FooterFor
) -> None:
    rest = [label for label in range(classes) if label != 3]
    answers = np.array([3] * named + [rest[i % len(rest)] for i in range(others)])
    # labels as even as answers, each other than its answer
    labels = (answers + 1 + np.arange(named + others) % (classes - 1)) % classes
    logits = np.zeros((len(answers), classes), np.float32)
    logits[np.arange(len(answers)), answers] = 9
    footer = footer_for(classes=tuple(f"class {i}" for i in range(classes)))
    made = dominant_class(rows_for([False] * len(answers), labels=labels, logits=logits, footer=footer))
    assert (None if made is None else made.index) == expected


def test_of_two_sweeps_the_last_one_s_radii_are_survived(rows_for: RowsFor, footer_for: FooterFor) -> None:
    radii = np.array([0.05, 0.15, np.inf], np.float32)
    rows = rows_for([True] * 3, footer=footer_for(changes=tuple(SWEEPS)), radii=radii)
    assert radii_survived(rows).tolist() == [0, 0.5, 1]


def test_a_part_of_a_video_set_is_refused_also_beside_images_alone(rows_for: RowsFor, footer_for: FooterFor) -> None:
    rows = rows_for([True, True], ids=["set/frame10/frame12|1", "image"], footer=footer_for(population=9))
    assert frame_of(rows.ids[0]) is not None
    assert frame_of(rows.ids[1]) is None
    with pytest.raises(HoldfastError, match="needs every frame"):
        pm_k(rows, 10)
    images = rows_for([True, True], ids=["one", "image"], footer=footer_for(population=9))
    assert pm_k(images, 10).value == 1


def test_the_ratio_of_one_attack_keeps_its_interval_and_the_lowest_of_several_has_none() -> None:
    entries = (CLEAN, Strength("a", 0.1), Strength("b", 0.1))
    cells = Battery(entries, np.array([0.8, 0.4, 0.3]), np.array([0.9, 0.5, 0.6]), n=100, best_n=100)
    single = single_competitiveness(cells)
    made = SingleRatio(attack="a").of_battery(cells, {})
    assert made == single["a"].average
    assert made.has_interval
    lowest = SingleRatio().of_battery(cells, {})
    assert (lowest.value, lowest.has_interval) == (single["b"].average.value, False)


# posterior agreement


def pair_of(n: int, *, seed: int = 0) -> LogitPair:
    random = np.random.default_rng(seed)
    one = 2 * random.normal(size=(n, 4))
    return LogitPair(one, one + 2 * random.normal(size=(n, 4)))


def test_the_last_newton_step_adds_half_its_slope_to_the_maximum() -> None:
    """From nine millionths beside the top the parabola gains 4e-11 of its bend; the other sign would lose as much."""
    pair = pair_of(50)
    made = agreement.posterior_agreement(pair.one, pair.other, resamples=10)
    top = made.beta.value
    value, _, bend = pair.curve(top)
    right = agreement.Side(2 * top * (1 + 9e-6), 0.0, -1.0)
    refined = agreement._refined(pair, agreement.Side(0.0, pair.floor, math.inf), right)
    gain = -bend * (9e-6 * top) ** 2 / 2
    assert gain > 1e-11, "far more than the rounding of F"
    assert refined.total == pytest.approx(value, abs=gain / 4, rel=0)


def test_the_grid_of_resamples_holds_both_maxima_without_and_with_the_added_sample() -> None:
    pair, added = pair_of(3), pair_of(1, seed=5)
    for best, with_added in ((8.0, 0.01), (0.01, 8.0)):
        betas = agreement_intervals._grid(pair, Maximum(best, 0.0), added, lambda _, at=with_added: (Maximum(at, 0.0),))
        assert betas[0] < min(best, with_added)
        assert betas[-1] > max(best, with_added)
        assert (np.diff(betas) > 0).all()


def test_the_authors_optimiser_takes_logits_of_any_height() -> None:
    """A constant added to the logits of a sample changes no posterior, also where e to their power is no float."""
    pair = pair_of(20)
    height = np.linspace(-2000, 2000, 20)[:, None]
    expected = adam_maximum(pair, epochs=30)
    for one, other in ((height, 0 * height), (0 * height, height), (height, -height)):
        made = adam_maximum(LogitPair(pair.one + one, pair.other + other), epochs=30)
        assert made == pytest.approx(expected, rel=1e-6)


# runs of a store


def stored(store: Store, rows_for: RowsFor, footer: Footer, right: list[bool]) -> Rows:
    rows = rows_for(right, footer=footer)
    store.finish([rows], rows.ids, footer)
    return rows


def test_a_run_is_compared_with_its_clean_run_or_with_what_was_asked_for(
    tmp_path: Path, rows_for: RowsFor, footer_for: FooterFor
) -> None:
    store = Store(str(tmp_path))
    keys = dict(zip(("d", "d+fog", "d+snow"), ("a" * 20, "b" * 20, "c" * 20), strict=True))
    runs = {name: stored(store, rows_for, footer_for("m", name, key=key), [True]) for name, key in keys.items()}
    for reference, expected in ((None, "d"), ("d+snow", "d+snow"), ("d", "d")):
        other = reference_rows(store, runs["d+fog"], reference)
        assert other is not None
        assert other.footer.scenario == expected
    assert reference_rows(store, runs["d"], None) is None, "it would be the run itself"
    assert reference_rows(store, runs["d+fog"], "d+fog") is None
    assert reference_rows(store, runs["d"], "d+frost") is None, "never measured"


def test_a_metric_of_two_runs_takes_the_run_first_and_its_reference_second(
    tmp_path: Path, rows_for: RowsFor, footer_for: FooterFor
) -> None:
    """The run has four samples and its clean run six: its score is over four, which lie in the clean run."""
    store = Store(str(tmp_path))
    fog = (ChangeRecord("corruption", "fog", 1, "fog", {}),)
    stored(store, rows_for, footer_for("m", "d", key="a" * 20), [True] * 6)
    stored(store, rows_for, footer_for("m", "d+fog", key="b" * 20, changes=fog), [True, True, True, False])
    made = run_scores(store, ["b" * 20], ["prediction-agreement"])
    (score,) = made.scores["b" * 20]
    assert score is not None
    assert (score.value, score.n) == (0.75, 4)


def test_areas_up_to_different_radii_warn(tmp_path: Path, rows_for: RowsFor, footer_for: FooterFor) -> None:
    store = Store(str(tmp_path))
    for key, sweep in zip(("a" * 20, "b" * 20), SWEEPS, strict=True):
        footer = footer_for("m", f"d+{sweep.text}", key=key, changes=(sweep,))
        rows = rows_for([True, True], footer=footer, radii=np.array([0.1, np.inf], np.float32))
        store.finish([rows], rows.ids, footer)
    with pytest.warns(HoldfastWarning, match="searched up to different radii"):
        run_scores(store, ["a" * 20, "b" * 20], ["area-under-radius-curve"])


def test_of_equal_scenarios_the_weaker_measurement_comes_first(
    tmp_path: Path, rows_for: RowsFor, footer_for: FooterFor
) -> None:
    """What takes the last of them takes the stronger, also where it is the older."""
    store = Store(str(tmp_path))
    weak = {"gradients": "bfloat16"}
    for key, facts, finished in (("a" * 20, {}, "2024-01-01"), ("b" * 20, weak, "2024-01-02")):
        stored(store, rows_for, footer_for("m", "d", key=key, family=key, facts=facts, finished=finished), [True])
    assert [each.footer.key for each in lines(store, best_only=False)] == ["b" * 20, "a" * 20]


def test_a_metric_that_refuses_a_run_leaves_the_others_where_they_are(
    tmp_path: Path, rows_for: RowsFor, footer_for: FooterFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(rows: Rows, reference: Rows | None = None) -> Score:
        raise HoldfastError("not of these rows")

    store = Store(str(tmp_path))
    stored(store, rows_for, footer_for("m", "d", key="a" * 20), [True, False, True, True])
    own = scores_of_runs.metric_of
    monkeypatch.setattr(scores_of_runs, "metric_of", lambda ref: refuses if ref == "brier" else own(ref))
    made = run_scores(store, ["a" * 20], ["brier", "accuracy"])
    (refused, accuracy) = made.scores["a" * 20]
    assert refused is None
    assert accuracy is not None
    assert accuracy.value == 0.75
    assert made.notes == ("brier: not of these rows",)


def test_scores_from_rows_are_those_that_the_footer_counts(
    tmp_path: Path, rows_for: RowsFor, footer_for: FooterFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(str(tmp_path))
    stored(store, rows_for, footer_for("m", "d", key="a" * 20), [True, False, True, True])
    counted = lines(store)
    monkeypatch.setattr(summary, "line_of", lambda footer: None)
    assert lines(store) == counted
    assert counted[0].accuracy.value == 0.75


def test_a_decision_names_the_model_and_the_scenario(tmp_path: Path, rows_for: RowsFor, footer_for: FooterFor) -> None:
    store = Store(str(tmp_path))
    for model, right in (("new", [False] * 30), ("old", [True] * 30)):
        stored(store, rows_for, footer_for(model, "d+fog", key=model * 5), right)
    (decision,) = worse(comparisons(store, "new", "old"), "new", "old", "interval")
    assert (decision.subject, decision.scenario, decision.passed) == ("new", "d+fog", False)
    assert decision.sentence.startswith("new is worse than old under d+fog: -100.0 points")


def test_without_a_baseline_mce_is_the_mean_error_over_corruptions(
    tmp_path: Path, rows_for: RowsFor, footer_for: FooterFor
) -> None:
    """Fog is wrong on 1 and 3 of 4, snow on 2 of 4 twice: an error of 50 %, and 25 % more than on clean images."""
    store = Store(str(tmp_path))
    wrong = {("", 0): 1, ("fog", 1): 1, ("fog", 2): 3, ("snow", 1): 2, ("snow", 2): 2}
    for (name, severity), count in wrong.items():
        text = f"{name}:severity={severity}"
        changes = (ChangeRecord("corruption", name, 1, text, {"severity": severity}),) if name else ()
        scenario = f"d+{text}" if name else "d"
        footer = footer_for("m", scenario, key=f"{name}{severity}".ljust(20, "0"), changes=changes)
        stored(store, rows_for, footer, [False] * count + [True] * (4 - count))
    for metric, expected in (("mce:baseline=none", 0.5), ("relative-mce:baseline=none", 0.25)):
        (made,) = multi_run_scores(store, metric, models=["m"])
        assert made.score is not None, made.note
        assert made.score.value == pytest.approx(expected)


def test_scores_over_attacks_are_about_attacked_runs(footer_for: FooterFor) -> None:
    attacked = footer_for("m", "d+pgd", changes=(ChangeRecord("attack", "pgd-linf", 1, "pgd-linf", {}),))
    for metric in (UnionAccuracy(), AverageAccuracy()):
        assert metric.is_about(attacked)
        assert not metric.is_about(footer_for("m", "d"))


@pytest.mark.parametrize(
    ("text", "reference", "expected"),
    [
        ("", "", False),
        ("no-such-metric", "", False),
        ("accuracy", "", False),
        ("upper-limit", "", True),
        ("upper-limit", "d", True),
        ("error-consistency", "", True),
        ("error-consistency", "d", False),
    ],
)
def test_which_scores_take_more_than_one_model(text: str, reference: str, expected: bool) -> None:
    assert is_over_models(text, reference) is expected


def test_a_catastrophe_is_counted_for_each_model(tmp_path: Path) -> None:
    models = tuple("abcdefghijkl")
    values = np.array([[0.7 + 0.01 * i, 0.8 + 0.01 * i] for i in range(len(models))])
    values[5, 0] = 0.2
    table = Scores("b", Table(models, ("x", "y"), values, np.full(values.shape, 1000)))
    store = Store(str(tmp_path))
    made = multi_run_scores(store, "catastrophic-degradation", scenarios=["x"], reference="y", table=table)
    counts = {each.model: each.score and each.score.value for each in made}
    assert counts == {name: float(name == "f") for name in models}
