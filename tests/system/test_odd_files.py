"""One odd file in a store is named and left where it is; every command says of the rest what it said before."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.store import Store
from holdfast.store.footer import FOOTER_KEY, SEAL_KEY, _seal
from holdfast.store.published import published
from holdfast.store.scores import to_arrow

MODELS = ("fashion-standard", "fashion-at-linf")
DATASET = "fashion-mnist-2k"
SCENARIOS = (DATASET, f"{DATASET}+gaussian-noise:severity=2")
EVALUATE = (
    "evaluate",
    *MODELS,
    *(word for text in SCENARIOS for word in ("--scenario", text)),
    *("--samples", "60", "--batch-size", "16", "--quiet", "--pictures", "2", "--json"),
)
Change = Callable[[Path], str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of four runs and one table of scores, made once."""
    from holdfast.engine.evaluate import evaluate

    folder = tmp_path_factory.mktemp("made") / "store"
    outcomes = evaluate(list(MODELS), list(SCENARIOS), store=str(folder), samples=60, batch_size=16, pictures=2)
    assert all(outcome.error is None for outcome in outcomes)
    store = Store(str(folder))
    store.add_scores(published("multirobustbench"))
    store.footers()
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "store")
    return tmp_path / "store"


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """The same rows under a changed footer, sealed as a version of ours would seal it."""
    table = pq.read_table(io.BytesIO(path.read_bytes()))
    record = json.loads(table.schema.metadata[FOOTER_KEY])
    change(record)
    data = json.dumps(record).encode()
    pq.write_table(table.replace_schema_metadata({FOOTER_KEY: data, SEAL_KEY: _seal(data)}), path)


def sound(store: Path) -> Path:
    """A file of rows that was there from the beginning."""
    return sorted(path for path in (store / "rows").glob("*.parquet") if len(path.stem) == 20)[0]


def another(store: Path, change: Callable[[dict[str, Any]], None]) -> str:
    """A copy of a run under a key of its own, with a changed footer."""
    key = f"{len(list((store / 'rows').iterdir())):f>20}"
    path = store / "rows" / f"{key}.parquet"
    shutil.copy(sound(store), path)

    def renamed(record: dict[str, Any]) -> None:
        record["key"] = key
        change(record)

    rewritten(path, renamed)
    return f"rows/{path.name}"


def newer(store: Path) -> str:
    return another(store, lambda record: record.update(format=2))


def without(field: str) -> Change:
    return lambda store: another(store, lambda record: record.pop(field))


def of_another_kind(field: str, value: object) -> Change:
    return lambda store: another(store, lambda record: record.update({field: value}))


def without_card_field(store: Path) -> str:
    return another(store, lambda record: record["card"].pop("classes"))


def no_record(store: Path) -> str:
    name = another(store, lambda record: None)
    table = pq.read_table(io.BytesIO((store / name).read_bytes()))
    pq.write_table(table.replace_schema_metadata({FOOTER_KEY: b"[]", SEAL_KEY: _seal(b"[]")}), store / name)
    return name


def not_text(store: Path) -> str:
    Path(os.fsdecode(os.fsencode(store / "rows") + b"/\xff\xfe.parquet")).write_bytes(b"anything")
    return "rows/\\udcff\\udcfe.parquet"


def folder(store: Path) -> str:
    (store / "rows" / "folder.parquet").mkdir()
    return "rows/folder.parquet"


def empty(store: Path) -> str:
    (store / "rows" / "empty.parquet").write_bytes(b"")
    return "rows/empty.parquet"


def loop(store: Path) -> str:
    (store / "rows" / "loop.parquet").symlink_to("loop.parquet")
    return "rows/loop.parquet"


def dangling(store: Path) -> str:
    (store / "rows" / "dangling.parquet").symlink_to("nowhere")
    return "rows/dangling.parquet"


def pipe(store: Path) -> str:
    os.mkfifo(store / "rows" / "pipe.parquet")
    return "rows/pipe.parquet"


