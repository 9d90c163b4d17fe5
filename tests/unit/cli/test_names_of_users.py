"""Short names, on the command line and in holdfast.toml: what every table, file and sentence shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.config import Config, read_config
from holdfast.core.errors import HoldfastError, Misuse
from holdfast.core.refs import Run, split_name
from holdfast.core.registry import registry
from holdfast.store import Footer, Rows, Store
from holdfast.store.stored_names import write_name

TOML = """
[models]
"my net" = "fashion-standard"
[datasets]
clothes = "fashion-mnist-2k"
[defaults]
store = "rows"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_name_is_shown_and_changes_no_key(here: Path) -> None:
    (here / "holdfast.toml").write_text(TOML)
    plain = Run(registry.bind("model", "fashion-standard"), registry.scenario("fashion-mnist-2k+fog:severity=3"))
    for model in ("my net", "my net=fashion-standard"):
        named = Run(registry.bind("model", model), registry.scenario("clothes+fog:severity=3"))
        assert (str(named.model), str(named.scenario)) == ("my net", "clothes+fog:severity=3")
        assert (named.key, named.family) == (plain.key, plain.family)
        assert (named.model.plain, named.scenario.plain) == (str(plain.model), str(plain.scenario))


@pytest.mark.parametrize(
    ("text", "name", "ref"),
    [
        ("mine=python:nets:make,mean=[0.5]", "mine", "python:nets:make,mean=[0.5]"),
        ("a/ü b=fashion-noise", "a/ü b", "fashion-noise"),
        ("file:x.pt,architecture=small-cnn", "", "file:x.pt,architecture=small-cnn"),
        ("fashion-noise", "", "fashion-noise"),
        ("python:nets:make,mean=[0.5]", "", "python:nets:make,mean=[0.5]"),
    ],
)
def test_a_name_stands_before_the_first_equals_sign(text: str, name: str, ref: str) -> None:
    assert split_name(text) == (name, ref)


@pytest.mark.parametrize("folder", [".", "a b", "a, b", "2+2"])
def test_the_path_of_a_model_or_a_dataset_is_its_ref_where_its_ending_tells_the_source(here: Path, folder: str) -> None:
    made = {"model": ("net.safetensors", "file"), "dataset": ("images.npz", "arrays")}
    for kind, (file, source) in made.items():
        path = here / folder / file
        path.parent.mkdir(exist_ok=True)
        path.touch()
        ref = registry.bind(kind, str(path))
        assert (ref.name, ref.args[0][1]) == (source, str(path))
        path.unlink()
        with pytest.raises(Misuse, match=f"no {kind} named") as caught:
            registry.bind(kind, str(path))
        assert source in str(caught.value.hint)
    (here / "weights.pth").touch()
    with pytest.raises(Misuse, match="no model named"):
        registry.bind("model", "weights.pth")


@pytest.mark.parametrize("name", ["", " ", "x" * 81, "two\nlines", "a(b", 'q"'])
def test_what_cannot_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(Misuse, match="cannot be a name"):
        split_name(f"{name}=fashion-noise")


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("[model]\nx = 'y'", "no table in holdfast.toml named `model`", "models"),
        ("[defaults]\nstor = 'y'", "no default in holdfast.toml named `stor`", "store"),
        ("[defaults]\nstore = 3", "`store` of .defaults. must be a text, got `3`", None),
        ("[models]\nx = 3", "`x` must be the text of a ref, got `3`", "safetensors"),
        ("[datasets]\nx = ''", "`x` must be the text of a ref, got nothing", "folder"),
        ("[models]\n'a:b' = 'fashion-noise'", "cannot be a name", None),
        ("models = 3", "`models` must be a table", "models"),
        ("[models\n", "is not valid TOML", "models"),
        ("\x00", "is not valid TOML", None),
    ],
)
def test_what_is_wrong_with_the_file_is_said(here: Path, text: str, problem: str, hint: str | None) -> None:
    (here / "holdfast.toml").write_text(text)
    with pytest.raises(HoldfastError, match=problem) as caught:
        read_config()
    assert hint is None or (caught.value.hint is not None and hint in caught.value.hint)


def test_without_a_file_nothing_is_named(here: Path) -> None:
    assert read_config() == Config()
    (here / "holdfast.toml").mkdir()
    with pytest.raises(HoldfastError, match="is no file"):
        read_config()


