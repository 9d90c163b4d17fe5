from __future__ import annotations

import os
from pathlib import Path

import pytest
from synthetic import add, change, fog, pgd

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.types import Flag
from holdfast.metrics.compare import compare
from holdfast.site.cautions import cautions_of
from holdfast.site.model_results import model_results
from holdfast.site.shown_samples import PNG, picked, shown_samples
from holdfast.store.store import Picture, Store


def test_an_unknown_model_is_misuse_with_a_suggestion(store: Store) -> None:
    add(store, 0.9, model="resnet18")
    with pytest.raises(Misuse, match="no model named `resnet81`") as caught:
        model_results(store, "resnet81")
    assert caught.value.hint == "did you mean `resnet18`?"


def test_an_empty_store_says_how_to_fill_it(store: Store) -> None:
    with pytest.raises(HoldfastError, match="no finished runs") as caught:
        model_results(store, "resnet18")
    assert "evaluate" in str(caught.value.hint)


def test_the_difference_to_undisturbed_is_the_paired_one(store: Store) -> None:
    clean = add(store, 0.9)
    foggy = add(store, 0.6, fog(3), n=80)
    run = model_results(store, "resnet18").runs[1]
    expected = compare(store.read(foggy.key), store.read(clean.key)).difference
    assert run.difference == expected
    assert expected.n == 80


def test_undisturbed_rows_of_other_weights_or_data_are_no_reference(store: Store) -> None:
    add(store, 0.9, weights="old")
    add(store, 0.9, data="other")
    add(store, 0.6, fog(3))
    foggy = next(run for run in model_results(store, "resnet18").runs if run.footer.changes)
    assert foggy.difference is None


def test_of_one_measurement_the_largest_choice_of_samples_counts(store: Store) -> None:
    family = {"family": "one"}
    add(store, 0.5, n=50, **family)
    add(store, 0.6, n=200, **family)
    found = model_results(store, "resnet18")
    assert [run.footer.n for run in found.runs] == [200]
    assert found.superseded == 1


def test_comparisons_are_those_of_the_metrics(store: Store) -> None:
    mine = add(store, 0.9)
    theirs = add(store, 0.8, model="other", n=150)
    (run,) = model_results(store, "resnet18").runs
    (other,) = run.beside
    assert other.comparison == compare(store.read(mine.key), store.read(theirs.key))
    assert other.comparison.left_out == 50


def test_a_damaged_file_is_told_and_left_out(store: Store) -> None:
    add(store, 0.9)
    broken = add(store, 0.5, fog(1))
    store.footers()
    path = Path(store.files.path(f"rows/{broken.key}.parquet"))
    stat = path.stat()
    data = bytearray(path.read_bytes())
    data[40:60] = bytes(20)
    path.write_bytes(bytes(data))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    found = model_results(store, "resnet18")
    assert len(found.runs) == 1
    assert len(found.unreadable) == 1
    assert not cautions_of(found).is_clear


def test_the_mean_size_is_over_samples_that_were_right_before(store: Store) -> None:
    add(store, 0.8)
    add(store, 0.5, pgd(8 / 255), sizes=0.03)
    clean, attacked = model_results(store, "resnet18").runs
    assert clean.size is None
    assert attacked.size is not None
    assert attacked.size.n == 60  # 100 wrong, 40 of them wrong before
    assert attacked.size.value == pytest.approx(0.03)


def test_flags_are_told_once_with_the_runs_that_raised_them(store: Store) -> None:
    weak = Flag("weak", "warning", "The attack is weak.")
    add(store, 0.9)
    add(store, 0.5, pgd(4 / 255), flags=(weak,))
    add(store, 0.4, pgd(8 / 255), flags=(weak, Flag("broken", "error", "No gradient.")))
    known = cautions_of(model_results(store, "resnet18"))
    assert [(flag.name, len(flag.where)) for flag in known.flags] == [("broken", 1), ("weak", 2)]
    assert known.flags[1].explanations == ("The attack is weak.",)


def test_failed_samples_are_counted_by_reason(store: Store) -> None:
    add(store, 0.9, reasons={0: "unreadable", 1: "unreadable"})
    add(store, 0.5, fog(1), reasons={5: "unreadable", 6: "out of memory"})
    known = cautions_of(model_results(store, "resnet18"))
    assert [(one.reason, one.samples, len(one.where)) for one in known.failures] == [
        ("unreadable", 3, 2),
        ("out of memory", 1, 1),
    ]
    assert known.unanswered == 4


def test_runs_that_read_alike_say_in_what_they_differ(store: Store) -> None:
    add(store, 0.5, change("attack", "pgd", hidden=("steps",), radius=0.5, steps=10))
    add(store, 0.4, change("attack", "pgd", hidden=("steps",), radius=0.5, steps=20))
    labels = [run.label for run in model_results(store, "resnet18").runs]
    assert sorted(labels) == ["pgd at radius 0.5 [steps 10]", "pgd at radius 0.5 [steps 20]"]


def test_only_samples_right_before_and_wrong_after_are_shown_the_most_confident_first(store: Store) -> None:
    clean = store.read(add(store, 0.8).key)
    foggy = store.read(add(store, 0.4, fog(5), pictures=200).key)
    run = next(run for run in model_results(store, "resnet18").runs if run.footer.changes)
    turned = {clean.ids[i] for i in (clean.correct & ~foggy.correct).nonzero()[0]}
    assert {one.id for one in run.shown_samples} == turned
    assert len(turned) == 80
    confidences = [one.after.confidence for one in run.shown_samples]
    assert confidences == sorted(confidences, reverse=True)
    assert all(one.before and one.before.name == one.label != one.after.name for one in run.shown_samples)


def test_a_sample_of_which_nobody_knows_whether_it_was_right_before_is_not_shown(store: Store) -> None:
    add(store, 0.4, fog(5), pictures=20)
    (run,) = model_results(store, "resnet18").runs
    assert run.pictures == 20
    assert run.shown_samples == ()
    add(store, 0.8, n=50)
    run = next(run for run in model_results(store, "resnet18").runs if run.footer.changes)
    assert {one.id for one in run.shown_samples} <= {f"test/{i:05d}" for i in range(50)}


def test_of_an_undisturbed_run_every_mistake_may_be_shown(store: Store) -> None:
    add(store, 0.8, pictures=10)
    (run,) = model_results(store, "resnet18").runs
    assert len(run.shown_samples) == 10
    assert all(one.before is None for one in run.shown_samples)


def test_pictures_stay_within_their_budget_and_show_each_sample_once(store: Store) -> None:
    add(store, 0.8)
    add(store, 0.4, fog(4), pictures=20)
    add(store, 0.4, fog(5), pictures=20)
    queues = [run.shown_samples for run in model_results(store, "resnet18").runs if run.shown_samples]
    chosen = picked(queues, 10**9)
    assert len(chosen) == 12
    assert len({one.id for one in chosen}) == 12
    assert {one.scenario for one in chosen} == {"fog at severity 4", "fog at severity 5"}
    assert len(picked(queues, 0)) == 1
    few = picked(queues, 3 * chosen[0].cost)
    assert sum(one.cost for one in few) <= 3 * chosen[0].cost


def test_what_is_no_png_is_not_shown(store: Store) -> None:
    footer = add(store, 0.5)
    rows = store.read(footer.key)
    wrong = [name for name, right in zip(rows.ids, rows.correct, strict=True) if not right]
    pictures = [Picture(wrong[0], b"<svg onload=alert(1)>", b"<svg>"), Picture(wrong[1], PNG, PNG)]
    assert shown_samples("as it is", rows, None, pictures) == ()
