"""Types of models: the testbed's Python file read without running it, and JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import Misuse
from holdfast.store.importers import read_results
from holdfast.store.model_types import ModelType, types_beside
from holdfast.store.source_files import BadFile

PYTHON = """from enum import Enum
raise SystemExit("it was run")
class ModelTypes(Enum):
    STANDARD = ('Standard training', 'tab:blue')
    LP_ADV = ('Lp', 'tab:olive')
model_types_map = {
'resnet50': ModelTypes.STANDARD,
"robust": ModelTypes.LP_ADV,
}
for i in range(3):
    model_types_map[f"small_{i}_epochs"] = ModelTypes.LOW
model_types_map['late'] = ModelTypes.STANDARD
mapper = {ModelTypes.STANDARD: NatModelTypes.STANDARD, ModelTypes.LP_ADV: NatModelTypes.ROBUST_INTV}
nat_model_types_map = {k: mapper[v] for k, v in model_types_map.items()}
"""
BED = "model,val\nresnet50,76.1\nrobust,60.2\nsmall_2_epochs,5.5\n"


def bed(folder: Path, text: str = BED) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "robustness_top1s.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize("inside", ["model_types.py", "model_types_28477dc.py", "plotting/model_types.py"])
def test_python_is_read_and_not_run(tmp_path: Path, inside: str) -> None:
    path = bed(tmp_path)
    (tmp_path / inside).parent.mkdir(exist_ok=True)
    (tmp_path / inside).write_text(PYTHON)
    found = types_beside(path).types
    assert found["resnet50"] == ModelType("STANDARD", "STANDARD")
    assert found["robust"] == ModelType("ROBUST_INTV", "LP_ADV")
    assert found["small_2_epochs"] == ModelType("LOW", "LOW")
    assert found["late"].type == "STANDARD"
    assert "small_3_epochs" not in found
    made = read_results("imagenet-testbed", tmp_path)
    assert made.notes == ()
    assert made.scores[0].table.fact("robust", "type") == "ROBUST_INTV"
    assert made.scores[0].table.fact("robust", "fine_type") == "LP_ADV"


def test_json_may_be_short_or_long_and_must_agree_with_python(tmp_path: Path) -> None:
    path = bed(tmp_path)
    (tmp_path / "model_types.json").write_text('{"resnet50": "STANDARD", "robust": {"nat": "ROBUST_INTV"}}')
    assert types_beside(path).types["robust"] == ModelType("ROBUST_INTV")
    (tmp_path / "model_types.py").write_text(PYTHON)
    both = types_beside(path)
    assert len(both.sources) == 2
    assert both.types["small_0_epochs"].type == "LOW"
    (tmp_path / "model_types.json").write_text('{"resnet50": "MORE_DATA"}')
    with pytest.raises(Misuse, match="disagree on `resnet50`: MORE_DATA and STANDARD"):
        types_beside(path)


def test_missing_types_are_told(tmp_path: Path) -> None:
    bed(tmp_path)
    (note,) = read_results("imagenet-testbed", tmp_path).notes
    assert "no types beside robustness_top1s.csv" in note
    (tmp_path / "model_types.json").write_text('{"resnet50": "STANDARD"}')
    assert read_results("imagenet-testbed", tmp_path).notes == ("2 of 3 models have no type, `robust` first",)


@pytest.mark.parametrize(
    "text",
    [
        "model_types_map = {",
        "x = 1",
        "model_types_map = {name(): T.A}",
        "model_types_map = {**other}",
        "model_types_map = {'a': kind()}",
        "model_types_map = {'a': T.A}\nfor i in range(n):\n    model_types_map[f'{i}'] = T.A",
        "model_types_map = {'a': T.A}\nfor i in range(10**9):\n    model_types_map[f'{i}'] = T.A",
        "model_types_map = {'a': T.A}\nfor i in range(1000000000):\n    model_types_map[f'{i}'] = T.A",
        "model_types_map = {'a': T.A}\nfor i in range(9):\n    model_types_map[f'{j}'] = T.A",
        "model_types_map = {'a': T.A}\nfor i in range(9):\n    model_types_map[f'{i}'] = T.A\n    exit()",
    ],
)
def test_what_would_have_to_be_computed_is_refused(tmp_path: Path, text: str) -> None:
    path = bed(tmp_path)
    (tmp_path / "model_types.py").write_text(text)
    with pytest.raises(BadFile):
        types_beside(path)


@pytest.mark.parametrize("text", ["[]", "{}", '{"a": 1}', '{"a": {"fine": "X"}}', "{"])
def test_json_that_is_no_map_of_types_is_refused(tmp_path: Path, text: str) -> None:
    path = bed(tmp_path)
    (tmp_path / "model_types.json").write_text(text)
    with pytest.raises(BadFile):
        types_beside(path)
