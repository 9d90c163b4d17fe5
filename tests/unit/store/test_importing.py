"""Imports into a store: units that are said, versions that are replaced, hidden names and empty files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.store import Store
from holdfast.store.exporting import csv_text, with_facts
from holdfast.store.importers import formats, read_results
from holdfast.store.importing import imports, keep, remove, together
from holdfast.store.source_files import BadFile
from holdfast.store.units import unclear

BED = "model,val,imagenet-a\nresnet50,{a},{b}\nvgg19,{c},{d}\n"
OOD = (
    "rank,method,url,footnote,id_clean,id_robust,ood_robust,oodd_clean,oodd_robust,oodt_robust,extra_data,arch,venue\n"
    "1,A,u,,{a},{b},{c},{d},{a},{b},,WRN,v\n"
)
TIMM = "model,img_size,top1,top1_err,top5,top5_err,param_count\nvit,224,{a},1,{b},1,86\n"
ENTRY = {"name": "T", "dataset": "cifar10", "architecture": "RN"}
FRACTIONS: dict[str, float] = {"a": 0.76, "b": 0.5, "c": 0.72, "d": 0.02}
PERCENT: dict[str, float] = {"a": 76, "b": 50, "c": 72, "d": 2}


def laid_out(folder: Path, kind: str, values: dict[str, float]) -> Path:
    """A small file in the layout of a format."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "robustbench":
        path = folder / "model_info" / "cifar10" / "Linf" / "Mine.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(ENTRY | {"clean_acc": values["a"], "autoattack_acc": values["b"]}))
        return folder / "model_info"
    if kind == "multirobustbench":
        path = folder / "def_accs.json"
        path.write_text(json.dumps({"Mine": {"Accuracies": {"NoAttack": values["a"], "L2": {"0.5": values["b"]}}}}))
        return path
    named = {
        "imagenet-testbed": ("robustness_top1s.csv", BED),
        "oodrobustbench": ("cifar10_Linf_leaderboard.csv", OOD),
        "timm": ("results-imagenet.csv", TIMM),
        "tidy": ("mine.csv", "model,setting,value\nm,clean,{a}\nm,fog,{b}\n"),
    }
    name, text = named[kind]
    (folder / name).write_text(text.format(**values))
    return folder / name


KINDS = ("imagenet-testbed", "oodrobustbench", "timm", "tidy", "robustbench", "multirobustbench")


def test_every_format_of_scores_is_tried() -> None:
    assert set(KINDS) | {"cifar10-1-predictions"} == set(formats())


@pytest.mark.parametrize("kind", KINDS)
def test_fractions_without_a_unit_are_never_taken_for_percent(tmp_path: Path, kind: str) -> None:
    path = laid_out(tmp_path / "fractions", kind, FRACTIONS)
    with pytest.raises(BadFile, match="gives no unit") as result:
        read_results(kind, path)
    assert "--unit fraction" in (result.value.hint or "")
    asked = read_results(kind, path, unit="fraction").scores[0].table
    plain = read_results(kind, laid_out(tmp_path / "percent", kind, PERCENT)).scores[0].table
    assert asked.values == pytest.approx(plain.values, nan_ok=True)
    low = read_results(kind, path, unit="percent").scores[0].table
    assert low.values == pytest.approx(plain.values / 100, nan_ok=True)


def test_a_unit_that_cannot_be_is_refused(tmp_path: Path) -> None:
    path = laid_out(tmp_path, "timm", PERCENT)
    with pytest.raises(BadFile, match="above 1"):
        read_results("timm", path, unit="fraction")
    with pytest.raises(Misuse, match="no unit named `share`"):
        read_results("timm", path, unit="share")
    with pytest.raises(Misuse, match="holds shares"):
        read_results("timm", path, unit="rank")


