"""Suites as data."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.registry import registry
from holdfast.core.suite_checks import COLUMN_FIELDS, FIELDS, PART_FIELDS
from holdfast.core.suites import expanded, load_suite, suites
from holdfast.store.published import benchmarks


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


def test_a_list_stands_for_each_of_its_texts_whatever_is_in_them() -> None:
    lists = {"sets": ["a:x=1,y=2", "b{1,2}"], "one": ["c"]}
    assert expanded("{sets}+{one}", lists) == ["a:x=1,y=2+c", "b1+c", "b2+c"]
    assert expanded("{sets,one}", lists) == ["sets", "one"]


@pytest.mark.parametrize("name", suites())
def test_every_bundled_suite_binds_and_its_changes_are_made(name: str) -> None:
    suite = load_suite(name)
    bound = {text: registry.scenario(text) for text in suite.scenarios}
    assert len({scenario.key for scenario in bound.values()}) == len(suite.scenarios), "no scenario stands twice"
    for change in {change.key: change for scenario in bound.values() for change in scenario.changes}.values():
        assert callable(registry.build(change))
    for model in suite.models:
        registry.bind("model", model)
    for part in suite.parts:
        assert set(part.scenarios) <= set(suite.scenarios)
        assert part.scenarios


@pytest.mark.parametrize("name", suites())
def test_what_a_bundled_suite_compares_with_is_known(name: str) -> None:
    suite = load_suite(name)
    assert set(suite.published) <= {*benchmarks(), "timm"}
    assert not suite.board or not next(column for column in suite.board if column.name == suite.sort).detail


@pytest.mark.parametrize("name", ["cifar10-linf", "cifar10-l2", "imagenet-linf"])
def test_oodrobustbench_has_its_79_shifts_and_six_attacks(name: str) -> None:
    suite = load_suite(f"oodrobustbench-{name}")
    columns = {column.name: column for column in suite.board}
    for kind in ("accuracy", "robustness"):
        corruptions, natural = columns[f"ood-d-{kind}"].scenarios
        assert (len(corruptions), len(natural)) == (75, 4)
    assert len(suite.only(["id"])) == 2
    assert len(suite.only(["dataset-shifts"])) == 2 * 79
    assert len(suite.only(["threat-shifts"])) == 6
    assert len(suite.scenarios) == 2 * 80 + 6
    (attacked,) = columns["id-robustness"].scenarios[0]
    assert registry.scenario(attacked).changes[0].name == ("mm5-l2" if name.endswith("l2") else "mm5-linf")
    assert all(text.endswith(attacked.split("+")[1]) for term in columns["ood-d-robustness"].scenarios for text in term)


def test_oodrobustbench_on_imagenet_is_answered_with_all_classes() -> None:
    natural = load_suite("oodrobustbench-imagenet-linf").board[1].scenarios[1]
    bound = [registry.bind("dataset", text) for text in natural]
    assert all(ref.arg("answers") == "full" for ref in bound if ref.name != "imagenet-v2")
    assert [ref.name for ref in bound] == ["imagenet-v2", "imagenet-a", "imagenet-r", "objectnet"]


def test_multirobustbench_sweeps_18_attacks_over_20_strengths() -> None:
    suite = load_suite("multirobustbench")
    ranked, unranked = suite.parts
    assert (len(ranked.scenarios), len(unranked.scenarios)) == (10, 9)
    assert ranked.scenarios[0] == "cifar10"
    assert len(ranked.settings) == 10
    for text in (*ranked.scenarios[1:], *unranked.scenarios):
        radii = registry.scenario(text).changes[0].arg("radii")
        assert isinstance(radii, tuple)
        assert len(radii) == 20
        assert radii == pytest.approx([radii[0] * (i + 1) for i in range(20)])


def test_the_testbed_has_all_its_settings() -> None:
    suite = load_suite("imagenet-testbed")
    counts = {part.name: len(part.scenarios) for part in suite.parts}
    assert counts == {
        "standard": 7,
        "natural": 14,  # pm-0 and pm-10 are read from one run each: 16 settings
        "corruptions-in-memory": 91,
        "corruptions-on-disk": 95,
        "attacks": 4,
    }
    average = next(column for column in suite.board if column.name == "average-corruptions")
    assert len(average.scenarios) == len(average.settings) == 39


def test_posterior_agreement_has_its_attacks_and_environments() -> None:
    assert [len(part.scenarios) for part in load_suite("posterior-agreement").parts] == [6, 15, 1]
    domains = [
        registry.scenario(text).dataset.arg("env") for text in load_suite("posterior-agreement-domains").scenarios
    ]
    assert sorted(map(str, domains)) == [f"test{i}" for i in range(6)]


def test_quick_runs_on_any_dataset(tmp_path: Path) -> None:
    suite = load_suite("quick", dataset=f"folder:{tmp_path},size=32")
    assert all(text.startswith(f"folder:{tmp_path},size=32") for text in suite.scenarios)
    assert len(suite.scenarios) == 20


def test_some_parts_of_a_suite_run_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'title = "Mine"\ndataset = "d"\nscenarios = ["{dataset}"]\n'
        '[lists]\nblurs = ["b:x=1,y=2", "c"]\n'
        '[[part]]\nname = "blurred"\nscenarios = ["{dataset}+{blurs}"]\nsettings = ["B", "C"]\n'
        '[[part]]\nname = "attacked"\n'
        '[[board]]\nname = "blur"\npart = "blurred"\n'
        '[[board]]\nname = "attack"\npart = "attacked"\nscenarios = ["{dataset}+p"]\n'
    )
    suite = load_suite(str(path))
    assert suite.scenarios == ("d", "d+b:x=1,y=2", "d+c", "d+p")
    assert suite.only(()) == suite.scenarios
    assert suite.only(["attacked"]) == ("d+p",)
    assert suite.only(["attacked", "blurred"]) == ("d+b:x=1,y=2", "d+c", "d+p")
    assert suite.board[0].scenarios == (("d+b:x=1,y=2",), ("d+c",))
    assert suite.board[0].settings == (("B",), ("C",))
    with pytest.raises(Misuse, match="no part of `mine` named `blured`"):
        suite.only(["blured"])


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
        ('title = "x"\nsort = "a"\n[[board]]\nname = "a"\ndetail = true', "`sort` names a detail"),
        ("scenarios = []", "a suite needs `title`"),
        ('title = "x"\nscenarios = []\nspace = "logt"', "`space` must be one of logit, linear, probit, got `logt`"),
        ('title = "x"\nscenarios = []\nfit = "a"', "`fit` must be a list of texts"),
        ('title = "x"\nscenarios = []\nsamples = 0', "`samples` must be at least 1"),
        ('title = "x"\nscenarios = []\nsamples = true', "`samples` must be a whole number"),
        ('title = "x"\nscenarios = []\n[lists]\na = [1]', "`lists` must be a table of texts and lists of texts"),
        ('title = "x"\nscenarios = []\n[lists]\ndataset = ["d"]', "a list cannot be named `dataset`"),
        ('title = "x"\n[[part]]\ntitle = "a"', "a part needs `name`"),
        ('title = "x"\n[[part]]\nname = "a"\nscenario = ["d"]', "no field `scenario` in a part"),
        ('title = "x"\n[[part]]\nname = "a"\n[[part]]\nname = "a"', "two parts are named `a`"),
        ('title = "x"\n[[part]]\nname = "a"\nscenarios = ["d", "e"]\nsettings = ["D"]', "2 scenarios and 1 settings"),
        ('title = "x"\n[[board]]\nname = "a"\n[[board]]\nname = "a"', "two columns of a board are named `a`"),
        ('title = "x"\n[[board]]\nname = "a"\npart = "b"', "part `b`, which there is not"),
        ('title = "x"\n[[board]]\nname = "a"\nof = []\nscenarios = ["d"]', "`a` is made of columns and of scenarios"),
        ('title = "x"\n[[board]]\nname = "a"\nunit = "metres"', "`unit` of `a` must be one of percent"),
        ('title = "x"\n[[board]]\nname = "a"\nbetter = "up"', "`better` of `a` must be one of higher, lower"),
        ('title = "x"\n[[board]]\nname = "a"\ndetail = "no"', "`detail` must be true or false"),
        ('title = "x"\n[[board]]\nname = "a"\nweights = ["1"]', "`weights` must be a list of numbers"),
        ('title = "x"\n[[board]]\nname = "a"\nscore = "effective-robustness"', "`a` has no weights"),
        ('title = "x"\n[[board]]\nname = "a"\nweights = [1.0]', "`a` has weights"),
        (
            'title = "x"\n[[board]]\nname = "y"\n[[board]]\nname = "a"\nscore = "effective-robustness"\n'
            'of = ["y"]\nweights = [0.9]',
            "needs a weight for every column of `of` but the first",
        ),
    ],
)
def test_a_wrong_suite_says_what_is_wrong(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(HoldfastError, match=problem):
        load_suite(str(path))


def test_the_example_of_the_documentation_is_a_suite(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "suites.md").read_text(encoding="utf-8")
    (tmp_path / "blur.toml").write_text(text.split("```toml\n")[1].split("```")[0], encoding="utf-8")
    suite = load_suite(str(tmp_path / "blur.toml"))
    assert [(part.name, len(part.scenarios)) for part in suite.parts] == [("blurs", 9), ("attacks", 5)]
    for scenario in suite.scenarios:
        registry.scenario(scenario)
    for field in (*FIELDS, *PART_FIELDS, *COLUMN_FIELDS):
        assert f"`{field}`" in text, field


def test_a_column_is_made_for_each_text_of_a_list_and_a_suite_extends_another(tmp_path: Path) -> None:
    (tmp_path / "below.toml").write_text(
        'title = "below"\ndataset = "cifar10"\n[lists]\nkinds = ["fog", "snow"]\n'
        'shifted = "{dataset}+{each}:severity={1,2}"\n'
        '[[board]]\nname = "clean"\nscenarios = ["{dataset}"]\n'
        '[[board]]\nname = "{each}-accuracy"\neach = "kinds"\nscenarios = ["{shifted}"]\n'
        '[[board]]\nname = "all"\nof = ["{kinds}-accuracy"]\n'
    )
    (tmp_path / "above.toml").write_text(
        'extends = "below.toml"\ntitle = "above"\n[lists]\nshifted = "cifar10-c:corruption={each}"\n'
    )
    below, above = (load_suite(str(tmp_path / f"{name}.toml")) for name in ("below", "above"))
    assert [column.name for column in below.board] == ["clean", "fog-accuracy", "snow-accuracy", "all"]
    assert below.board[1].scenarios == (("cifar10+fog:severity=1", "cifar10+fog:severity=2"),)
    assert below.board[3].of == ("fog-accuracy", "snow-accuracy")
    assert (above.title, above.dataset) == ("above", "cifar10")
    assert above.scenarios == ("cifar10", "cifar10-c:corruption=fog", "cifar10-c:corruption=snow")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[[board]]\nname = "{each}"\neach = "kinds"\nscenarios = ["cifar10"]', "names no list"),
        ('[[board]]\nname = "a"\neach = 3\nscenarios = ["cifar10"]', "names no list"),
        ('extends = "no-such-suite"', "no suite"),
        (
            '[[board]]\nname = "a"\n[[board]]\nname = "b"\nof = ["a", "a"]\n'
            'score = "effective-robustness"\nweights = [1.0]\npivot = 0.5',
            "above its pivot",
        ),
        ('[[board]]\nname = "a"\nspace = "log"', "space"),
    ],
)
def test_wrong_uses_of_each_extends_and_pivot_are_told(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "wrong.toml"
    start, _, rest = text.partition("[[board]]")
    path.write_text(f'title = "wrong"\nscenarios = ["cifar10"]\n{start}{"[[board]]" + rest if rest else ""}')
    with pytest.raises(HoldfastError, match=problem):
        load_suite(str(path))


def test_suites_that_extend_each_other_are_told(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('extends = "other.toml"\ntitle = "one"')
    (tmp_path / "other.toml").write_text('extends = "one.toml"\ntitle = "other"')
    with pytest.raises(HoldfastError, match="and so on"):
        load_suite(str(tmp_path / "one.toml"))


@pytest.mark.parametrize("value", ["3", "true", "'a'", "{x = 1}", "[1]"])
def test_a_column_of_what_is_no_list_is_refused(value: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(
        f"title = 'x'\ndescription = 'y'\nscenarios = ['fashion-mnist-2k']\n[[board]]\nname = 'a'\nof = {value}\n"
    )
    with pytest.raises(HoldfastError):
        load_suite(str(file))