def foreign(store: Path) -> str:
    pq.write_table(pa.table({"a": [1, 2]}), store / "rows" / "foreign.parquet")
    return "rows/foreign.parquet"


def gigantic(store: Path) -> str:
    """A footer that says it is two gigabytes long."""
    data = bytearray(sound(store).read_bytes())
    data[-8:-4] = (2**31 - 1).to_bytes(4, "little")
    (store / "rows" / "gigantic.parquet").write_bytes(data)
    return "rows/gigantic.parquet"


def copied(store: Path) -> str:
    shutil.copy(sound(store), store / "rows" / "copy.parquet")
    return "rows/copy.parquet"


def odd_part(store: Path) -> str:
    (store / "parts" / ("e" * 20)).mkdir(parents=True)
    pq.write_table(pa.table({"a": [1, 2]}), store / "parts" / ("e" * 20) / "foreign.parquet")
    return f"parts/{'e' * 20}/foreign.parquet"


def torn_gallery(store: Path) -> str:
    path = next((store / "gallery").glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:200])
    return f"gallery/{path.name}"


def scores_with(change: Callable[[pa.Table], pa.Table]) -> Change:
    def make(store: Path) -> str:
        name = f"scores/oodrobustbench-training.{len(list((store / 'scores').iterdir()))}.parquet"
        pq.write_table(change(to_arrow(published("oodrobustbench-training"))), store / name)
        return name

    return make


ODD: dict[str, Change] = {
    "newer format": newer,
    "footer without a needed field": without("population"),
    "footer without a key": without("key"),
    "footer without a card": without("card"),
    "card without a needed field": without_card_field,
    "footer field of another kind": of_another_kind("n", "many"),
    "footer field too large": of_another_kind("right", 1 << 70),
    "footer classes of another kind": of_another_kind("classes", [1, 2]),
    "footer with half a surrogate": of_another_kind("model", "\ud800"),
    "footer that is no record": no_record,
    "name that is not UTF-8": not_text,
    "folder": folder,
    "empty": empty,
    "loop of links": loop,
    "link to nothing": dangling,
    "pipe": pipe,
    "foreign Parquet": foreign,
    "gigantic claims": gigantic,
    "copy under another name": copied,
    "odd part": odd_part,
    "scores with another column": scores_with(lambda table: table.append_column("more", table.column("value"))),
    "scores without a column": scores_with(lambda table: table.drop_columns(["unit"])),
    "foreign scores": scores_with(lambda table: pa.table({"a": [1]})),
}


def commands(store: Path, tmp_path: Path) -> dict[str, tuple[str, ...]]:
    one, other = sorted(path.stem for path in (store / "rows").glob("*.parquet"))[:2]
    return {
        "status": ("status", "--json"),
        "scores": ("scores", "--json"),
        "board": ("board", "quick", "--json"),
        "compare": ("compare", *MODELS, "--json"),
        "trend": ("trend", "--benchmark", "store", "--x", SCENARIOS[0], "--y", SCENARIOS[1], "--space", "linear"),
        "report": ("report", MODELS[0], "--out", str(tmp_path / "report.html")),
        "site": ("site", "--out", str(tmp_path / "site"), "--json"),
        "agree": ("agree", one, other, "--json", "--resamples", "0"),
        "export": ("export", "--format", "json"),
        "plan": ("plan", *MODELS, "--scenario", DATASET, "--recorded", "--json"),
        "explain": ("explain", one, Store(str(store)).read(one).ids[0], "--json"),
        "evaluate": EVALUATE,
    }


def result(name: str, answer: Any) -> object:
    """What a command answered, without what it says of files it left aside."""
    if name == "status":
        return json.loads(answer.out)["runs"]
    if name == "site":
        record = json.loads(answer.out)
        return record["boards"], record["models"]
    if name == "trend":
        return answer.code, answer.out
    return answer.out


