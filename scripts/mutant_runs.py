"""Running tests against a changed module, each time in a fork of a process that has imported everything."""

from __future__ import annotations

import ast
import builtins
import contextlib
import gc
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from mutants import ROOT, SOURCE, Mutant, module_name, mutated

TESTS = ROOT / "mutants.tests.json"
PACKAGES = ("core", "metrics", "trends", "corruptions", "attacks", "store", "boards", "engine")
# in seconds of the processor, so that a busy machine changes nothing
LONGEST = 3.0  # a test that takes longer unchanged is left out
TOGETHER = 5.0  # the tests of one mutant take no longer than that unchanged
SLOWER = 3.0  # a mutant is stopped after so many times what its tests take unchanged
NOTE = "__note_call__"  # the name under which functions find what notes their calls
SKIPPED = 77  # the status of a process whose tests were skipped
NOTICED = ("killed", "timeout")


# changed code


def living_functions() -> dict[str, list[FunctionType]]:
    """The functions that live in this process, by the file of holdfast that they came from."""
    found: dict[str, list[FunctionType]] = {}
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename.startswith(str(SOURCE)):
            found.setdefault(thing.__code__.co_filename, []).append(thing)
    return found


def swap_code(living: dict[str, list[FunctionType]], path: str, code: CodeType) -> None:
    """Gives every function that came from that file its code in `code`."""
    fresh: dict[tuple[str, int], CodeType] = {}
    waiting = [code]
    while waiting:
        for inner in waiting.pop().co_consts:
            if isinstance(inner, CodeType):
                fresh[inner.co_qualname, inner.co_firstlineno] = inner
                waiting.append(inner)
    for function in living.get(path, []):
        before = function.__code__
        new = fresh.get((before.co_qualname, before.co_firstlineno))
        if new is not None and len(new.co_freevars) == len(before.co_freevars):
            function.__code__ = new