def test_a_stated_unit_stands(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("model,setting,value,unit\nm,clean,0.5,percent\nm,fog,0.5,fraction\nm,auc,0.5,number\n")
    assert read_results("tidy", path).scores[0].table.values.tolist() == [[0.005, 0.5, 0.5]]
    path.write_text("model,setting,value,unit\nm,clean,80,\nm,pgd,0.5,\n")
    with pytest.raises(BadFile, match=r"`pgd` has values from 0\.5 to 0\.5"):
        read_results("tidy", path)


@given(st.lists(st.floats(0, 100), min_size=1))
def test_values_are_unclear_exactly_where_all_fit_both_units(values: list[float]) -> None:
    assert (unclear({"s": values}) is not None) == (max(values) <= 1 and any(values))


def test_a_model_in_fractions_among_percent_is_told(tmp_path: Path) -> None:
    path = laid_out(tmp_path, "imagenet-testbed", {"a": 76, "b": 50, "c": 0.72, "d": 0.02})
    assert any(
        "1 of 2 models score 1 % at most, `vgg19` first" in note
        for note in read_results("imagenet-testbed", path).notes
    )


def test_facts_come_with_a_tidy_file_and_go_back_out(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("model,setting,value,type,fact:n\na,x,50,STANDARD,7\na,y,40,,\nb,x,60,ROBUST,8\n")
    scores = read_results("tidy", path).scores[0]
    assert scores.table.facts == {"a": {"type": "STANDARD", "n": "7"}, "b": {"type": "ROBUST", "n": "8"}}
    again = tmp_path / "again.csv"
    again.write_text(csv_text(with_facts(scores)))
    assert read_results("tidy", again).scores[0].table.facts == scores.table.facts
    path.write_text("model,setting,value,type\na,x,50,STANDARD\na,y,40,ROBUST\n")
    with pytest.raises(BadFile, match="`type` of `a` is `ROBUST` here and `STANDARD` above"):
        read_results("tidy", path)


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_files_are_errors(tmp_path: Path, kind: str) -> None:
    path = laid_out(tmp_path, kind, PERCENT)
    inner = next(file for file in (path.rglob("*.json") if path.is_dir() else [path]) if file.is_file())
    hidden = inner.with_name(f".{inner.name}")
    inner.rename(hidden)
    with pytest.raises(HoldfastError):
        read_results(kind, path if path.is_dir() else hidden)


def test_a_benchmark_cannot_be_hidden(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("model,setting,value,benchmark\na,x,50,.hidden\n")
    with pytest.raises(HoldfastError, match="cannot be named"):
        read_results("tidy", path)


@pytest.mark.parametrize("kind", ["imagenet-testbed", "oodrobustbench", "timm", "tidy"])
def test_a_header_alone_is_an_error(tmp_path: Path, kind: str) -> None:
    path = laid_out(tmp_path, kind, PERCENT)
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(BadFile, match="has a header and nothing below it"):
        read_results(kind, path)


def test_models_without_any_number_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "robustness_top1s.csv"
    path.write_text("model,val\nresnet50,\nvgg19,\n")
    with pytest.raises(BadFile, match="holds no score"):
        read_results("imagenet-testbed", path)


def test_another_version_is_refused_replaced_and_removed(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    one = read_results("tidy", _tidy(tmp_path / "one", "m,clean,80")).scores
    two = read_results("tidy", _tidy(tmp_path / "two", "m,clean,81")).scores
    other = read_results("tidy", _tidy(tmp_path / "three", "k,clean,70")).scores
    assert [each.state for each in keep(store, one)] == ["new"]
    assert [each.state for each in keep(store, one)] == ["there already"]
    with pytest.raises(Misuse, match="`mine` is in this store in another version") as result:
        keep(store, two)
    assert "--replace" in (result.value.hint or "")
    assert len(store.scores("mine")) == 1
    (kept,) = keep(store, two, replace=True)
    assert kept.replaced == (f"mine.{one[0].key}",)
    assert store.scores("mine")[0].table.values.tolist() == [[0.81]]
    keep(store, other)  # another model: no version of the first
    assert set(together(store.scores("mine")).table.models) == {"k", "m"}
    with pytest.raises(Misuse, match="2 imports are called `mine`"):
        remove(store, "mine")
    with pytest.raises(Misuse, match="no import named `min`"):
        remove(store, "min")
    assert remove(store, f"mine.{other[0].key}").models == 1
    assert remove(store, "mine.csv").benchmark == "mine"
    assert imports(store) == []


def test_a_failed_import_changes_nothing(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    keep(store, read_results("tidy", _tidy(tmp_path / "one", "m,clean,80")).scores)
    path = tmp_path / "both.csv"
    path.write_text("model,setting,value,benchmark\nm,x,50,first\nm,clean,81,mine\n")
    with pytest.raises(Misuse, match="another version"):
        keep(store, read_results("tidy", path).scores)
    assert [one.benchmark for one in store.scores()] == ["mine"]


def test_types_that_come_later_are_kept_with_the_same_numbers(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    path = laid_out(tmp_path, "imagenet-testbed", PERCENT)
    keep(store, read_results("imagenet-testbed", path).scores)
    (tmp_path / "model_types.json").write_text('{"resnet50": "STANDARD"}')
    assert [each.state for each in keep(store, read_results("imagenet-testbed", path).scores)] == ["facts changed"]
    (tmp_path / "model_types.json").unlink()
    assert [each.state for each in keep(store, read_results("imagenet-testbed", path).scores)] == ["there already"]
    (scores,) = store.scores("imagenet-testbed")
    assert scores.table.fact("resnet50", "type") == "STANDARD"
    assert not [finding for finding in store.verify() if finding.problem]


def _tidy(folder: Path, line: str) -> Path:
    folder.mkdir()
    path = folder / "mine.csv"
    path.write_text(f"model,setting,value\n{line}\n")
    return path
