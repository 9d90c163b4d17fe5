"""Inputs of every kind, made from valid ones by chance: each ends in a result or in an error of ours.

`targets(folder)` gives the kinds by name. A target takes a generator of random numbers, makes one input and feeds it
in; it raises what is no `HoldfastError`. `benchmarks/fuzz.py` runs as many as are asked for, and times them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import random
import sys
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from holdfast.core.errors import HoldfastError
from holdfast.core.patterns import expanded
from holdfast.core.registry import registry
from holdfast.core.suites import FOLDER, load_suite
from holdfast.core.types import Flag, ModelCard
from holdfast.core.values import parse_value
from holdfast.datasets.label_maps import map_labels
from holdfast.datasets.matched import table_columns
from holdfast.metrics.summary import lines
from holdfast.store import ChangeRecord, Footer, Predictions, Store
from holdfast.store.footer import FOOTER_KEY, SEAL_KEY, _seal
from holdfast.store.importers import read_results
from holdfast.store.logit_files import read_labels, read_logits
from holdfast.store.rows import to_rows
from holdfast.store.scores import scores_from_parquet, scores_to_parquet

Target = Callable[[random.Random], None]
REFS = (
    "pgd-linf:radius=8/255,steps=10",
    "fashion-mnist-2k+fog:severity=3+pgd-l2:radius=0.5",
    "sweep:attack=(pgd-linf:steps=20),radii=[1/255,2/255,4/255]",
    "worst-of:attacks=[(pgd-linf:radius=8/255),(pgd-l2:radius=0.5)],radius=none",
    'folder:"/data/c++, old",size=32,answers=[a,b]',
    "arrays:/data/x.npz,layout=nhwc,answers=10",
    "webdataset:/data/val-{0000..0009}.tar,size=8",
    "autoattack-linf:radius=8/255",
    "gaussian-noise:severity=5",
    "mix:parts=[(fashion-mnist-2k),(fashion-mnist-2k)],n=10",
    "{dataset}+{contrast,jpeg}:severity={1,3,5}",
)
ODD = (
    *'()[]{}"\\,+:=/ \t\n\0-.eE0123456789',
    *("inf", "nan", "none", "true", "-1", "1e999", "1/0", "9" * 400, "[" * 60, "{a,b}" * 20, "\ud800", "é", "٣", "../"),
    *("radius=", "steps=", "answers=", "(", "))", '"""', "=1+1", "<script>", "\r\n", "null", "1_0", "0x10", "{..}"),
)
BYTES = (
    b"\0",
    b"\xff",
    b"\n",
    b",",
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b"-",
    b"e9",
    b"nan",
    b"inf",
    b"9" * 400,
    b"null",
    b"../../x",
)
DEEP = ("[" * 5000, '{"a":' * 5000, "(" * 5000)
IDX = bytes([0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3])


def targets(folder: Path) -> dict[str, Target]:
    """Every kind of input; files lie in the folder."""
    made = {
        "refs": _refs,
        "patterns": _patterns,
        "values": lambda chance: _ignored(parse_value(_mutated_text(chance, chance.choice(REFS)))),
        "suites": _suites(folder / "suites"),
        "footers": _footers(),
        "stores": _stores(folder / "stores"),
        "answers": _answers(folder / "answers"),
        "arrays": _arrays(folder / "arrays"),
        "shards": _shards(folder / "shards"),
        "idx": _idx(folder / "idx"),
        "tables": _tables(folder / "tables"),
        "logits": _logits(folder / "logits"),
        "score files": _score_files(),
        "command line": _command_line(folder / "commands"),
    }
    return made | {f"import {name}": target for name, target in _importers(folder / "imports").items()}


