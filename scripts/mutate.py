"""Mutation testing: changes one expression of a module at a time and asks whether a test notices.

    python scripts/mutate.py                              # every module that scripts/mutate.toml chooses
    python scripts/mutate.py src/holdfast/core/noise.py   # one module
    python scripts/mutate.py --most 20                    # more mutants of each module
    python scripts/mutate.py --survivors                  # once more those that no test noticed
    python scripts/mutate.py --by-hand                    # the mutations of scripts/mutations_by_hand.toml
    python scripts/mutate.py --write                      # docs/mutation.md from the results there are

scripts/mutate.toml says which files of tests belong to a group of modules. They run once unchanged, which says how
long each test takes and which functions it calls; each mutant then meets only the tests that call the mutated function,
those that noticed others of that function first, then the fast ones that call little else, until one fails. Every
mutant is a fork of a process that has imported everything: a mutant inside a function replaces the code of that
function, one that acts at import is imported afresh.

Results go to mutants.jsonl, one line each: a run that was stopped goes on there; a mutant is tested again only where
its module changed. What the tests call is kept in mutants.tests.json, for each file of tests until that file changes.
"""

from __future__ import annotations

import argparse
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
import random
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
CONFIG = ROOT / "scripts" / "mutate.toml"
BY_HAND = ROOT / "scripts" / "mutations_by_hand.toml"
PAGE = ROOT / "docs" / "mutation.md"
TESTS = ROOT / "mutants.tests.json"
PACKAGES = ("core", "metrics", "trends", "corruptions", "attacks", "store", "boards", "engine")
# in seconds of the processor, so that a busy machine changes nothing
LONGEST = 3.0  # a test that takes longer unchanged is left out
TOGETHER = 5.0  # the tests of one mutant take no longer than that unchanged
SLOWER = 3.0  # a mutant is stopped after so many times what its tests take unchanged

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
PAIRS = (
    *(("min", "max"), ("amin", "amax"), ("argmin", "argmax"), ("minimum", "maximum"), ("clamp_min", "clamp_max")),
    *(("any", "all"), ("floor", "ceil"), ("nanmin", "nanmax")),
)
TWINS = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}
DROPPED = {"project", "clamp", "clamp_", "clamp_min", "clamp_max", "clip", "abs", "abs_", "detach", "sqrt", "log"}
SETTINGS = {"hint", "version", "tags", "maxsize", "frozen", "slots", "eq", "compare", "repr", "strict"}  # no number
# the order of their arguments says nothing, or a swap cannot run
COMMUTATIVE = {
    *("min", "max", "minimum", "maximum", "amin", "amax", "isinstance", "issubclass", "allclose", "isclose", "equal"),
    *("array_equal", "hypot", "logical_and", "logical_or", "zip", "getattr", "setattr", "hasattr", "cast", "partial"),
}
NOTE = "__note_call__"  # the name under which functions find what notes their calls
SKIPPED = 77  # the status of a process whose tests were skipped
NOTICED = ("killed", "timeout")
NUMBERS = {"float", "int", "Tensor", "torch.Tensor", "np.ndarray", "Floats", "Array"}


@dataclass(frozen=True)
class Mutant:
    """One change to a module: node `node` in the order of `ast.walk`, its variant `variant`."""

    module: str
    line: int
    function: str | None
    change: str
    node: int
    variant: int


# mutations


