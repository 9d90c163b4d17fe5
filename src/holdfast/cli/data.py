"""`holdfast data`: the files of the standard datasets."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.output import JsonOption, print_json, print_table
from holdfast.core.json_text import json_text

if TYPE_CHECKING:
    from holdfast.datasets.getting import Progress

app = typer.Typer(
    name="data", help="The files of the standard datasets: list, get, verify, build.", no_args_is_help=True
)

WIDE = 240  # letters of a line where output is piped: one line per row
Fact = dict[str, object]


@app.command("list")
def list_data(as_json: JsonOption = False) -> None:
    """What there is to get, and what is here."""
    from holdfast.core.home import data_home
    from holdfast.core.registry import registry
    from holdfast.datasets.downloads import downloads

    known = registry.entries("dataset")
    facts: list[Fact] = [
        {
            "name": download.name,
            "state": download.state,
            "megabytes": download.megabytes,
            "licence": download.licence,
            "folder": str(download.home),
            "from": download.origin,
            "summary": known[download.name].summary if download.name in known else "",
        }
        for download in downloads()
    ]
    _show(facts, as_json, hidden=("licence", "folder", "from"))
    typer.echo(f"files go to {data_home()}", err=True)


@app.command("get")
def get_data(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Datasets, as `holdfast data list` names them.")],
    offline: Annotated[bool, typer.Option("--offline", help="Use no network: fail when files are missing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Get files again that are here and right.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Get the files of datasets; what is here and right stays, a download that broke off goes on."""
    from holdfast.datasets.downloads import downloads
    from holdfast.datasets.getting import get_files

    facts: list[Fact] = []
    chosen = downloads(names)
    with _progress() as progress:
        for download in chosen:
            got = get_files(download, force=force, offline=offline, progress=progress)
            facts.append({"name": got.dataset, "from": got.mirror or "already here", "folder": str(got.folder)})
    _show(facts, as_json)


@app.command("verify")
def verify_data(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME…]", help="Default: all that are here.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare files with their published checksums; fails when one is damaged, or a named dataset is incomplete."""
    from holdfast.core.errors import HoldfastError
    from holdfast.datasets.downloads import downloads, verify_files

    chosen = [download for download in downloads(names or ()) if names or download.state != "missing"]
    checked = [file for download in chosen for file in verify_files(download)]
    _show([{**file._asdict(), "path": str(file.path)} for file in checked], as_json, hidden=("expected", "got"))
    wrong = [file for file in checked if file.state == "damaged" or (names and file.state == "missing")]
    if wrong:
        lines = [f"  {file.path} is {file.state}" + (f", got {file.got}" if file.got else "") for file in wrong]
        names_of_wrong = " ".join(dict.fromkeys(file.dataset for file in wrong))
        raise HoldfastError("\n".join(["not as published:", *lines]), hint=f"run `holdfast data get {names_of_wrong}`")


@app.command("classes")
def data_classes(
    classes: Annotated[
        str, typer.Argument(help="A set of ImageNet's classes: imagenet-r, FILE, (DATASET), or several joined by &.")
    ],
    as_json: JsonOption = False,
) -> None:
    """The classes of ImageNet that a set, a file or a dataset has, or that several have in common.

    One line each, as `classes=FILE` reads it back.
    """
    from holdfast.core.refs import parse_ref
    from holdfast.datasets.imagenet_classes import groups

    given = parse_ref(f"x:classes={classes}").keywords["classes"]
    members = groups(
        given if isinstance(given, str) else tuple(map(str, given)) if isinstance(given, tuple) else str(given)
    )
    if as_json:
        sys.stdout.write(json_text({name: list(wnids) for name, wnids in members.items()}) + "\n")
        return
    sys.stdout.writelines(f"{name}: {' '.join(wnids)}\n" for name, wnids in members.items())


@app.command("build")
def build_data(
    name: Annotated[str, typer.Argument(help="The dataset to make.")],
    source: Annotated[Path, typer.Option("--from", help="What it is made from: a folder or a tar.")],
    as_json: JsonOption = False,
) -> None:
    """Make a dataset from another one that is here."""
    from holdfast.datasets.downloads import build_dataset

    folder, images = build_dataset(name, source)
    _show([{"name": name, "images": images, "folder": str(folder)}], as_json)


def _show(facts: list[Fact], as_json: bool, *, hidden: tuple[str, ...] = ()) -> None:
    """Data on stdout: JSON, or columns for a person."""
    if as_json:
        print_json(facts)
        return
    columns = [name for name in (facts[0] if facts else ()) if name not in hidden]
    rows = [[str(fact[name]) for name in columns] for fact in facts]
    print_table(columns, rows, right=["megabytes"], width=WIDE)


@contextlib.contextmanager
def _progress() -> Iterator[Progress]:
    """A bar per address on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield report
