"""The import table of the design, enforced."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "holdfast"
BELOW = {
    "core": set(),
    "datasets": {"core"},
    "models": {"core"},
    "corruptions": {"core"},
    "attacks": {"core", "corruptions", "kernels"},
    "kernels": set(),
    "store": {"core"},
    "engine": {"core", "datasets", "models", "corruptions", "attacks", "store"},
    "metrics": {"core", "store"},
    "trends": {"core", "metrics"},
    "boards": {"core", "store", "metrics", "trends"},
    "training": {"core", "datasets", "models", "attacks", "metrics"},
    "site": {"core", "store", "metrics", "trends", "boards"},
}
TORCH_FREE = ("store", "metrics", "trends", "boards", "site")
FILES = sorted(path for package in BELOW for path in (SOURCE / package).glob("**/*.py"))


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_package_imports_only_what_the_table_allows(path: Path) -> None:
    package = path.relative_to(SOURCE).parts[0]
    allowed = BELOW[package] | {package}
    ours = {name.split(".")[1] for name in imports(path) if name.startswith("holdfast.") and name.count(".")}
    packages = {name for name in ours if (SOURCE / name).is_dir()}
    assert packages <= allowed, f"{package} may not import {packages - allowed}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_torch_stays_where_the_table_has_it(path: Path) -> None:
    if path.relative_to(SOURCE).parts[0] in TORCH_FREE:
        assert not {name.split(".")[0] for name in imports(path)} & {"torch", "torchvision"}


def loaded(statement: str) -> set[str]:
    """Modules that a fresh interpreter holds after a statement."""
    code = f"{statement}; import sys; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import holdfast",
        "import holdfast.core.registry, holdfast.core.noise, holdfast.core.types",
        "import holdfast.cli.app",
        "import holdfast.store, holdfast.metrics.compare, holdfast.site.report",
    ],
)
def test_torch_is_not_imported_before_it_is_needed(statement: str) -> None:
    assert "torch" not in loaded(statement)


def test_the_command_line_imports_nothing_heavy_for_help() -> None:
    assert not loaded("import holdfast.cli.app") & {"torch", "numpy", "scipy", "pyarrow", "duckdb", "PIL", "pandas"}


def test_no_module_scrolls_forever() -> None:
    long = {
        str(path.relative_to(SOURCE)): n for path in SOURCE.rglob("*.py") if (n := path.read_text().count("\n")) > 400
    }
    assert not long


def test_percentages_are_written_by_the_one_rounding() -> None:
    """By hand 93.25 becomes 93.2 in one place and 93.3 in another; a style sheet does not mind."""
    by_hand = re.compile(r"\{100 \* [^{}]*:\+?\.\df\}(?!%)")
    found = [str(path) for path in SOURCE.rglob("*.py") if by_hand.search(path.read_text())]
    assert not found, f"use core.rounding.percent in {', '.join(found)}"
