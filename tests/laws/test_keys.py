"""What a run's key depends on, field by field, and how its choice of samples is put into words."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Misuse
from holdfast.core.refs import MOST_NAME, Ref, Run, Scenario, checked_name, digest, parse_ref, split_name

MODEL = Ref("model", "net", (("width", 4),), 1)
DATA = Ref("dataset", "digits", (("split", "test"),), 2)
FOG = Ref("corruption", "fog", (("severity", 3),), 1)
RUN = Run(MODEL, Scenario(DATA, (FOG,)), weights="w", data="d")
# every field, with another value: those of the family, and those that choose samples
OF_THE_FAMILY = {
    "model": replace(MODEL, version=2),
    "scenario": Scenario(DATA),
    "seed": 1,
    "weights": "w2",
    "data": "d2",
    "answers": "map",
    "behaviour": "compiled",
    "logits": "all",
    "sources": "photographs",
}
OF_THE_CHOICE = {"samples": 500, "precision": 0.01}


@pytest.mark.parametrize("name", sorted(OF_THE_FAMILY))
def test_what_changes_an_answer_changes_family_and_key(name: str) -> None:
    other = replace(RUN, **{name: OF_THE_FAMILY[name]})
    assert other.family != RUN.family
    assert other.key != RUN.key


@pytest.mark.parametrize("name", sorted(OF_THE_CHOICE))
def test_a_choice_of_samples_changes_the_key_alone(name: str) -> None:
    other = replace(RUN, **{name: OF_THE_CHOICE[name]})
    assert other.family == RUN.family
    assert other.key != RUN.key


def test_every_field_of_a_run_is_in_its_key() -> None:
    assert {*OF_THE_FAMILY, *OF_THE_CHOICE} == set(Run.__dataclass_fields__)
    keys = [replace(RUN, **{name: value}).key for name, value in {**OF_THE_FAMILY, **OF_THE_CHOICE}.items()]
    assert len({RUN.key, *keys}) == len(keys) + 1


def test_a_label_map_and_a_behaviour_are_told_apart() -> None:
    """An empty one beside a named one counts: neither is dropped, and they do not stand in for each other."""
    families = [replace(RUN, answers=a, behaviour=b).family for a, b in (("", ""), ("x", ""), ("", "x"), ("x", "x"))]
    assert len(set(families)) == 4


@pytest.mark.parametrize(
    "changed", [{"kind": "attack"}, {"name": "frost"}, {"version": 2}, {"args": (("severity", 4),)}]
)
def test_kind_name_version_and_arguments_are_in_the_key_of_a_ref(changed: dict[str, object]) -> None:
    assert replace(FOG, **changed).key != FOG.key  # type: ignore[arg-type]
    assert Scenario(DATA, (replace(FOG, **changed),)).key != Scenario(DATA, (FOG,)).key  # type: ignore[arg-type]


def test_arguments_have_their_names_unless_they_are_positional() -> None:
    assert FOG.full == "fog:severity=3"
    assert str(FOG) == "fog"
    assert replace(FOG, positional=1).full == "fog:3"


def test_how_a_ref_is_shown_is_not_in_its_key() -> None:
    assert replace(FOG, shown=frozenset({"severity"})).key == FOG.key
    assert replace(FOG, shown=frozenset({"severity"})) == FOG


def test_the_order_of_changes_counts() -> None:
    snow = Ref("corruption", "snow", (("severity", 3),), 1)
    assert Scenario(DATA, (FOG, snow)).key != Scenario(DATA, (snow, FOG)).key


@pytest.mark.parametrize(
    ("samples", "precision", "words"),
    [
        (None, None, "all"),
        (500, None, "500 samples"),
        (None, 0.015, "precision 1.5%"),
        (9, 0.1, "9 samples, precision 10%"),
    ],
)
def test_a_choice_of_samples_in_words(samples: int | None, precision: float | None, words: str) -> None:
    assert replace(RUN, samples=samples, precision=precision).selection == words


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=4)))
def test_a_digest_is_the_start_of_sha256_of_compact_json(thing: object) -> None:
    """Letters as they are, no blanks: a store made elsewhere has the same keys."""
    text = json.dumps(thing, separators=(",", ":"), ensure_ascii=False)
    try:
        whole = hashlib.sha256(text.encode()).hexdigest()
    except UnicodeEncodeError:  # half of a pair of surrogates is no text
        return
    assert digest(thing) == whole[:20]


def test_the_digest_of_letters_beyond_ascii() -> None:
    assert digest(["ü"]) == hashlib.sha256('["ü"]'.encode()).hexdigest()[:20]
    assert len(digest([])) == 20


def test_only_the_first_colon_ends_the_name() -> None:
    parsed = parse_ref("folder:a:b,size=2")
    assert (parsed.name, parsed.positional, parsed.keywords) == ("folder", ("a:b",), {"size": 2})
    assert parse_ref("name:").positional == ()
    with pytest.raises(Misuse, match="given twice"):
        parse_ref("a:x=1,x=2")
    with pytest.raises(Misuse, match="has no name"):
        parse_ref("a:x=1,2")


@pytest.mark.parametrize("name", ["mine", "my net 2", "ä", "x" * MOST_NAME])
def test_a_name_is_one_printable_line(name: str) -> None:
    assert checked_name(name) == name
    assert split_name(f"{name}=python:nets:make") == (name, "python:nets:make")


@pytest.mark.parametrize("name", ["", " mine", "mine ", "a\x07b", "a\nb", "x" * (MOST_NAME + 1), "a+b", "a:b", "a(b"])
def test_what_could_be_taken_for_a_ref_is_no_name(name: str) -> None:
    with pytest.raises(Misuse, match="cannot be a name"):
        checked_name(name)
