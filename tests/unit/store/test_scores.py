"""Imported scores in a store, and exports: what goes out comes back."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from holdfast.core.errors import HoldfastError
from holdfast.core.json_text import json_text
from holdfast.store import Store
from holdfast.store.exporting import csv_text, escaped, latex_table, latex_text
from holdfast.store.importers import read_results
from holdfast.store.published import benchmarks, published
from holdfast.store.scores import Scores, from_tidy, scores_from_parquet, scores_to_parquet, tidy


def same(one: Scores, other: Scores) -> bool:
    return (
        one.table.models == other.table.models
        and one.table.settings == other.table.settings
        and np.allclose(one.table.values, other.table.values, equal_nan=True, rtol=0, atol=1e-12)
        and np.array_equal(one.table.counts, other.table.counts)
    )


@pytest.mark.parametrize("name", benchmarks())
def test_parquet_and_tidy_records_bring_a_table_back(name: str) -> None:
    scores = published(name)
    again = scores_from_parquet(scores_to_parquet(scores), name)
    assert same(scores, again)
    assert again.key == scores.key
    assert again.table.facts == scores.table.facts
    assert same(scores, from_tidy(tidy(scores), scores.table.facts))


@pytest.mark.parametrize("name", benchmarks())
def test_an_exported_csv_imports_as_it_was(name: str, tmp_path: Path) -> None:
    scores = published(name)
    path = tmp_path / "out.csv"
    path.write_text(csv_text(tidy(scores)), encoding="utf-8")
    (again,) = read_results("tidy", path).scores
    assert again.benchmark == name
    assert same(scores, again)
    assert json.loads(json_text(tidy(scores))) == tidy(scores)
    for record, back in zip(tidy(scores), tidy(again), strict=True):
        assert str(record["source"]) in str(back["source"])


def test_scores_are_kept_once(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    scores = published("multirobustbench")
    assert store.add_scores(scores)
    assert not store.add_scores(scores)
    (kept,) = store.scores("multirobustbench")
    assert same(kept, scores)
    assert store.scores("nothing") == []
    assert [finding.problem for finding in store.verify()] == [None]


def test_the_same_file_read_another_day_is_not_kept_twice(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("model,setting,value\na,b,50\n")
    (today,) = read_results("tidy", tmp_path / "mine.csv").scores
    assert today.origin is not None
    origin = replace(today.origin, date="2020-01-01")
    then = Scores(today.benchmark, replace(today.table, sources={("a", "b"): str(origin)}), today.units, origin)
    store = Store(str(tmp_path / "store"))
    assert store.add_scores(then)
    assert not store.add_scores(today)
    assert [scores.origin for scores in store.scores()] == [origin]


def test_a_benchmark_whose_name_begins_another_is_not_mixed_up(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.add_scores(published("imagenet-testbed"))
    store.add_scores(published("imagenet-testbed-correlations"))
    assert [scores.benchmark for scores in store.scores("imagenet-testbed")] == ["imagenet-testbed"]


def test_damaged_scores_are_told_and_never_read(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.add_scores(published("multirobustbench"))
    (path,) = (tmp_path / "scores").glob("*.parquet")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(HoldfastError, match="not a whole file of scores"):
        store.scores()
    assert [finding.problem is None for finding in store.verify()] == [False]
    table = pq.read_table(io.BytesIO(whole))
    changed = table.set_column(3, "value", [[0.5] * table.num_rows]).cast(table.schema)
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(HoldfastError, match="does not match its digest"):
        store.scores()


def test_imported_rows_are_kept_once(tmp_path: Path) -> None:
    folder = tmp_path / "files" / "model_predictions" / "v6_predictions"
    folder.mkdir(parents=True)
    (folder / "mine_predictions.json").write_text("[3, 8, 0]")
    np.save(tmp_path / "files" / "cifar10.1_v6_labels.npy", np.array([3, 8, 1]))
    (rows,) = read_results("cifar10-1-predictions", tmp_path / "files").rows
    store = Store(str(tmp_path / "store"))
    assert store.add_rows(rows)
    assert not store.add_rows(rows)
    assert store.read(rows.footer.key).correct.tolist() == [True, True, False]


def test_latex_prints_names_as_they_stand() -> None:
    assert escaped("a_b & 50% <x> ~^\\") == (
        r"a\_b \& 50\% \textless{}x\textgreater{} \textasciitilde{}\textasciicircum{}\textbackslash{}"
    )
    text = latex_table(["model", "n"], [["a_1", "3"]], right=["n"])
    assert text.startswith("\\begin{tabular}{lr}\n\\toprule\nmodel & n \\\\\n\\midrule\na\\_1 & 3 \\\\\n\\bottomrule")
    table = latex_text(published("multirobustbench"))
    assert table.count(r"\\") == 17
    assert "1901.25" in table
