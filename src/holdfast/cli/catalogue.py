"""What there is: list and show."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.completing import starting
from holdfast.cli.output import JsonOption, err, out, print_json, print_table, warn
from holdfast.core.errors import Misuse, unknown
from holdfast.core.json_text import attributes
from holdfast.core.refs import parse_ref

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


def kind_names(incomplete: str) -> list[str]:
    """For a shell: what `holdfast list` lists."""
    return starting(KINDS, incomplete)


def list_kind(
    kind: Annotated[str, typer.Argument(help=", ".join(KINDS), autocompletion=kind_names)],
    json: JsonOption = False,
) -> None:
    """What there is of a kind."""
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
        str,
        typer.Argument(
            help="A name or ref: pgd-linf, gaussian-noise:severity=3, fashion-mnist-2k, suite:quick, recipe:cifar10-msd"
        ),
    ],
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Draw into this PNG or JPEG: images of a dataset, every severity of a corruption, "
            "or every strength of a sweep or of a suite's sweeps, against --model.",
        ),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="With --out: whose images. Of a suite: instead of its own.")
    ] = None,
    images: Annotated[int | None, typer.Option(help="With --out: how many images; 4, or 1 for each attack.")] = None,
    model: Annotated[str | None, typer.Option(help="With --out of attacks: the model to attack.")] = None,
    json: JsonOption = False,
) -> None:
    """One component: what it does, its parameters and defaults, where it comes from."""
    if out_file is not None:
        _draw_sheet(ref, out_file, dataset=dataset, images=images, model=model)
        err.print(f"wrote {out_file}", markup=False, soft_wrap=True)
        return
    from holdfast.core.registry import registry
    from holdfast.core.suites import suites

    if ref.startswith("recipe:"):
        _show_recipe(ref.removeprefix("recipe:"), json)
        return
    if _is_suite(ref):
        _show_suite(ref.removeprefix("suite:"), dataset, json)
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


def _is_suite(ref: str) -> bool:
    from holdfast.core.suites import suites

    return ref in suites() or ref.startswith("suite:") or ref.endswith(".toml")


def _draw_sheet(ref: str, out_file: Path, *, dataset: str | None, images: int | None, model: str | None) -> None:
    from holdfast.cli.sheet import DATASET, attack_sheet, contact_sheet, dataset_sheet, save_sheet, sweeps_of
    from holdfast.core.registry import registry
    from holdfast.core.suites import load_suite

    name = ref.removeprefix("suite:")
    is_suite = _is_suite(ref)
    if not is_suite and parse_ref(ref).name in registry.entries("dataset"):
        sheet = dataset_sheet(ref, images=4 if images is None else images)
    elif not is_suite and not ref.startswith("sweep:"):
        sheet = contact_sheet(ref, dataset=dataset or DATASET, images=4 if images is None else images)
    elif model is None:
        raise Misuse("attacks are made against a model", hint="give one with --model")
    else:
        where = load_suite(name, dataset=dataset).dataset if is_suite else dataset
        if not where:
            raise Misuse("a sheet of attacks needs images", hint="give them with --dataset")
        sheet = attack_sheet(
            sweeps_of(ref, dataset), model=model, dataset=where, images=1 if images is None else images, tell=warn
        )
    save_sheet(sheet, out_file)


def _show_suite(name: str, dataset: str | None, json: bool) -> None:
    from holdfast.core.suites import load_suite

    suite = load_suite(name, dataset=dataset)
    parts = {text: part.name for part in reversed(suite.parts) for text in part.scenarios}
    if json:
        about = ("name", "title", "about", "source", "dataset", "samples", "models", "published")
        print_json(
            {
                "kind": "suite",
                **attributes(suite, *about),
                "parts": {part.name: part.scenarios for part in suite.parts},
                "scenarios": suite.scenarios,
                "board": [asdict(column) for column in suite.board],
                "notes": suite.notes,
                "parameters": dict(suite.parameters),
                **attributes(suite, "caveats", "logits"),
            }
        )
        return
    out.print(f"[bold]{suite.name}[/]  suite, {len(suite.scenarios)} scenarios\n{suite.title}")
    samples = "all samples" if suite.samples is None else f"{suite.samples:,} samples"
    facts = [suite.about, f"source: {suite.source}" if suite.source else "", f"on {suite.dataset or '-'}, {samples}"]
    for text in (*filter(None, facts), *suite.notes):
        out.print(text, markup=False)
    for text, titles in suite.caveats.items():
        out.print(f"caveat of {', '.join(titles)}: {text}", markup=False)
    if suite.parameters:
        values = ", ".join(f"{name}={value}" for name, value in suite.parameters)
        out.print(f"parameters: {values}; others follow the name, as in `{suite.name}:{suite.parameters[0][0]}=…`")
    if suite.parts:
        out.print()
        columns = ["part", "scenarios", "what it is"]
        print_table(columns, [[p.name, str(len(p.scenarios)), p.title] for p in suite.parts], right=["scenarios"])
    if suite.board:
        out.print()
        rows = [[c.name, c.title, c.unit, "detail" if c.detail else ""] for c in suite.board]
        print_table(["score", "title", "unit", ""], rows)
    out.print()
    rows = [[text, parts.get(text, "")] if parts else [text] for text in suite.scenarios]
    print_table(["scenario", "part"] if parts else ["scenario"], rows)


def _show_recipe(text: str, json: bool) -> None:
    from holdfast.core.values import value_text
    from holdfast.training.recipes import DEFAULTS, load_recipe

    recipe = load_recipe(text)
    fields = asdict(recipe)
    if json:
        print_json({"kind": "recipe", **fields})
        return
    out.print(f"[bold]{recipe.name}[/]  recipe")
    for line in filter(None, (recipe.title, f"source: {recipe.source}" if recipe.source else "")):
        out.print(line, markup=False)
    out.print()
    shown = [name for name in DEFAULTS if name not in ("title", "source")]
    rows = [[name, value_text(fields[name]), "" if fields[name] == DEFAULTS[name] else "its own"] for name in shown]
    print_table(["field", "value", ""], rows)


def _record(entry: Component) -> dict[str, object]:
    about = attributes(entry, "kind", "name", "version", "summary", "source", "tags")
    return about | {"parameters": _parameters(entry)}


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
