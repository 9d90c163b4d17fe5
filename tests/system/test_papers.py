"""Every command of docs/papers.md runs, on made-up results of other models and on the bundled images."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
from click import Group
from typer.main import get_command

from holdfast.__main__ import main
from holdfast.cli.app import app
from holdfast.core.suites import load_suite

FILE = Path(__file__).parents[2] / "docs" / "papers.toml"
RECORD = tomllib.loads(FILE.read_text(encoding="utf-8"))
STATES = ("reproduced", "comparable", "waits")
FIELDS = {"paper", "item", "what", "commands", "small", "is_quick", "state", "note"}
MODELS = ("fashion-standard", "fashion-noise", "fashion-at-linf")
SCENARIOS = "fashion-mnist-2k{,+impulse-noise:severity=3,+contrast:severity=3}"
TESTBED_MODELS = 24
ZOO = 14


class World(NamedTuple):
    """The folder that commands run in, and those that have run."""

    folder: Path
    done: set[str]


def rows() -> list[dict[str, Any]]:
    return list(RECORD["row"])


def name_of(row: dict[str, Any]) -> str:
    return f"{row['paper']}, {row['item']}"


def called(*words: str) -> int:
    """The exit status of a command of ours, run in this process."""
    before, sys.argv = sys.argv, ["holdfast", *words]
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    finally:
        sys.argv = before
    return 0


def words(command: str) -> list[str]:
    return shlex.split(command)[1:]


def run_commands(row: dict[str, Any], world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for command in row.get("small", row["commands"]):
        if command in world.done:
            continue
        world.done.add(command)
        code = called(*words(command))
        result = capsys.readouterr()
        assert code == 0, f"{command}\n{result.err[-2000:]}"
        drawn = [Path(word) for word in words(command) if word.endswith((".svg", ".png"))]
        for path in drawn:
            assert path.stat().st_size > 200, command
            if path.suffix == ".svg":
                check_drawing(path)
        assert result.out or drawn or "site" in command or "report" in command, command


def check_drawing(path: Path) -> None:
    """Every mark lies on the canvas."""
    root = ElementTree.parse(path).getroot()
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    marks = [node for node in root.iter() if node.tag.endswith(("circle", "rect", "polyline"))]
    assert marks, path
    for node in root.iter():
        for name, most in (("cx", width), ("cy", height), ("x", width), ("y", height)):
            if name in node.attrib:
                assert -1 <= float(node.attrib[name]) <= most + 1, (path.name, node.tag, node.attrib)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A folder whose store holds made-up results for every benchmark."""
    folder = tmp_path_factory.mktemp("papers")
    before = Path.cwd()
    os.chdir(folder)
    make_testbed(folder / "testbed")
    assert called("import", "imagenet-testbed", "testbed") == 0
    for name in ("oodrobustbench-cifar10-linf", "oodrobustbench-cifar10-l2", "oodrobustbench-imagenet-linf"):
        make_zoo(folder / f"{name}.csv", name)
        assert called("import", "tidy", f"{name}.csv") == 0
    make_multi_id(folder / "multi-id.csv")
    assert called("import", "tidy", "multi-id.csv") == 0
    logits = np.random.default_rng(0).normal(size=(40, 4))
    for name, values in (("before", logits), ("after", logits + 0.3), ("labels", logits.argmax(axis=1))):
        np.save(f"{name}.npy", values)
    yield World(folder, set())
    os.chdir(before)


@pytest.fixture(scope="module")
def measured_world(world: World) -> World:
    """The same with a few runs on the bundled images."""
    assert called("evaluate", *MODELS, "--scenario", SCENARIOS, "--samples", "12", "--device", "cpu") == 0
    return world


def make_testbed(folder: Path) -> None:
    """The public files of the testbed in small: 24 models of all settings, one standard model at 0 on ImageNet-A."""
    draws = np.random.default_rng(1)
    suite = load_suite("imagenet-testbed")
    every = [name for column in suite.board for term in column.settings for name in term]
    every += [
        column.name for column in suite.board if not column.settings and not column.of and column.unit == "percent"
    ]
    settings = [
        name for name in dict.fromkeys(every) if name not in ("imagenet",) and not name.startswith("corruptions-")
    ]
    names = ["resnet50", *(f"standard{i}" for i in range(11)), *(f"resnet50_with_{i}_aws" for i in range(4))]
    names += [f"more_data{i}" for i in range(4)] + [f"resnet50_imagenet_subsample_1_of_{2**i}" for i in range(1, 5)]
    assert len(names) == TESTBED_MODELS
    folder.mkdir()
    with (folder / "robustness_top1s_2020.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", *settings])
        for k, name in enumerate(names):
            base = 0.55 + 0.012 * k + 0.02 * draws.random()
            values = [100 * (base if s.startswith("val") else base * 0.7 + 0.05 * draws.random()) for s in settings]
            if name == "resnet50":
                base = 0.63
                values = [100 * (0.0 if s == "imagenet-a" else base if s.startswith("val") else 0.45) for s in settings]
            writer.writerow([name, *(f"{value:.3f}" for value in values)])
    kinds = {name: "STANDARD" if "standard" in name or name == "resnet50" else "MORE_DATA" for name in names}
    kinds |= {name: "STANDARD" for name in names if "subsample" in name}
    kinds |= {name: "ROBUST_INTV" for name in names if "aws" in name}
    record = {name: {"nat": kind, "fine": kind} for name, kind in kinds.items()}
    (folder / "model_types.json").write_text(json.dumps(record))


