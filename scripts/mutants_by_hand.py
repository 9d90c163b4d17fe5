"""Faults that somebody could make, each run against the one test that is to notice it."""

from __future__ import annotations

import gc
import importlib
import json
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from mutant_runs import (
    NOTICED,
    SKIPPED,
    Outcomes,
    file_of,
    fork,
    living_functions,
    pytest_words,
    quiet,
    run_afresh,
    swap_code,
)
from mutants import ROOT, SOURCE, module_name

BY_HAND = ROOT / "scripts" / "mutations_by_hand.toml"


@dataclass(frozen=True)
class ByHand:
    """A fault that somebody could make: `old` stands once in the module, and `test` fails with `new` instead.

    `at_import`: the change lies outside of functions.
    """

    fault: str
    module: str
    old: str
    new: str
    test: str
    at_import: bool = False

    def code(self) -> CodeType:
        path = SOURCE / "holdfast" / self.module
        text = path.read_text()
        if text.count(self.old) != 1:
            raise SystemExit(f"{self.fault}: {text.count(self.old)} times in {self.module}: {self.old}")
        return compile(text.replace(self.old, self.new), str(path), "exec", dont_inherit=True)


def by_hand() -> list[ByHand]:
    return [ByHand(**fields) for fields in tomllib.loads(BY_HAND.read_text())["mutation"]]


class ByHandSession(Outcomes):
    """A plugin that runs the named tests once unchanged, then each against its fault."""

    def __init__(self, faults: Sequence[ByHand], report: Callable[[ByHand, str], None]) -> None:
        super().__init__()
        self.faults, self.report = faults, report

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        living = living_functions()
        gc.collect()
        gc.freeze()
        named = {fault.test: named_tests(session.items, fault.test) for fault in self.faults}
        steady = {test: fork(partial(self.attempt, items), seconds=60) for test, items in named.items()}
        for fault in self.faults:
            outcome = steady[fault.test]
            if outcome == "survived" and not fault.at_import:
                outcome = fork(partial(self.attempt_with, living, fault, named[fault.test]), seconds=60)
            elif outcome == "survived":
                outcome = "at import"
            else:
                outcome = f"without it the test {outcome}"
            self.report(fault, outcome)
        return True

    def attempt_with(self, living: dict[str, list[FunctionType]], fault: ByHand, items: list[pytest.Item]) -> int:
        swap_code(living, str(SOURCE / "holdfast" / fault.module), fault.code())
        return self.attempt(items)

    def attempt(self, items: list[pytest.Item]) -> int:
        quiet()
        for item in items:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return SKIPPED if self.skipped or not items else int(self.failed)


def named_tests(items: Sequence[pytest.Item], name: str) -> list[pytest.Item]:
    """The test of that name, with all its parameters."""
    return [item for item in items if item.nodeid.partition("[")[0] == name]


def run_by_hand(faults: Sequence[ByHand], report: Callable[[ByHand, str], None], folder: Path) -> int:
    quiet()
    files = sorted({file_of(fault.test) for fault in faults})
    for module in {fault.module for fault in faults}:
        importlib.import_module(module_name(f"src/holdfast/{module}"))
    return int(pytest.main(pytest_words(files, folder), plugins=[ByHandSession(faults, report)]))


def test_by_hand(words: Sequence[str]) -> None:
    """Shows that each mutation by hand is noticed by the test it names, which passes without it."""
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    faults = [fault for fault in by_hand() if not words or any(word in fault.fault for word in words)]
    notes = folder / "by-hand.jsonl"

    def report(fault: ByHand, outcome: str) -> None:
        with notes.open("a") as file:
            file.write(json.dumps([fault.fault, outcome]) + "\n")

    try:
        fork(partial(run_by_hand, faults, report, folder), seconds=1800)
        outcomes = dict(map(json.loads, notes.read_text().splitlines()))
        for fault in faults:
            if outcomes.get(fault.fault) == "at import":
                work = partial(run_afresh, f"src/holdfast/{fault.module}", fault.code(), [fault.test], folder)
                outcomes[fault.fault] = fork(work, seconds=60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    missed = []
    for fault in faults:
        outcome = outcomes.get(fault.fault, "not run")
        print("noticed" if outcome in NOTICED else f"MISSED, {outcome}", fault.fault, sep=": ")
        missed += [] if outcome in NOTICED else [fault.fault]
    if missed:
        raise SystemExit(f"{len(missed)} of {len(faults)} not noticed: {'; '.join(missed)}")
    print(f"all {len(faults)} noticed")
