"""Results in and out: import and export."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.names import measured_model
from holdfast.cli.output import STORE, JsonOption, StoreOption, err, open_store, out, print_json, print_table

FORMATS = ("csv", "json", "parquet", "latex", "robustbench")


def import_results(
    format_name: Annotated[
        str | None, typer.Argument(metavar="FORMAT", help="How the file is laid out; none lists what there is.")
    ] = None,
    path: Annotated[Path | None, typer.Argument(metavar="PATH", help="The file, or the folder that holds it.")] = None,
    store: StoreOption = STORE,
    json: JsonOption = False,
) -> None:
    """Published results into the store, each number with the file, digest and date that it comes from."""
    from holdfast.core.errors import Misuse
    from holdfast.store.importers import formats, read

    if format_name is None:
        known = formats()
        if json:
            print_json([{"format": each.name, "summary": each.summary} for each in known.values()])
        else:
            print_table(["format", "what it reads"], [[each.name, each.summary] for each in known.values()])
        return
    if path is None:
        raise Misuse("`holdfast import` needs a path", hint=f"holdfast import {format_name} PATH")
    made = read(format_name, path)
    kept = open_store(store)
    records: list[dict[str, object]] = []
    for scores in made.scores:
        is_new = kept.add_scores(scores)
        shape = {"models": len(scores.table.models), "settings": len(scores.table.settings)}
        file = "" if scores.origin is None else str(scores.origin)
        records.append({"benchmark": scores.benchmark, **shape, "new": is_new, "source": file})
    rows = [kept.add_rows(each) for each in made.rows]
    if json:
        print_json({"store": store, "scores": records, "runs": len(rows), "new_runs": sum(rows)})
        return
    for record in records:
        said = "" if record["new"] else ", there already"
        out.print(
            f"{record['benchmark']}: {record['models']} models, {record['settings']} settings{said}", markup=False
        )
    if rows:
        out.print(f"{len(rows)} runs with a prediction per sample, {sum(rows)} of them new")
    err.print(f"in {store}: `holdfast board`, `trend`, `compare` and `export` read it")


def export(
    benchmark: Annotated[
        str | None, typer.Argument(help="A published or imported benchmark; without it, the runs of the store.")
    ] = None,
    format_name: Annotated[str, typer.Option("--format", help=", ".join(FORMATS))] = "csv",
    out_file: Annotated[Path | None, typer.Option("--out", "-o", help="Write here instead of to stdout.")] = None,
    model: Annotated[list[str] | None, typer.Option("--model", help="Only these models.")] = None,
    store: StoreOption = STORE,
) -> None:
    """Scores as tidy CSV, JSON or Parquet, as a LaTeX table, or one model as RobustBench's entry."""
    from holdfast.cli.tables import benchmark_scores
    from holdfast.core.errors import Misuse, unknown
    from holdfast.store.exporting import csv_text, json_text, latex_text, measured, robustbench_entry
    from holdfast.store.scores import Scores, tidy, to_parquet

    if format_name not in FORMATS:
        raise unknown("format", format_name, FORMATS)
    kept = open_store(store)
    models = [measured_model(kept, text) for text in model or ()] if benchmark is None else list(model or ())
    if format_name == "robustbench":
        if benchmark is not None or len(models) != 1:
            raise Misuse("RobustBench's entry is of one model of the store", hint="--format robustbench --model MODEL")
        _write(json_text(robustbench_entry(kept, models[0])).encode(), out_file)
        return
    scores = measured(kept, models=models) if benchmark is None else benchmark_scores(benchmark, kept)
    if benchmark is not None and models:
        scores = Scores(scores.benchmark, scores.table.of(models), scores.units, scores.origin)
    if not scores.table.models:
        raise Misuse(f"no finished runs in {store}", hint="name a benchmark: `holdfast export imagenet-testbed`")
    if format_name == "parquet":
        if out_file is None:
            raise Misuse("Parquet is no text", hint="say where: --out scores.parquet")
        _write(to_parquet(scores), out_file)
        return
    text = {"csv": lambda: csv_text(tidy(scores)), "json": lambda: json_text(tidy(scores))}
    _write((latex_text(scores) if format_name == "latex" else text[format_name]()).encode(), out_file)


def _write(data: bytes, path: Path | None) -> None:
    if path is None:
        sys.stdout.write(data.decode())
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    err.print(f"wrote {path}")