def test_a_changed_file_is_read_anew(here: Path) -> None:
    (here / "holdfast.toml").write_text("[models]\nmine = 'fashion-noise'")
    assert str(registry.bind("model", "mine").plain) == "fashion-noise"
    (here / "holdfast.toml").write_text("[models]\nmine = 'fashion-standard'")
    assert str(registry.bind("model", "mine").plain) == "fashion-standard"


def test_names_do_not_hide_what_holdfast_has(here: Path) -> None:
    with pytest.raises(Misuse, match="`fashion-noise` is a model that holdfast has"):
        registry.bind("model", "fashion-noise=fashion-standard")
    (here / "holdfast.toml").write_text("[models]\nmine = 'fashion-nose'\nfile = 'fashion-noise'")
    with pytest.raises(Misuse, match="no model named `fashion-nose`"):
        registry.bind("model", "mine")
    with pytest.raises(Misuse, match="takes no arguments"):
        registry.bind("model", "mine:size=3")
    with pytest.raises(Misuse, match="is a model that holdfast has"):
        registry.bind("model", "file")
    for ref in ("mine", "other"):
        (here / "holdfast.toml").write_text(f"[models]\nmine = '{ref}'\nother = 'fashion-noise'")
        with pytest.raises(Misuse, match=f"`mine` of holdfast.toml stands for `{ref}`, which is a name too"):
            registry.bind("model", "mine")
    (here / "holdfast.toml").write_text("[datasets]\nfoggy = 'fashion-mnist-2k+fog:severity=2'")
    with pytest.raises(Misuse, match=r"`foggy` of holdfast.toml must be a dataset alone"):
        registry.bind("dataset", "foggy")
    (here / "holdfast.toml").write_text("\ufeff[models]\nmine = 'fashion-noise'", encoding="utf-8")
    with pytest.raises(Misuse, match="no model named `min`") as caught:
        registry.bind("model", "min")
    assert "mine" in str(caught.value.hint)


def kept(store: Store, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer], model: str) -> None:
    footer = footer_for(model, "fashion-mnist-2k", model_full=model, scenario_full="fashion-mnist-2k")
    store.add_rows(rows_for([True, False], footer=footer))


def test_a_store_shows_the_latest_ref_under_a_name(
    here: Path, rows_for: Callable[..., Rows], footer_for: Callable[..., Footer]
) -> None:
    store = Store("rows")
    for model in ("fashion-standard", "fashion-noise"):
        kept(store, rows_for, footer_for, model)
    write_name(store, "model", "mine", "fashion-noise")
    assert sorted(footer.model for footer in store.footers().values()) == ["fashion-standard", "mine"]
    write_name(store, "model", "mine", "fashion-standard")
    assert sorted(footer.model for footer in Store("rows").footers().values()) == ["fashion-noise", "mine"]
    (here / "rows" / "names").joinpath("odd.json").write_text("{")
    assert sorted(footer.model for footer in Store("rows").footers().values()) == ["fashion-noise", "mine"]


def test_commands_take_and_show_names(
    here: Path,
    run: Callable[..., tuple[int, str, str]],
    rows_for: Callable[..., Rows],
    footer_for: Callable[..., Footer],
) -> None:
    (here / "holdfast.toml").write_text(TOML)
    store = Store("rows")
    kept(store, rows_for, footer_for, "fashion-standard")
    kept(store, rows_for, footer_for, "fashion-noise")
    for words in (
        ["--model", "my net"],
        ["--model", "fashion-standard"],
        ["--scenario", "clothes", "--model", "my net"],
    ):
        code, out, _ = run("scores", *words)
        assert code == 0
        assert out.splitlines()[1].startswith("my net  clothes")
    assert "my net" in run("scores", "--latex")[1]
    assert "my net" in run("compare", "my net", "fashion-noise")[1].splitlines()[0]
    code, out, err = run("report", "my net")
    assert (code, out.strip()) == (0, "my-net.html"), err
    assert "my net" in (here / "my-net.html").read_text()


def test_a_run_under_a_name_end_to_end(here: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    (here / "holdfast.toml").write_text(TOML)
    code, out, err = run("evaluate", "my net", "a/ü=fashion-noise", "--scenario", "clothes", "--samples", "4")
    assert code == 0, err
    assert "1/2 my net under clothes" in err
    assert [line.split("  ")[0] for line in out.splitlines()[1:]] == ["my net", "a/ü"]
    (here / "holdfast.toml").unlink()
    assert "a/ü" in run("scores", "--store", "rows")[1], "the store keeps the names"