def variants(node: ast.AST, returns: str) -> Iterator[ast.AST]:
    """What may stand instead of a node; `returns` is the annotation of the function around it."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in SWAPPED:
            yield changed(node, ops=[SWAPPED[type(operator)]()])
        case ast.Compare(ops=[first, *rest]) if type(first) in SWAPPED:
            yield changed(node, ops=[SWAPPED[type(first)](), *rest])
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in SWAPPED and not is_text(node):
            yield changed(node, op=SWAPPED[type(operator)]())
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.BoolOp(op=operator):
            yield changed(node, op=SWAPPED[type(operator)]())
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
            yield deepcopy(operand)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(1 - value if value in (0, 1) else value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(1.0 if value == 0 else value * 1.1)
        case ast.Call():
            yield from calls(node)
        case ast.Subscript(slice=ast.Constant(value=0), ctx=ast.Load()):
            yield changed(node, slice=ast.UnaryOp(ast.USub(), ast.Constant(1)))
        case ast.Return(value=ast.Tuple(elts=[first, *middle, last])):
            yield changed(node, value=ast.Tuple([last, *middle, first], ast.Load()))
        case ast.Return(value=ast.expr() as value) if returns in NUMBERS:
            yield changed(node, value=ast.UnaryOp(ast.USub(), value))
        case ast.Return(value=ast.expr() as value) if returns == "bool":
            yield changed(node, value=ast.UnaryOp(ast.Not(), value))


def calls(node: ast.Call) -> Iterator[ast.AST]:
    match node:
        case ast.Call(
            func=ast.Name(id=name) | ast.Attribute(attr=name),
            args=[ast.Name() | ast.Attribute() as one, ast.Name() | ast.Attribute() as two, *rest],
        ) if name not in COMMUTATIVE:
            yield changed(node, args=[two, one, *rest])
    match node.func:
        case ast.Attribute(value=receiver, attr=name):
            if name in TWINS:
                yield changed(node, func=ast.Attribute(receiver, TWINS[name], ast.Load()))
            if name in DROPPED:
                is_function = isinstance(receiver, ast.Name) and receiver.id in ("torch", "np", "math", "F")
                if node.args and (is_function or name == "project"):
                    yield deepcopy(node.args[-1] if name == "project" else node.args[0])
                elif not is_function:
                    yield deepcopy(receiver)
        case ast.Name(id=name):
            if name in TWINS:
                yield changed(node, func=ast.Name(TWINS[name], ast.Load()))
            if name in DROPPED and node.args:
                yield deepcopy(node.args[0])


def changed(node: ast.AST, **fields: object) -> ast.AST:
    copy = deepcopy(node)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def is_text(node: ast.AST) -> bool:
    """Whether an operand is a text or a list, whose sum is no arithmetic."""
    sides = [side for name in ("left", "right", "value") if (side := getattr(node, name, None)) is not None]
    kinds = (ast.JoinedStr, ast.List, ast.Tuple)
    return any(isinstance(side, kinds) or isinstance(getattr(side, "value", None), str) for side in sides)


@dataclass(frozen=True)
class Site:
    """A node that may change: its place in the tree, and the function around it (None: it acts at import)."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST
    function: str | None
    returns: str

    def put(self, node: ast.AST) -> None:
        ast.copy_location(node, self.node)
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def sites(node: ast.AST, names: tuple[str, ...] = (), function: str | None = None, returns: str = "") -> Iterator[Site]:
    """Every node of a tree in a fixed order, less annotations, docstrings, assertions and error texts."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "type_ignores", "bases"):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or isinstance(
                child, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom
            ):
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            if isinstance(child, ast.keyword) and child.arg in SETTINGS:
                continue
            inside, around, says = names, function, returns
            is_body = isinstance(node, ast.FunctionDef) and field == "body"
            if is_body and function is None and not names[-1].startswith("register_"):  # those run at import
                around = ".".join(names)
            if is_body:
                says = ast.unparse(node.returns) if node.returns else ""
            if isinstance(child, ast.ClassDef | ast.FunctionDef):
                inside = (*names, child.name)
            yield Site(node, field, index if isinstance(value, list) else None, child, around, says)
            yield from sites(child, inside, around, says)


def mutants(module: str) -> list[Mutant]:
    made = []
    for number, site in enumerate(sites(ast.parse((ROOT / module).read_text()))):
        for variant, new in enumerate(variants(site.node, site.returns)):
            change = f"{ast.unparse(site.node)} -> {ast.unparse(ast.fix_missing_locations(new))}"
            line = getattr(site.node, "lineno", 0)
            made.append(Mutant(module, line, site.function, change[:160], number, variant))
    return made


def mutated(mutant: Mutant) -> CodeType:
    path = ROOT / mutant.module
    tree = ast.parse(path.read_text())
    site = next(site for number, site in enumerate(sites(tree)) if number == mutant.node)
    site.put(list(variants(site.node, site.returns))[mutant.variant])
    return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)


def module_name(module: str) -> str:
    return ".".join((ROOT / module).relative_to(SOURCE).with_suffix("").parts)


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


def test_files(group: dict[str, list[str]]) -> list[str]:
    """The files of tests of a group, each once."""
    return matching(ROOT, group["tests"])


def chosen(group: dict[str, list[str]]) -> list[str]:
    """The modules of a group, each once."""
    return [path for path in matching(ROOT / "src" / "holdfast", group["modules"]) if Path(path).name != "__init__.py"]


def matching(folder: Path, patterns: list[str]) -> list[str]:
    """The files that fit the patterns, each once; a pattern that fits none names a file that was moved."""
    files: dict[str, None] = {}
    for pattern in patterns:
        paths = sorted(folder.glob(pattern))
        if not paths:
            raise SystemExit(f"scripts/mutate.toml: there is no {pattern} in {folder.relative_to(ROOT.parent)}")
        files |= dict.fromkeys(str(path.relative_to(ROOT)) for path in paths)
    return list(files)


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


def test_group(picked: list[Mutant], files: list[str], results: Path) -> None:

    def report(mutant: Mutant, outcome: str, by: str) -> None:
        record = asdict(mutant) | {"outcome": outcome, "by": by, "digest": digest(mutant.module)}
        with results.open("a") as file:
            file.write(json.dumps(record) + "\n")

    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        fork(partial(run_session, files, picked, report, folder), seconds=7200)
        notes = read_notes()
        known = read_known({file: notes[file] for file in files if file in notes})
        for mutant in picked:
            if mutant.function is None:
                names = covering(known, mutant, Counter())
                work = partial(run_afresh, mutant.module, mutated(mutant), names, folder)
                outcome = fork(work, seconds=20 + allowed(known, names)) if names else "no test"
                report(mutant, outcome, taken(folder / "noticed"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def drawn(module: str, most: int, seed: int) -> list[Mutant]:
    """Mutants of a module in a random order that the seed fixes: fewer are the first of more."""
    every = mutants(module)
    random.Random(f"{seed} {module_name(module)}").shuffle(every)
    return sorted(every[:most], key=lambda mutant: (mutant.line, mutant.node, mutant.variant))


def read_results(results: Path, *, only_noticed: bool = False) -> list[dict[str, Any]]:
    """The latest outcome of each mutant whose module is still the same."""
    lines = results.read_text().splitlines() if results.exists() else []
    latest = {}
    for record in map(json.loads, lines):
        if (ROOT / record["module"]).exists() and record["digest"] == digest(record["module"]):
            latest[record["module"], record["node"], record["variant"]] = record
    return [record for record in latest.values() if record["outcome"] in NOTICED or not only_noticed]


# mutations by hand


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


# the page


@dataclass(frozen=True)
class Equivalent:
    """A mutant that changes no result, and why; `at` is a part of its line."""

    module: str
    function: str
    change: str
    why: str
    at: str = ""

    def fits(self, record: dict[str, Any]) -> bool:
        line = (ROOT / record["module"]).read_text().splitlines()[record["line"] - 1]
        same = (record["module"], record["function"] or "", record["change"])
        return same == (f"src/holdfast/{self.module}", self.function, self.change) and self.at in line


def equivalents() -> list[Equivalent]:
    return [Equivalent(**fields) for fields in tomllib.loads(CONFIG.read_text()).get("equivalent", [])]


def cell(text: str) -> str:
    """A text inside a table of Markdown."""
    return text.replace("|", "\\|").replace("\n", " ")


def summary(found: list[dict[str, Any]]) -> str:
    """Scores per module, the survivors, and those that are equivalent, as Markdown."""
    known = equivalents()
    why = {id(record): entry.why for record in found for entry in known if entry.fits(record)}
    modules = sorted({record["module"] for record in found})
    lines = ["| module | mutants | noticed | equivalent | of the others |", "|---|---:|---:|---:|---:|"]
    for name in [*modules, None]:
        mine = [record for record in found if name in (None, record["module"])]
        noticed = sum(record["outcome"] in NOTICED for record in mine)
        same = sum(record["outcome"] not in NOTICED and id(record) in why for record in mine)
        title = "all" if name is None else f"`{name.removeprefix('src/holdfast/')}`"
        share = 100 * noticed / max(1, len(mine) - same)
        lines.append(f"| {title} | {len(mine)} | {noticed} | {same} | {share:.0f} % |")
    left = [record for record in found if record["outcome"] not in NOTICED]
    every = len(found)
    caught = every - len(left)
    lines += ["", f"Noticed: {caught} of {every}, {100 * caught / max(1, every):.1f} %, equivalent mutants included."]
    lines += ["", "### Equivalent: the change alters no result", "", "| mutant | why |", "|---|---|"]
    lines += [f"| {described(record)} | {cell(why[id(record)])} |" for record in left if id(record) in why]
    lines += ["", "### Open: no test notices the change", ""]
    lines += [f"- {described(record)} ({record['outcome']})" for record in left if id(record) not in why] or ["none"]
    return "\n".join(lines)


def described(record: dict[str, Any]) -> str:
    where = f"{record['module'].removeprefix('src/holdfast/')}:{record['line']}"
    return f"`{where}` `{cell(record['change'])}`"


def by_hand_table() -> str:
    rows = [f"| {cell(fault.fault)} | `{fault.module}` | `{cell(fault.test)}` |" for fault in by_hand()]
    return "\n".join(["| fault | module | the test that notices it |", "|---|---|---|", *rows])


def write_page(results: Path) -> None:
    text = PAGE.read_text()
    for title, made in (("scores", summary(read_results(results))), ("by hand", by_hand_table())):
        start, end = f"<!-- {title}: made by `scripts/mutate.py --write` -->", f"<!-- end of {title} -->"
        before, _, rest = text.partition(start)
        text = f"{before}{start}\n{made}\n{end}{rest.partition(end)[2]}"
    PAGE.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="paths from the root; none: all that scripts/mutate.toml chooses")
    parser.add_argument("--most", type=int, default=12, help="mutants of a module, drawn with the seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=ROOT / "mutants.jsonl")
    parser.add_argument("--survivors", action="store_true", help="only those that survived in the results")
    parser.add_argument("--by-hand", action="store_true", help="only the mutations by hand; words choose some of them")
    parser.add_argument("--summary", action="store_true", help="print the scores of the results")
    parser.add_argument("--write", action="store_true", help="write the results there are into docs/mutation.md")
    words = parser.parse_args()
    results = words.results.resolve()
    os.chdir(ROOT)
    if words.summary or words.write:
        print(summary(read_results(results)))
        if words.write:
            write_page(results)
        return
    signal.signal(signal.SIGTERM, stop)
    warm_up()
    if words.by_hand:
        test_by_hand(words.modules)
        return
    for group in tomllib.loads(CONFIG.read_text())["group"]:
        modules = [module for module in chosen(group) if not words.modules or module in words.modules]
        done = {name_of(record) for record in read_results(results, only_noticed=words.survivors)}
        seen = {name_of(record) for record in read_results(results)}
        picked = [mutant for module in modules for mutant in drawn(module, words.most, words.seed)]
        picked = [mutant for mutant in picked if name_of(asdict(mutant)) not in done]
        if words.survivors:
            picked = [mutant for mutant in picked if name_of(asdict(mutant)) in seen]
        if picked:
            test_group(picked, test_files(group), results)
            print(group["modules"][0], len(picked), flush=True)
    print(summary(read_results(results)))


def name_of(record: dict[str, Any]) -> tuple[str, int, int]:
    return record["module"], record["node"], record["variant"]


if __name__ == "__main__":
    main()
