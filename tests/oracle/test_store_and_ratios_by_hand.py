"""What rows and scores keep, at the borders of what they can hold; and curves along ratios, by their parts."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import registry
from holdfast.core.table import Table
from holdfast.metrics import means
from holdfast.metrics.along_ratios import confidence_before_after, over_shift_ratio
from holdfast.store import Footer, Rows, Store
from holdfast.store.footer import ChangeRecord
from holdfast.store.rows import SCHEMA, is_named, joined_rows, without
from holdfast.store.scores import (
    Origin,
    Scores,
    cells_of,
    from_tidy,
    is_file_name,
    scores_from_parquet,
    scores_to_parquet,
    tidy,
)

RowsFor = Callable[..., Rows]


def test_confidences_along_a_ratio_take_a_hundred_draws_at_least(rows_for: RowsFor) -> None:
    """Each resample is one more row of the same draws: bounds of 100 and of 101 differ."""
    clean, shifted = rows_for([True] * 12), rows_for([True, False] * 6)
    for asked, taken in ((0, 100), (7, 100), (150, 150)):
        (point,) = over_shift_ratio(clean, shifted, ratios=[1.0], resamples=asked)
        expected = confidence_before_after(clean, shifted, resamples=taken)
        assert (point.confidence.before, point.confidence.after) == (expected.before, expected.after)
    beside = confidence_before_after(clean, shifted, resamples=101)
    assert beside.after != confidence_before_after(clean, shifted, resamples=100).after


@pytest.mark.parametrize("at_once", [1, 24, 84, 10**6])
def test_a_mean_of_sizes_is_the_bootstrap_of_students_t_however_many_draws_are_held(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.array([0.1, 0.2, 0.2, 0.3, 0.5, 0.8, 1.3, 2.1, 3.4, 5.5, 8.9, 14.4])
    random, turned = np.random.default_rng(4), []
    for _ in range(50):
        drawn = values[random.integers(0, 12, 12)]
        turned.append((drawn.mean() - values.mean()) / drawn.std())
    below, above = np.quantile(turned, [0.025, 0.975])
    monkeypatch.setattr(means, "AT_ONCE", at_once)
    made = means.mean_of_sizes(values, draws=50, seed=4)
    assert (made.value, made.n) == (pytest.approx(values.mean()), 12)
    expected = values.mean() - above * values.std(), values.mean() - below * values.std()
    assert (made.low, made.high) == pytest.approx(expected)


def test_a_largest_logit_beyond_256_becomes_0_and_one_of_256_stays(rows_for: RowsFor) -> None:
    for top, kept in ((256.0, 256.0), (-256.0, -256.0), (257.0, 0.0), (-257.0, 0.0)):
        rows = rows_for([True], logits=np.array([[top, top - 3.0]], dtype=np.float32), labels=np.array([1]))
        assert rows.floats("prediction_logit").tolist() == [kept]
        assert rows.floats("label_logit").tolist() == [kept - 3]
        assert rows.floats("logsumexp")[0] == pytest.approx(kept + math.log(1 + math.exp(-3)), abs=2e-5)
        assert rows.confidence[0] == pytest.approx(1 / (1 + math.exp(-3)), rel=3e-5)
        assert rows.widest == 3


def test_distances_are_kept_from_the_least_to_the_largest_of_float16(rows_for: RowsFor) -> None:
    logits = np.array([[0.0, -1e-30, -65504.0, -1e6]], dtype=np.float32)
    rows = rows_for([True], logits=logits, labels=np.array([0]))
    kept = rows.kept("logits")[1][0]
    assert kept.tolist() == [0.0, -(2.0**-24), -65504.0, -65504.0]
    assert rows.widest == 65504


def test_texts_are_digested_with_their_ends_and_numbers_with_their_gaps(rows_for: RowsFor) -> None:
    seen = {
        rows_for([True, True], ids=ids, **more).digest
        for ids, more in (
            (["ab", "c"], {}),
            (["a", "bc"], {}),
            (["ab", "c"], {"sizes": np.array([0.0, np.nan], np.float32)}),
            (["ab", "c"], {"sizes": np.array([np.nan, 0.0], np.float32)}),
            (["ab", "c"], {"reasons": [None, "x"]}),
            (["ab", "c"], {"reasons": ["x", None]}),
            (["ab", "c"], {"reasons": ["", None]}),
        )
    }
    assert len(seen) == 7


def test_the_digest_of_rows_is_the_same_for_good(rows_for: RowsFor) -> None:
    """Files written long ago carry it: per column its name, which cells are empty, lengths, and values; 0 for none."""
    logits = np.random.default_rng(3).normal(size=(3, 10)).astype(np.float32)
    logits[1] = np.nan
    sizes = np.array([0.25, np.nan, 0.5], np.float32)
    rows = rows_for([True] * 3, ids=["é", "b", "cc"], logits=logits, sizes=sizes, reasons=[None, None, "why"])
    wide = rows_for([True] * 3, logits=np.tile(np.arange(130.0, dtype=np.float32), (3, 1)), labels=np.arange(3))
    for each in (rows, wide):
        summed = hashlib.sha256()
        for name in SCHEMA.names[3:]:
            kind, cells = SCHEMA.field(name).type, each.table.column(name).to_pylist()
            summed.update(name.encode() + bytes(cell is None for cell in cells))
            if str(kind).startswith("list"):
                summed.update(b"".join(struct.pack("<q", len(cell or ())) for cell in cells))
                cells = [value for cell in cells for value in cell or ()]
                summed.update(bytes(len(cells)))
            if kind == "string":
                texts = [(cell or "").encode() for cell in cells]
                summed.update(b"".join(struct.pack("<q", len(text)) for text in texts) + b"".join(texts))
            else:
                letter = "d" if "float" in str(kind) else "q"
                summed.update(b"".join(struct.pack(f"<{letter}", 0 if cell is None else cell) for cell in cells))
        assert each.digest == summed.hexdigest()


def test_of_a_sample_in_two_pieces_the_first_counts_and_missing_ones_are_counted(
    rows_for: RowsFor, footer_for: Callable[..., Footer]
) -> None:
    one, two = rows_for([True, True], ids=["a", "b"]), rows_for([False, False, True], ids=["b", "a", "c"])
    made = joined_rows([one, two], ["c", "a", "b"], footer_for())
    assert (made.ids, made.correct.tolist()) == (["c", "a", "b"], [True, True, True])
    assert joined_rows([two, one], ["a", "b"], footer_for()).correct.tolist() == [False, False]
    with pytest.raises(HoldfastError, match="2 of 3 samples have no row, `x` first"):
        joined_rows([one], ["x", "a", "y"], footer_for())
    assert without(two, ["a", "nobody"]).ids == ["b", "c"]
    assert without(two, []) is two
    assert is_named(made.table, made.footer)
    for other in ("key", "model", "scenario"):
        assert not is_named(made.table, replace(made.footer, **{other: "another"}))  # type: ignore[arg-type]
    assert not is_named(made.table.drop_columns(["rank"]), made.footer)


def test_rows_without_ranks_say_so_and_counts_are_of_their_own_column(rows_for: RowsFor) -> None:
    logits = np.full((3, 10), np.nan, dtype=np.float32)
    none = rows_for([True] * 3, logits=logits)
    assert none.counts == (0, None, 3)
    logits[1] = np.arange(10)
    some = rows_for([True] * 3, logits=logits, labels=np.array([0, 9, 2]))
    assert some.counts == (1, 1, 2)
    unlabelled = rows_for([True] * 3, labels=np.full(3, -1))
    assert unlabelled.counts == (None, None, 0)


def test_what_a_footer_says_of_its_run(footer_for: Callable[..., Footer]) -> None:
    plain = footer_for(n=10, population=10)
    assert not any((plain.is_partial, plain.is_weak, plain.is_imported, plain.is_attacked, plain.source_is_memory))
    assert footer_for(n=9, population=10).is_partial
    assert footer_for(facts={"gradients": "bfloat16, tried"}).is_weak
    assert not footer_for(facts={"gradients": "float32: not bfloat16"}).is_weak
    assert footer_for(facts={"imported from": "x"}).is_imported
    assert footer_for(facts={"data": "memory"}).source_is_memory
    assert replace(plain, card=replace(plain.card, source="live")).source_is_memory
    assert plain.has_labels, "not finished: nothing says otherwise"
    assert replace(plain, right=0, failed=0).has_labels
    assert not replace(plain, right=None, failed=0).has_labels


def test_a_change_is_recorded_by_kind_name_version_text_and_arguments() -> None:
    ref = registry.bind("attack", "pgd-linf:steps=3,radius=0.25")
    record = ChangeRecord.of(ref)
    assert (record.kind, record.name, record.version) == ("attack", "pgd-linf", ref.version)
    assert record.text.startswith("pgd-linf:")
    assert (record.args["steps"], record.args["radius"]) == (3, 0.25)


def test_where_loops_stand_is_kept_until_it_is_dropped(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    assert store.saved_state("k", "a") is None
    store.save_state("k", "a", b"one")
    store.save_state("k", "b", b"two")
    assert (store.saved_state("k", "a"), store.saved_state("k", "b"), store.saved_state("l", "a")) == (
        b"one",
        b"two",
        None,
    )
    assert store.parts("k") == [], "a state is no part"
    store.drop_state("k", "a")
    assert (store.saved_state("k", "a"), store.saved_state("k", "b")) == (None, b"two")


def table(values: list[list[float]], counts: int = 0, **more: object) -> Table:
    made = np.array(values)
    return Table(("a", "b"), ("p", "r", "f"), made, np.full(made.shape, counts), **more)  # type: ignore[arg-type]


UNITS = {"p": "percent", "r": "number"}


def test_scores_are_told_in_their_unit_and_read_back() -> None:
    scores = Scores(
        "x", table([[0.123, 3.5, 0.07], [math.nan, 2.0, -0.29]], 0, source="paper"), UNITS | {"f": "points"}
    )
    records = tidy(scores)
    assert [record["value"] for record in records] == [12.3, 3.5, 7.0, 2.0, -29.0]
    assert [record["unit"] for record in records] == ["percent", "number", "points", "number", "points"]
    assert {record["n"] for record in records} == {None}
    assert {record["source"] for record in records} == {"paper"}
    again = from_tidy(records, {})
    np.testing.assert_allclose(again.table.values, scores.table.values, rtol=1e-15)
    assert [again.unit(name) for name in again.table.settings] == ["percent", "number", "points"]
    counted = Scores("x", table([[0.1, 1, 0.2], [0.1, 1, 0.2]], 7))
    assert {record["n"] for record in tidy(counted)} == {7}
    assert counted.unit("whatever") == "percent"
    assert (from_tidy(tidy(counted), {}).table.counts == 7).all()
    assert cells_of(scores).value.tolist() == [12.3, 3.5, 7.0, 2.0, -29.0]
    assert cells_of(scores).model.tolist() == [0, 0, 0, 1, 1]
    assert cells_of(scores).setting.tolist() == [0, 1, 2, 1, 2]


def test_the_source_of_a_number_is_its_own_then_that_of_its_setting_then_that_of_the_table() -> None:
    sources = {("a", "p"): "own", "r": "setting", ("b", "r"): "late", ("a", "zzz"): "nothing", ("b", "p"): "absent"}
    made = table([[0.1, 1.0, 0.2], [math.nan, 2.0, 0.3]], source="table", sources=sources)
    cells = cells_of(Scores("x", made))
    assert [cells.sources[i] for i in cells.source] == ["own", "setting", "table", "late", "table"]
    assert cells.sources == ["own", "setting", "table", "late"], "in order of use, and only those in use"
    assert [record["source"] for record in tidy(Scores("x", made))] == ["own", "setting", "table", "late", "table"]
    one = scores_from_parquet(scores_to_parquet(Scores("x", table([[0.1, 1.0, 0.2]] * 2, source="paper"))), "f")
    assert (one.table.source, dict(one.table.sources)) == ("paper", {})
    several = scores_from_parquet(scores_to_parquet(Scores("x", made)), "f")
    assert several.table.source_of("b", "r") == "late"
    assert (several.table.source, len(several.table.sources)) == ("", 5)


def test_the_key_of_scores_follows_numbers_and_file_and_the_digest_all_there_is() -> None:
    values = [[0.1, 1.0, 0.2], [0.4, 2.0, 0.3]]
    origin = Origin("csv", "f.csv", "ab" * 32, "2025-01-01")
    plain = Scores("x", table(values), UNITS, origin)
    another_day = Scores("x", table(values), UNITS, replace(origin, date="2026-01-01"))
    assert plain.key == another_day.key
    assert plain.digest != another_day.digest
    assert len(plain.key) == 16
    others = [
        Scores("y", table(values), UNITS, origin),
        Scores("x", table(values, 3), UNITS, origin),
        Scores("x", table([[0.1, 1.0, 0.2], [0.4, 2.0, 0.31]]), UNITS, origin),
        Scores("x", table(values), {"p": "percent"}, origin),
        Scores("x", table(values), UNITS, replace(origin, sha256="cd" * 32)),
    ]
    assert len({plain.key, *(each.key for each in others)}) == 6
    told = [
        Scores("x", table(values, facts={"a": {"by": "me"}}), UNITS, origin),
        Scores("x", table(values, source="paper"), UNITS, origin),
        Scores("x", table(values, sources={"p": "paper"}), UNITS, origin),
        Scores("x", table(values, sources={"r": "paper"}), UNITS, origin),
    ]
    assert len({plain.digest, *(each.digest for each in told)}) == 5
    assert {each.key for each in told} == {plain.key}
    assert str(origin) == f"f.csv (sha256 {'ab' * 6}…, read 2025-01-01)"


@pytest.mark.parametrize("name", ["a" * 200, "é" * 100, "a b.c", "a-b_c"])
def test_a_benchmark_may_have_a_name_that_a_file_may_have(name: str) -> None:
    assert is_file_name(name)


@pytest.mark.parametrize(
    "name",
    ["a" * 201, "é" * 101, "", ".a", " a", "a ", "a\n", "a/b", "a\\b", "a:b", "a*", "a?", '"', "<", ">", "|", "\ud800"],
)
def test_a_benchmark_has_no_name_that_no_file_has(name: str) -> None:
    assert not is_file_name(name)
    with pytest.raises(HoldfastError, match="cannot be named"):
        Scores(name, table([[0.1, 1.0, 0.2], [0.4, 2.0, 0.3]]))