def fed(target: Target, chance: random.Random) -> bool:
    """One input into a target; whether it was taken. Anything but an error of ours comes out."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target(chance)
    except HoldfastError as error:
        str(error).encode("utf-8", "backslashreplace")
        return False
    return True


def _ignored(_: object) -> None:
    """A result that only had to come."""


def _mutated_text(chance: random.Random, text: str) -> str:
    if chance.random() < 0.02:
        return chance.choice(DEEP) + text
    letters = list(text)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(letters))
        match chance.randint(0, 3):
            case 0:
                letters[at:at] = chance.choice(ODD)
            case 1:
                del letters[at : at + chance.randint(1, 5)]
            case 2:
                letters[at : at + 1] = chance.choice(ODD)
            case _:
                other = chance.randint(0, len(letters))
                letters[at:at] = letters[min(at, other) : max(at, other)] * chance.randint(1, 3)
    return "".join(letters)


def _mutated(chance: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(made))
        match chance.randint(0, 4):
            case 0:
                made[at:at] = chance.choice(BYTES)
            case 1:
                del made[at : at + chance.randint(1, 8)]
            case 2 if made:
                made[min(at, len(made) - 1)] = chance.randint(0, 255)
            case 3:
                del made[at:]
            case _:
                made[at : at + 1] = chance.choice(BYTES)
    return bytes(made)


def _refs(chance: random.Random) -> None:
    text = _mutated_text(chance, chance.choice(REFS))
    scenario = None
    with contextlib.suppress(HoldfastError):
        scenario = registry.scenario(text)
        assert registry.scenario(scenario.full) == scenario, "what was read reads back"
    for kind in ("dataset", "model", "metric", "recipe"):
        with contextlib.suppress(HoldfastError):
            registry.bind(kind, text)
    for part in scenario.changes if scenario is not None else (registry.bind_change(text),):
        registry.build(part)


def _patterns(chance: random.Random) -> None:
    expanded(_mutated_text(chance, chance.choice(REFS)), {"dataset": ["d"], "a": ["{b}", "x"], "b": ["{a}", "y"]})


def _suites(folder: Path) -> Target:
    folder.mkdir(parents=True)
    known = [file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.toml"))]

    def target(chance: random.Random) -> None:
        text = chance.choice(known)
        cut = chance.randint(0, len(text))  # a part of a suite, so that a mutation meets something small
        text = text[: chance.choice((len(text), cut))]
        file = folder / "own.toml"
        file.write_bytes(_mutated_text(chance, text).encode("utf-8", "surrogatepass"))
        load_suite(str(file), dataset="fashion-mnist-2k")

    return target


def _footer() -> Footer:
    change = ChangeRecord("attack", "pgd-linf", 1, "pgd-linf:radius=8/255", {"radius": 8 / 255})
    return Footer(
        key="0123456789abcdef0123",
        family="f",
        model="m",
        model_full="m",
        scenario="d+pgd-linf:radius=8/255",
        scenario_full="d+pgd-linf:radius=8/255",
        dataset="d",
        changes=(change,),
        seed=0,
        selection="all",
        samples=None,
        precision=None,
        weights="w",
        data="d",
        card=ModelCard(name="m", source="m", classes=3, threats=("pgd-linf",)),
        classes=("a", "b", "c"),
        population=4,
        flags=(Flag("f", "note", "x"),),
        facts={"a": "b"},
        tallies={"gradients": 3},
        finished="2024-01-01T00:00:00+00:00",
    )


def _mutated_record(chance: random.Random, record: object) -> object:
    """A JSON value with one part replaced, left out or added, somewhere inside."""
    others = (None, True, -1, 10**30, 1e308, float("nan"), "", "x" * 1000, "../../x", [], {}, [[]], {"a": {}}, "\ud800")
    if chance.random() < 0.3 or not isinstance(record, dict | list) or not record:
        return chance.choice(others)
    if isinstance(record, list):
        at = chance.randrange(len(record))
        return [*record[:at], _mutated_record(chance, record[at]), *record[at + 1 :]]
    name = chance.choice(list(record))
    match chance.randint(0, 3):
        case 0:
            return {key: value for key, value in record.items() if key != name}
        case 1:
            return record | {"new field": chance.choice(others)}
        case _:
            return record | {name: _mutated_record(chance, record[name])}


def _footers() -> Target:
    record = dataclasses.asdict(_footer())

    def target(chance: random.Random) -> None:
        data = _mutated_footer(chance, record)
        footer = Footer.from_metadata({FOOTER_KEY: data, SEAL_KEY: _seal(data)})
        if footer is not None:
            assert Footer.from_bytes(footer.to_bytes()) == footer or "NaN" in footer.to_bytes().decode()

    return target


def _mutated_footer(chance: random.Random, record: object) -> bytes:
    if chance.random() < 0.2:
        return _mutated(chance, json.dumps(record).encode())
    return json.dumps(_mutated_record(chance, record)).encode()


def _rows_file(metadata: dict[bytes, bytes] | None = None) -> bytes:
    n = 4
    given = Predictions(
        ids=[f"s{i}" for i in range(n)],
        labels=np.arange(n) % 3,
        logits=np.eye(n, 3, dtype=np.float32),
        sizes=np.full(n, np.nan, np.float32),
        radii=np.full(n, np.nan, np.float32),
        forwards=np.ones(n, np.int64),
        backwards=np.zeros(n, np.int64),
        reasons=[None] * n,
    )
    rows = to_rows(given, _footer())
    rows = rows.sealed(rows.footer)
    sink = io.BytesIO()
    pq.write_table(rows.table.replace_schema_metadata(metadata or rows.footer.to_metadata()), sink)
    return sink.getvalue()


def _stores(folder: Path) -> Target:
    """A store with one odd file among the sound: every reader goes on."""
    whole, record = _rows_file(), dataclasses.asdict(_footer())
    count = 0

    def target(chance: random.Random) -> None:
        nonlocal count
        count += 1
        store_folder = folder / str(count)
        (store_folder / "rows").mkdir(parents=True)
        if chance.random() < 0.5:
            data = _mutated(chance, whole)
        else:
            footer = _mutated_footer(chance, record)
            data = _rows_file({FOOTER_KEY: footer, SEAL_KEY: _seal(footer)})
        (store_folder / "rows" / "0123456789abcdef0123.parquet").write_bytes(data)
        store = Store(str(store_folder))
        try:
            store.footers()
            store.unfinished()
            store.verify()
            lines(store)
        finally:
            for path in sorted(store_folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            store_folder.rmdir()

    return target


def _answers(folder: Path) -> Target:
    folder.mkdir(parents=True)
    valid = ("cat\ndog\nhorse\n", "7\n3\n", "class,number\ndog,1\ncat,5\ndog,2\n")

    def target(chance: random.Random) -> None:
        file = folder / "classes.txt"
        file.write_bytes(_mutated(chance, chance.choice(valid).encode()))
        answers = chance.choice(
            (str(file), "imagenet", "imagenet-full", 1000, 2, -1, (1, 2), ("cat", "dog"), ("cat", 1))
        )
        made = map_labels(np.array([0, 1, 1]), ("cat", "dog"), answers, "x")
        if made.label_map is not None:
            made.label_map.of(10)

    return target


def _arrays(folder: Path) -> Target:
    folder.mkdir(parents=True)
    images, labels = np.zeros((3, 4, 4), np.uint8), np.arange(3)
    packed, plain = io.BytesIO(), io.BytesIO()
    np.savez_compressed(packed, images=images, labels=labels, classes=np.array(["a", "b", "c"]))
    np.save(plain, images)
    lone = io.BytesIO()
    np.save(lone, labels)

    def target(chance: random.Random) -> None:
        if chance.random() < 0.5:
            (folder / "x.npz").write_bytes(_mutated(chance, packed.getvalue()))
            ref = f"arrays:{folder / 'x.npz'}"
        else:
            (folder / "images.npy").write_bytes(_mutated(chance, plain.getvalue()))
            (folder / "labels.npy").write_bytes(chance.choice((lone.getvalue(), _mutated(chance, lone.getvalue()))))
            ref = f"arrays:{folder}"
        registry.build(registry.bind("dataset", ref))

    return target


def _shards(folder: Path) -> Target:
    folder.mkdir(parents=True)
    picture, shard = io.BytesIO(), io.BytesIO()
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(picture, "PNG")
    with tarfile.open(fileobj=shard, mode="w") as tar:
        for name, content in (("a.png", picture.getvalue()), ("a.cls", b"1"), ("b.png", picture.getvalue())):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        info = tarfile.TarInfo("b.json")
        info.size = len(b'{"label": 0}')
        tar.addfile(info, io.BytesIO(b'{"label": 0}'))
    whole = shard.getvalue()

    def target(chance: random.Random) -> None:
        at = chance.randrange(0, 4096)  # where the headers are
        data = bytearray(whole)
        data[at : at + 8] = _mutated(chance, bytes(data[at : at + 8])).ljust(8, b"\0")[:8]
        (folder / "x.tar").write_bytes(bytes(data) if chance.random() < 0.7 else _mutated(chance, whole))
        dataset = registry.build(registry.bind("dataset", f"webdataset:{folder / 'x.tar'}"))
        dataset.images(range(len(dataset.ids)))

    return target


def _idx(folder: Path) -> Target:
    from holdfast.datasets.mnist import read_idx

    folder.mkdir(parents=True)

    def target(chance: random.Random) -> None:
        (folder / "x").write_bytes(_mutated(chance, IDX))
        read_idx(folder / "x", dimensions=1)

    return target


def _tables(folder: Path) -> Target:
    folder.mkdir(parents=True)
    parquet = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), parquet)
    valid = {
        ".csv": b"a,b\n1,x\n2,y\n",
        ".jsonl": b'{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n',
        ".parquet": parquet.getvalue(),
    }

    def target(chance: random.Random) -> None:
        ending, content = chance.choice(list(valid.items()))
        (folder / f"t{ending}").write_bytes(_mutated(chance, content))
        table_columns(folder / f"t{ending}", ["a", "b"])

    return target


def _logits(folder: Path) -> Target:
    folder.mkdir(parents=True)
    array, parquet = io.BytesIO(), io.BytesIO()
    np.save(array, np.eye(3))
    pq.write_table(pa.table({"id": ["a", "b"], "logits": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1]}), parquet)
    valid = {
        ".npy": array.getvalue(),
        ".csv": b"id,label,cat,dog\na,0,1.5,2\nb,1,3,4\n",
        ".parquet": parquet.getvalue(),
    }

    def target(chance: random.Random) -> None:
        ending, content = chance.choice(list(valid.items()))
        (folder / f"l{ending}").write_bytes(_mutated(chance, content))
        reader = chance.choice((read_logits, read_labels))
        reader(folder / f"l{ending}")

    return target


def _score_files() -> Target:
    from holdfast.core.table import table
    from holdfast.store.scores import Scores

    whole = scores_to_parquet(Scores("b", table({("m", "s"): 0.5, ("n", "s"): 0.25}, source="here")))
    return lambda chance: _ignored(scores_from_parquet(_mutated(chance, whole), "scores.parquet"))


def _importers(folder: Path) -> dict[str, Target]:
    entry = {"name": "T", "dataset": "cifar10", "clean_acc": "83.34", "autoattack_acc": "43.21", "architecture": "RN"}
    defences = {"Mine": {"Details": {"Title": "T"}, "Accuracies": {"NoAttack": 80.0, "L2": {"0.5": 60.0}}}}
    heading = "rank,method,url,footnote,id_clean,id_robust,ood_robust,oodd_clean,oodd_robust,oodt_robust,arch\n"
    labels = io.BytesIO()
    np.save(labels, np.arange(4))
    layouts: dict[str, dict[str, bytes]] = {
        "tidy": {
            "mine.csv": b"benchmark,model,setting,value,unit,n,source\nb,a,clean,90.5,percent,100,p\nb,a,fog,50,,,p\n"
        },
        "timm": {"results-imagenet.csv": b"model,img_size,top1,top5\nvit,224,80.1,95.0\nvit,384,82.1,96.0\n"},
        "robustbench": {"cifar10/Linf/Mine.json": json.dumps(entry).encode()},
        "multirobustbench": {"def_accs.json": json.dumps(defences).encode(), "ata_accs.json": b'{"NoAttack": 90.0}'},
        "oodrobustbench": {"cifar10_Linf_leaderboard.csv": f"{heading}1,A,u,,95,69,45,79,43,46,W\n".encode()},
        "imagenet-testbed": {
            "robustness_top1s_x.csv": b"model,val,imagenet-a\nresnet50,76.13,0.0\nvgg19,72.38,\n",
            "model_types_x.json": b'{"resnet50": {"nat": "STANDARD"}, "vgg19": {"nat": "STANDARD"}}',
            "results_metadata_x.csv": b"model,arch,val_dataset_size\nresnet50,r,50000\n",
        },
        "cifar10-1-predictions": {
            "model_predictions/original_predictions/m_predictions.json": b"[0, 1, 2, 3]",
            "Y_cifar10.npy": labels.getvalue(),
        },
    }
    return {name: _importer(name, files, folder / name) for name, files in layouts.items()}


def _importer(name: str, files: dict[str, bytes], folder: Path) -> Target:
    def write(path: str, content: bytes) -> Path:
        store_folder = folder / path
        store_folder.parent.mkdir(parents=True, exist_ok=True)
        store_folder.write_bytes(content)
        return store_folder

    for path, content in files.items():
        write(path, content)
    start = folder / next(iter(files)) if name in ("tidy", "robustbench") else folder

    def target(chance: random.Random) -> None:
        path = chance.choice(list(files))
        if path.endswith(".json") and chance.random() < 0.5:
            data = json.dumps(_mutated_record(chance, json.loads(files[path]))).encode()
        else:
            data = _mutated(chance, files[path])
        if chance.random() < 0.02:
            data = chance.choice(DEEP).encode()
        write(path, data)
        try:
            made = read_results(name, start)
            for scores in made.scores:
                scores_from_parquet(scores_to_parquet(scores), "again")
            for rows in made.rows:
                rows.footer.to_metadata()
        finally:
            write(path, files[path])

    return target


COMMANDS = (
    ("list", "attacks"),
    ("show", "pgd-linf:radius=8/255"),
    ("show", "fashion-standard"),
    ("scores", "--model", "m", "--scenario", "d", "--csv"),
    ("compare", "m", "n", "--json"),
    ("status", "--json"),
    ("verify",),
    ("export", "--format", "csv", "--model", "m"),
    ("import", "tidy", "mine.csv"),
    ("board", "robustbench-linf"),
    (
        "plan",
        "fashion-standard",
        "--recorded",
        "--scenario",
        "fashion-mnist-2k+pgd-linf",
        "--samples",
        "5",
        "--seed",
        "1",
    ),
    ("evaluate", "fashion-standard", "--scenario", "nowhere+pgd-linf", "--samples", "5", "--batch-size", "3"),
    ("check", "nowhere:x", "--dataset", "arrays:nowhere"),
    ("explain", "0123", "s0"),
    ("report", "m"),
)


def _command_line(folder: Path) -> Target:
    """The commands that measure nothing, with one of their words changed; they end with a code and in words."""
    from holdfast.__main__ import main

    folder.mkdir(parents=True)

    def target(chance: random.Random) -> None:
        words = list(chance.choice(COMMANDS))
        at = chance.randrange(1, len(words)) if len(words) > 1 else 0
        words[at] = _mutated_text(chance, words[at]).replace("\0", "")
        if words[0] not in {command[0] for command in COMMANDS}:
            words[0] = "status"
        if any(word.startswith("fashion-mnist") for word in words) and words[0] == "evaluate":
            return  # that would measure
        result, code = io.StringIO(), None
        before = sys.argv
        sys.argv = ["holdfast", *words]
        try:
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(result),
                contextlib.chdir(folder),
            ):
                main()
        except SystemExit as stop:
            code = stop.code
        finally:
            sys.argv = before
        assert isinstance(code or 0, int), code
        assert "Traceback" not in result.getvalue(), result.getvalue()

    return target
