"""Every command and every piece of Python in the documents: run, or skipped for a reason that the page gives."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from holdfast.cli.app import app

ROOT = Path(__file__).parents[2]


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("snippets", ROOT / "scripts" / "snippets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["snippets"] = module
    spec.loader.exec_module(module)
    return module


source = _module()
PAGES = {str(page.relative_to(ROOT)): page for page in source.pages()}
RUNNABLE = [name for name, page in PAGES.items() if any(s.is_run and not s.is_hidden for s in source.snippets(page))]
COMMANDS = typer.main.get_command(app)


def test_commands_stand_in_blocks_that_are_run_or_skipped_for_a_reason() -> None:
    counts = {"run": 0, "skipped": 0}
    for page in PAGES.values():
        for snippet in source.snippets(page):
            if not snippet.language:
                assert not re.search(r"^holdfast ", snippet.code, re.MULTILINE), f"{snippet.where}: mark it as bash"
            if snippet.language not in source.RUN or snippet.is_hidden:
                continue
            assert re.fullmatch(r"(skip, .{8,}|with \S+ as \S+(, \S+ as \S+)*)?", snippet.mark), (
                f"{snippet.where}: `{snippet.mark}` is no mark"
            )
            counts["run" if snippet.is_run else "skipped"] += 1
    assert counts["run"] > counts["skipped"] > 0


def command_lines() -> list[tuple[str, str]]:
    """Every line of `holdfast` in a bash block, continued lines joined, with where it stands."""
    found = []
    for page in PAGES.values():
        for snippet in source.snippets(page):
            joined = snippet.code.replace("\\\n", " ")
            if snippet.language == "bash":
                found += [(snippet.where, line) for line in joined.splitlines() if line.startswith("holdfast ")]
    return found


def test_every_command_of_the_documents_has_options_that_exist() -> None:
    """Also of those that are not run: the line is parsed by the command line itself."""
    lines = command_lines()
    assert len(lines) > 60
    for where, line in lines:
        words = [word for word in shlex.split(line, comments=True) if word not in ("…", "&&", "|")]
        words = words[1 : next((i for i, word in enumerate(words) if word in (">", "||", "2>&1", "&")), len(words))]
        command: Any = COMMANDS
        parent = None
        try:
            while hasattr(command, "commands"):
                parent = command.make_context(command.name, [words[0]], parent=parent, resilient_parsing=True)
                found = command.get_command(parent, words[0])
                assert found is not None, f"{where}: there is no command `{words[0]}`"
                command, words = found, words[1:]
            command.make_context(command.name, list(words), parent=parent)
        except typer.Exit:
            continue
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise
            pytest.fail(f"{where}: `{line}`: {error.format_message()}")


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNNABLE)
def test_the_code_of_a_page_runs(name: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MPLBACKEND": "agg", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "snippets.py"), str(PAGES[name])],
        capture_output=True,
        text=True,
        env=environment,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-1500:]}\n{done.stderr[-3000:]}"