def make_zoo(path: Path, benchmark: str) -> None:
    """Scores of 14 models under every shift of the suite."""
    draws = np.random.default_rng(2)
    names = [column.name for column in load_suite(benchmark).board if column.unit == "percent" and not column.of]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "setting", "value", "unit", "benchmark"])
        for k in range(ZOO):
            accuracy, robustness = 75 + 1.3 * k, 40 + 2 * k + 3 * draws.random()
            for j, name in enumerate(names):
                start = accuracy if name.endswith("accuracy") else robustness
                value = start if name.startswith("id-") else start * (0.95 - 0.03 * (j % 9)) - 2 * draws.random()
                writer.writerow([f"zoo-{k}", name, f"{value:.2f}", "percent", benchmark])


def make_multi_id(path: Path) -> None:
    draws = np.random.default_rng(3)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "setting", "value", "unit", "benchmark", "group"])
        for k in range(12):
            first, second = 40 + 4 * k + draws.random(), 80 - 3 * k + 4 * draws.random()
            scores = {"id-cifar10": first, "id-imagenet": second}
            scores |= {
                name: 0.5 * first + 0.3 * second + draws.random() for name in ("cifar10.1", "cifar10.2", "cinic10")
            }
            for name, value in scores.items():
                writer.writerow([f"model-{k}", name, f"{value:.2f}", "percent", "multi-id", "AB"[k % 2]])


@pytest.mark.parametrize(
    "row", [row for row in rows() if row.get("is_quick")], ids=lambda row: f"{row['paper']}, {row['item']}"
)
def test_quick_commands_of_the_page_run(row: dict[str, Any], world: World, capsys: pytest.CaptureFixture[str]) -> None:
    run_commands(row, world, capsys)


@pytest.mark.slow
@pytest.mark.parametrize(
    "row", [row for row in rows() if not row.get("is_quick")], ids=lambda row: f"{row['paper']}, {row['item']}"
)
def test_every_other_command_of_the_page_runs(
    row: dict[str, Any], measured_world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    run_commands(row, measured_world, capsys)


def test_every_command_of_the_page_is_one_of_ours_with_options_that_it_has() -> None:
    program = get_command(app)
    for row in rows():
        for command in (*row["commands"], *row.get("small", ())):
            group, rest = program, words(command)
            while isinstance(group, Group):
                assert rest[0] in group.commands, command
                group, rest = group.commands[rest[0]], rest[1:]
            with group.make_context(rest[0] if rest else "", list(rest), resilient_parsing=False) as context:
                assert context.params, command


def test_every_row_has_a_state_and_commands_and_what_is_tested_is_what_is_written() -> None:
    papers = [paper["name"] for paper in RECORD["paper"]]
    for row in rows():
        where = f"{row['paper']}, {row['item']}"
        assert set(row) <= FIELDS, where
        assert row["paper"] in papers, where
        assert row["state"] in STATES, where
        assert row["state"] != "waits" or row.get("note"), f"{where}: what it waits for"
        assert row["commands"], where
        for command, small in zip(row["commands"], row.get("small", row["commands"]), strict=True):
            result, tried = words(command), words(small)
            assert shlex.split(command)[0] == "holdfast", where
            assert result[0] == tried[0] or (result[0], tried[0]) == ("evaluate", "plan"), where
            options = {word for word in result if word.startswith("--")}
            assert options <= {word for word in tried if word.startswith("--")}, where


def test_every_numbered_table_and_figure_of_the_papers_has_a_row() -> None:
    """By the numbers that the papers give them."""
    most = {
        "oodrobustbench": (30, 10),
        "multirobustbench": (21, 1),
        "multi-id": (5, 9),
        "posterior-agreement": (18, 3),
        "imagenet-testbed": (32, 2),
    }
    for paper, (figures, tables) in most.items():
        items = " ".join(row["item"] for row in rows() if row["paper"] == paper)
        listed: dict[str, set[int]] = {"Figure": set(), "Table": set()}
        for kind, text in re.findall(r"(Figure|Table)s? ([0-9a-c, to]+)", items):
            listed[kind] |= numbers(text)
        assert listed["Figure"] >= set(range(1, figures + 1)), (paper, "figures")
        assert listed["Table"] >= set(range(1, tables + 1)), (paper, "tables")


def numbers(text: str) -> set[int]:
    """`3, 11 to 13` → 3, 11, 12 and 13; letters after a number are its parts."""
    found: set[int] = set()
    for part in text.split(","):
        ends = [int("".join(filter(str.isdigit, end))) for end in part.split(" to ") if any(map(str.isdigit, end))]
        found |= set(range(ends[0], ends[-1] + 1)) if ends else set()
    return found
