"""Rows: decided in full precision, digested by content, honest about what has no answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from holdfast.core.errors import HoldfastError
from holdfast.core.types import Flag
from holdfast.metrics.calibration import brier_terms, nll_terms
from holdfast.store import Footer, Predictions, Rows
from holdfast.store.rows import NAMES, SCHEMA, joined_rows, rows_digest, to_rows


def predictions(logits: np.ndarray, labels: np.ndarray, **more: object) -> Predictions:
    n = len(labels)
    fields = {
        "ids": [f"s{i}" for i in range(n)],
        "labels": labels,
        "logits": logits.astype(np.float32),
        "sizes": np.full(n, np.nan, np.float32),
        "radii": np.full(n, np.nan, np.float32),
        "forwards": np.ones(n, np.int64),
        "backwards": np.zeros(n, np.int64),
        "reasons": [None] * n,
    }
    return Predictions(**(fields | more))  # type: ignore[arg-type]


logits = hnp.arrays(np.float32, (8, 12), elements=st.floats(-1e4, 1e4, width=32))
labels = hnp.arrays(np.int64, (8,), elements=st.integers(0, 11))


@given(logits, labels)
def test_prediction_rank_and_confidence_follow_from_the_logits(z: np.ndarray, y: np.ndarray) -> None:
    footer = _footer()
    rows = to_rows(predictions(z, y), footer)
    assert rows.predictions.tolist() == z.argmax(axis=1).tolist()
    assert rows.correct.tolist() == (z.argmax(axis=1) == y).tolist()
    order = np.argsort(-z, axis=1, kind="stable")
    assert rows.floats("rank").tolist() == [list(row).index(label) for row, label in zip(order, y, strict=True)]
    wide = z.astype(np.float64)
    shifted = np.exp(wide - wide.max(axis=1, keepdims=True))
    np.testing.assert_allclose(rows.confidence, (shifted / shifted.sum(1, keepdims=True)).max(1), rtol=2e-3)
    assert (rows.correct == (rows.floats("rank") == 0)).all()


def test_logits_are_kept_whole_up_to_128_classes_and_as_the_ten_largest_beyond() -> None:
    random = np.random.default_rng(0)
    few, many = random.normal(size=(3, 128)), random.normal(size=(3, 129))
    small = to_rows(predictions(few, np.zeros(3, np.int64)), _footer())
    large = to_rows(predictions(many, np.zeros(3, np.int64)), _footer())
    assert small.logits is not None
    np.testing.assert_allclose(small.logits, few, atol=2e-3)  # float16 near 4: steps of 0.002
    assert large.logits is None
    assert large.table.column("top_classes").to_pylist() == np.argsort(-many, axis=1)[:, :10].tolist()
    exact = np.log(np.exp(many).sum(axis=1))
    np.testing.assert_allclose(large.floats("logsumexp"), exact, rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_are_no_answer_and_say_so(bad: float) -> None:
    z = np.zeros((3, 4))
    z[1, 2] = bad
    rows = to_rows(predictions(z, np.zeros(3, np.int64)), _footer())
    assert rows.correct.tolist() == [True, False, True]
    assert np.isnan(rows.predictions[1])
    assert rows.table.column("reason").to_pylist() == [None, "logits are not finite", None]
    assert rows.failed.tolist() == [False, True, False]


def test_a_reason_given_is_kept() -> None:
    z = np.full((1, 4), np.nan)
    rows = to_rows(predictions(z, np.zeros(1, np.int64), reasons=["cannot be read"]), _footer())
    assert rows.table.column("reason").to_pylist() == ["cannot be read"]


def test_logits_beyond_float16_do_not_become_infinite() -> None:
    rows = to_rows(predictions(np.array([[1e6, 0.0]]), np.zeros(1, np.int64)), _footer())
    assert rows.logits is not None
    assert np.isfinite(rows.logits).all()


@pytest.mark.parametrize("offset", [0.0, 200.0, 4099.0, -1e5])
def test_logits_are_kept_as_distances_from_the_largest(offset: float) -> None:
    random = np.random.default_rng(0)
    z = (np.round(64 * random.normal(size=(20, 5))) / 64 + offset).astype(np.float32).astype(np.float64)
    y = random.integers(0, 5, 20)
    rows = to_rows(predictions(z, y), _footer())
    assert rows.logits is not None
    distances = z - z.max(axis=1, keepdims=True)
    np.testing.assert_allclose(rows.logits - rows.logits.max(axis=1, keepdims=True), distances, rtol=2**-11)
    exact = np.log(np.exp(distances).sum(axis=1))
    np.testing.assert_allclose(rows.floats("logsumexp") - rows.floats("prediction_logit"), exact, atol=2e-5)
    every = np.arange(20)
    np.testing.assert_allclose(rows.floats("label_logit") - rows.floats("prediction_logit"), distances[every, y])
    if abs(offset) <= 200:
        np.testing.assert_allclose(rows.floats("prediction_logit"), z.max(axis=1))


def test_ties_stay_ties_and_none_is_made_by_storage() -> None:
    z = np.array([[1.0, 1.0, 0.0], [1.0, 1.0 - 1e-7, 0.0], [7.0, 7.0, 7.0]])
    rows = to_rows(predictions(z, np.array([1, 1, 2])), _footer())
    assert rows.logits is not None
    assert (rows.logits == rows.logits.max(axis=1, keepdims=True)).tolist() == [
        [True, True, False],
        [True, False, False],
        [True, True, True],
    ]
    assert rows.predictions.tolist() == [0, 0, 0]
    assert rows.floats("rank").tolist() == [1, 1, 2]


def of_old(rows: Rows, z: np.ndarray) -> Rows:
    """The same rows as a version before this one wrote them: logits as they are, cut to float16."""
    import pyarrow as pa

    cut = np.clip(z, -65504, 65504).astype(np.float16)
    top, lse = z.max(axis=1), z.max(axis=1) + np.log(np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1))
    label = z[np.arange(len(z)), rows.labels]
    columns = {
        "logits": pa.array(list(cut), pa.list_(pa.float16())),
        **{
            name: pa.array(values.astype(np.float32), pa.float32())
            for name, values in (("prediction_logit", top), ("label_logit", label), ("logsumexp", lse))
        },
    }
    table = rows.table
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)
    return Rows(table, rows.footer)


def test_rows_of_old_are_read_with_the_prediction_that_was_decided() -> None:
    z = np.array([[1000.1, 1000.2, 3.0], [0.25, 0.5, -1.0], [4099.0, 0.0, 0.0], [1e5, 0.0, 0.0]]).astype(np.float32)
    wide = z.astype(np.float64)
    old = of_old(to_rows(predictions(wide, np.array([0, 1, 0, 0])), _footer()), wide)
    assert old.logits is not None
    assert old.logits.argmax(axis=1).tolist() == [1, 1, 0, 0]
    np.testing.assert_allclose(old.logits[:3], wide[:3], rtol=1e-3)
    terms = brier_terms(old)
    share = 1 / (1 + np.exp(wide[0, 1] - wide[0, 0]))
    assert terms[0] == pytest.approx(2 * (1 - share) ** 2, abs=1e-4)
    assert terms[2:].tolist() == [0, 0]
    assert nll_terms(old)[2:].tolist() == [0, 0]


def test_the_digest_knows_the_content_and_nothing_else(
    rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    one = rows_for([True, False, True])
    renamed = one.sealed(footer_for("another model", "another scenario", seconds=9.0))
    assert renamed.footer.digest == one.footer.digest
    assert rows_for([True, True, True]).footer.digest != one.footer.digest
    for column in ("label", "prediction", "forwards"):
        changed = one.table.set_column(
            one.table.schema.get_field_index(column),
            one.table.schema.field(column),
            [np.asarray([7, 7, 7], dtype=np.int32)],
        )
        assert rows_digest(changed) != one.footer.digest, column
    for column in ("reason", "id"):
        changed = one.table.set_column(one.table.schema.get_field_index(column), column, [["x", "y", "z"]])
        assert rows_digest(changed) != one.footer.digest, column


def test_the_digest_does_not_depend_on_chunks(rows_for: Callable[..., Rows]) -> None:
    import pyarrow as pa

    whole = rows_for([True, False, True, True])
    chunked = pa.concat_tables([whole.table.slice(0, 1), whole.table.slice(1)])
    assert rows_digest(chunked) == whole.footer.digest


def test_pieces_join_in_the_order_asked_for(rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]) -> None:
    one = rows_for([True, False], ids=["b", "d"])
    other = rows_for([True, True], ids=["a", "d"])
    together = joined_rows([one, other], ["a", "b", "d"], footer_for())
    assert together.ids == ["a", "b", "d"]
    assert together.correct.tolist() == [True, True, False], "of a sample that stands twice the first is taken"
    with pytest.raises(HoldfastError, match=r"1 of 2 samples have no row, `q` first"):
        joined_rows([one], ["b", "q"], footer_for())


def test_a_footer_reads_back(footer_for: Callable[..., Footer]) -> None:
    footer = footer_for(flags=(Flag("f", "note", "because"),), facts={"ladder": "cifar"}, precision=0.01)
    assert Footer.from_bytes(footer.to_bytes()) == footer


def test_a_footer_of_another_format_is_refused(footer_for: Callable[..., Footer]) -> None:
    with pytest.raises(HoldfastError, match="format 99"):
        Footer.from_bytes(replace(footer_for(), format=99).to_bytes())


def _footer() -> Footer:
    from holdfast.core.types import ModelCard

    return Footer(
        *("k", "f", "m", "m", "s", "s", "d", (), 0, "all", None, None, "w", "d"),
        card=ModelCard("m", "m", 12),
        classes=(),
        population=8,
    )


@pytest.mark.parametrize("name", [name for name in SCHEMA.names if name not in NAMES])
def test_every_column_is_in_the_digest(rows_for: Callable[..., Rows], name: str) -> None:
    """One value of one column is another, or gone."""
    table = rows_for([True, False, True], sizes=np.ones(3, np.float32), radii=np.ones(3, np.float32)).table
    column = table.column(name)
    values = column.to_pylist()
    other = {"reason": "why", "id": "z"}.get(name, [1, 2] if values[1] is None or isinstance(values[1], list) else 7)
    changed = pa.chunked_array([pa.array([values[0], other, values[2]], column.type)])
    index = table.schema.get_field_index(name)
    assert rows_digest(table.set_column(index, table.schema.field(name), changed)) != rows_digest(table)


def test_the_prediction_is_that_of_float32(footer_for: Callable[..., Footer]) -> None:
    """Both round to 2048 in float16, where the first of equals would be ahead."""
    rows = to_rows(predictions(np.array([[2048.0, 2048.5], [0.1, 0.10001]]), np.array([1, 1])), footer_for())
    assert rows.predictions.tolist() == [1, 1]
    assert rows.correct.all()
    assert rows.floats("rank").tolist() == [0, 0]


@pytest.mark.parametrize(("classes", "kept", "top"), [(127, 127, 0), (128, 128, 0), (129, 0, 10), (130, 0, 10)])
def test_the_last_number_of_classes_with_all_logits_is_128(
    footer_for: Callable[..., Footer], classes: int, kept: int, top: int
) -> None:
    rows = to_rows(predictions(np.arange(2.0 * classes).reshape(2, classes), np.array([0, 1])), footer_for())
    assert rows.kept("logits")[1].shape == ((2, kept) if kept else (0, 0))
    assert rows.kept("top_logits")[1].shape == ((2, top) if top else (0, 0))


def test_in_top5_counts_ranks_0_to_4(footer_for: Callable[..., Footer]) -> None:
    rows = to_rows(predictions(np.tile(-np.arange(8.0), (8, 1)), np.arange(8)), footer_for())
    assert rows.counts == (1, 5, 0)
