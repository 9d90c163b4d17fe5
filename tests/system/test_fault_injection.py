"""A fault at any read or write of a store never gives a wrong number, moves a sound file or ends in a traceback."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import KINDS, SHORT, Faults, injected

from holdfast.engine import evaluate as evaluate_module
from holdfast.store import Store
from holdfast.store import retrying as retrying_module

MODELS = ("fashion-standard", "fashion-at-linf")
WORDS = (
    "cannot read",
    "cannot write",
    "cannot move",
    "cannot remove",
    "no room left",
    "left aside",
    "no finished runs",
)
Run = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A command, the store that it starts from, and what it says undisturbed."""

    words: tuple[str, ...]
    before: Path
    out: str
    operations: int
    page: str | None


class Bench:
    """Runs commands against copies of stores at one place, with faults and without."""

    def __init__(self, run: Run, folder: Path) -> None:
        self.run, self.folder, self.store, self.page = run, folder, folder / "store", folder / "report.html"
        data = np.random.default_rng(0)
        images = data.integers(0, 256, (120, 28, 28), dtype=np.uint8)
        np.savez(folder / "tiny.npz", images=images, labels=np.arange(120) % 10)
        self.dataset = f"arrays:{folder / 'tiny.npz'}"
        self.scenarios = (self.dataset, f"{self.dataset}+gaussian-noise:severity=2")
        self.evaluate = self._evaluate(*MODELS)
        self.digests: dict[str, str] = {}
        self.cases = self._cases()

    def _evaluate(self, *models: str) -> tuple[str, ...]:
        asked = [word for text in self.scenarios for word in ("--scenario", text)]
        return ("evaluate", *models, *asked, "--batch-size", "16", "--quiet", "--pictures", "2")

    def _cases(self) -> dict[str, Case]:
        empty, half, whole = (self.folder / name for name in ("empty", "half", "whole"))
        empty.mkdir()
        assert self.call(*self._evaluate(MODELS[0])).code == 0
        self._unfinish()
        shutil.copytree(self.store, half)
        assert self.call(*self.evaluate).code == 0
        assert self.call("scores").code == 0
        shutil.copytree(self.store, whole)
        self.digests = self.sound_digests()
        fresh = self.folder / "unindexed"
        shutil.copytree(whole, fresh)
        (fresh / "index.parquet").unlink()
        asked = {
            "evaluate from nothing": (self.evaluate, empty),
            "evaluate the rest": (self.evaluate, half),
            "evaluate what is done": (self.evaluate, whole),
            "scores": (("scores", "--json"), whole),
            "scores without an index": (("scores", "--json"), fresh),
            "status": (("status", "--json"), half),
            "verify": (("verify", "--json"), whole),
            "compare": (("compare", *MODELS, "--json"), whole),
            "export": (("export", "--format", "json"), whole),
            "report": (("report", MODELS[0], "--out", str(self.page)), whole),
            "plan": (("plan", *MODELS, "--scenario", self.dataset, "--recorded", "--json"), half),
        }
        return {name: self._case(words, before) for name, (words, before) in asked.items()}

    def _unfinish(self) -> None:
        """Makes one of the finished runs one under way: its rows become two parts."""
        store = Store(str(self.store))
        footer = next(footer for footer in store.footers().values() if footer.changes)
        rows = store.read(footer.key)
        for start, stop in ((0, 64), (64, 100)):
            store.add_part(type(rows)(rows.table.slice(start, stop - start), rows.footer))
        for folder in ("rows", "gallery"):
            store.files.remove(f"{folder}/{footer.key}.parquet")

    def _case(self, words: tuple[str, ...], before: Path) -> Case:
        self.restore(before)
        with injected(Faults(f"{self.store}/")) as faults:
            answer = self.call(*words)
        assert answer.code == 0, answer.err
        page = self.page.read_text() if words[0] == "report" else None
        return Case(words, before, answer.out, faults.count, page)

    def restore(self, before: Path) -> None:
        shutil.rmtree(self.store, ignore_errors=True)
        shutil.copytree(before, self.store)

    def call(self, *words: str) -> Any:
        return self.run(*words, "--store", str(self.store))

    def sound_digests(self) -> dict[str, str]:
        return {key: Store(str(self.store)).read(key).digest for key in Store(str(self.store)).footers()}

    def try_one(self, name: str, faults: Faults) -> str:
        """One command with a fault, then without: how it ended."""
        case = self.cases[name]
        self.restore(case.before)
        rows = {path.name: path.read_bytes() for path in (case.before / "rows").glob("*.parquet")}
        with injected(faults):
            answer = self.call(*case.words)
        told = f"{name}, {faults}: {answer.err}"
        assert "Traceback" not in answer.err, told
        assert not (self.store / "damaged").exists(), told
        for file, data in rows.items():
            assert (self.store / "rows" / file).read_bytes() == data, told
        if answer.code:
            assert answer.code == 1 or "left aside" in answer.err, told
            assert any(words in answer.err + answer.out for words in WORDS), told
        elif case.page is not None and "left aside" not in answer.err:
            assert self.page.read_text() == case.page, told
        elif answer.out != case.out:
            self._check_subset(name, answer, case, told)
        assert self._digests_are_true(), told
        again = self.call(*case.words)
        assert again.code == 0, f"{told}, then {again.err}"
        if case.words[0] == "evaluate":
            assert self.sound_digests() == self.digests, told
        elif name in ("status", "verify"):  # what a writer that failed left behind is listed too
            assert _records(again.out) == _records(case.out), told
        else:
            assert again.out == case.out, told
        assert [finding.problem for finding in Store(str(self.store)).verify() if finding.problem] == [], told
        return "failed" if answer.code else "as undisturbed" if answer.out == case.out else "told what it left aside"

    def _digests_are_true(self) -> bool:
        return all(self.digests[key] == digest for key, digest in self.sound_digests().items())

    def _check_subset(self, name: str, answer: Any, case: Case, told: str) -> None:
        """What differs from the undisturbed answer is missing, never other; and it was told."""
        if case.words[0] == "evaluate":
            return  # seconds differ; the rows are compared
        assert "left aside" in answer.err, told
        if name == "plan":
            return  # less is known to be done
        records, whole = (_records(text) for text in (answer.out, case.out))
        assert all(record in whole for record in records), told


