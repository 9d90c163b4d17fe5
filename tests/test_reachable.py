"""All of `metrics`, `trends` and `boards` has a way in: from the command line, a page, or the name of a metric."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

from holdfast.core.registry import registry
from holdfast.metrics.scopes import OfBattery, OfPredictions, OfRuns, OfTable, metric_of

SOURCE = Path(__file__).parent.parent / "src" / "holdfast"
LOOKED_AT = ("metrics", "trends", "boards")
NAMED = (
    *("mce", "relative-mce", "balanced-accuracy", "per-class-accuracy", "confusion", "brier", "nll", "ece"),
    *("cr-exp", "cr-max", "uar", "upper-limit", "pearson", "r2", "catastrophic-degradation", "error-consistency"),
)


class Place(NamedTuple):
    """A function or class of a module."""

    module: str
    name: str


def definitions() -> dict[Place, ast.stmt]:
    """Every function and class at the top of a module of `metrics`, `trends` and `boards`."""
    return {
        Place(_module(path), node.name): node
        for package in LOOKED_AT
        for path in (SOURCE / package).glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def reached() -> set[Place]:
    """What other packages, registered components and module-level code lead to, by the names they use."""
    known = definitions()
    found: set[Place] = set()
    waiting = [definition for definition, node in known.items() if _is_registered(node)]
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        imported = _imported(tree)
        inside = path.relative_to(SOURCE).parts[0] in LOOKED_AT
        body = [node for node in tree.body if not inside or not isinstance(node, ast.FunctionDef | ast.ClassDef)]
        waiting += [
            definition for node in body for definition in _used(node, imported, _module(path)) if definition in known
        ]
    while waiting:
        definition = waiting.pop()
        if definition in found:
            continue
        found.add(definition)
        tree = ast.parse((SOURCE.parent / f"{definition.module.replace('.', '/')}.py").read_text())
        imported = _imported(tree)
        waiting += [other for other in _used(known[definition], imported, definition.module) if other in known]
    return found


def _module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def _is_registered(node: ast.stmt) -> bool:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
    return any(isinstance(each, ast.Call) and getattr(each.func, "id", "") == "register" for each in decorators)


def _imported(tree: ast.Module) -> dict[str, Place]:
    return {
        name.asname or name.name: Place(node.module or "", name.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }


def _used(node: ast.AST, imported: dict[str, Place], module: str) -> set[Place]:
    """The places that a piece of code names: an import alone is no use."""
    used = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            used.add(imported.get(each.id, Place(module, each.id)))
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in imported:
            where = imported[each.value.id]
            used.add(Place(f"{where.module}.{where.name}", each.attr))
    return used


def test_no_function_of_metrics_or_trends_is_without_a_way_in() -> None:
    alone = {definition for definition in definitions() if not definition.name.startswith("_")} - reached()
    assert not alone, "reach them from the command line, or delete them: " + ", ".join(map(".".join, sorted(alone)))


def test_an_unused_function_would_be_noticed() -> None:
    everything = definitions()
    assert len(everything) > 200
    assert Place("holdfast.boards.multi_run_scores", "multi_run_scores") in reached()
    assert Place("holdfast.boards.multi_run_scores", "nobody") not in everything


def test_every_metric_is_a_score_of_something_that_the_command_line_has() -> None:
    kinds = OfRuns | OfBattery | OfTable | OfPredictions
    for name in registry.entries("metric"):
        metric = metric_of(name)
        assert callable(metric) or isinstance(metric, kinds), name
    assert set(NAMED) <= set(registry.entries("metric"))


def test_the_list_of_metrics_is_whole() -> None:
    from holdfast.cli.app import app

    result = CliRunner().invoke(app, ["list", "metrics", "--json"])
    assert {record["name"] for record in json.loads(result.stdout)} == set(registry.entries("metric"))
