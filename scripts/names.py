"""Lists names that stand for several things, and words that need a dictionary: none of either should be left.

python scripts/names.py            # exit 1 where there is one
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "holdfast"
BESIDE = ("tests", "scripts", "benchmarks", "examples")
# public names with one meaning in two packages: a model or a dataset from its ref
ALLOWED = {"function load"}
# as names in code (whole, or as a part between underscores or capitals)
WORDS = [
    "workshop",
    "wanted",
    "said",
    "remembering",
    "course",
    "flight",
    "found",
    "journey",
    "pile",
    "parcel",
    "ticket",
    "crew",
    "made_of",
    "dials",
    "rough",
    "quicken",
    "settle",
    "settled",
    "place",
    "places",
    "again",
    "climb",
    "landing",
    "journeys",
    "flights",
    "hardly",
    "exactly",
]
# plain English for a variable of a test, where no other meaning is near
PLAIN = {"found", "again", "place", "places", "exactly", "hardly"}


def definitions() -> dict[str, list[str]]:
    """Where each class and each public function of a module is defined, and where each module's name stands."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        inside = str(path.relative_to(SOURCE))
        if path.name not in ("__init__.py", "__main__.py"):
            homes[f"module {path.stem}"].append(inside)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                homes[f"class {node.name}"].append(inside)
            elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                homes[f"function {node.name}"].append(inside)
    return {name: files for name, files in homes.items() if len(files) > 1 and name not in ALLOWED}


def bound_names(tree: ast.AST) -> set[str]:
    """Every name that a module binds: classes, functions, parameters, variables, attributes."""
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            bound.add(node.attr)
    return bound


def words_of(name: str) -> set[str]:
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().strip("_")
    return {parts, *parts.split("_")}


def metaphors() -> dict[str, list[str]]:
    """Words of the list, with the files that bind a name made of them; a test's own name is a sentence."""
    used: dict[str, list[str]] = defaultdict(list)
    for folder in (SOURCE, *(ROOT / name for name in BESIDE)):
        words = set(WORDS) - (set() if folder == SOURCE else PLAIN)
        for path in sorted(folder.rglob("*.py")):
            names = bound_names(ast.parse(path.read_text()))
            for name in sorted(name for name in names if not name.startswith("test_")):
                for word in words_of(name) & words:
                    used[word].append(f"{path.relative_to(ROOT)}:{name}")
    return dict(used)


def main() -> int:
    twice, verse = definitions(), metaphors()
    for name, files in sorted(twice.items()):
        print(f"{name}: {', '.join(files)}")
    for word, uses in sorted(verse.items()):
        print(f"word `{word}`: {', '.join(uses)}")
    print(f"{len(twice)} names with several homes, {len(verse)} words to replace", file=sys.stderr)
    return int(bool(twice or verse))


if __name__ == "__main__":
    sys.exit(main())
