"""`holdfast doctor`: what this machine has, and what can run on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from holdfast.cli.output import STORE, JsonOption, StoreOption, err, out, print_json, print_table, seconds_text

if TYPE_CHECKING:
    from holdfast.engine.diagnosis import Diagnosis, Fitness, Package


def doctor(store: StoreOption = STORE, json: JsonOption = False) -> None:
    """Devices, versions, data and suites: what is here, what is missing, what can run and how long it takes.

    Exit 1 where something that is needed is broken.
    """
    from dataclasses import asdict

    from holdfast.engine.diagnosis import examined

    with err.status("looking around"):
        diagnosis = examined(store)
    if json:
        states = [asdict(suite) | {"state": suite.state} for suite in diagnosis.suites]
        print_json(asdict(diagnosis) | {"suites": states, "problems": diagnosis.problems})
    else:
        _show(diagnosis)
    if diagnosis.problems:
        raise typer.Exit(1)


def _show(diagnosis: Diagnosis) -> None:
    out.print(f"[bold]holdfast {diagnosis.holdfast}[/] on Python {diagnosis.python}\n")
    print_table(
        ["device", "memory", "free", "what"],
        [[each.name, _size(each.memory), _size(each.free), each.about] for each in diagnosis.devices],
        right=["memory", "free"],
    )
    out.print()
    print_table(["package", "version", "for", "to have it"], [_package(each) for each in diagnosis.packages])
    free = "" if diagnosis.store.free is None else f", {_size(diagnosis.store.free)} free"
    out.print(f"\nstore {diagnosis.store.path}: {diagnosis.store.runs:,} finished runs{free}", markup=False)
    if diagnosis.data:
        out.print(f"data in {diagnosis.folder}\n", markup=False)
        print_table(
            ["dataset", "state", "where, or how to get it"],
            [[each.name, each.state, each.get or each.folder] for each in diagnosis.data],
        )
        out.print()
        columns = ["suite", "can run", "scenarios", "at most", "waits for"]
        print_table(columns, [_suite(each) for each in diagnosis.suites], right=["scenarios", "at most"])
        _estimate(diagnosis)
    for problem in diagnosis.problems:
        out.print(f"broken: {problem}", markup=False)
    if not diagnosis.problems:
        out.print("nothing that is needed is broken")


def _package(package: Package) -> list[str]:
    version = package.version or ("broken" if package.problem else "not installed")
    remedy = ": ".join(filter(None, (package.problem, package.install)))
    return [package.name, version, package.purpose or "needed", remedy]


def _suite(suite: Fitness) -> list[str]:
    time = "" if suite.seconds is None else seconds_text(suite.seconds)
    if suite.seconds is None and suite.passes:
        time = f"{suite.passes / 1e6:.1f} M passes"
    return [suite.name, suite.state, f"{suite.can} of {suite.of}", time, ", ".join(suite.absent)]


def _estimate(diagnosis: Diagnosis) -> None:
    models = dict.fromkeys(suite.model for suite in diagnosis.suites if suite.model)
    if models:
        named = " or ".join(f"`{name}`" for name in models)
        out.print(
            f"\ntimes are estimates for {named} on {diagnosis.devices[-1].name}, from a short trial of its passes and "
            "the most passes an attack makes;\n`holdfast plan MODEL --suite SUITE` times your own model"
        )
    for model in dict.fromkeys(model for suite in diagnosis.suites for model in suite.timed):
        out.print(
            f"{model.name}: {model.forwards:,.0f} images/s forward, {model.gradients:,.0f} with gradients, in float32; "
            "where a run takes a faster way, its footer says which, and its pace",
            markup=False,
        )


def _size(count: int | None) -> str:
    return "" if not count else f"{count / 1e9:.1f} GB"
