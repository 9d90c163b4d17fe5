"""What there is: list and show."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.output import JsonOption, err, out, print_json, print_table

if TYPE_CHECKING:
    from holdfast.core.registry import Component

PLURALS = {
    "attacks": "attack",
    "architectures": "architecture",
    "corruptions": "corruption",
    "datasets": "dataset",
    "metrics": "metric",
    "models": "model",
    "recipes": "recipe",
}
KINDS = [*PLURALS, "suites"]


def list_kind(
    kind: Annotated[str, typer.Argument(help=", ".join(KINDS))],
    json: JsonOption = False,
) -> None:
    """What there is of a kind."""
    from holdfast.core.errors import unknown
    from holdfast.core.registry import registry

    if kind in ("suites", "suite"):
        records = _suite_records()
    elif (single := PLURALS.get(kind, kind)) in PLURALS.values():
        records = [_record(entry) for entry in registry.entries(single).values()]
    else:
        raise unknown("kind", kind, KINDS)
    if json:
        print_json(records)
    else:
        print_table(
            ["name", "what it is", "source"], [[str(r["name"]), str(r["summary"]), str(r["source"])] for r in records]
        )


def show_command(
    ref: Annotated[
        str, typer.Argument(help="A name or ref: pgd-linf, gaussian-noise:severity=3, fashion-mnist-2k, suite:quick")
    ],
    out_file: Annotated[
        Path | None, typer.Option("--out", "-o", help="Of a corruption: draw every severity into this PNG or JPEG.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", help="With --out: whose images. Of a suite: instead of its own.")
    ] = None,
    images: Annotated[int, typer.Option("--images", help="With --out: how many images.")] = 4,
    json: JsonOption = False,
) -> None:
    """One component: what it does, its parameters and defaults, where it comes from."""
    if out_file is not None:
        from holdfast.cli.sheet import DATASET, contact_sheet, save_sheet

        save_sheet(contact_sheet(ref, dataset=dataset or DATASET, images=images), out_file)
        err.print(f"wrote {out_file}", markup=False, soft_wrap=True)
        return
    from holdfast.core.errors import unknown
    from holdfast.core.refs import parse_ref
    from holdfast.core.registry import registry
    from holdfast.core.suites import suites

    suite_name = ref.removeprefix("suite:")
    if suite_name in suites() or suite_name.endswith(".toml") or suite_name != ref:
        _show_suite(suite_name, dataset, json)
        return
    name = parse_ref(ref).name
    everything: dict[str, Component] = {}
    for kind in PLURALS.values():
        for known, entry in registry.entries(kind).items():
            everything.setdefault(known, entry)
    if name not in everything:
        raise unknown("component", name, [*everything, *suites()])
    entry = everything[name]
    bound = registry.bind(entry.kind, ref) if ref.strip() != name else None
    if json:
        print_json(_record(entry) | ({"full": bound.full, "key": bound.key} if bound is not None else {}))
        return
    out.print(f"[bold]{entry.name}[/]  {entry.kind}, version {entry.version}")
    out.print(entry.doc, markup=False)
    if entry.source:
        out.print(f"\nsource: {entry.source}", markup=False)
    if entry.parameters:
        out.print()
        print_table(
            ["parameter", "default", "type"],
            [[str(p[key]) for key in ("name", "default", "type")] for p in _parameters(entry)],
        )
    if bound is not None:
        out.print(f"\n{bound.full}\nkey {bound.key}", markup=False)


def _show_suite(name: str, dataset: str | None, json: bool) -> None:
    from holdfast.core.suites import load_suite

    suite = load_suite(name, dataset=dataset)
    parts = {text: part.name for part in reversed(suite.parts) for text in part.scenarios}
    if json:
        print_json(
            {
                "kind": "suite",
                "name": suite.name,
                "title": suite.title,
                "about": suite.about,
                "source": suite.source,
                "dataset": suite.dataset,
                "samples": suite.samples,
                "models": list(suite.models),
                "published": list(suite.published),
                "parts": {part.name: list(part.scenarios) for part in suite.parts},
                "scenarios": list(suite.scenarios),
                "board": [asdict(column) for column in suite.board],
                "notes": list(suite.notes),
            }
        )
        return
    out.print(f"[bold]{suite.name}[/]  suite, {len(suite.scenarios)} scenarios\n{suite.title}")
    samples = "all samples" if suite.samples is None else f"{suite.samples:,} samples"
    facts = [suite.about, f"source: {suite.source}" if suite.source else "", f"on {suite.dataset or '-'}, {samples}"]
    for text in (*filter(None, facts), *suite.notes):
        out.print(text, markup=False)
    if suite.parts:
        out.print()
        columns = ["part", "scenarios", "what it is"]
        print_table(columns, [[p.name, str(len(p.scenarios)), p.title] for p in suite.parts], right=["scenarios"])
    if suite.board:
        out.print()
        rows = [[c.name, c.title, c.unit, "detail" if c.detail else ""] for c in suite.board]
        print_table(["score", "title", "unit", ""], rows)
    out.print()
    if parts:
        print_table(["scenario", "part"], [[text, parts.get(text, "")] for text in suite.scenarios])
    else:
        print_table(["scenario"], [[text] for text in suite.scenarios])


def _record(entry: Component) -> dict[str, object]:
    return {
        "kind": entry.kind,
        "name": entry.name,
        "version": entry.version,
        "summary": entry.summary,
        "source": entry.source,
        "tags": list(entry.tags),
        "parameters": _parameters(entry),
    }


def _parameters(entry: Component) -> list[dict[str, object]]:
    from holdfast.core.registry import in_words
    from holdfast.core.values import value_text

    return [
        {
            "name": parameter.name,
            "default": "required" if parameter.required else value_text(parameter.default),
            "type": in_words(parameter.annotation),
        }
        for parameter in entry.parameters
    ]


def _suite_records() -> list[dict[str, object]]:
    from holdfast.core.suites import load_suite, suites

    loaded = [load_suite(name) for name in suites()]
    return [
        {
            "kind": "suite",
            "name": suite.name,
            "summary": suite.title,
            "source": suite.source,
            "scenarios": len(suite.scenarios),
            "dataset": suite.dataset,
            "parts": [part.name for part in suite.parts],
            "board": [column.name for column in suite.board if not column.detail],
        }
        for suite in loaded
    ]
