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
import json
import os
import random
import shutil
import signal
import tempfile
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mutant_runs import (
    NOTICED,
    allowed,
    covering,
    digest,
    fork,
    read_known,
    read_notes,
    run_afresh,
    run_session,
    stop,
    taken,
    warm_up,
)
from mutants import ROOT, Mutant, module_name, mutants, mutated
from mutants_by_hand import by_hand, test_by_hand

CONFIG = ROOT / "scripts" / "mutate.toml"
PAGE = ROOT / "docs" / "mutation.md"


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