def _records(text: str) -> list[Any]:
    result = json.loads(text)
    return list(result.get("runs") or result["files"] if isinstance(result, dict) else result)


@pytest.fixture
def bench(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(retrying_module, "PAUSES", (0.0, 0.0, 0.0))
    monkeypatch.setattr(evaluate_module, "KEEP_EVERY", 0.0)
    return Bench(run, tmp_path)


def _drive(bench: Bench, faults: int, seed: int) -> Counter[str]:
    """So many faults that did happen, spread over commands, operations and kinds; half of them last."""
    rng, ended, done = random.Random(seed), Counter[str](), 0
    while done < faults:
        name = rng.choice(list(bench.cases))
        kind, lasts = rng.choice(KINDS), rng.random() < 0.5
        one = Faults(f"{bench.store}/", 1 + rng.randrange(bench.cases[name].operations), kind, lasts)
        how = bench.try_one(name, one)
        if one.injected:
            done += 1
            ended[f"{'lasting' if lasts else 'single'} fault: {how}"] += 1
            ended[name] += 1
            ended[kind] += 1
    return ended


@pytest.mark.slow
def test_sixty_faults_leave_every_number_true(bench: Bench) -> None:
    ended = _drive(bench, 60, seed=1)
    assert ended["single fault: as undisturbed"] > ended["single fault: failed"]


@pytest.mark.slow
def test_many_faults_leave_every_number_true(bench: Bench) -> None:
    """`HOLDFAST_FAULTS=1000` injects as many."""
    ended = _drive(bench, int(os.environ.get("HOLDFAST_FAULTS", "300")), seed=2)
    sys.stdout.write(json.dumps(ended, indent=1))
    assert set(KINDS) <= set(ended)
    assert set(bench.cases) <= set(ended)


@pytest.mark.slow
def test_every_operation_of_scores_fails_once(bench: Bench) -> None:
    for name in ("scores", "scores without an index"):
        for at in range(1, bench.cases[name].operations + 1):
            for kind in ("EIO", SHORT):
                how = bench.try_one(name, Faults(f"{bench.store}/", at, kind))
                assert how == "as undisturbed", f"a single fault is tried again: {at}, {kind}"


OPERATIONS = ("cat_file", "pipe_file", "info", "ls", "mv", "rm", "makedirs")


def test_every_operation_of_another_filesystem_fails_once(
    tiny_data: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An evaluation on an fsspec path that is no local disk, then its scores, with one fault at each operation."""
    from fsspec.implementations.memory import MemoryFileSystem

    from holdfast.engine.evaluate import evaluate
    from holdfast.metrics.summary import lines

    monkeypatch.setattr(retrying_module, "PAUSES", (0.0, 0.0, 0.0))
    dataset, count, at = tiny_data(n=20), [0], [0]
    real = {name: getattr(MemoryFileSystem, name) for name in OPERATIONS}

    def failing(name: str) -> Callable[..., Any]:
        def wrapped(self: Any, *words: Any, **named: Any) -> Any:
            count[0] += 1
            if count[0] == at[0]:
                raise TimeoutError(f"{name} took too long")
            return real[name](self, *words, **named)

        return wrapped

    for name in OPERATIONS:
        monkeypatch.setattr(MemoryFileSystem, name, failing(name))

    def measured(turn: int) -> list[tuple[str, float, str]]:
        url = f"memory://{tmp_path.name}-{turn}"
        count[0], at[0] = 0, turn
        (outcome,) = evaluate(MODELS[0], dataset, store=url, samples=10, pictures=1)
        assert outcome.error is None, outcome.error
        store = Store(url)
        found = [(line.footer.key, line.accuracy.value, line.footer.digest) for line in lines(store)]
        assert store.files.names("damaged", "") == []
        return found

    undisturbed = measured(0)
    operations = count[0]
    assert operations > 10
    for turn in range(1, operations + 1):
        assert measured(turn) == undisturbed, turn
