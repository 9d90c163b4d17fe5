"""`holdfast agree` on files of any origin."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from holdfast.cli.app import app
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.metrics.agreement import posterior_agreement
from holdfast.store import Rows, Store

ONE = np.random.default_rng(0).normal(size=(40, 3))
OTHER = ONE + np.random.default_rng(1).normal(size=(40, 3))
NAMES = [f"s{i}" for i in range(40)]


def agree(*arguments: object) -> dict[str, object]:
    done = CliRunner().invoke(app, ["agree", *map(str, arguments), "--json", "--resamples", "20"])
    if done.exception is not None:
        raise done.exception
    return json.loads(done.stdout)


@pytest.fixture
def files(tmp_path: Path) -> Callable[[str], Path]:
    """The two sets in every format: `one.npy`, `other.csv` with ids in reverse, `other.parquet`, …"""
    np.save(tmp_path / "one.npy", ONE)
    np.save(tmp_path / "other.npy", OTHER.astype(np.float32))
    for name, values, order in (("one", ONE, 1), ("other", OTHER, -1)):
        lines = [
            "id,cat,dog,owl",
            *(f"{i},{a!r},{b!r},{c!r}" for i, (a, b, c) in zip(NAMES, values.tolist(), strict=True)),
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join([lines[0], *lines[1:][::order]]))
        pq.write_table(
            pa.table({"id": NAMES, "label": [0] * 40, "logits": values.tolist()}), tmp_path / f"{name}.parquet"
        )
    np.savetxt(tmp_path / "bare.csv", OTHER, delimiter=",")
    return lambda name: tmp_path / name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("one.npy", "other.npy"),
        ("one.npy", "bare.csv"),
        ("one.npy", "other.parquet"),
        ("one.csv", "other.csv"),
        ("one.csv", "other.parquet"),
        ("one.parquet", "other.csv"),
        ("one.parquet", "other.npy"),
    ],
)
def test_every_format_gives_the_same_agreement(one: str, other: str, files: Callable[[str], Path]) -> None:
    made = agree(files(one), files(other))
    expected = posterior_agreement(ONE, OTHER, resamples=0)
    assert made["pa"] == pytest.approx(expected.score.value, rel=1e-6)  # one file holds single precision
    assert made["n"] == 40


def test_labels_are_optional_and_add_accuracies(files: Callable[[str], Path], tmp_path: Path) -> None:
    assert "afr_t" not in agree(files("one.npy"), files("other.npy"))
    np.save(tmp_path / "labels.npy", ONE.argmax(axis=1))
    made = agree(files("one.npy"), files("other.npy"), "--labels", tmp_path / "labels.npy")
    assert made["accuracy"] == 1.0
    assert made["afr_t"] == made["afr_p"]
    assert agree(files("one.parquet"), files("other.parquet"))["accuracy"] == (ONE.argmax(axis=1) == 0).mean()


def test_a_set_agrees_fully_with_itself(files: Callable[[str], Path]) -> None:
    made = agree(files("one.npy"), files("one.npy"))
    assert (made["beta"], made["pa"]) == ("inf", math.log(3))


def test_runs_of_a_store_are_named_by_key(
    tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., object]
) -> None:
    store = Store(str(tmp_path / "store"))
    logits = np.random.default_rng(0).normal(size=(4, 10)).astype(np.float32)
    logits[3] = np.nan
    for key, changed in (("aaa1", {}), ("bbb2", {"logits": logits})):
        rows = rows_for([True, False, True, True], footer=footer_for(key=key), **changed)
        store.finish([rows], rows.ids, rows.footer)
    made = agree("aaa", "bbb", "--store", store.url)
    assert (made["n"], made["left_out"]) == (3, 1)
    assert agree(tmp_path / "store" / "rows" / "aaa1.parquet", "bbb2", "--store", store.url)["n"] == 3
    with pytest.raises(Misuse, match="no run or file named `ccc`"):
        agree("aaa", "ccc", "--store", store.url)


def test_the_table_for_people_names_what_it_shows(files: Callable[[str], Path]) -> None:
    done = CliRunner().invoke(app, ["agree", str(files("one.npy")), str(files("other.npy")), "--resamples", "20"])
    assert "posterior agreement" in done.stdout
    assert "n = 40, 3 classes" in done.stdout


def test_programs_and_papers_get_the_same_numbers(files: Callable[[str], Path]) -> None:
    words = ["agree", str(files("one.parquet")), str(files("other.parquet")), "--resamples", "20"]
    told = agree(*words[1:3])
    (record,) = csv.DictReader(io.StringIO(CliRunner().invoke(app, [*words, "--csv"]).stdout))
    assert list(record) == list(told)
    assert float(record["pa"]) == told["pa"]
    assert float(record["afr_t_low"]) == told["afr_t_low"]
    assert json.loads(record["maxima"]) == told["maxima"]
    latex = CliRunner().invoke(app, [*words, "--latex"]).stdout
    assert latex.startswith(r"\begin{tabular}{lll}")
    assert rf"$\beta$ & {told['beta']:.4g} & [" in latex
    assert latex.rstrip().endswith(r"\end{tabular}")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("1,2,3\n1,2,3\n", "differ in shape"),
        ("id,cat,dog,owl\n" + "\n".join(f"t{i},1,2,3" for i in range(40)), "different samples: `s0`"),
        ("id,cat,dog,fox\n" + "\n".join(f"s{i},1,2,3" for i in range(40)), "different classes, `fox`"),
        ("id,cat,dog,owl\n" + "\n".join(f"s{i},1,nan,3" for i in range(40)), "NaN or infinite"),
        ("id,cat\n" + "\n".join(f"s{i},1" for i in range(40)), "different classes|one column"),
        ("id,cat,dog,owl\ns0,1,2,3\ns0,1,2,3\n", "stands twice"),
        ("id,cat,dog,owl\n" + "\n".join(f"s{i},1,x,3" for i in range(40)), "`dog` of .* holds string"),
        ("", "is empty"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    content: str, says: str, files: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "bad.csv").write_text(content)
    with pytest.raises(HoldfastError, match=says):
        agree(files("one.csv"), tmp_path / "bad.csv")


def test_files_that_cannot_be_read_are_refused(files: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "bad.npy").write_text("no array")
    (tmp_path / "bad.parquet").write_text("no table")
    (tmp_path / "bad.txt").write_text("1 2")
    for name, says in (
        ("bad.npy", "not an npy file"),
        ("bad.parquet", "not a Parquet file"),
        ("bad.txt", "read from"),
        ("none.npy", "no file"),
    ):
        with pytest.raises(HoldfastError, match=says):
            agree(files("one.npy"), tmp_path / name)
    np.save(tmp_path / "labels.npy", np.zeros(3, int))
    with pytest.raises(Misuse, match="3 labels for 40 samples"):
        agree(files("one.npy"), files("other.npy"), "--labels", tmp_path / "labels.npy")
    (tmp_path / "labels.csv").write_text("a,b\n1,2\n")
    with pytest.raises(Misuse, match="none named `label`"):
        agree(files("one.npy"), files("other.npy"), "--labels", tmp_path / "labels.csv")


def test_two_files_are_mixed_by_ratio(files: Callable[[str], Path]) -> None:
    """The last samples come from the second file; of none of them, all agrees with itself."""
    lines = agree(files("one.npy"), files("other.npy"), "--ratio", "0,0.25", "--ratio", "1")
    assert [line["ratio"] for line in lines] == [0, 0.25, 1]
    mixed = ONE.copy()
    mixed[30:] = OTHER.astype(np.float32)[30:]
    for line, other in zip(lines, (ONE, mixed, OTHER.astype(np.float32)), strict=True):
        expected = posterior_agreement(ONE, other, resamples=0)
        assert line["pa"] == pytest.approx(expected.score.value)
        assert line["afr_p"] == expected.same.value
    assert lines[0]["beta"] == "inf"


def test_mixed_files_have_a_failure_rate_where_labels_are_given(files: Callable[[str], Path], tmp_path: Path) -> None:
    truth = ONE.argmax(axis=1)
    np.save(tmp_path / "labels.npy", truth)
    lines = agree(files("one.npy"), files("other.npy"), "--ratio", "0,0.25,1", "--labels", tmp_path / "labels.npy")
    right = OTHER.argmax(axis=1) == truth
    assert lines[0]["afr_t"] == 1
    assert lines[1]["afr_t"] == pytest.approx((30 + right[30:].sum()) / 40)
    assert lines[2]["afr_t"] == pytest.approx(right.mean())
    assert all(line["accuracy"] == 1 for line in lines)
    with pytest.raises(Misuse, match="exact"):
        agree(files("one.npy"), files("other.npy"), "--ratio", "1", "--mode", "adam")


def test_two_runs_are_mixed_as_the_metric_mixes_them(
    tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., object]
) -> None:
    from holdfast.metrics.along_ratios import SHIFT_RATIOS, over_shift_ratio

    store = Store(str(tmp_path))
    one, other = (
        rows_for([True] * 40, logits=values.astype(np.float32), classes=3, footer=footer_for(key=name, scenario=name))
        for values, name in ((ONE, "one"), (OTHER, "other"))
    )
    for rows in (one, other):
        store.finish([rows], rows.ids, rows.footer)
    lines = agree(one.footer.key, other.footer.key, "--ratio", "all", "--store", tmp_path)
    points = over_shift_ratio(one, other, resamples=20)
    assert [line["ratio"] for line in lines] == list(SHIFT_RATIOS)
    assert [line["pa"] for line in lines] == pytest.approx([point.agreement.score.value for point in points])
    assert [line["confidence_when_broken"] for line in lines] == [
        None if math.isnan(point.confidence.after.value) else pytest.approx(point.confidence.after.value)
        for point in points
    ]


def test_the_curve_over_beta_has_its_top_where_agreement_is_taken(files: Callable[[str], Path]) -> None:
    lines = agree(files("one.npy"), files("other.npy"), "--curve")
    best = posterior_agreement(ONE, OTHER.astype(np.float32), resamples=0)
    top = max(lines, key=lambda line: line["pa"])
    assert top["beta"] == pytest.approx(best.beta.value)
    assert top["pa"] == pytest.approx(best.score.value)
    assert lines[0] == {"beta": 0, "f": pytest.approx(-40 * math.log(3)), "pa": pytest.approx(0, abs=1e-12)}


@pytest.mark.parametrize("ratio", ["1.5", "-0.1", "half", "nan"])
def test_a_ratio_is_a_share(ratio: str, files: Callable[[str], Path]) -> None:
    with pytest.raises(Misuse, match="a ratio is a number from 0 to 1"):
        agree(files("one.npy"), files("other.npy"), f"--ratio={ratio}")
