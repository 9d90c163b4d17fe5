"""Pages of the reference, made from docstrings: the public names of Python, and every command with its options."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import typer

import holdfast

MODULES = {
    "holdfast.models": "Models: load, wrap, check, save",
    "holdfast.datasets": "Datasets: load and build",
    "holdfast.store": "Rows and the store",
    "holdfast.metrics.accuracy": "Accuracy and its interval",
    "holdfast.metrics.compare": "Comparison of two models",
    "holdfast.trends.fits": "Lines through models",
    "holdfast.trends.robustness": "Effective robustness",
    "holdfast.attacks.gradient": "The loop of gradient attacks",
    "holdfast.attacks.objectives": "Objectives of attacks",
    "holdfast.attacks.steps": "Steps of attacks",
    "holdfast.attacks.threats.balls": "Lp balls",
    "holdfast.core.registry": "The registry",
    "holdfast.core.types": "Types that pass between packages",
    "holdfast.core.errors": "Errors",
    "holdfast.conformance": "Checks for plug-ins",
    "holdfast.conformance_metrics": "Checks for metrics",
}


def write(folder: Path) -> None:
    """Writes `folder`: an index, the top-level names, a page per module and the command line."""
    folder.mkdir(exist_ok=True)
    pages = {"top": _top(), "command-line": _command_line()}
    for name, title in MODULES.items():
        module = importlib.import_module(name)
        pages[name.replace(".", "-")] = f"# {title}\n\n" + _module(name, getattr(module, "__all__", None))
    listed = "\n".join(pages)
    pages["index"] = (
        "# Reference\n\nMade from the docstrings of the code. Components with their parameters are in the "
        f"[catalogue](../catalogue.md).\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    )
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _module(name: str, public: list[str] | None) -> str:
    """What a module defines itself; of a package, everything it offers."""
    module = importlib.import_module(name)
    names = public or [each for each in vars(module) if not each.startswith("_")]
    own = [each for each in names if _home(name, each) == name or (public and _home(name, each).startswith(name))]
    blocks = "\n".join(_documented(name, each) for each in own)
    about = (module.__doc__ or "").partition("\n")[0]
    return f"`{name}`. {about}\n\n```{{eval-rst}}\n{blocks}\n```\n"


def _home(module: str, name: str) -> str:
    return str(getattr(getattr(importlib.import_module(module), name), "__module__", ""))


def _documented(module: str, name: str, *options: str) -> str:
    thing = getattr(importlib.import_module(module), name)
    kind = "class" if isinstance(thing, type) else "function"
    members = "   :members:\n" if kind == "class" else ""
    if kind == "function" and not callable(thing):
        return ""
    return f".. auto{kind}:: {module}.{name}\n{members}" + "".join(f"   :{option}:\n" for option in options)


def _top() -> str:
    names = [name for name in holdfast.__all__ if name != "__version__"]
    blocks = "\n".join(_documented("holdfast", name, "no-index") for name in names)
    return f"# import holdfast\n\nWhole jobs, by their names on the package itself.\n\n```{{eval-rst}}\n{blocks}\n```\n"


def _command_line() -> str:
    from holdfast.cli.app import app

    parts = ["# Command line", "Data go to stdout, messages to stderr. Exit codes: 0 done, 1 failed, 2 misuse."]
    for words, command in _commands(typer.main.get_command(app), ("holdfast",)):
        help_text = (command.help or "").replace("\b", "").strip()
        parts += [f"## {' '.join(words)}", help_text]
        lines = [_option(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
        parts.append("\n".join(lines))
    return "\n\n".join(part for part in parts if part) + "\n"


def _commands(group: Any, words: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    """Every command under a group, of click or of the copy of it that typer brings."""
    found: list[tuple[tuple[str, ...], Any]] = []
    for name, command in group.commands.items():
        inside = (*words, name)
        found += _commands(command, inside) if hasattr(command, "commands") else [(inside, command)]
    return found


def _option(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    name = ", ".join(parameter.opts) if is_option else (parameter.name or "").upper()
    text = " ".join(str(getattr(parameter, "help", "") or "").split())
    return f"- `{name}` {text}".rstrip()
