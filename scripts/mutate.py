"""Mutation testing: changes one expression of a module at a time and asks whether a test notices.

    python scripts/mutate.py                                   # every module that scripts/mutate.toml chooses
    python scripts/mutate.py src/holdfast/core/noise.py        # one module
    python scripts/mutate.py --most 20 --results found.jsonl   # at most 20 mutants of each module
    python scripts/mutate.py --survivors --results found.jsonl # once more those that no test noticed
    python scripts/mutate.py --summary found.jsonl             # scores and survivors of a run before

scripts/mutate.toml says which files of tests belong to a group of modules. They run once unchanged, which says how
long each test takes and which functions it calls; each mutant then meets only the tests that call the mutated function,
the fastest first, until one fails. Every mutant is a fork of a process that has imported everything: a mutant inside a
function replaces the code of that function, one that acts at import is imported afresh.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
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
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
CONFIG = ROOT / "scripts" / "mutate.toml"
# in seconds of the processor, so that a busy machine changes nothing
LONGEST = 3.0  # a test that takes longer unchanged is left out
TOGETHER = 6.0  # the tests of one mutant take no longer than that unchanged
SLOWER = 4.0  # a mutant is stopped after so many times what its tests take unchanged

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
            if isinstance(node, ast.FunctionDef) and field == "body" and function is None:
                around = ".".join(names)
            if isinstance(node, ast.FunctionDef) and field == "body":
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


def swap_code(code: CodeType, path: str) -> None:
    """Gives every function that lives in this process, and came from that file, its code in `code`."""
    fresh: dict[tuple[str, int], CodeType] = {}
    waiting = [code]
    while waiting:
        for inner in waiting.pop().co_consts:
            if isinstance(inner, CodeType):
                fresh[inner.co_qualname, inner.co_firstlineno] = inner
                waiting.append(inner)
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename == path:
            new = fresh.get((thing.__code__.co_qualname, thing.__code__.co_firstlineno))
            if new is not None and len(new.co_freevars) == len(thing.__code__.co_freevars):
                thing.__code__ = new


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
    """What a test does unchanged: how long it takes, and which functions of the module it calls."""

    seconds: float
    functions: frozenset[tuple[str, str]]


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

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= report.failed
        self.skipped |= report.skipped


class Session(Outcomes):
    """A plugin that collects tests, runs them once unchanged, then against each mutant."""

    def __init__(self, picked: Sequence[Mutant], report: Callable[[Mutant, str], None], notes: Path) -> None:
        super().__init__()
        self.picked, self.report, self.notes = picked, report, notes
        self.paths = {str(ROOT / mutant.module): mutant.module for mutant in picked}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        fork(partial(self.measure, items), seconds=1800)
        known = read_known(self.notes)
        for mutant in self.picked:
            if mutant.function is None:
                continue
            names = covering(known, mutant)
            seconds = allowed(known, names)
            work = partial(self.attempt, mutant, [items[name] for name in names])
            self.report(mutant, fork(work, seconds=seconds) if names else "no test")
        return True

    def measure(self, items: dict[str, pytest.Item]) -> int:
        quiet()
        signal.signal(signal.SIGVTALRM, stop_test)
        notes = {}
        for name, item in items.items():
            called: set[tuple[str, str]] = set()
            trace = partial(note_call, self.paths, called)
            self.failed = self.skipped = False
            started = time.process_time()
            signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
            threading.settrace(trace)
            sys.settrace(trace)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            if not self.failed and not self.skipped:
                notes[name] = (time.process_time() - started, sorted(called))
        self.notes.write_text(json.dumps(notes))
        return 0

    def attempt(self, mutant: Mutant, tests: list[pytest.Item]) -> int:
        quiet()
        swap_code(mutated(mutant), str(ROOT / mutant.module))
        for item in tests:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if self.failed:
                return 1
        return 0


def stop_test(number: int, frame: object) -> None:  # noqa: ARG001
    raise TimeoutError(f"longer than {LONGEST} s")


class Selection(Outcomes):
    """A plugin that keeps some tests, in the order given."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        by_name = {item.nodeid: item for item in items}
        items[:] = [by_name[name] for name in self.names if name in by_name]


def note_call(paths: dict[str, str], called: set[tuple[str, str]], frame: FrameType, event: str, value: object) -> None:  # noqa: ARG001
    module = paths.get(frame.f_code.co_filename)
    if module:
        called.add((module, frame.f_code.co_qualname))


def read_known(path: Path) -> dict[str, Known]:
    notes = json.loads(path.read_text()) if path.exists() else {}
    return {name: Known(seconds, frozenset(map(tuple, called))) for name, (seconds, called) in notes.items()}


