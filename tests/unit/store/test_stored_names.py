"""What people write is found among the names of a store, without any component."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.registry import registry
from holdfast.core.suites import load_suite, suites
from holdfast.core.values import value_text
from holdfast.store import stored_names as module
from holdfast.store.stored_names import stored_names

KNOWN = {
    str(scenario): scenario.full
    for scenario in map(
        registry.scenario,
        [
            "cifar10",
            "cifar10+fog:severity=3",
            "cifar10+pgd-linf:radius=8/255",
            "cifar10+pgd-linf:radius=4/255",
            "cifar10+pgd-linf:radius=8/255,steps=50",
            "cifar10+fog:severity=3+pgd-linf:radius=8/255",
            "arrays:/data/2024.npz+pgd-l2:radius=1.0",
            "cifar10+sweep:attack=(pgd-linf:steps=20),radii=[1/255,2/255]",
        ],
    )
}


@pytest.fixture
def no_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str, kind: str) -> str:
        raise AssertionError(f"{kind} {text} was looked up among components")

    monkeypatch.setattr(module, "_bound", refuse)


@pytest.mark.usefixtures("no_registry")
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cifar10+pgd-linf:radius=0.03137254901960784", "cifar10+pgd-linf:radius=8/255"),
        ("cifar10+pgd-linf:steps=20,radius=8/255", "cifar10+pgd-linf:radius=8/255"),
        ("cifar10 + pgd-linf: radius = 8/255".replace(" = ", "="), "cifar10+pgd-linf:radius=8/255"),
        ("cifar10+pgd-linf:steps=50,radius=8/255", "cifar10+pgd-linf:radius=8/255,steps=50"),
        ("cifar10+fog:severity=3+pgd-linf:radius=8/255,steps=20", "cifar10+fog:severity=3+pgd-linf:radius=8/255"),
        ("arrays:/data/2024.npz+pgd-l2:radius=1", "arrays:/data/2024.npz+pgd-l2:radius=1.0"),
        (
            "cifar10+sweep:radii=[1/255,2/255],attack=(pgd-linf:steps=20)",
            "cifar10+sweep:attack=(pgd-linf:steps=20),radii=[1/255,2/255]",
        ),
        # no run of these: an argument differs, or one that the run has at another value is left out
        *[
            (text, text)
            for text in (
                "cifar10+pgd-linf:radius=2/255",
                "cifar10+pgd-linf:radius=8/255,steps=10",
                "cifar10+fog:severity=true",
                "cifar10+fog:severity=3.5",
                "cifar100+fog:severity=3",
                "cifar10+fog:severity=3+pgd-linf:radius=4/255",
                "cifar10+pgd-linf:radius=8/255+fog:severity=3",
                "cifar10+pgd-linf:(",
            )
        ],
    ],
)
def test_a_text_is_the_run_whose_arguments_it_has(text: str, name: str) -> None:
    assert stored_names([text], KNOWN) == {text: name}


def test_an_argument_away_from_its_default_may_not_be_left_out() -> None:
    scenario = registry.scenario("cifar10+pgd-linf:radius=8/255,steps=50")
    text = "cifar10+pgd-linf:radius=8/255,random_start=true"
    assert stored_names([text], {str(scenario): scenario.full}) == {text: text}


def test_a_level_that_is_left_out_is_the_default_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stored_names(["cifar10+pgd-linf"], KNOWN) == {"cifar10+pgd-linf": "cifar10+pgd-linf:radius=8/255"}
    known = {name: full for name, full in KNOWN.items() if "8/255" not in name}
    assert stored_names(["cifar10+pgd-linf"], known) == {"cifar10+pgd-linf": "cifar10+pgd-linf"}

    def no_torch(text: str) -> str:
        raise ModuleNotFoundError("No module named 'torch'")

    monkeypatch.setattr(type(registry), "scenario", lambda self, text: no_torch(text))
    with pytest.warns(UserWarning, match="write it as `holdfast status` does"):
        assert stored_names(["cifar10+pgd-linf"], KNOWN) == {"cifar10+pgd-linf": "cifar10+pgd-linf"}


@pytest.mark.usefixtures("no_registry")
def test_every_scenario_of_every_suite_is_found_in_any_spelling() -> None:
    scenarios = [registry.scenario(text) for name in suites() for text in load_suite(name).scenarios]
    known = {str(scenario): scenario.full for scenario in scenarios}
    texts = [text for name in suites() for text in load_suite(name).scenarios]
    expected = [str(scenario) for scenario in scenarios]
    assert list(stored_names(texts, known).values()) == list(dict(zip(texts, expected, strict=True)).values())
    in_full = [scenario.full for scenario in scenarios]
    assert stored_names(in_full, known) == dict(zip(in_full, expected, strict=True))


@pytest.mark.usefixtures("no_registry")
@given(
    st.permutations(["radius", "steps", "random_start"]),
    st.sampled_from([1 / 255, 8 / 255, 0.3, 0.5]),
    st.integers(1, 60),
    st.booleans(),
)
def test_arguments_may_come_in_any_order(order: list[str], radius: float, steps: int, random_start: bool) -> None:
    values = {"radius": radius, "steps": steps, "random_start": random_start}
    text = "cifar10+pgd-linf:" + ",".join(f"{name}={value_text(values[name])}" for name in order)
    scenario = registry.scenario(text)
    assert stored_names([text], {**KNOWN, str(scenario): scenario.full}) == {text: str(scenario)}


@pytest.mark.usefixtures("no_registry")
def test_a_model_is_found_in_any_spelling() -> None:
    known = {"python:mine:make,classes=10": "python:mine:make,classes=10,mean=[0.5],std=[0.5]"}
    text = "python:mine:make,std=0.5,classes=10"
    assert stored_names([text], known, kind="model") == {text: "python:mine:make,classes=10"}
    other = "python:mine:other,classes=10"
    assert stored_names([other], known, kind="model") == {other: other}


def test_a_full_name_of_other_length_than_the_short_one_names_nothing() -> None:
    known = {"fashion-mnist-2k+fog:severity=3": "fashion-mnist-2k", "fashion-mnist-2k": "((("}
    assert stored_names(["fashion-mnist-2k+fog"], known) == {"fashion-mnist-2k+fog": "fashion-mnist-2k+fog"}
