"""Decisions for CI: what fails, what does not, and the sentence why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch import nn

import holdfast
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.intervals import wilson
from holdfast.core.types import Score
from holdfast.metrics.compare import Comparison, compare
from holdfast.metrics.decisions import junit_text, under, worse
from holdfast.metrics.difference_tests import mcnemar
from holdfast.metrics.summary import line
from holdfast.store import Footer, Rows, Store
from holdfast.tracking import log_scores

Answers = Callable[..., tuple[int, str, str]]


@pytest.fixture
def made(footer_for: Callable[..., Footer], rows_for: Callable[..., Rows]) -> Callable[..., Rows]:
    def make(model: str, scenario: str, right: int, of: int = 100) -> Rows:
        footer = footer_for(model, scenario, population=of)
        return rows_for([i < right for i in range(of)], footer=footer)

    return make


def test_by_interval_only_what_the_samples_show_fails(made: Callable[..., Rows]) -> None:
    lines = [line(made("m", f"d{right}", right)) for right in (28, 35, 45)]
    assert [d.passed for d in under(lines, 0.4, "interval")] == [False, True, True]
    assert [d.passed for d in under(lines, 0.4, "value")] == [False, False, True]
    result = [d.sentence for d in under(lines, 0.4, "interval")]
    assert "is under 40.0 %" in result[0]
    assert "is not shown to be under 40.0 %" in result[1]
    assert "is not under 40.0 %" in result[2]


def test_a_loss_fails_and_a_gain_does_not(made: Callable[..., Rows]) -> None:
    small, large = made("new", "d", 40), made("main", "d", 60)
    assert [d.passed for d in worse([compare(small, large)], "new", "main", "interval")] == [False]
    assert [d.passed for d in worse([compare(large, small)], "main", "new", "interval")] == [True]
    near = compare(made("new", "d", 59), large)
    assert [worse([near], "new", "main", by)[0].passed for by in ("interval", "value")] == [True, False]


def chance_pair(random: np.random.Generator, n: int = 200) -> Comparison:
    one, other = random.random((2, n)) < 0.5
    only_one, only_other = int((one & ~other).sum()), int((other & ~one).sum())
    difference = Score((only_one - only_other) / n, -1.0, 1.0, n)
    scores = wilson(int(one.sum()), n), wilson(int(other.sum()), n)
    return Comparison("d", *scores, difference, only_one, only_other, mcnemar(only_one, only_other), 0)


def test_many_scenarios_raise_no_more_false_alarms() -> None:
    """Equal models under twenty scenarios: each alone fails in up to 2.5 %, all together in no more (Holm)."""
    random = np.random.default_rng(0)
    alarms = 0
    for _ in range(60):
        pairs = [chance_pair(random) for _ in range(20)]
        alarms += any(not each.passed for each in worse(pairs, "a", "b", "interval"))
    assert alarms <= 6, "of 60; 40 % of them would fail without the correction"


def test_junit_is_xml_that_counts(made: Callable[..., Rows]) -> None:
    lines = [line(made('a<b>&"\x1f', "d", 10)), line(made("m", "e", 90))]
    root = ElementTree.fromstring(junit_text("holdfast scores", under(lines, 0.4, "interval")))
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    cases = root.findall("./testsuite/testcase")
    assert [case.get("classname") for case in cases] == ['a<b>&" ', "m"]
    assert [case.find("failure") is None for case in cases] == [False, True]


def test_scores_exit_1_where_one_is_too_low(tmp_path: Path, run: Answers, made: Callable[..., Rows]) -> None:
    store = Store("holdfast-store")
    for scenario, right in (("d", 90), ("d+pgd-linf:radius=8/255", 20)):
        store.add_rows(made("m", scenario, right))
    assert run("scores", "--fail-under", "10%")[0] == 0
    code, out, err = run("scores", "--fail-under", "40%", "--junit", "deep/j.xml", "--markdown")
    assert code == 1
    assert "failed: m under d+pgd-linf:radius=8/255: 20.0 %" in err
    assert out.splitlines()[1].startswith("| --- |")
    assert "**failed**" in out
    assert ElementTree.parse("deep/j.xml").getroot().get("failures") == "1"
    assert run("scores", "--fail-under", "40%", "--scenario", "d")[0] == 0
    assert run("scores", "--fail-under", "0.4", "--scenario", "*pgd*")[0] == 1
    assert run("scores", "--fail-under", "40%", "--json")[0] == 1
    for words, problem in (
        (["--scenario", "*fgsm*"], "no measured scenario fits"),
        (["--scenario", "d+fgsm"], "no finished run"),
        (["--model", "x"], "no finished run of the model `x`"),
        (["--by", "luck"], "no way to judge"),
        (["--fail-under", "400%"], "is a share"),
    ):
        code, _, err = run("scores", "--fail-under", "40%", *words)
        assert (code, problem in err) == (2, True), err
    assert run("scores", "--junit", "x.xml")[0] == 2


def test_an_unfinished_run_does_not_pass(run: Answers, made: Callable[..., Rows]) -> None:
    store = Store("holdfast-store")
    store.add_rows(made("m", "d", 90))
    store.add_part(made("m", "d+fog:severity=3", 90))
    code, _, err = run("scores", "--fail-under", "40%")
    assert (code, "is unfinished" in err) == (2, True)
    assert run("scores", "--fail-under", "40%", "--scenario", "d")[0] == 0


def test_compare_exits_1_where_the_first_is_worse(run: Answers, made: Callable[..., Rows]) -> None:
    store = Store("holdfast-store")
    for model, right in (("new", 40), ("main", 70)):
        store.add_rows(made(model, "d", right))
    store.add_rows(made("main", "e", 70))
    code, out, err = run("compare", "new", "main", "--fail-if-worse", "--markdown", "--junit", "j.xml")
    assert (code, "new is worse than main under d: -30.0 points" in err) == (1, True)
    assert "not judged, since new was not measured under them: e" in err
    assert out.startswith("| scenario | new | main |")
    assert run("compare", "main", "new", "--fail-if-worse")[0] == 0
    code, _, err = run("compare", "new", "main", "--fail-if-worse", "--scenario", "e")
    assert (code, "not measured under e" in err) == (2, True)
    assert run("compare", "new", "main")[0] == 0


def test_what_was_not_judged_does_not_pass(run: Answers, made: Callable[..., Rows]) -> None:
    store = Store("holdfast-store")
    for model in ("new", "main"):
        store.add_rows(made(model, "d", 70))
    store.add_rows(made("main", "e", 70))
    for words in ([], ["--json"], ["--markdown"]):
        code, _, err = run("compare", "new", "main", "--fail-if-worse", *words)
        assert (code, "`new` was not measured under e, so nothing can be said" in err) == (2, True)
    assert run("compare", "new", "main", "--fail-if-worse", "--scenario", "d")[0] == 0
    assert run("compare", "main", "new", "--fail-if-worse")[0] == 0  # what is new under the first alone is no loss


def test_an_error_is_no_verdict(
    run: Answers, made: Callable[..., Rows], rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    """Exit 1 says too low or worse: what cannot be decided ends with 2."""
    store = Store("holdfast-store")
    store.add_rows(made("new", "d", 70))
    others = [f"x{i}" for i in range(100)]
    store.add_rows(rows_for([True] * 100, ids=others, footer=footer_for("main", "d", population=100)))
    code, _, err = run("compare", "new", "main", "--fail-if-worse")
    assert (code, "share no samples" in err) == (2, True)
    assert run("compare", "new", "main")[0] == 1
    Path("file").write_text("")
    for words in (("compare", "new", "new", "--fail-if-worse"), ("scores", "--fail-under", "1%")):
        for path in (".", "file/j.xml"):
            code, _, err = run(*words, "--junit", path)
            assert (code, path.split("/")[0] in err) == (2, True), err


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 4))


def test_assertions_for_tests() -> None:
    images = torch.rand(60, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    labels = net()(images).argmax(1)
    attack = "pgd-linf:radius=64/255,steps=3"
    holdfast.testing.assert_robust(net(), (images, labels), "", at_least=0.9)
    with pytest.raises(AssertionError, match=r"under data\+pgd-linf.* is under 90.0 %"):
        holdfast.testing.assert_robust(net(), (images, labels), attack, at_least=0.9)
    with pytest.raises(Misuse, match="a share"):
        holdfast.testing.assert_robust(net(), (images, labels), at_least=40)
    with pytest.raises(Misuse, match="a share"):
        holdfast.testing.assert_robust(net(), (images, labels), at_least=None)  # type: ignore[arg-type]
    for changes in ([], ()):  # nothing measured is nothing shown
        with pytest.raises(Misuse, match="no change is given"):
            holdfast.testing.assert_robust(net(), (images, labels), changes, at_least=0.9)
        with pytest.raises(Misuse, match="no change is given"):
            holdfast.testing.assert_not_worse(net(), net(), (images, labels), changes)
        with pytest.raises(Misuse, match="no scenario and no images"):
            holdfast.testing.assert_robust(net(), changes, "", at_least=0.9)
    with pytest.raises(Misuse, match="a suite is a name"):
        holdfast.benchmark(net(), None, dataset=(images, labels))  # type: ignore[arg-type]
    other = net()
    with torch.no_grad():
        other[1].weight.mul_(-1)
    holdfast.testing.assert_not_worse(net(), other, (images, labels), "")
    with pytest.raises(AssertionError, match="is worse than"):
        holdfast.testing.assert_not_worse(other, net(), (images, labels), "")


def test_scores_go_to_trackers(monkeypatch: pytest.MonkeyPatch, made: Callable[..., Rows]) -> None:
    import sys
    from types import SimpleNamespace

    logged: dict[str, float] = {}
    lines = [line(made("m", "d+pgd-linf:radius=8/255", 20))]
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(log_metrics=lambda values, step: logged.update(values)))
    assert log_scores(lines, "mlflow") == 4
    assert logged["m/d pgd-linf radius-8/255/accuracy"] == 0.2
    started = SimpleNamespace(log=lambda values, step: logged.update(values), finish=lambda: None)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=started))
    log_scores(lines, "wandb")
    assert logged["m/d+pgd-linf:radius=8/255/n"] == 100
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(HoldfastError, match="wandb is not installed"):
        log_scores(lines, "wandb")
    with pytest.raises(Misuse, match="no tracker"):
        log_scores(lines, "tensorbord")
