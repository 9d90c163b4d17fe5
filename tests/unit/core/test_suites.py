"""Suites as data."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import registry
from holdfast.core.suites import expanded, load_suite, suites


def test_braces_stand_for_alternatives_in_reading_order() -> None:
    assert expanded("a{1,2}b{x, y}") == ["a1bx", "a1by", "a2bx", "a2by"]
    assert expanded("plain") == ["plain"]
    assert expanded("a{,+b}") == ["a", "a+b"]
    assert expanded("d{,+c:s={1,2},+p}!") == ["d!", "d+c:s=1!", "d+c:s=2!", "d+p!"]


@pytest.mark.parametrize("pattern", ["a{b", "a}b", "{a,{b}"])
def test_braces_must_pair(pattern: str) -> None:
    with pytest.raises(Misuse, match="a brace is"):
        expanded(pattern)


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), max_size=4))
def test_a_pattern_stands_for_the_product_of_its_alternatives(groups: list[list[str]]) -> None:
    pattern = "".join("{" + ",".join(group) + "}" for group in groups)
    count = 1
    for group in groups:
        count *= len(group)
    assert len(expanded(pattern)) == count


@pytest.mark.parametrize("name", suites())
def test_every_bundled_suite_binds(name: str) -> None:
    suite = load_suite(name)
    keys = {registry.scenario(text).key for text in suite.scenarios}
    assert len(keys) == len(suite.scenarios), "no scenario stands twice"
    for model in suite.models:
        registry.bind("model", model)


def test_a_suite_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('title = "Mine"\nscenarios = ["{dataset}+contrast:severity={1,2}"]\n')
    assert load_suite(str(path), dataset="fashion-mnist-2k").scenarios == (
        "fashion-mnist-2k+contrast:severity=1",
        "fashion-mnist-2k+contrast:severity=2",
    )
    with pytest.raises(Misuse, match="needs a dataset"):
        load_suite(str(path))


def test_the_columns_of_a_board_bring_their_scenarios(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'title = "Mine"\ndataset = "d"\nscenarios = ["{dataset}"]\n'
        '[[board]]\nname = "clean"\nscenarios = ["{dataset}"]\n'
        '[[board]]\nname = "changed"\nscenarios = ["{dataset}+a:severity={1,2}", "e"]\n'
        '[[board]]\nname = "all"\nof = ["clean", "changed"]\n'
    )
    suite = load_suite(str(path))
    assert suite.scenarios == ("d", "d+a:severity=1", "d+a:severity=2", "e")
    assert suite.sort == "clean"
    assert suite.board[1].scenarios == (("d+a:severity=1", "d+a:severity=2"), ("e",))
    assert suite.board[2].of == ("clean", "changed")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("title = ", "not valid TOML"),
        ('title = "x"', "a suite needs `scenarios`"),
        ('title = "x"\nscenarios = "y"', "`scenarios` must be a list of texts"),
        ('title = "x"\nscenarios = [1]', "`scenarios` must be a list of texts"),
        ('title = "x"\nscenarios = []\nsample = 3', "no field `sample`"),
        ('title = "x"\nscenarios = []\nsamples = "3"', "`samples` must be a whole number"),
        ('title = "x"\nboard = ["a"]', "`board` must be tables"),
        ('title = "x"\n[[board]]\ntitle = "a"', "a column of a board needs `name`"),
        ('title = "x"\n[[board]]\nname = "a"\nsetting = ["b"]', "no field `setting` in a column"),
        ('title = "x"\n[[board]]\nname = "a"\nof = ["b"]', "is made of `b`, which no column before it is"),
        ('title = "x"\nsort = "b"\n[[board]]\nname = "a"', "`sort` names no column"),
    ],
)
def test_a_wrong_suite_says_what_is_wrong(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(HoldfastError, match=problem):
        load_suite(str(path))
