"""Names in the files of others lead to no file outside the store, and no formula into a spreadsheet."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.cli.output import print_csv
from holdfast.core.errors import HoldfastError
from holdfast.core.table import table
from holdfast.store import Store
from holdfast.store.exporting import csv_text
from holdfast.store.importers import read_results
from holdfast.store.scores import Scores, is_file_name
from holdfast.store.source_files import is_formula

OUTSIDE = [
    "../../x",
    "/etc/x",
    "a/b",
    "..",
    ".",
    "",
    ".hidden",
    "a\\b",
    "c:x",
    "a\0b",
    "a\nb",
    "x" * 300,
    " x",
    "\ud800",
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_benchmark_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(HoldfastError, match="cannot be named"):
        Scores(name, table({("m", "s"): 0.5}))


def test_an_import_writes_nothing_outside_the_store(tmp_path: Path, run: object) -> None:
    source = tmp_path / "scores.csv"
    source.write_text("benchmark,model,setting,value\n../../x,m,s,50\n")
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    answer = run("import", "tidy", str(source), "--store", str(tmp_path / "a" / "b" / "store"))  # type: ignore[operator]
    assert answer.code == 1
    assert "cannot be named" in answer.err
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


def test_folders_of_an_entry_cannot_name_a_path(tmp_path: Path) -> None:
    entry = tmp_path / "model_info" / "cifar10" / "L:inf" / "x.json"
    entry.parent.mkdir(parents=True)
    entry.write_text('{"name": "n", "dataset": "cifar10", "clean_acc": "90", "architecture": "a"}')
    with pytest.raises(HoldfastError):
        read_results("robustbench", entry)


@given(st.text(max_size=30))
@example("../x")
@example("a" * 201)
def test_a_name_that_is_allowed_is_one_file_of_its_folder(name: str) -> None:
    if is_file_name(name):
        path = Path("/store/scores") / f"{name}.key.parquet"
        assert path.parent == Path("/store/scores")
        assert len(path.name.encode()) <= 255


FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", " =1", "=cmd|' /C calc'!A0", "-", "＝1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_a_spreadsheet_would_compute_is_neutralised(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_csv([{"model": text, "value": -0.5, text: "x"}])
    for made in (csv_text([{"model": text, "value": -0.5, text: "x"}]), capsys.readouterr().out):
        (header, line) = csv.reader(io.StringIO(made, newline=""))
        shown = f"'{text}".replace("\r", "\n")
        assert line == [shown, "-0.5", "x"]
        assert header == ["model", "value", shown]


@pytest.mark.parametrize("text", ["-0.5", "+1", "-1e-3", "model", "a=b", "8/255", "", "-inf"])
def test_numbers_and_plain_texts_stay_as_they_are(text: str) -> None:
    assert not is_formula(text)
    assert csv_text([{"a": text}]).splitlines()[1:] == ([text] if text else ['""'])


def test_an_export_of_odd_names_reads_back(tmp_path: Path) -> None:
    names = [*FORMULAS[:4], "plain", "'quoted", "-0.5"]
    scores = Scores("b", table({(name, "-s"): i / 10 for i, name in enumerate(names)}))
    from holdfast.store.scores import tidy

    (tmp_path / "b.csv").write_text(csv_text(tidy(scores)))
    (back,) = read_results("tidy", tmp_path / "b.csv").scores
    assert back.table.models == scores.table.models
    assert back.table.settings == ("-s",)
    assert np.array_equal(back.table.values, scores.table.values)
    assert Store(str(tmp_path / "store")).add_scores(back)
