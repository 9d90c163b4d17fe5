"""Results in and out: import and export."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.output import (
    STORE,
    JsonOption,
    ModelsOption,
    StoreOption,
    err,
    open_store,
    out,
    print_json,
    print_table,
    warn,
)
from holdfast.core.errors import Misuse, unknown
from holdfast.core.json_text import json_text

if TYPE_CHECKING:
    from holdfast.store.scores import Imported

FORMATS = ("csv", "json", "parquet", "latex", "robustbench", "mlflow", "wandb")


def import_results(
    format_name: Annotated[
        str | None, typer.Argument(metavar="FORMAT", help="How the file is laid out; none lists what there is.")
    ] = None,
    path: Annotated[Path | None, typer.Argument(metavar="PATH", help="The file, or the folder that holds it.")] = None,
    store: StoreOption = STORE,
    unit: Annotated[
        str | None, typer.Option(help="What values are in where the file does not say: percent, fraction, number …")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put these results in the place of another version in the store.")
    ] = False,
    remove: Annotated[
        str | None, typer.Option(metavar="NAME", help="Remove what was imported under this name.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List what was imported into the store.")] = False,
    json: JsonOption = False,
) -> None:
    """Published results into the store, each number with the file, digest and date that it comes from."""
    from holdfast.store.importers import read_results

    if remove is not None or listed:
        if format_name is not None or (remove is not None and listed):
            raise Misuse("--remove and --list stand alone", hint="`holdfast import --remove NAME`")
        _remove(store, remove, json) if remove is not None else _list_imports(store, json)
        return
    if format_name is None:
        _list_formats(json)
        return
    if path is None:
        raise Misuse("`holdfast import` needs a path", hint=f"holdfast import {format_name} PATH")
    made = read_results(format_name, path, unit=unit)
    for note in made.notes:
        warn(note)
    _keep(store, made, replace=replace, json=json)


def _keep(store: str, made: Imported, *, replace: bool, json: bool) -> None:
    from holdfast.store.importing import keep

    kept = open_store(store)
    done = keep(kept, made.scores, replace=replace)
    rows = [kept.add_rows(each) for each in made.rows]
    if json:
        records = [
            {
                "benchmark": each.scores.benchmark,
                "models": len(each.scores.table.models),
                "settings": len(each.scores.table.settings),
                "new": each.state == "new",
                "state": each.state,
                "replaced": list(each.replaced),
                "source": "" if each.scores.origin is None else str(each.scores.origin),
            }
            for each in done
        ]
        counts = {"runs": len(rows), "new_runs": sum(rows)}
        print_json({"store": store, "scores": records, **counts, "notes": list(made.notes)})
        return
    for each in done:
        table = each.scores.table
        state = "" if each.state == "new" else f", {each.state}"
        instead = f", in the place of {', '.join(map(str, each.replaced))}" if each.replaced else ""
        shape = f"{len(table.models)} models, {len(table.settings)} settings"
        out.print(f"{each.scores.benchmark}: {shape}{state}{instead}", markup=False)
    if rows:
        out.print(f"{len(rows)} runs with a prediction per sample, {sum(rows)} of them new")
    err.print(f"in {store}: `holdfast board`, `trend`, `compare` and `export` read it")


def _list_formats(json: bool) -> None:
    from holdfast.store.importers import formats

    known = formats()
    if json:
        print_json([{"format": each.name, "summary": each.summary} for each in known.values()])
    else:
        print_table(["format", "what it reads"], [[each.name, each.summary] for each in known.values()])


def _list_imports(store: str, json: bool) -> None:
    from holdfast.store.importing import imports

    listed = imports(open_store(store))
    if json:
        print_json([{name: value for name, value in each._asdict().items() if name != "files"} for each in listed])
        return
    rows = [[each.name, f"{each.models:,}", f"{each.settings:,}", each.source] for each in listed]
    print_table(["name", "models", "settings", "from"], rows, right=["models", "settings"])


def _remove(store: str, name: str, json: bool) -> None:
    from holdfast.store.importing import remove

    gone = remove(open_store(store), name)
    if json:
        print_json({"store": store, "removed": gone.name, "files": list(gone.files), "source": gone.source})
        return
    out.print(f"removed {gone.name}: {gone.models} models, from {gone.source}", markup=False)


def export_command(
    benchmark: Annotated[
        str | None,
        typer.Argument(
            help="A published or imported benchmark; without it, the runs of the store; `images`: those of --run."
        ),
    ] = None,
    format_name: Annotated[str, typer.Option("--format", help=", ".join(FORMATS))] = "csv",
    out_file: Annotated[Path | None, typer.Option("--out", "-o", help="Write here instead of to stdout.")] = None,
    model: ModelsOption = None,
    store: StoreOption = STORE,
    run: Annotated[
        str | None, typer.Option(help="`export images`: the run, by its key or the beginning of it.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="`export images`: all samples, not only failures.")] = False,
    limit: Annotated[int | None, typer.Option(help="`export images`: at most so many per class.")] = None,
    device: Annotated[str, typer.Option(help="`export images`: auto, cpu, cuda …")] = "auto",
    trust: Annotated[
        bool, typer.Option("--trust", help="`export images`: run the code that the store names as its model.")
    ] = False,
) -> None:
    """Scores as tidy CSV, JSON or Parquet, as a LaTeX table, one model as RobustBench's entry, or to a tracker."""
    from holdfast.boards.benchmark_tables import benchmark_scores
    from holdfast.store.exporting import csv_text, latex_text, measured, robustbench_entry, with_facts
    from holdfast.store.scores import Scores, scores_to_parquet
    from holdfast.store.stored_names import stored_model
    from holdfast.tracking import TRACKERS, log_scores

    if benchmark == "images":
        _export_images(store, run, out_file, every=every, limit=limit, device=device, trust=trust)
        return
    if run is not None:
        raise Misuse("--run is of `holdfast export images`", hint="holdfast export images --run KEY --out FOLDER")
    if format_name not in FORMATS:
        raise unknown("format", format_name, FORMATS)
    kept = open_store(store)
    models = [stored_model(kept, text) for text in model or ()] if benchmark is None else list(model or ())
    if format_name in TRACKERS:
        from holdfast.metrics.summary import lines

        if benchmark is not None or out_file is not None:
            raise Misuse(f"{format_name} takes the runs of the store", hint=f"holdfast export --format {format_name}")
        count = log_scores(lines(kept, models=models), format_name)
        err.print(f"{count} values logged to {format_name}")
        return
    if format_name == "robustbench":
        if benchmark is not None or len(models) != 1:
            raise Misuse("RobustBench's entry is of one model of the store", hint="--format robustbench --model MODEL")
        _write(f"{json_text(robustbench_entry(kept, models[0]), indent=2)}\n".encode(), out_file)
        return
    scores = measured(kept, models=models) if benchmark is None else benchmark_scores(benchmark, kept)
    if benchmark is not None and models:
        scores = Scores(scores.benchmark, scores.table.of(models), scores.units, scores.origin)
    if not scores.table.models:
        raise Misuse(f"no finished runs in {store}", hint="name a benchmark: `holdfast export imagenet-testbed`")
    if format_name == "parquet":
        if out_file is None:
            raise Misuse("Parquet is no text", hint="say where: --out scores.parquet")
        _write(scores_to_parquet(scores), out_file)
        return
    text = {"csv": lambda: csv_text(with_facts(scores)), "json": lambda: json_text(with_facts(scores), indent=2) + "\n"}
    _write((latex_text(scores) if format_name == "latex" else text[format_name]()).encode(), out_file)


def _export_images(
    store: str, run: str | None, folder: Path | None, *, every: bool, limit: int | None, device: str, trust: bool
) -> None:
    from holdfast.engine.image_export import run_images

    if run is None or folder is None:
        hint = "holdfast export images --run KEY --out FOLDER; `holdfast scores` shows the keys"
        raise Misuse("`export images` needs a run and a folder", hint=hint)
    made = run_images(open_store(store), run, failures=not every, limit=limit, device=device, trust=trust)
    path = made.write(folder, pictures=True)
    out.print(str(path), soft_wrap=True, markup=False)
    images = f"{len(made.ids):,} images of {made.model} under {made.scenario}, made again"
    same = f"{made.as_stored:,} have the prediction of the stored row"
    err.print(f"{images}: {same}", markup=False, soft_wrap=True)
    if made.right_when_rounded:
        right = f"{made.right_when_rounded:,} of them are right again once rounded to 8 bits"
        files = "images.npz holds what was scored, the PNG files are to look at"
        err.print(f"{right}: {files}", soft_wrap=True)


def _write(data: bytes, path: Path | None) -> None:
    if path is None:
        sys.stdout.write(data.decode())
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    err.print(f"wrote {path}")
