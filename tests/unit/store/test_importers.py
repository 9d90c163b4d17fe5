"""Importers: real public files where they are, small files in their layout everywhere, and every way to be wrong."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from holdfast.core.errors import HoldfastError, Misuse
from holdfast.metrics.accuracy import accuracy
from holdfast.store.importers import formats, read_results
from holdfast.store.scores import Scores, tidy

ROOT = Path(__file__).parents[3]
FILES = Path(os.environ.get("HOLDFAST_PUBLISHED", ROOT.parent / "shared" / "published"))
needs_files = pytest.mark.skipif(not FILES.is_dir(), reason="the public result files are not on this machine")

TESTBED = "model,val,imagenet-a,imagenet-c.fog.1_on-disk\nresnet50,76.13,0.0,60.5\nvgg19,72.38,2.1,\n"
BOARD = (
    "rank,method,url,footnote,id_clean,id_robust,ood_robust,oodd_clean,oodd_robust,oodt_robust,extra_data,arch,venue\n"
    "1,A,u,,95.2,69.5,45.0,79.0,43.3,46.7,&#9745;,WRN,v\n"
    "2,B,u,,93.2,70.7,40.1,76.0,44.4,35.8,&#215;,WRN,v\n"
)
TIMM = (
    "model,img_size,top1,top1_err,top5,top5_err,param_count\n"
    "vit,224,80.1,19.9,95.0,5.0,86\n"
    "vit,384,82.1,17.9,96.0,4.0,86\n"
)
DEFENCES = {
    "Mine": {
        "Details": {"Title": "T", "Architecture": "RN", "Attacks Used": {"L2": 0.5}},
        "Accuracies": {"NoAttack": 80.0, "L2": {"0.5": 60.0, "1.0": 30.0}},
    }
}
ENTRY = {"name": "T", "dataset": "cifar10", "clean_acc": "83.34", "autoattack_acc": "43.21", "reported": "null"}
ENTRY |= {"architecture": "RN", "eps": "8/255", "additional_data": False}
TIDY = "model,setting,value,n,source\na,clean,90.5,100,paper\na,fog,50,,paper\n"


def bed(folder: Path, text: str = TESTBED) -> Path:
    path = folder / "robustness_top1s_x.csv"
    path.write_text(text)
    return path


def board(folder: Path, text: str = BOARD) -> Path:
    path = folder / "cifar10_Linf_leaderboard.csv"
    path.write_text(text)
    return path


def timm(folder: Path, text: str = TIMM) -> Path:
    path = folder / "results-imagenet.csv"
    path.write_text(text)
    return path


def defences(folder: Path, text: str = json.dumps(DEFENCES)) -> Path:
    path = folder / "def_accs.json"
    path.write_text(text)
    return path


def entry(folder: Path, text: str = json.dumps(ENTRY)) -> Path:
    path = folder / "cifar10" / "Linf" / "Mine.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def tidy_file(folder: Path, text: str = TIDY) -> Path:
    path = folder / "mine.csv"
    path.write_text(text)
    return path


SMALL: dict[str, Callable[[Path], Path]] = {
    "imagenet-testbed": bed,
    "multirobustbench": defences,
    "oodrobustbench": board,
    "robustbench": entry,
    "timm": timm,
    "tidy": tidy_file,
}


def only(format_name: str, path: Path) -> Scores:
    (scores,) = read_results(format_name, path).scores
    return scores


def cell(scores: Scores, model: str, setting: str) -> float:
    return float(scores.table.of([model]).column(setting)[0])


def test_every_format_has_a_small_file_here() -> None:
    assert set(formats()) == {*SMALL, "cifar10-1-predictions"}
    assert all(each.summary for each in formats().values())


@pytest.mark.parametrize("name", SMALL)
def test_every_imported_number_says_file_digest_and_date(name: str, tmp_path: Path) -> None:
    path = SMALL[name](tmp_path)
    scores = only(name, path)
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    assert scores.origin is not None
    assert (scores.origin.file, scores.origin.sha256, scores.origin.format) == (path.name, sha, name)
    records = tidy(scores)
    assert records
    for record in records:
        assert path.name in str(record["source"])
        assert sha[:12] in str(record["source"])
        assert scores.origin.date in str(record["source"])


def test_the_testbed_takes_types_and_counts_from_the_files_beside_it(tmp_path: Path) -> None:
    path = bed(tmp_path)
    (tmp_path / "model_types_x.json").write_text('{"resnet50": {"nat": "STANDARD"}}')
    sizes = "model,arch,val_dataset_size,fog_on-disk_dataset_size\nresnet50,RN50,50000,5000.0\nother,x,,\n"
    (tmp_path / "results_metadata_x.csv").write_text(sizes)
    for source in (path, tmp_path):
        scores = only("imagenet-testbed", source)
        assert cell(scores, "resnet50", "val") == pytest.approx(0.7613)
        assert np.isnan(cell(scores, "vgg19", "imagenet-c.fog.1_on-disk"))
        assert scores.table.fact("resnet50", "type") == "STANDARD"
        assert scores.table.fact("resnet50", "architecture") == "RN50"
        assert scores.table.count("val").tolist() == [50000, 0]
        assert scores.table.count("imagenet-c.fog.1_on-disk").tolist() == [5000, 0]
        assert "results_metadata_x.csv" in scores.table.source


def test_the_best_single_attack_accuracies_are_a_row_of_their_own(tmp_path: Path) -> None:
    path = defences(tmp_path)
    (tmp_path / "ata_accs.json").write_text('{"NoAttack": 94.2, "L2": {"0.5": 70, "1.0": 50}}')
    scores = only("multirobustbench", path)
    assert cell(scores, "acc*", "L2/0.5") == 0.7
    assert cell(scores, "Mine", "L2/1.0") == 0.3
    assert json.loads(scores.table.fact("Mine", "attacks_used")) == {"L2": 0.5}


def test_the_files_of_the_public_site_are_read_as_they_are(tmp_path: Path) -> None:
    """A checkout of the site: JavaScript with single quotes and fractions, in a folder `data`."""
    (tmp_path / "data").mkdir()
    text = json.dumps(DEFENCES).replace('"', "'").replace("'L2': 0.5", "'L2': 128/256")
    (tmp_path / "data" / "def_accs.js").write_text(f"var defense_data = {text}\n")
    (tmp_path / "data" / "ata_accs.js").write_text("var ata_accs = {'NoAttack': 94.2, 'L2': {'0.5': 70, '1.0': 50}};")
    for path in (tmp_path, tmp_path / "data", tmp_path / "data" / "def_accs.js"):
        scores = only("multirobustbench", path)
        assert cell(scores, "acc*", "L2/0.5") == 0.7
        assert cell(scores, "Mine", "L2/1.0") == 0.3
        assert json.loads(scores.table.fact("Mine", "attacks_used")) == {"L2": 0.5}


def test_a_leaderboard_takes_dataset_and_threat_from_its_name(tmp_path: Path) -> None:
    scores = only("oodrobustbench", board(tmp_path))
    assert scores.benchmark == "oodrobustbench-cifar10-linf"
    assert cell(scores, "A, WRN", "ood-t-robustness") == 0.467
    assert scores.table.fact("A, WRN", "extra_data") == "yes"
    moved = tmp_path / "leaderboard.csv"
    moved.write_text(BOARD)
    with pytest.raises(HoldfastError, match="does not say dataset and threat"):
        read_results("oodrobustbench", moved)


def test_robustbench_entries_of_one_folder_are_one_benchmark(tmp_path: Path) -> None:
    entry(tmp_path)
    other = ENTRY | {"clean_acc": "90", "autoattack_acc": "-"}
    (tmp_path / "cifar10" / "Linf" / "Other.json").write_text(json.dumps(other))
    scores = only("robustbench", tmp_path)
    assert scores.benchmark == "robustbench-cifar10-linf"
    assert cell(scores, "Mine", "autoattack") == pytest.approx(0.4321)
    assert np.isnan(cell(scores, "Other", "autoattack"))
    assert scores.table.source_of("Other", "clean-accuracy").startswith("Other.json")


def test_timm_models_are_told_apart_by_image_size(tmp_path: Path) -> None:
    path = timm(tmp_path)
    (tmp_path / "model_metadata-in1k.csv").write_text("model,pretrain\nvit,in21k\n")
    scores = only("timm", path)
    assert scores.table.models == ("vit@224", "vit@384")
    assert cell(scores, "vit@384", "imagenet/top5") == 0.96
    assert scores.table.fact("vit@224", "pretrained_on") == "in21k"


def test_tidy_units_say_what_a_value_is(tmp_path: Path) -> None:
    text = (
        "benchmark,model,setting,value,unit\nb,a,clean,0.5,fraction\nb,a,gap,-3,points\nb,a,constant,1901.25,number\n"
    )
    scores = only("tidy", tidy_file(tmp_path, text))
    assert scores.benchmark == "b"
    assert [cell(scores, "a", name) for name in ("clean", "gap", "constant")] == [0.5, -0.03, 1901.25]


@pytest.mark.parametrize(
    ("make", "name", "text", "problem"),
    [
        (bed, "imagenet-testbed", "", "is empty"),
        (bed, "imagenet-testbed", "name,val\nx,1\n", "has no column `model`"),
        (bed, "imagenet-testbed", TESTBED.replace("76.13", "761.3"), "761.3 is no percentage"),
        (bed, "imagenet-testbed", TESTBED.replace("76.13", "-1"), "-1 is no percentage"),
        (bed, "imagenet-testbed", TESTBED.replace("76.13", "nan"), "`nan` is no finite number"),
        (bed, "imagenet-testbed", TESTBED.replace("76.13", "high"), "`high` is no number"),
        (bed, "imagenet-testbed", TESTBED.replace("vgg19", "resnet50"), "has the model `resnet50` twice"),
        (bed, "imagenet-testbed", TESTBED[:-5], "line 3 has 3 fields, its header 4"),
        (bed, "imagenet-testbed", TESTBED.replace("imagenet-a", "val"), "has the column `val` twice"),
        (bed, "imagenet-testbed", TESTBED.replace("resnet50", ""), "a line without a model"),
        (defences, "multirobustbench", json.dumps(DEFENCES)[:-20], "is not valid JSON"),
        (defences, "multirobustbench", "[]", "holds no defences"),
        (defences, "multirobustbench", '{"NoAttack": 3}', "has no `Accuracies` of `NoAttack`"),
        (defences, "multirobustbench", '{"a": {"Accuracies": {"L2": {"1": 3}}}}', "no accuracy without an attack"),
        (defences, "multirobustbench", json.dumps(DEFENCES).replace("80.0", "180"), "180 is no percentage"),
        (board, "oodrobustbench", BOARD.replace("arch", "architecture"), "has no column `arch`"),
        (board, "oodrobustbench", BOARD.replace("69.5", "169.5"), "169.5 is no percentage"),
        (board, "oodrobustbench", BOARD + BOARD.splitlines()[1] + "\n", "has the model `A, WRN` twice"),
        (board, "oodrobustbench", BOARD[:-7], "line 3 has 11 fields"),
        (entry, "robustbench", json.dumps(ENTRY)[:-4], "is not valid JSON"),
        (entry, "robustbench", '{"name": "T"}', "has no field `dataset`"),
        (entry, "robustbench", json.dumps(ENTRY).replace("83.34", "833"), "833 is no percentage"),
        (timm, "timm", TIMM.replace("top5,", "top_5,", 1), "has no column `top5`"),
        (timm, "timm", TIMM.replace("384", "224"), "has the model `vit@224` twice"),
        (timm, "timm", TIMM.replace("82.1", "182.1"), "182.1 is no percentage"),
        (timm, "timm", TIMM[:-20], "line 3 has"),
        (tidy_file, "tidy", TIDY.replace("value", "score"), "has no column `value`"),
        (tidy_file, "tidy", TIDY.replace("90.5", "905"), "line 2: 905 is no percent"),
        (tidy_file, "tidy", TIDY.replace("fog", "clean"), "has `clean` of `a` twice"),
        (tidy_file, "tidy", TIDY.replace("100", "0.5"), "`0.5` is no count of samples"),
        (tidy_file, "tidy", "model,setting,value,unit\na,b,1,parsec\n", "no unit `parsec`"),
        (tidy_file, "tidy", "model,setting,value,unit\na,b,1,points\nc,b,1,rank\n", "stands in points and in rank"),
        (tidy_file, "tidy", "model,setting,value\na,,1\n", "has no setting"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(
    tmp_path: Path, make: Callable[[Path, str], Path], name: str, text: str, problem: str
) -> None:
    with pytest.raises(HoldfastError) as caught:
        read_results(name, make(tmp_path, text))
    assert problem in caught.value.problem


@pytest.mark.parametrize("name", SMALL)
def test_a_missing_file_is_misuse(name: str, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="no file at"):
        read_results(name, tmp_path / "nothing_leaderboard.csv")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_bytes(b"\xff\xfe\x00model")
    with pytest.raises(HoldfastError, match="is not text"):
        read_results("tidy", path)


def test_an_unknown_format_suggests(tmp_path: Path) -> None:
    with pytest.raises(Misuse) as caught:
        read_results("imagenet-testbet", tmp_path)
    assert "did you mean `imagenet-testbed`" in str(caught.value)


def predictions(folder: Path, predicted: object = (3, 8, 0), labels: tuple[int, ...] = (3, 8, 1)) -> Path:
    source = folder / "model_predictions" / "v6_predictions"
    source.mkdir(parents=True)
    (source / "mine_predictions.json").write_text(json.dumps(predicted))
    np.save(folder / "cifar10.1_v6_labels.npy", np.array(labels, dtype=np.int32))
    return folder


def test_predictions_become_rows_with_the_ids_of_the_dataset(tmp_path: Path) -> None:
    (rows,) = read_results("cifar10-1-predictions", predictions(tmp_path)).rows
    assert rows.ids == ["v6-0000", "v6-0001", "v6-0002"]
    assert rows.correct.tolist() == [True, True, False]
    assert (rows.footer.model, rows.footer.scenario) == ("mine", "cifar10.1")
    assert rows.footer.facts["imported from"] == "mine_predictions.json"
    assert [flag.name for flag in rows.footer.flags] == ["published"]


@pytest.mark.parametrize(
    ("predicted", "problem"),
    [
        ([3, 8], "has 2 predictions for 3 images"),
        ([3, 8, 10], "whole numbers from 0 to 9"),
        ({"a": 1}, "a list of classes"),
        ([3, 8, 0.5], "a list of classes"),
    ],
)
def test_wrong_predictions_say_what_is_wrong(tmp_path: Path, predicted: object, problem: str) -> None:
    with pytest.raises(HoldfastError, match=problem):
        read_results("cifar10-1-predictions", predictions(tmp_path, predicted))


def test_predictions_need_their_labels(tmp_path: Path) -> None:
    folder = predictions(tmp_path)
    (folder / "cifar10.1_v6_labels.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(HoldfastError, match="is no array of labels"):
        read_results("cifar10-1-predictions", folder)
    (folder / "cifar10.1_v6_labels.npy").unlink()
    with pytest.raises(Misuse, match="no labels"):
        read_results("cifar10-1-predictions", folder)
    with pytest.raises(Misuse, match="no folder model_predictions"):
        read_results("cifar10-1-predictions", tmp_path / "model_predictions")


@needs_files
def test_the_public_testbed_has_its_204_models() -> None:
    scores = only("imagenet-testbed", FILES / "imagenet-testbed")
    assert scores.table.values.shape == (204, 213)
    kinds = [scores.table.fact(model, "type") for model in scores.table.models]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"STANDARD": 88, "ROBUST_INTV": 86, "MORE_DATA": 30}
    assert set(scores.table.count("pgd.linf.eps2").tolist()) == {0, 5000, 50000}


@needs_files
def test_the_public_multirobustbench_has_its_defences() -> None:
    scores = only("multirobustbench", FILES / "multirobustbench")
    assert len(scores.table.models) == 22
    nine = [name for name in scores.table.settings if name.split("/")[0] in NINE]
    assert len(nine) == 181
    croce = scores.table.of(["Croce2022Adversarial_Linf"])
    assert int(np.isfinite([croce.column(name)[0] for name in nine]).sum()) == 101


NINE = {"NoAttack", "StAdvAttack", "ReColorAdvAttack", "JPEGLinfAttack", "JPEGL1Attack", "ElasticAttack"}
NINE |= {"AutoLinfAttack", "AutoL2Attack", "AutoL1Attack", "LPIPSAttack"}


@needs_files
def test_the_public_leaderboards_add_up_on_101_rows() -> None:
    boards = read_results("oodrobustbench", FILES / "oodrobustbench").scores
    rows = 0
    for scores in boards:
        table = scores.table
        halves = (table.column("ood-d-robustness") + table.column("ood-t-robustness")) / 2
        assert np.abs(100 * (halves - table.column("ood-robustness"))).max() <= 0.0101  # three rounded numbers
        rows += len(table.models)
    assert rows == 101


@needs_files
def test_the_public_robustbench_and_timm_are_read_whole() -> None:
    entries = read_results("robustbench", FILES / "robustbench" / "model_info").scores
    assert sum(len(scores.table.models) for scores in entries) == 236
    scores = only("timm", FILES / "timm")
    assert len(scores.table.settings) == 16
    assert len(scores.table.models) == 1557


@needs_files
def test_the_public_predictions_are_30_models_on_three_sets() -> None:
    rows = read_results("cifar10-1-predictions", FILES / "cifar10.1-predictions").rows
    assert len(rows) == 90
    assert len({each.footer.model for each in rows}) == 30
    (wide,) = [each for each in rows if (each.footer.model, each.footer.scenario) == ("wrn_28_10", "cifar10")]
    assert accuracy(wide).n == 10000
    assert 100 * accuracy(wide).value == pytest.approx(95.9, abs=0.06)  # Table of arXiv:1806.00451, one decimal
