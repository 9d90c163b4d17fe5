"""Every command that reads works where torch is not installed, and prints what it prints with it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from holdfast.cli.app import app
from holdfast.store import Store

DATA = "fashion-mnist-2k"
CONTRAST = f"{DATA}+contrast:severity=2"
MEASURED = (
    DATA,
    CONTRAST,
    f"{DATA}+pgd-linf:radius=8/255,steps=2",
    f"{DATA}+sweep:attack=(pgd-linf:steps=2),radii=[1/255,8/255]",
)
MODELS = ("fashion-standard", "fashion-noise", "fashion-at-linf")
# the same scenarios as people write them: another order, decimals, defaults
CORRUPTED = f"{DATA}+contrast:quantise=round,severity=2"
ATTACKED = f"{DATA}+pgd-linf:steps=2,radius={8 / 255!r}"
SUITE = f"""
title = "Mine"
scenarios = ["{DATA}", "{CORRUPTED}", "{ATTACKED}", "{MEASURED[3]}"]
dataset = "{DATA}"
sort = "attacked"

[[board]]
name = "clean"
scenarios = ["{DATA}"]

[[board]]
name = "corrupted"
scenarios = ["{CORRUPTED}"]

[[board]]
name = "attacked"
scenarios = ["{ATTACKED}"]
better = "higher"
"""
NEED_TORCH = {"check", "demo", "doctor", "evaluate", "explain", "plan", "serve", "train", "data get", "data list"}
NEED_TORCH |= {"data build", "data verify"}
READING: dict[str, list[list[str]]] = {
    "status": [[], ["--json"]],
    "verify": [[], ["--json"]],
    "scores": [
        [],
        ["--json"],
        ["--scenario", CORRUPTED, "--scenario", ATTACKED, "--csv"],
        ["--metric", "prediction-agreement", "--reference", DATA, "--csv"],
        ["--metric", "uar:attack=StAdvAttack"],
        ["--model", "fashion-standard:", "--csv"],
    ],
    "board": [[], ["--json"], ["quick"], ["mine.toml", "--json"], ["multirobustbench", "--csv"]],
    "compare": [[*MODELS[:2]], [*MODELS[:2], "--scenario", CORRUPTED, "--scenario", ATTACKED, "--json"]],
    "trend": [
        ["--x", "imagenet", "--y", "average-corruptions", "--json"],
        ["--x", DATA, "--y", CONTRAST, "--benchmark", "store", "--space", "linear", "--csv"],
    ],
    "figure scatter": [["--x", "imagenet", "--y", "average-corruptions", "--out", "f.svg", "--json"]],
    "figure matrix": [["--y", "ood-*", "--json"]],
    "figure boxes": [["--json"]],
    "figure limits": [["--json"]],
    "figure grid": [["--benchmark", "store", "--csv"]],
    "figure bars": [["--csv"]],
    "figure pairs": [["--x", DATA, "--y", CORRUPTED, "--json"]],
    "figure models": [["--csv"]],
    "agree": [["RUN0", "RUN1"], ["RUN0", "RUN2", "--json"]],
    "predict": [["--x", DATA, "--y", CORRUPTED, "--json"]],
    "report": [[MODELS[0], "--out", "report.html"]],
    "site": [["--out", "site", "--suite", "mine.toml", "--json"]],
    "data classes": [["imagenet-r"], ["imagenet-r", "--json"]],
    "export": [[], ["--format", "json"], ["multirobustbench", "--format", "latex"]],
    "import": [["tidy", "mine.csv"], ["tidy", "mine.csv", "--json"]],
    "list": [["suites", "--json"], ["metrics"]],
    "show": [["suite:quick"], ["mine.toml", "--json"]],
}
pytestmark = pytest.mark.slow  # two minutes in all
CASES = [(name, i) for name, several in READING.items() for i in range(len(several))]
RUNNER = """
import contextlib, io, json, sys, traceback
absent = json.loads(sys.argv[1])
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from holdfast.__main__ import main
results = []
for words in json.loads(sys.argv[2]):
    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["holdfast", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        except BaseException:
            code = traceback.format_exc()
    results.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(results))
"""


def commands() -> Iterator[str]:
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        yield from (f"{name} {each}" for each in inner) if inner else [name]


def test_every_command_reads_without_torch_or_is_named_as_one_that_needs_it() -> None:
    assert {*READING, *NEED_TORCH} == set(commands())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a clean run, a corruption, an attack, a sweep and imported scores."""
    made = tmp_path_factory.mktemp("reading")
    (made / "mine.toml").write_text(SUITE)
    table = "benchmark,model,setting,value,n\nmultirobustbench,mine_1,clean-accuracy,91.5,1000\n"
    (made / "mine.csv").write_text(table)
    options = [word for text in MEASURED for word in ("--scenario", text)]
    evaluated, imported = answers(
        made, [["evaluate", *MODELS, *options, "--samples", "20", "-q"], ["import", "tidy", "mine.csv"]]
    )
    assert (evaluated[0], imported[0]) == (0, 0)
    return made


def answers(folder: Path, lines: list[list[str]], without: tuple[str, ...] = ()) -> list[tuple[object, str, str]]:
    """Exit code (or traceback), stdout and stderr of several commands in a process without some modules."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUNNER, json.dumps(without), json.dumps(lines)],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def both(folder: Path) -> dict[tuple[str, int], tuple[tuple[object, str, str], tuple[object, str, str]]]:
    """What every case answers without torch, and with it."""
    runs = {
        f.scenario: key for key, f in Store(str(folder / "holdfast-store")).footers().items() if f.model == MODELS[0]
    }
    keys = {f"RUN{i}": runs[text] for i, text in enumerate(MEASURED)}
    lines = [[*name.split(), *(keys.get(word, word) for word in READING[name][i])] for name, i in CASES]
    bare = answers(folder, lines, ("torch", "torchvision"))
    return dict(zip(CASES, zip(bare, answers(folder, lines), strict=True), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join([case[0], *READING[case[0]][case[1]]])[:60])
def test_a_reading_command_answers_the_same_without_torch(case: tuple[str, int], both) -> None:
    bare, whole = both[case]
    assert bare[0] == 0, bare
    assert bare[1] == whole[1]
    assert bare[1] or case[0] in ("report", "site")


def test_what_was_measured_is_on_the_board_and_in_the_tables(both) -> None:
    board = json.loads(both["board", 3][0][1])["scores"]
    assert {record["model"] for record in board if record["value"] is not None} == set(MODELS)
    assert {record["score"] for record in board if record["value"] is not None} == {"clean", "corrupted", "attacked"}
    assert len(both["scores", 2][0][1].splitlines()) == 7
    assert len(json.loads(both["compare", 1][0][1])) == 2
