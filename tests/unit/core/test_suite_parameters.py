"""Suites with parameters: what follows a name, what it makes of the texts, and which caveats it brings."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.app import app
from holdfast.core.errors import HoldfastError
from holdfast.core.home import first_network, weights_file
from holdfast.core.registry import registry
from holdfast.core.suite_parameters import STRONGER, suite_reference
from holdfast.core.suites import load_suite, suites

PRINTED = ["multirobustbench", *(f"oodrobustbench-{kind}" for kind in ("cifar10-l2", "cifar10-linf", "imagenet-linf"))]
TEXT = """
title = "Own"
dataset = "cifar10"
[parameters]
steps = ["20", "5"]
network = ["alexnet", "self"]
[[caveat]]
columns = ["hard"]
when = "steps=5"
text = "few steps"
[[caveat]]
columns = ["hard"]
unless = "network=alexnet"
text = "another network"
[[board]]
name = "easy"
scenarios = ["{dataset}+pgd-linf{:steps}"]
[[board]]
name = "hard"
scenarios = ["{dataset}+ppgd:radius=0.1{+steps}{+network}"]
[[board]]
name = "both"
of = ["easy", "hard"]
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    (tmp_path / "own.toml").write_text(TEXT)
    return str(tmp_path / "own.toml")


def test_a_parameter_is_written_out_unless_it_is_the_last_choice(own: str) -> None:
    assert load_suite(own).scenarios == ("cifar10+pgd-linf:steps=20", "cifar10+ppgd:radius=0.1,steps=20")
    short = load_suite(own, parameters={"steps": "5", "network": "my.pth"})
    assert short.scenarios == ("cifar10+pgd-linf", "cifar10+ppgd:radius=0.1,network=my.pth")
    assert (short.board_name, short.options) == ("own:steps=5,network=my.pth", ":steps=5,network=my.pth")


def test_a_caveat_holds_where_its_parameter_says_and_for_columns_made_of_its_columns(own: str) -> None:
    by_name = {column.name: column.caveats for column in load_suite(own).board}
    assert by_name == {"easy": (), "hard": ("another network",), "both": ("another network",)}
    few = load_suite(own, parameters={"steps": "5", "network": "alexnet"})
    assert few.caveats == {"few steps": ["hard", "both"]}
    assert not load_suite(own, dataset="uci-digits").caveats, "nothing printed belongs to another dataset"


def test_alexnet_measures_where_its_file_is(own: str, tmp_path: Path) -> None:
    assert weights_file("alexnet") is None
    assert dict(load_suite(own).parameters)["network"] == "self"
    for folder, name in (("torch/hub/checkpoints", "alexnet-owt-7be5be79.pth"), ("data/lpips", "alexnet.pth")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / name).write_bytes(b"")
        assert weights_file("alexnet") == tmp_path / folder / name, "the data folder comes first"
    assert dict(load_suite(own).parameters)["network"] == "alexnet"
    assert first_network(["alexnet-cifar", "alexnet", "self"]) == "alexnet"
    assert load_suite(own, parameters={"network": "self"}).variant == "network=self"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("quick:network=self", "has no parameters|no parameter"),
        ("multirobustbench:networks=self", "no parameter"),
        ("multirobustbench:published=maybe", "must be one of true, false"),
        ("multirobustbench:network", "is no parameter of a suite"),
        ("multirobustbench:network=", "is no parameter of a suite"),
    ],
)
def test_a_wrong_parameter_is_refused(name: str, problem: str) -> None:
    with pytest.raises(HoldfastError, match=problem):
        load_suite(name, dataset="uci-digits")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('steps = ["20", "5"]', "steps = []", "has no value"),
        ("[parameters]", '[lists]\nsteps = "x"\n[parameters]', "the name of a list"),
        ('columns = ["hard"]\nwhen', 'columns = ["soft"]\nwhen', "which no column is"),
        ('when = "steps=5"', 'when = "seed=5"', "is PARAMETER=VALUE"),
        ('text = "few steps"', 'words = "few steps"', "no field `words`"),
        ('text = "few steps"\n', "", "a caveat needs"),
    ],
)
def test_a_wrong_declaration_says_what_is_wrong(tmp_path: Path, old: str, new: str, problem: str) -> None:
    (tmp_path / "wrong.toml").write_text(TEXT.replace(old, new, 1))
    with pytest.raises(HoldfastError, match=problem):
        load_suite(str(tmp_path / "wrong.toml"))


