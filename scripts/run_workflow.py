"""Runs the `run:` steps of a GitHub workflow on this machine, in a folder, as a check of the example.

python scripts/run_workflow.py examples/ci/robustness.yml FOLDER [NAME=VALUE …]

Steps that `uses:` an action or install packages are left out. The summary goes to summary.md in the folder.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Runner = Callable[[str, Path, dict[str, str]], int]


def in_bash(command: str, folder: Path, environment: dict[str, str]) -> int:
    """A step as GitHub runs it."""
    words = ["bash", "-e", "-o", "pipefail", "-c", command]
    return subprocess.run(words, cwd=folder, env=environment, check=False).returncode


def in_this_process(command: str, folder: Path, environment: dict[str, str]) -> int:
    """A step that is one command of holdfast, without starting Python anew: for many repetitions."""
    from holdfast.__main__ import main

    before, _, summary = command.replace("\\\n", " ").partition(">>")
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [os.path.expandvars(word) for word in shlex.split(before)]
    target = os.path.expandvars("".join(shlex.split(summary))) or os.devnull
    with Path(target).open("a") as file, contextlib.redirect_stdout(file):
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0)
    return 0


def run_workflow(workflow: Path, folder: Path, variables: dict[str, str], run: Runner = in_bash) -> int:
    """The exit code of the first step that fails; 0 where all pass."""
    import yaml

    content: dict[str, Any] = yaml.safe_load(workflow.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        **{name: str(value) for name, value in content.get("env", {}).items()},
        **variables,
        "GITHUB_STEP_SUMMARY": str(folder.absolute() / "summary.md"),
    }
    for job in content["jobs"].values():
        for step in job["steps"]:
            command = step.get("run", "")
            if not command or command.startswith("pip install"):
                continue
            code = run(command, folder, environment)
            if code:
                print(f"step `{step.get('name', command)}` failed with exit code {code}", file=sys.stderr)
                return code
    return 0


if __name__ == "__main__":
    path, where, *pairs = sys.argv[1:]
    sys.exit(run_workflow(Path(path), Path(where), dict(pair.split("=", 1) for pair in pairs)))
