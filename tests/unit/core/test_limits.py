"""Texts that would take for ever, or all memory, are answered at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.patterns import MOST_TEXTS, expanded
from holdfast.core.registry import registry
from holdfast.core.suites import load_suite
from holdfast.core.values import parse_value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("pgd-linf:radius=inf", "must be finite"),
        ("pgd-linf:radius=-inf", "must be finite"),
        ("pgd-linf:radius=1e999", "too large"),
        ("pgd-linf:radius=1e999/1e999", "too large"),
        ("pgd-linf:radius=-1", "at least 0"),
        (f"pgd-linf:steps={'9' * 5000}", "5000 digits"),
        (f"pgd-linf:radius={'9' * 5000}", "5000 digits"),
        (f"pgd-linf:radius=1/{'9' * 5000}", "digits"),
        (f"pgd-linf:steps={'9' * 100}", "at most"),
        ("pgd-linf:steps=99999999999", "at most"),
        ("pgd-linf:steps=0", "at least 1"),
        ("pgd-linf:step_size=-1", "at least"),
        ("top-k-accuracy:k=-1", "0 or more"),
        (f"worst-of:attacks={'[' * 3000}{']' * 3000}", "inside each other"),
        (f"worst-of:attacks={'(' * 3000}{')' * 3000}", "inside each other"),
        (f"pgd-linf:{'x' * 200_000}", "letters long"),
        (f"{'1' * 90_000}x:radius=1", "no "),
        (f"pgd-linf:radius={'1' * 90_000}x", "must be a number"),
        ("pgd-linf:loss=ce),(", "unbalanced"),
    ],
)
def test_an_unreasonable_argument_is_refused(text: str, problem: str) -> None:
    kind = "metric" if text.startswith("top-k") else "attack"
    with pytest.raises(Misuse, match=problem) as caught:
        registry.build(registry.bind(kind, text))
    assert len(str(caught.value)) < 2000


def test_infinity_stays_where_it_is_the_default() -> None:
    assert registry.bind("attack", "fmn-linf:radius=inf") == registry.bind("attack", "fmn-linf")


def test_a_scenario_has_a_limit_of_changes() -> None:
    with pytest.raises(Misuse, match="5,000 changes"):
        registry.scenario("fashion-mnist-2k" + "+contrast" * 5000)


def test_brackets_up_to_the_limit_are_read() -> None:
    value = parse_value("[" * 30 + "]" * 30)
    assert isinstance(value, tuple)


@pytest.mark.parametrize(
    "pattern",
    ["{a,b}" * 24, "{a,b}" * 3000, "{" * 3000 + "}" * 3000, "{a}" * 100_000, "{" + "a," * 30_000 + "}", "{" * 2000],
)
def test_braces_that_stand_for_too_much_are_refused(pattern: str) -> None:
    with pytest.raises(Misuse) as caught:
        expanded(pattern)
    assert len(str(caught.value)) < 2000


def test_braces_up_to_the_limit_are_read() -> None:
    assert len(expanded("{a,b}" * 14)) == 2**14 <= MOST_TEXTS
    assert expanded("a{1,2{x,y}}b{,c}") == ["a1b", "a1bc", "a2xb", "a2xbc", "a2yb", "a2ybc"]
    assert len(expanded("{a}" * 5000)) == 1, "many braces after each other are not nested"


SUITES = {
    "a list names itself": 'scenarios = ["{a}"]\n[lists]\na = ["{a}"]',
    "lists double": 'scenarios = ["{a}"]\n[lists]\n'
    + "\n".join(f'{chr(97 + i)} = ["{{{chr(98 + i)}}}", "{{{chr(98 + i)}}}"]' for i in range(24))
    + "\ny = []",
    "lists double to something": 'scenarios = ["{a}"]\n[lists]\n'
    + "\n".join(f'{chr(97 + i)} = ["{{{chr(98 + i)}}}", "{{{chr(98 + i)}}}"]' for i in range(24))
    + '\ny = ["z"]',
    "many patterns": "scenarios = [" + ", ".join([repr("{a,b}" * 12)] * 50) + "]",
    "nested values": f"x = {'[' * 3000}{']' * 3000}",
    "nested tables": f"x = {'{a=' * 3000}1{'}' * 3000}",
    "a long number": f"samples = {'9' * 5000}",
    "a long file": f"about = '{'x' * 2_000_000}'",
    "two references": 'dataset = "d"\n[[board]]\nname = "c"\nscenarios = ["d"]\nreference = "{a,b}"',
}


@pytest.mark.parametrize("content", SUITES.values(), ids=SUITES.keys())
def test_an_unreasonable_suite_is_refused_or_read_at_once(content: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(f'title = "own"\n{content}\n')
    if content == SUITES["lists double"]:  # twice nothing is nothing, however often
        assert load_suite(str(path)).scenarios == ()
        return
    with pytest.raises(HoldfastError):
        load_suite(str(path))


def test_a_path_that_no_disk_can_have_is_an_error_of_ours() -> None:
    for name in ("x" * 5000 + ".toml", "a\0b.toml"):
        with pytest.raises(HoldfastError):
            load_suite(name)
    for ref in (f"folder:{'x' * 5000}", f"arrays:{'x' * 5000}", f"hf:/{'x' * 5000}", f"webdataset:{'x' * 5000}"):
        with pytest.raises(HoldfastError):
            registry.build(registry.bind("dataset", ref))