def test_a_path_may_hold_a_colon() -> None:
    assert suite_reference("C:/suites/own.toml") == ("C:/suites/own.toml", {})
    assert suite_reference("a:b=1, c=2") == ("a", {"b": "1", "c": "2"})


def weaker_than_ours(text: str) -> list[bool]:
    """Of every attack in a scenario that has the published strength as a choice, whether it is taken."""
    taken = []
    for ref in registry.scenario(text).changes:
        inner = registry.bind("attack", str(ref.arg("attack"))) if ref.name == "sweep" else ref
        if inner.kind == "attack" and "published" in {
            p.name for p in registry.entries("attack")[inner.name].parameters
        }:
            taken.append(dict(inner.args).get("published", False) is True)
    return taken


@pytest.mark.parametrize("name", PRINTED)
def test_a_suite_with_printed_rows_is_like_for_like_or_says_so(name: str) -> None:
    """Every attack is at the published strength; with ours, every column that rests on one carries a caveat."""
    suite, ours = load_suite(name), load_suite(name, parameters=STRONGER)
    assert all(all(weaker_than_ours(text)) for text in suite.scenarios)
    assert not any(any(weaker_than_ours(text)) for text in ours.scenarios)
    for text in (text for text in ours.scenarios if weaker_than_ours(text) == [False]):
        # hue, warps and the like have no published numbers on a board column of their own that is ranked
        columns = [c for c in ours.board if text in c.every_scenario and (not c.detail or "lpips" in text)]
        assert all(any("stronger" in caveat for caveat in column.caveats) for column in columns), text
    by = next(column for column in ours.board if column.name == ours.sort)
    assert any("stronger" in caveat for caveat in by.caveats), "ranks rest on it"
    assert any("network" in caveat for caveat in load_suite(f"{name}:network=self").caveats)


def test_no_other_suite_with_printed_rows_has_attacks_that_are_stronger() -> None:
    own = {"findings", "multirobustbench-fashion"}  # their published rows are our own
    for name in set(suites()) - set(PRINTED) - {"quick", *own}:
        suite = load_suite(name)
        if suite.published and any(weaker_than_ours(text) for text in suite.scenarios):
            assert all(all(weaker_than_ours(text)) for text in suite.scenarios), name
            ours = load_suite(name, parameters=STRONGER)
            by = next(column for column in ours.board if column.name == ours.sort)
            assert any("stronger" in caveat for caveat in by.caveats), name


def test_commands_show_caveats_beside_columns_and_ranks(tmp_path: Path) -> None:
    runner = CliRunner()
    store = ["--store", str(tmp_path)]
    shown = runner.invoke(app, ["board", "oodrobustbench-cifar10-linf:network=self", "--stronger", *store])
    assert shown.exit_code == 0
    assert "(a) (b)" in shown.stdout.partition("(a) PPGD")[0], "a title may take two lines"
    assert "ranks rest on (a) (b)" in shown.stdout
    about = runner.invoke(app, ["show", "suite:oodrobustbench-cifar10-linf:network=self"])
    assert (
        "caveat of robustness, OOD_t, robustness, OOD, adversarial effective robustness, OOD_t: PPGD and LPA measure"
        in about.stdout
    )
    refused = runner.invoke(
        app, ["evaluate", "fashion-standard", "--stronger", "--scenario", "fashion-mnist-2k", *store]
    )
    assert refused.exit_code != 0
    assert "--stronger is of a suite" in str(refused.exception or refused.stderr)
