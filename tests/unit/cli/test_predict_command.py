"""`holdfast predict`: accuracy under a shift from answers alone."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from holdfast.store import Footer, Rows, Store

MODELS = ("poor", "fair", "good", "better", "best")


@pytest.fixture
def store(tmp_path: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]) -> str:
    """Five models on 600 samples, each right where its skill beats the difficulty it shares with the others."""
    random = np.random.default_rng(0)
    kept = Store(str(tmp_path / "store"))
    for scenario, move in (("d", 0.0), ("d+fog", -0.5)):
        shared = random.normal(size=600)
        for i, model in enumerate(MODELS):
            right = 0.8 * shared + 0.6 * random.normal(size=600) < 0.4 + 0.35 * i + move
            predicted = np.where(right, np.arange(600) % 10, random.integers(0, 10, 600))
            logits = np.where(np.arange(10) == predicted[:, None], 10, 0).astype(np.float32)
            footer = footer_for(model, scenario, key=f"{scenario}{model}".ljust(20, "0"), population=600)
            rows = rows_for(right.tolist(), footer=footer, logits=logits)
            kept.finish([rows], rows.ids, footer)
    return str(tmp_path / "store")


def test_it_predicts_every_model_with_an_interval(run, store: str) -> None:
    code, out, _ = run("predict", "--x", "d", "--y", "d+fog", "--store", store, "--check", "--json", "--draws", "100")
    found = json.loads(out)
    assert code == 0
    assert [each["model"] for each in found["models"]] == sorted(MODELS)
    assert found["line"]["pairs"] == 10
    for each in found["models"]:
        assert each["low"] <= each["predicted"] <= each["high"]
        assert each["n"] == 600
        # four points: two standard errors of a share of 600
        assert each["predicted"] == pytest.approx(each["measured"], abs=0.04)
    without = json.loads(run("predict", "--x", "d", "--y", "d+fog", "--store", store, "--json", "--draws", "9")[1])
    assert "measured" not in without["models"][0]
    assert without["method"] == "aline-d"


def test_it_is_a_table_for_people(run, store: str) -> None:
    code, out, _ = run("predict", "--x", "d", "--y", "d+fog", "--store", store, "--method", "aline-s", "--check")
    assert code == 0
    assert "by agreement" in out
    assert all(way in out for way in ("ATC", "DoC", "mean confidence"))
    assert "errors without the shift: κ" in out
    assert "agreement of 10 pairs: R²" in out
    assert "mean absolute error" in out


def test_programs_and_papers_get_the_same_numbers(run, store: str) -> None:
    words = ("predict", "--x", "d", "--y", "d+fog", "--store", store, "--draws", "9")
    told = json.loads(run(*words, "--check", "--json").out)["models"]
    records = list(csv.DictReader(io.StringIO(run(*words, "--check", "--csv").out)))
    assert [list(record) for record in records] == [list(each) for each in told]
    assert [float(record["high"]) for record in records] == [each["high"] for each in told]
    assert "measured" not in run(*words, "--csv").out
    latex = run(*words, "--latex").out
    assert latex.startswith(r"\begin{tabular}{lrlrrr}")
    assert rf"best & {100 * told[0]['reference']:.1f} \% & {100 * told[0]['predicted']:.1f} \% [" in latex
    assert latex.rstrip().endswith(r"\end{tabular}")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--x", "d", "--y", "d+frog"), 2, "did you mean `d+fog`"),
        (("--x", "d", "--y", "d+fog", "--method", "aline"), 2, "did you mean"),
        (("--x", "d", "--y", "d+fog", "--draws", "0"), 2, "--draws is 1 or more"),
        (("--x", "d", "--y", "d+fog", "--model", "goood"), 2, "no model measured under it named `goood`"),
        (("--x", "d", "--y", "d+fog", "--model", "good", "--model", "best"), 1, "a line of agreement needs three"),
    ],
)
def test_a_mistake_says_what_to_do(run, store: str, words: tuple[str, ...], code: int, message: str) -> None:
    found, _, err = run("predict", *words, "--store", store)
    assert message in err
    assert found == code
    assert "Traceback" not in err