@pytest.mark.slow
def test_every_command_works_beside_every_odd_file(run: Any, made: Path, store: Path, tmp_path: Path) -> None:
    expected = commands(made, tmp_path)
    before = {name: result(name, run(*words, "--store", str(made))) for name, words in expected.items()}
    names = [make(store) for make in ODD.values()]
    for command, words in expected.items():
        answer = run(*words, "--store", str(store))
        assert result(command, answer) == before[command], f"{command}: {answer.err}"
    problems = {each["name"] for each in _files(run("verify", "--json", "--store", str(store))) if each["problem"]}
    assert problems == set(names)
    assert not (store / "damaged").exists(), "nothing is moved"


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_file_is_named_once(kind: str, run: Any, store: Path) -> None:
    before = result("status", run("status", "--json", "--store", str(store)))
    name = ODD[kind](store)
    answer = run("status", "--json", "--store", str(store))
    assert result("status", answer) == before
    assert answer.err.count(name) == (0 if name.startswith("scores/") else 1), answer.err
    table = run("export", "oodrobustbench-training", "--store", str(store)) if name.startswith("scores/") else None
    assert table is None or table.err.count(name) >= 1
    answer = run("verify", "--json", "--store", str(store))
    assert answer.code == 1
    assert [each["name"] for each in _files(answer) if each["problem"]] == [name]


def _files(answer: Any) -> list[dict[str, Any]]:
    return list(json.loads(answer.out)["files"])


@pytest.mark.parametrize("field", ["made-up", "card"])
def test_fields_of_a_later_version_are_passed_over(run: Any, store: Path, field: str) -> None:
    before = json.loads(run("scores", "--json", "--store", str(store)).out)

    def change(record: dict[str, Any]) -> None:
        (record["card"] if field == "card" else record)["from_later"] = {"a": [1]}

    for path in (store / "rows").glob("*.parquet"):
        rewritten(path, change)
    answer = run("scores", "--json", "--store", str(store))
    assert (answer.code, answer.err) == (0, "")
    assert json.loads(answer.out) == before
    assert run("verify", "--store", str(store)).code == 0


def test_fields_with_a_default_may_be_missing(run: Any, store: Path) -> None:
    for path in (store / "rows").glob("*.parquet"):
        rewritten(path, lambda record: [record.pop(name) for name in ("facts", "flags", "versions", "in_top5")])
        rewritten(path, lambda record: [record["card"].pop(name) for name in ("threats", "paper", "size")])
    answer = run("scores", "--json", "--store", str(store))
    assert (answer.code, answer.err, len(json.loads(answer.out))) == (0, "", 4)


def test_a_damaged_or_missing_gallery_is_made_again(run: Any, store: Path) -> None:
    before = {path.name: path.read_bytes() for path in (store / "gallery").glob("*.parquet")}
    torn, gone, *_ = sorted(before)
    (store / "gallery" / torn).write_bytes(before[torn][:300])
    (store / "gallery" / gone).unlink()
    report = run("report", MODELS[0], "--out", str(store.parent / "report.html"), "--store", str(store))
    assert report.code == 0
    assert run(*EVALUATE, "--store", str(store)).code == 0
    assert {path.name: path.read_bytes() for path in (store / "gallery").glob("*.parquet")} == before
    assert run("verify", "--store", str(store)).code == 0


def test_a_file_in_the_place_of_a_run_that_is_not_ours_stops_that_run_alone(run: Any, store: Path) -> None:
    path = next((store / "rows").glob("*.parquet"))
    path.unlink()
    pq.write_table(pa.table({"a": [1, 2]}), path)
    kept = path.read_bytes()
    answer = run(*EVALUATE, "--store", str(store))
    assert answer.code == 1
    assert "no footer of holdfast's" in answer.err
    assert [("error" in each) for each in json.loads(answer.out)].count(True) == 1
    assert path.read_bytes() == kept, "neither moved nor overwritten"
