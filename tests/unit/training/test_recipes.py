"""Recipe files: read, checked, and refused with the place and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.core.registry import registry
from holdfast.training.recipes import FIELDS, family, load_recipe, recipe_files

ROOT = Path(__file__).parents[3]
GOOD = 'dataset = "fashion-mnist-2k"\narchitecture = "small-cnn"\n'


def test_a_file_holds_one_recipe_or_several(tmp_path: Path) -> None:
    one = tmp_path / "mine.toml"
    one.write_text(GOOD + 'epochs = 3\nloss = "pgd-at"\nthreats = ["pgd-linf:radius=8/255"]\n')
    recipe = load_recipe(str(one))
    assert (recipe.name, recipe.epochs, recipe.threats) == ("mine", 3, ("pgd-linf:radius=8/255",))
    one.write_text(GOOD + '[[variant]]\nname = "a"\nseed = 1\n[[variant]]\nname = "b"\nepochs = 5\n')
    assert [(each.name, each.seed, each.epochs) for each in family(str(one))] == [("a", 1, 20), ("b", 0, 5)]
    assert load_recipe(f"{one}:b").epochs == 5
    with pytest.raises(HoldfastError, match=r"no recipe in .* named `c`"):
        load_recipe(f"{one}:c")


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("epoch = 3\n", "no field `epoch` in a recipe", "did you mean `epochs`"),
        ('epochs = "many"\n', "`epochs` must be a whole number", ""),
        ("epochs = 0\n", "`epochs` must be at least 1", ""),
        ("rate = nan\n", "`rate` must be more than 0", ""),
        ('loss = "tradez"\n', "`loss` must be one of standard, pgd-at, trades", ""),
        ('loss = "trades"\n', "the loss `trades` needs an attack", "threats"),
        ('threats = ["pdg-linf"]\n', "no corruption or attack named `pdg-linf`", "pgd-linf"),
        ('threats = ["pgd-linf:step=3"]\n', "no parameter `step`", "steps"),
        ('dataset = "no-such-set"\n', "no dataset named", ""),
        ('method = "irm"\n', "`irm` needs two `environments`", ""),
        ('keep = "accuracy"\n', "chooses by images held out", "validation = 1000"),
        ("mean = [0.5]\n", "`mean` and `std` belong together", ""),
        ("[[variant]]\nseed = 1\n", "variant 1 needs `name`", ""),
        ('[[variant]]\nname = "a"\n[[variant]]\nname = "a"\n', "two variants are named `a`", ""),
        ("epochs = [\n", "is not valid TOML", ""),
        ("[augment]\nx = 1\n", "`augment` must be", ""),
        ('threats = [["pgd-linf"]]\n', "`threats` must be a list", ""),
        ("mean = [[0.5]]\n", "`mean` must be a list", ""),
        ("patience = 2\nvalidation = 100\n", "`patience` waits for a better epoch", 'keep = "accuracy"'),
        ("average = 0.9\nswa_from = 0.5\n", "two averages of the weights", ""),
        ("swa_from = 1.0\n", "`swa_from` must be at least 0 and below 1", ""),
        ("milestones = [5, 10]\n", "`milestones` are shares of training", ""),
        ("seed = 2147483648\n", "`seed` must be at least 0 and below", ""),
        ('paired = ["a", "b"]\nkeep = "robust-accuracy"\n', "`paired` datasets are not attacked", 'keep = "accuracy"'),
        ('checked = "fmn-l2"\nvalidation = 9\n', "`fmn-l2` has no radius to measure accuracy in", "pgd-linf"),
        ('environments = ["a", "b"]\nextra = "c"\n', "`extra` belongs to no environment", "`environments`"),
        ('environments = ["a", "b"]\nmethod = "irm"\naugment = ["cutmix"]\n', "`cutmix` mixes images", ""),
        ('loss = "mart"\nthreats = ["pgd-linf"]\nsmoothing = 0.1\n', "`mart` learns from one label", "`smoothing`"),
        ('loss = "mart"\nthreats = ["pgd-linf"]\naugment = ["cutmix"]\n', "`mart` learns from one label", ""),
        ('[[variant]]\nname = "a/b"\n', "`a/b` cannot be the name of a model file", "no `/`"),
    ],
)
def test_a_mistake_is_named_with_its_file(tmp_path: Path, text: str, problem: str, hint: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(HoldfastError) as caught:
        load_recipe(str(file))
    assert caught.value.exit_code == (1 if "TOML" in problem else 2)
    assert problem in caught.value.problem
    assert "bad.toml" in caught.value.problem
    assert hint in (caught.value.hint or "")


def test_every_field_can_be_overruled_in_a_ref() -> None:
    recipe = load_recipe("cifar10-at-linf-r20:epochs=2,threats=[(pgd-l2:radius=0.25,steps=3)],average=0.9")
    assert (recipe.epochs, recipe.threats, recipe.average) == (2, ("pgd-l2:radius=0.25,steps=3",), 0.9)
    with pytest.raises(HoldfastError, match="`share` must be more than 0"):
        load_recipe("cifar10-at-linf-r20:share=0")


def test_the_zoo_has_what_it_is_to_vary() -> None:
    zoo = family("cifar10-zoo")
    assert len(zoo) >= 36
    assert {recipe.loss for recipe in zoo} == {"standard", "pgd-at", "trades", "mart", "fast-at"}
    assert {recipe.union for recipe in zoo if len(recipe.threats) > 1} == {"max", "avg", "msd", "random"}
    words = " ".join(threat for recipe in zoo for threat in recipe.threats)
    assert all(name in words for name in ("pgd-linf", "pgd-l2", "pgd-l1", "stadv", "recolor", "jpeg", "elastic"))
    assert len({recipe.architecture for recipe in zoo}) >= 5
    assert all(recipe.half for recipe in zoo)


def test_all_fields_are_documented_and_all_files_are_there() -> None:
    text = (ROOT / "docs" / "training.md").read_text()
    assert [field for field in FIELDS if f"`{field}`" not in text] == []
    assert {"fashion", "cifar10", "cifar10-zoo"} <= set(recipe_files())
    assert {"fashion-standard", "cifar10-msd"} <= set(registry.entries("recipe"))
