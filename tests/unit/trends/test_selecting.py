"""Fit sets in words: names, patterns, facts and cuts, and when a line is worth little."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Misuse
from holdfast.core.table import Table, table
from holdfast.trends.fits import FEWEST, WEAK, cautions, fit, near_zero
from holdfast.trends.matrices import matrix
from holdfast.trends.selecting import fit_set

NAMES = ("resnet50", "ResNet50_aws_baseline", "vgg=19", "robust", "untyped")
TYPES = ("STANDARD", "STANDARD", "STANDARD", "ROBUST_INTV", "")


def five() -> Table:
    clean, hard = (0.9, 0.8, 0.7, 0.6, 0.04), (0.5, 0.3, 0.4, 0.5, 0.01)
    cells = {(name, "clean"): value for name, value in zip(NAMES, clean, strict=True)}
    cells |= {(name, "clean+pgd"): value for name, value in zip(NAMES, hard, strict=True)}
    facts = {name: {"type": kind} if kind else {} for name, kind in zip(NAMES, TYPES, strict=True)}
    return table(cells, facts=facts)


@pytest.mark.parametrize(
    ("fit_on", "leave_out", "kept"),
    [
        ((), (), NAMES),
        (("robust",), (), ("robust",)),
        (("robust", "resnet50"), (), ("resnet50", "robust")),
        (("vgg=19",), (), ("vgg=19",)),  # the name of a model, not a fact
        (("*RESNET*",), (), NAMES[:2]),
        (("*resnet*", "robust"), (), (*NAMES[:2], "robust")),
        (("type=STANDARD",), (), NAMES[:3]),
        (("type=standard",), ("*aws*",), ("resnet50", "vgg=19")),
        (("type=STANDARD", "type=ROBUST_INTV"), (), NAMES[:4]),
        (("type!=STANDARD",), (), ("robust", "untyped")),
        (("clean>=70%",), (), NAMES[:3]),
        (("clean>=0.7",), (), NAMES[:3]),
        (("clean>70%",), (), NAMES[:2]),
        (("clean<=60%",), (), ("robust", "untyped")),
        (("clean≥5%",), (), NAMES[:4]),
        (("clean+clean+pgd>=110%",), (), ("resnet50", "ResNet50_aws_baseline", "vgg=19", "robust")),
        (("clean + clean+pgd >= 1.2",), (), ("resnet50",)),
        (("type=STANDARD", "clean+pgd>=40%"), (), ("resnet50", "vgg=19")),
        ((), ("clean<5%", "robust"), NAMES[:3]),
    ],
)
def test_a_fit_set_is_what_its_words_say(
    fit_on: tuple[str, ...], leave_out: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    made = fit_set(five(), fit_on, leave_out)
    assert made.models == kept
    assert {left.model for left in made.left_out} == set(NAMES) - set(kept)
    assert all(left.reason for left in made.left_out)


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("resnet5", "no model named `resnet5`", "did you mean `resnet50`"),
        ("STANDARD", "no model named `STANDARD`", "the fact `type=STANDARD`"),
        ("typ=STANDARD", "no model has the fact `typ`", "did you mean `type`"),
        ("type=STANDRAD", "no model has type=STANDRAD", "did you mean `STANDARD`"),
        ("clen>=5%", "no setting named `clen`", "did you mean `clean`"),
        ("clean>=5", "1 shares sum to 1 at most", "write 5%"),
        ("clean>=100%", "no model is left to fit on", ""),
        ("published", "no published choice of models is known", "imagenet-testbed"),
    ],
)
def test_a_selector_that_cannot_be_says_why(text: str, problem: str, hint: str) -> None:
    with pytest.raises(Misuse) as result:
        fit_set(five(), [text])
    assert problem in result.value.problem
    assert hint in (result.value.hint or "")


def test_models_without_a_fact_are_told() -> None:
    assert fit_set(five(), ["type=STANDARD"]).notes == (
        "1 of 5 models have no `type`: whether they belong is not known",
    )
    assert fit_set(five(), [], ["*subsample*"]).notes == ("`*subsample*` fits no model",)
    bare = table({("a", "x"): 0.5, ("b", "x"): 0.6})
    with pytest.raises(Misuse, match="no model has the fact `type`") as result:
        fit_set(bare, ["type=STANDARD"])
    assert "import them" in (result.value.hint or "")


def test_published_is_the_rule_of_the_paper() -> None:
    made = fit_set(five(), ["published"], benchmark="imagenet-testbed")
    assert made.models == ("resnet50", "vgg=19")
    assert made.rule.leave_out == ("*aws*", "*batch64*", "*subsample*")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(0, 100))
def test_a_cut_keeps_what_reaches_it_and_nothing_else(values: list[float], percent: int) -> None:
    names = [f"m{i}" for i in range(len(values))]
    made = table({(name, "s"): value for name, value in zip(names, values, strict=True)})
    reaching = tuple(name for name, value in zip(names, values, strict=True) if value >= percent / 100 - 1e-12)
    if reaching:
        assert fit_set(made, [f"s>={percent}%"]).models == reaching
    else:
        with pytest.raises(Misuse, match="no model is left"):
            fit_set(made, [f"s>={percent}%"])


def line_of(n: int, noise: float, seed: int = 0) -> Table:
    random = np.random.default_rng(seed)
    x = np.linspace(0.3, 0.8, n)
    y = 0.5 + (x - 0.55) * (noise < 1) + min(noise, 0.1) * random.normal(size=n)
    return table({(f"m{i}", s): float(v[i]) for i in range(n) for s, v in (("x", x), ("y", np.clip(y, 0.01, 0.99)))})


def test_few_models_and_little_explained_are_said_in_words() -> None:
    assert fit(line_of(40, 0.01), "y", "x").cautions == ()
    (few,) = fit(line_of(FEWEST - 1, 0.001), "y", "x").cautions
    assert few == "fitted on 9 models: fewer than 10 do not determine a line"
    (chance,) = fit(line_of(40, 1), "y", "x", space="linear").cautions
    assert "is near 0 for 40 models: the line explains little, and may be chance" in chance
    assert fit(line_of(5, 1), "y", "x").record()["cautions"]
    constant = table({(f"m{i}", s): v for i in range(12) for s, v in (("x", 0.3 + i / 50), ("y", 0.5))})
    assert "not defined" in fit(constant, "y", "x", space="linear").cautions[0]
    assert cautions(65, 0.19)[0].endswith("explains little")  # weak, but not by chance
    assert "plane" in cautions(5, 0.99, 2)[0]


def test_near_zero_is_what_chance_reaches() -> None:
    random = np.random.default_rng(0)
    for n in (12, 20, 200):
        r2 = [np.corrcoef(random.normal(size=(2, n)))[0, 1] ** 2 for _ in range(2000)]
        by_chance = near_zero(n)
        assert np.mean(np.array(r2) > by_chance) <= 0.065
    assert near_zero(1000) == WEAK


def test_a_matrix_is_pearsons_r_of_each_pair() -> None:
    random = np.random.default_rng(3)
    values = random.random((30, 4))
    made = Table(tuple(f"m{i}" for i in range(30)), tuple("abcd"), values, np.zeros((30, 4), dtype=np.int64))
    found = matrix(made, ["a", "b"], ["c", "d"], measure="pearson")
    np.testing.assert_allclose(found.values, np.corrcoef(values.T)[:2, 2:])
    squared = matrix(made, ["a", "b"], ["c", "d"])
    np.testing.assert_allclose(squared.values, found.values**2)
    assert (squared.low <= squared.values).all()
    assert (squared.values <= squared.high).all()
    assert all(record["cautions"] for record in squared.record())  # random numbers explain nothing
    with pytest.raises(Misuse, match="no matrix named"):
        matrix(made, ["a"], ["b"], measure="r3")
