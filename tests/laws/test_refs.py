"""Refs and values: what is written reads back, and equal things have equal keys."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.errors import Misuse
from holdfast.core.refs import parse_ref
from holdfast.core.registry import registry
from holdfast.core.values import number_text, parse_value, split, value_text

numbers = st.integers() | st.floats(allow_nan=False)
words = st.text(max_size=12)
values = st.recursive(
    st.none() | st.booleans() | numbers | words, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=8
)


@given(values)
@example("1/0")
@example("+5")
@example("inf")
@example("x:(]")
def test_a_value_reads_back_from_its_text(value: object) -> None:
    back = parse_value(value_text(value))  # type: ignore[arg-type]
    assert back == value
    assert type(back) is type(value)


@given(st.integers(0, 2550), st.sampled_from([255, 10, 3, 7, 128]))
def test_fractions_read_back_to_the_same_float(over: int, under: int) -> None:
    assert parse_value(number_text(over / under)) == over / under
    assert parse_value(f"{over}/{under}") == over / under


def test_levels_are_spelled_as_people_write_them() -> None:
    assert number_text(8 / 255) == "8/255"
    assert number_text(0.5 / 255) == "0.5/255"
    assert number_text(0.25) == "0.25"
    assert number_text(1 / 3) == "1/3"


@given(
    st.lists(values, max_size=4),
    st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True), values, max_size=4),
)
def test_a_ref_reads_back_whatever_its_arguments(positional: list[object], keywords: dict[str, object]) -> None:
    items = [value_text(value) for value in positional]  # type: ignore[arg-type]
    items += [f"{name}={value_text(value)}" for name, value in keywords.items()]  # type: ignore[arg-type]
    parsed = parse_ref(f"name:{','.join(items)}")
    assert list(parsed.positional) == positional
    assert parsed.keywords == keywords


@given(st.lists(values, min_size=1, max_size=4))
@example([1e18])
def test_splitting_undoes_joining(items: list[object]) -> None:
    texts = [value_text(item) for item in items]  # type: ignore[arg-type]
    for separator in "+,":
        assert split(separator.join(texts), separator) == texts


radii = st.floats(0, 10) | st.integers(0, 300).map(lambda level: level / 255)


@given(
    radius=radii, steps=st.integers(1, 500), random_start=st.booleans(), loss=st.sampled_from(["ce", "margin", "dlr"])
)
def test_bound_refs_round_trip_in_both_spellings(radius: float, steps: int, random_start: bool, loss: str) -> None:
    text = f"pgd-linf:radius={number_text(radius)},steps={steps},random_start={str(random_start).lower()},loss={loss}"
    ref = registry.bind("attack", text)
    for spelling in (str(ref), ref.full):
        again = registry.bind("attack", spelling)
        assert again == ref
        assert again.key == ref.key
        assert str(again) == str(ref)


def test_defaults_are_bound_into_the_key() -> None:
    plain, spelled = registry.bind("attack", "pgd-linf"), registry.bind("attack", "pgd-linf:radius=8/255,steps=20")
    assert plain.key == spelled.key
    assert str(plain) == str(spelled) == "pgd-linf:radius=8/255"
    assert registry.bind("attack", "pgd-linf:steps=21").key != plain.key


def test_the_version_is_bound_into_the_key() -> None:
    from dataclasses import replace

    ref = registry.bind("attack", "pgd-linf")
    assert replace(ref, version=ref.version + 1).key != ref.key


def test_a_scenario_reads_back() -> None:
    text = "fashion-mnist-2k+gaussian-noise:severity=3+pgd-linf:radius=8/255"
    scenario = registry.scenario(text)
    assert str(scenario) == text
    assert registry.scenario(scenario.full) == scenario
    assert [ref.kind for ref in scenario.parts] == ["dataset", "corruption", "attack"]


def test_a_path_with_a_plus_or_a_comma_can_be_quoted() -> None:
    scenario = registry.scenario('folder:"/data/c++, old",size=32+contrast')
    assert scenario.dataset.arg("path") == "/data/c++, old"
    assert registry.scenario(str(scenario)) == scenario


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "starts with a name"),
        (":radius=1", "starts with a name"),
        ("pgd-linf:radius=[1,2", "unbalanced"),
        ("pgd-linf:radius=1/0", "divides by zero"),
        ("pgd-linf:steps=1,steps=2", "given twice"),
        ("pgd-linf:steps=1,7", "has no name"),
        ("pgd-linf:7", "has no name"),
        ("pgd-linf:steps=1.5", "must be a whole number"),
        ("pgd-linf:steps=true", "must be a whole number"),
        ("pgd-linf:radius=wide", "must be a number"),
        ("pgd-linf:loss=dlrr", "one of ce, margin, dlr"),
        ("pgd-linf:radiu=1", "no parameter `radiu`"),
    ],
)
def test_a_bad_ref_says_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(Misuse, match=problem):
        registry.bind("attack", text)


def test_a_wrong_name_is_answered_with_the_right_one() -> None:
    with pytest.raises(Misuse) as caught:
        registry.bind("attack", "pdg-linf")
    assert str(caught.value) == "no attack named `pdg-linf`\n\nhint: did you mean `pgd-linf`?"


def test_infinity_has_a_spelling() -> None:
    assert parse_value("inf") == math.inf
    assert value_text(-math.inf) == "-inf"
