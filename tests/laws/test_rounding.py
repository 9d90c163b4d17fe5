"""One way of writing a number: halves away from zero, on the decimal that a float stands for."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import holdfast
from holdfast.core.json_text import json_text
from holdfast.core.rounding import figures, percent, shown
from holdfast.core.types import Score
from holdfast.store.exporting import csv_text

decimals = some.builds(
    lambda whole, after_point: (whole, after_point),
    some.integers(-(10**7), 10**7),
    some.integers(min_value=0, max_value=5),
)


@given(decimals, some.integers(min_value=0, max_value=4))
def test_a_decimal_is_rounded_as_it_is_written(number: tuple[int, int], digits: int) -> None:
    whole, after_point = number
    exact = Fraction(whole, 10**after_point)
    scaled = abs(exact) * 10**digits
    nearest = math.floor(scaled + Fraction(1, 2)) * (1 if exact >= 0 else -1)
    assert Fraction(shown(whole / 10**after_point, digits)) == Fraction(nearest, 10**digits)


@given(some.floats(-1e6, 1e6), some.integers(min_value=0, max_value=6), some.booleans())
def test_zero_has_no_sign_and_the_rest_has_its_own(value: float, digits: int, signed: bool) -> None:
    text = shown(value, digits, signed=signed)
    if float(text) == 0:
        assert text[0] not in "+-"
    else:
        assert (text[0] == "-") == (value < 0)
        assert (text[0] == "+") == (signed and value > 0)
    assert len(text.partition(".")[2]) == digits


@given(some.floats(-1e6, 1e6), some.integers(min_value=0, max_value=6))
def test_what_is_cut_off_is_never_further_from_zero(value: float, digits: int) -> None:
    assert abs(float(shown(value, digits, rounding="truncate"))) <= abs(value) + 1e-8


@given(some.integers(min_value=0, max_value=2000), some.integers(min_value=1, max_value=2000))
def test_a_share_of_samples_is_rounded_as_the_fraction_it_is(right: int, n: int) -> None:
    share = Fraction(min(right, n), n)
    tenths = math.floor(share * 1000 + Fraction(1, 2))
    assert Fraction(percent(float(share))) == Fraction(tenths, 10)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (93.25, 1, "93.3"),
        (93.35, 1, "93.4"),
        (-93.25, 1, "-93.3"),
        (38.9949999999999974, 2, "39.00"),
        (1.005, 2, "1.01"),
        (2.5, 0, "3"),
        (-0.04, 1, "0.0"),
        (-0.0, 1, "0.0"),
        (math.nan, 1, "nan"),
        (math.inf, 1, "inf"),
    ],
)
def test_the_hard_cases(value: float, digits: int, text: str) -> None:
    assert shown(value, digits) == text


def test_files_hold_no_negative_zero() -> None:
    record = {"value": -0.0, "many": [-0.0, math.nan, -0.04], 7: (-0.0,), "text": "-0.0 as a name"}
    assert json.loads(json_text(record)) == {"value": 0, "many": [0, None, -0.04], "7": [0], "text": "-0.0 as a name"}
    assert re.findall(r"-0\.0\b", json_text(record)) == ["-0.0"], "that of the text"
    assert csv_text([{"value": -0.0, "many": [-0.0, 1.0], "low": -0.5}]) == 'value,many,low\n0.0,"[0.0, 1.0]",-0.5\n'


def test_a_score_is_written_by_the_same_rule() -> None:
    assert Score(0.9325, -0.0001, 0.93349999, 400).percent() == "93.3 % [0.0, 93.3]"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.03125, "0.0313"), (12.45, "12.5"), (2.0, "2"), (0.0, "0"), (1234.5, "1235"), (-0.5, "-0.5"), (3e-9, "3e-09")],
)
def test_figures_end_at_the_last_that_counts(value: float, text: str) -> None:
    assert figures(value) == text


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the rule of the plots")
def test_plots_write_numbers_by_the_same_rule() -> None:
    script = (Path(holdfast.__file__).parent / "site/static/plots.js").read_text()
    start, end = script.index("  const GUARD ="), script.index("  const percent =")
    random = np.random.default_rng(0)
    shares = [int(k) / int(n) for n in random.integers(1, 3000, 300) for k in random.integers(0, n + 1, 3)]
    values = [100 * share for share in shares] + [-x for x in random.uniform(-3, 200, 500)]
    values += [93.25, -93.25, 1.005, 38.995, -0.04, -0.0, 0.0, 2.5, 99.95, 1234.5, 0.0312, 1.748, 12.45]
    program = (
        'const isNumber = (value) => typeof value === "number" && Number.isFinite(value);\n'
        + script[start:end]
        + f"const values = {json.dumps(values)};\n"
        + "console.log(JSON.stringify(values.map((v) => [written(v, 1), written(v, 3), written(v, 0), figures(v)])));"
    )
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True)
    for value, texts in zip(values, json.loads(done.stdout), strict=True):
        expected = shown(value, 1) if abs(value) >= 100 else figures(value)
        assert texts == [shown(value, 1), shown(value, 3), shown(value, 0), expected], value