class Importer(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from code that was changed."""

    def __init__(self, name: str, code: CodeType) -> None:
        self.name, self.code = name, code

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:  # noqa: ARG002
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.code.co_filename, loader=self)  # type: ignore[arg-type]

    def exec_module(self, module: ModuleType) -> None:
        exec(self.code, module.__dict__)


# tests


@dataclass(frozen=True)
class Known:
    """What a test does unchanged: how long it takes, and which functions it calls."""

    seconds: float
    functions: frozenset[tuple[str, str]]

    @property
    def effort(self) -> float:
        """Small for a test that is fast and about little else."""
        return self.seconds * len(self.functions)


class Outcomes:
    """A plugin that notes whether a test failed, was skipped or passed."""

    def __init__(self) -> None:
        self.failed = self.skipped = False
        self.failures: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= report.failed
        self.skipped |= report.skipped
        if report.failed:
            self.failures.append(report.nodeid)


class Session(Outcomes):
    """A plugin that collects tests, runs them once unchanged, then against each mutant."""

    def __init__(self, picked: Sequence[Mutant], report: Callable[[Mutant, str, str], None], folder: Path) -> None:
        super().__init__()
        self.picked, self.report, self.folder = picked, report, folder
        self.noticed: Counter[tuple[str, str]] = Counter()
        self.living: dict[str, list[FunctionType]] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        notes = read_notes()
        self.living = living_functions()
        gc.collect()
        gc.freeze()  # a fork shares what nobody touches
        for file, mine in itertools.groupby(sorted(items), key=file_of):
            if notes.get(file, {}).get("digest") != digest(file):
                fork(partial(self.measure, [items[name] for name in mine]), seconds=1800)
                path = self.folder / "notes.json"
                tests = json.loads(path.read_text()) if path.exists() else {}
                path.unlink(missing_ok=True)
                notes[file] = {"digest": digest(file), "tests": tests}
                TESTS.write_text(json.dumps(read_notes() | {file: notes[file]}))
        known = {name: test for name, test in read_known(notes).items() if name in items}
        self.drop_unsteady(known, items)
        for mutant in self.picked:
            if mutant.function is None:
                continue
            names = covering(known, mutant, self.noticed)
            seconds = allowed(known, names)
            work = partial(self.attempt, mutant, [items[name] for name in names])
            outcome = fork(work, seconds=seconds) if names else "no test"
            by = taken(self.folder / "noticed")
            self.noticed[mutant.function, by] += 1
            self.report(mutant, outcome, by)
        return True

    def drop_unsteady(self, known: dict[str, Known], items: dict[str, pytest.Item]) -> None:
        """Leaves out tests that fail without any change when the fastest run one after the other."""
        while True:
            names = within(known, sorted(known, key=lambda name: known[name].seconds))
            work = partial(self.run_until_failure, [items[name] for name in names])
            fork(work, seconds=allowed(known, names))
            unsteady = taken(self.folder / "noticed")
            if not unsteady:
                return
            del known[unsteady]

    def measure(self, items: list[pytest.Item]) -> int:
        quiet()
        signal.signal(signal.SIGVTALRM, stop_test)
        called: set[tuple[str, str]] = set()
        setattr(builtins, NOTE, called.add)
        for path in self.living:
            if is_noted(Path(path)):
                swap_code(self.living, path, noting_calls(str(Path(path).relative_to(ROOT))))
        notes = {}
        for item in items:
            called.clear()
            self.failed = self.skipped = False
            started = time.process_time()
            signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            except TimeoutError:  # outside of the test's own call
                self.failed = True
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            if not self.failed and not self.skipped:
                notes[item.nodeid] = (time.process_time() - started, sorted(called))
        (self.folder / "notes.json").write_text(json.dumps(notes))
        return 0

    def attempt(self, mutant: Mutant, tests: list[pytest.Item]) -> int:
        swap_code(self.living, str(ROOT / mutant.module), mutated(mutant))
        return self.run_until_failure(tests)

    def run_until_failure(self, tests: list[pytest.Item]) -> int:
        quiet()
        for item in tests:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if self.failed:
                (self.folder / "noticed").write_text(item.nodeid)
                return 1
        return 0


def is_noted(path: Path) -> bool:
    return path.relative_to(SOURCE / "holdfast").parts[0] in PACKAGES


def file_of(test: str) -> str:
    return test.partition("::")[0]


def digest(file: str) -> str:
    return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:16]


def taken(path: Path) -> str:
    """The text of a file, which is removed; empty where there is none."""
    text = path.read_text() if path.exists() else ""
    path.unlink(missing_ok=True)
    return text


def stop_test(number: int, frame: object) -> None:  # noqa: ARG001
    raise TimeoutError(f"longer than {LONGEST} s")


class Selection(Outcomes):
    """A plugin that keeps some tests, in the order given; a name stands for all that begin with it."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = {item.nodeid: item for item in items}
        chosen = [kept.pop(name) for name in self.names if name in kept]
        items[:] = chosen + [item for name, item in kept.items() if name.startswith(tuple(self.names))]


def noting_calls(module: str) -> CodeType:
    """The module as it is, but that each of its functions first notes its name."""
    tree = ast.parse((ROOT / module).read_text())

    def mark(node: ast.AST, names: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                mark(child, (*names, child.name))
            elif isinstance(child, ast.FunctionDef):
                name = ".".join((*names, child.name))
                mark(child, (*names, child.name))  # such as the recipes that a function registers
                child.body.insert(0, ast.parse(f"{NOTE}(({module!r}, {name!r}))").body[0])
            else:
                mark(child, names)

    mark(tree, ())
    return compile(ast.fix_missing_locations(tree), str(ROOT / module), "exec", dont_inherit=True)


def read_notes() -> dict[str, dict[str, Any]]:
    """What is kept of each file of tests: its digest, and for each test its seconds and the functions it calls."""
    return json.loads(TESTS.read_text()) if TESTS.exists() else {}


def read_known(notes: dict[str, dict[str, Any]]) -> dict[str, Known]:
    tests = [test for kept in notes.values() for test in kept["tests"].items()]
    return {name: Known(seconds, frozenset(map(tuple, called))) for name, (seconds, called) in tests}


def covering(known: dict[str, Known], mutant: Mutant, noticed: Counter[tuple[str, str]]) -> list[str]:
    """The tests that call the mutated function or anything inside it, those that noticed others of it first.

    Where the mutant acts at import, those that name the module or call anything in it.
    """
    around = "" if mutant.function is None else f"{mutant.function}."
    stem = Path(mutant.module).stem.replace("_", "-")

    def calls_it(name: str) -> bool:
        functions = known[name].functions
        return any(module == mutant.module and f"{called}.".startswith(around) for module, called in functions)

    def names_it(name: str) -> bool:
        return mutant.function is None and stem in name.replace("_", "-").rpartition("::")[2]

    names = [name for name in known if calls_it(name) or names_it(name)]
    names.sort(key=lambda name: (-noticed[mutant.function or "", name], not names_it(name), known[name].effort))
    return within(known, names)


def within(known: dict[str, Known], names: list[str]) -> list[str]:
    """The first of these tests, as many as take `TOGETHER` seconds."""
    total = itertools.accumulate(known[name].seconds for name in names)
    return [name for name, seconds in zip(names, total, strict=True) if seconds <= TOGETHER]


def allowed(known: dict[str, Known], names: Sequence[str]) -> float:
    return 3 + SLOWER * sum(known[name].seconds for name in names)


# processes


def quiet() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def stop(number: int, frame: object) -> None:  # noqa: ARG001
    raise SystemExit(1)


def fork(work: Callable[[], int], *, seconds: float) -> str:
    """Runs work in a copy of this process: `survived` where it returns 0, `timeout` where it takes longer."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setpgid(0, 0)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.setitimer(signal.ITIMER_REAL, 8 * seconds)  # for one that waits
            signal.signal(signal.SIGTERM, stop)
            status = work()
        finally:
            os._exit(status)
    try:
        _, status = os.waitpid(child, 0)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what a test started and left
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status) == SKIPPED:
        return "skipped"
    if os.WIFSIGNALED(status):
        return "timeout" if os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGPROF) else "killed"
    return "survived" if os.WEXITSTATUS(status) == 0 else "killed"


def pytest_words(files: Sequence[str], folder: Path) -> list[str]:
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", "-m", "not slow"]
    return [*options, f"--basetemp={folder / 'pytest'}", "--continue-on-collection-errors", *files]


def run_session(files: list[str], picked: list[Mutant], report: Callable[..., None], folder: Path) -> int:
    quiet()
    for path in sorted((SOURCE / "holdfast").rglob("*.py")):
        if is_noted(path) and path.name != "__init__.py":
            with contextlib.suppress(ImportError):  # a mutant replaces the code of what was imported before
                importlib.import_module(module_name(str(path.relative_to(ROOT))))
    return int(pytest.main(pytest_words(files, folder), plugins=[Session(picked, report, folder)]))


def run_afresh(module: str, code: CodeType, names: list[str], folder: Path) -> int:
    """Runs tests in an interpreter that has not imported the module yet: its changed code is imported."""
    quiet()
    sys.meta_path.insert(0, Importer(module_name(module), code))
    selection = Selection(names)
    files = sorted({file_of(name) for name in names})
    status = int(pytest.main(pytest_words(files, folder), plugins=[selection]))
    (folder / "noticed").write_text(selection.failures[0] if selection.failures else "")
    if selection.skipped and not selection.failed:
        return SKIPPED
    return status


def warm_up() -> None:
    """Imports what every test imports and no mutant changes."""
    sys.path[:0] = [str(SOURCE), str(ROOT / "tests" / "oracle")]
    os.environ |= {"OMP_NUM_THREADS": "1", "HYPOTHESIS_PROFILE": "mutants"}
    import duckdb  # noqa: F401
    import hypothesis
    import pyarrow.parquet  # noqa: F401
    import scipy.optimize
    import scipy.stats  # noqa: F401
    import sklearn.metrics  # noqa: F401
    import torch

    torch.set_num_threads(1)
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile(
        "mutants", deadline=None, max_examples=60, derandomize=True, database=None, phases=phases
    )