def covering(known: dict[str, Known], mutant: Mutant) -> list[str]:
    """The tests that call the mutated function or anything inside it, the fastest first.

    Where the mutant acts at import, those that call anything in the module, then the others: they may read what it set.
    """
    around = "" if mutant.function is None else f"{mutant.function}."

    def calls_it(test: Known) -> bool:
        return any(module == mutant.module and f"{name}.".startswith(around) for module, name in test.functions)

    names = sorted(known, key=lambda name: (not calls_it(known[name]), known[name].seconds))
    if mutant.function is not None:
        names = [name for name in names if calls_it(known[name])]
    total = list(itertools.accumulate(known[name].seconds for name in names))
    return [name for name, seconds in zip(names, total, strict=True) if seconds <= TOGETHER]


def allowed(known: dict[str, Known], names: Sequence[str]) -> float:
    return 5 + SLOWER * sum(known[name].seconds for name in names)


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
    if os.WIFSIGNALED(status):
        return "timeout" if os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGPROF) else "killed"
    return "survived" if os.WEXITSTATUS(status) == 0 else "killed"


def pytest_words(files: Sequence[str], folder: Path) -> list[str]:
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", "-m", "not slow"]
    return [*options, f"--basetemp={folder / 'pytest'}", "--continue-on-collection-errors", *files]


def run_session(files: list[str], picked: list[Mutant], report: Callable[[Mutant, str], None], folder: Path) -> int:
    quiet()
    return int(pytest.main(pytest_words(files, folder), plugins=[Session(picked, report, folder / "known.json")]))


def run_afresh(mutant: Mutant, names: list[str], folder: Path) -> int:
    quiet()
    sys.meta_path.insert(0, Importer(module_name(mutant.module), mutated(mutant)))
    files = sorted({name.partition("::")[0] for name in names})
    return int(pytest.main(pytest_words(files, folder), plugins=[Selection(names)]))


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

    def report(mutant: Mutant, outcome: str) -> None:
        with results.open("a") as file:
            file.write(json.dumps(asdict(mutant) | {"outcome": outcome}) + "\n")

    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        fork(partial(run_session, files, picked, report, folder), seconds=7200)
        known = read_known(folder / "known.json")
        for mutant in picked:
            if mutant.function is None:
                names = covering(known, mutant)
                work = partial(run_afresh, mutant, names, folder)
                report(mutant, fork(work, seconds=15 + allowed(known, names)) if names else "no test")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def drawn(module: str, most: int, seed: int) -> list[Mutant]:
    every = mutants(module)
    some = random.Random(f"{seed} {module_name(module)}").sample(every, min(most, len(every)))
    return sorted(some, key=lambda mutant: (mutant.line, mutant.node, mutant.variant))


def left_over(results: Path) -> list[Mutant]:
    """Takes the mutants that no test noticed out of the results, to be tested once more."""
    found = [json.loads(line) for line in results.read_text().splitlines()]
    killed = [record for record in found if record["outcome"] in NOTICED]
    results.write_text("".join(json.dumps(record) + "\n" for record in killed))
    records = [record for record in found if record["outcome"] not in NOTICED]
    return [Mutant(**{name: record[name] for name in Mutant.__dataclass_fields__}) for record in records]


def summary(results: Path) -> str:
    """Scores per module and the survivors, as Markdown."""
    found = [json.loads(line) for line in results.read_text().splitlines()]
    lines = ["| module | killed | all | score |", "|---|---:|---:|---:|"]
    modules = sorted({mutant["module"] for mutant in found})
    for name in [*modules, None]:
        mine = [mutant["outcome"] for mutant in found if name in (None, mutant["module"])]
        killed = sum(outcome in NOTICED for outcome in mine)
        title = "all" if name is None else f"`{name.removeprefix('src/holdfast/')}`"
        lines.append(f"| {title} | {killed} | {len(mine)} | {100 * killed / max(1, len(mine)):.0f} % |")
    for mutant in found:
        if mutant["outcome"] not in NOTICED:
            where = f"{mutant['module'].removeprefix('src/holdfast/')}:{mutant['line']}"
            lines.append(f"- `{where}` ({mutant['outcome']}) `{mutant['change']}`")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="paths from the root; none: all that scripts/mutate.toml chooses")
    parser.add_argument("--most", type=int, default=30, help="mutants of a module, drawn with the seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--survivors", action="store_true", help="only those that survived in the results")
    parser.add_argument("--summary", type=Path, help="print the scores of results made before")
    words = parser.parse_args()
    if words.summary:
        print(summary(words.summary))
        return
    os.chdir(ROOT)
    signal.signal(signal.SIGTERM, stop)
    warm_up()
    results = words.results.resolve()
    survivors = left_over(results) if words.survivors else None
    if survivors is None:
        results.unlink(missing_ok=True)
    for group in tomllib.loads(CONFIG.read_text())["group"]:
        modules = [module for module in chosen(group) if not words.modules or module in words.modules]
        picked = [mutant for module in modules for mutant in drawn(module, words.most, words.seed)]
        if survivors is not None:
            picked = [mutant for mutant in survivors if mutant.module in modules]
        if picked:
            test_group(picked, test_files(group), results)
            print(*modules, flush=True)
    print(summary(words.results))


if __name__ == "__main__":
    main()
