"""`python:module:factory`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.models import load

CODE = """
import torch
from torch import nn
from holdfast.core.types import ModelCard
from holdfast.models import TorchClassifier, wrap

def flat(classes=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, classes))

def carded():
    return TorchClassifier(flat(4).eval(), ModelCard("carded", "", 4, licence="MIT"))

def picky(size): ...

def wordy(): return "a network"

def wrapping(): return wrap(len, name="mine")

live = flat(6)
number = 7
"""


@pytest.fixture(autouse=True)
def code(in_folder: Path) -> Path:
    (in_folder / "my_nets.py").write_text(CODE)
    (in_folder / "my_broken.py").write_text("raise ValueError('no such luck')")
    (in_folder / "my_needy.py").write_text("import package_that_is_not_there")
    return in_folder


def test_a_factory_in_the_current_folder_is_found_and_asked() -> None:
    model = load("python:my_nets:flat")
    assert (model.card.name, model.card.classes, model.card.channels) == ("flat", 3, 3)
    assert model.card.source == "python:my_nets:flat"
    assert model.was_training


def test_a_classifier_keeps_its_card_and_a_live_module_needs_no_factory() -> None:
    assert load("python:my_nets:carded").card.licence == "MIT"
    assert load("python:my_nets:live").card.classes == 6


def test_preprocessing_comes_from_the_text() -> None:
    model = load("python:my_nets:flat,mean=[0.5,0.4,0.3],std=0.5,size=32")
    images = torch.rand(2, 3, 40, 40)
    assert model(images).shape == (2, 3)
    exact = torch.rand(2, 3, 32, 32)
    plain = load("python:my_nets:flat")
    torch.testing.assert_close(model(exact), plain((exact - torch.tensor([0.5, 0.4, 0.3]).reshape(3, 1, 1)) / 0.5))


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("python:my_nets", "which function of which module", "python:module:factory"),
        ("python:my_net:flat", "no module named `my_net`", "did you mean `my_nets`"),
        ("python:quite.elsewhere:flat", "no module named `quite.elsewhere`", "looked for in"),
        ("python:my_nets:flatt", "`my_nets` has no `flatt`", "did you mean `flat`"),
        ("python:my_nets:number", "is a int, which cannot be called", "function without arguments"),
        ("python:my_nets:carded,mean=0.5,std=0.5", "preprocessing inside", "leave out"),
    ],
)
def test_misuse_says_what_to_do(text: str, problem: str, hint: str) -> None:
    with pytest.raises(Misuse) as caught:
        load(text)
    assert problem in caught.value.problem
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("python:my_broken:net", "importing `my_broken` failed: ValueError: no such luck"),
        ("python:my_needy:net", "`my_needy` needs `package_that_is_not_there`"),
        ("python:my_nets:picky", "`my_nets:picky` raised TypeError"),
        ("python:my_nets:wordy", "must give a torch module or a classifier, got str"),
        ("python:my_nets:carded,classes=5", "says classes=4, and classes=5 is asked for"),
    ],
)
def test_failures_name_their_cause(text: str, problem: str) -> None:
    with pytest.raises(HoldfastError) as caught:
        load(text)
    assert problem in caught.value.problem


def test_what_holdfast_says_inside_a_factory_keeps_its_hint() -> None:
    with pytest.raises(HoldfastError) as caught:
        load("python:my_nets:wrapping")
    assert caught.value.problem == "`my_nets:wrapping`: a model is a torch module, got builtin_function_or_method"
    assert caught.value.hint == "put the function into an nn.Module"
