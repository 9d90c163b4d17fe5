"""Data in JavaScript files is read as JavaScript reads it, and never run."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError
from holdfast.store.js_data import js_data

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
    max_leaves=20,
)


@given(values)
def test_json_is_read_as_json(value: object) -> None:
    assert js_data(f"var data = {json.dumps(value)};") == value


@given(st.text())
def test_any_text_is_data_or_an_error_that_names_a_line(text: str) -> None:
    problem = "line "
    try:
        js_data(text)
    except HoldfastError as error:
        problem = str(error)
    assert problem.startswith("line ")


def test_what_json_has_not_is_read() -> None:
    text = """// a comment
    const accs = { 'a': 8/255, b: .5, 0.25: 1., "c": ['x\\'y', "\\u00e9", `z`,], /* so */ d: undefined, e: -2e3, };
    """
    assert js_data(text) == {"a": 8 / 255, "b": 0.5, "0.25": 1.0, "c": ["x'y", "é", "z"], "d": None, "e": -2000.0}


@pytest.mark.parametrize(
    "text",
    [
        "'use strict';\nvar accs = {a: 1};",
        "accs = {a: 1}",
        "window.accs = {a: 1};",
        "module.exports.accs = {a: 1};",
        "var accs = {a: 1}\nmodule.exports = accs;",
        "const accs = {a: 1};\nexport default accs;",
        "const accs = {a: 1};\nexport { accs };",
        "const accs = {a: 1};\nif (typeof module !== 'undefined') module.exports = { accs };",
    ],
)
def test_every_way_to_assign_one_value_is_read(text: str) -> None:
    assert js_data(text) == {"a": 1}


def test_products_and_quotients_of_numbers_are_numbers() -> None:
    text = "var a = {b: (8/255), c: 100 * .25, d: 2 * (3 / 4) / 5, e: -1 / 2 / 2}"
    assert js_data(text) == {"b": 8 / 255, "c": 25.0, "d": 0.3, "e": -0.25}


def test_a_number_as_a_name_is_written_as_javascript_writes_it() -> None:
    assert js_data("var a = {0.50: 1, .25: 2, 1.0: 3, 40: 4, 1e-3: 5}") == {
        "0.5": 1,
        "0.25": 2,
        "1": 3,
        "40": 4,
        "0.001": 5,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("var a = {'b': f(1)}", "a value expected"),
        ("var a = {'b': 1} + 2", "more than one value"),
        ("var a = {'b': 1/0}", "other than 0"),
        ("var a = {'b': 'c}", "without an end"),
        ("var a = {'b' 1}", "`:` expected"),
        ("var a = [1 2]", "`,` expected"),
        ("var a = [(1]", r"`\)` expected"),
        ("var a = [2 * 'b']", "a number expected"),
        ("var a = " + "(" * 100_000, "brackets"),
        ("var a = {b: 1}; var c = {b: 2};", "more than one value"),
        ("[" * 100_000, "brackets"),
        ("var a = `${b}`", "without an end"),
        ("", "a value expected"),
    ],
)
def test_code_and_damage_are_errors(text: str, problem: str) -> None:
    with pytest.raises(HoldfastError, match=problem):
        js_data(text)
