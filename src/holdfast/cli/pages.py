"""The commands that write pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.output import STORE, JsonOption, StoreOption, err, open_store, out, print_json, warn

if TYPE_CHECKING:
    from holdfast.site.build import Site

SuiteOption = Annotated[
    list[str] | None, typer.Option("--suite", help="A suite file of your own to show besides the bundled ones.")
]


def report_command(
    model: Annotated[str, typer.Argument(help="A model, as in `holdfast scores`.")],
    store: StoreOption = STORE,
    out_file: Annotated[Path | None, typer.Option("--out", "-o", help="HTML file to write.")] = None,
) -> None:
    """One self-contained page about a model: summary, scores, curves, flags, worst samples, commands."""
    from holdfast.site.report import report_file_name, write_report
    from holdfast.store.stored_names import stored_model

    kept = open_store(store)
    model = stored_model(kept, model)
    path = write_report(kept, model, out_file or Path(report_file_name(model)))
    out.print(str(path), soft_wrap=True)


def site_command(
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder to write; a new or empty one, or a site.")],
    suite: SuiteOption = None,
    store: StoreOption = STORE,
    json: JsonOption = False,
) -> None:
    """Boards and reports as static pages: they open from a file, any web server, any sub-path, without a network."""
    from holdfast.site.build import build_site
    from holdfast.store import Store

    kept = Store(store)  # the site says what it leaves out
    made = build_site(kept, folder, own=suite or ())
    _tell(made)
    if json:
        print_json(made.record())
    else:
        out.print(str(folder / "index.html"), soft_wrap=True)


def serve_command(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8000,
    host: Annotated[str, typer.Option(help="Where to listen; this machine only by default.")] = "127.0.0.1",
    suite: SuiteOption = None,
    store: StoreOption = STORE,
) -> None:
    """The same pages over HTTP, made again as runs finish. Ctrl-C stops it."""
    import threading

    from holdfast.site.serve import LOOPBACK, Pages, server
    from holdfast.store import Store

    pages = Pages(Store(store), own=suite or (), told=_tell)
    try:
        with server(pages, host=host, port=port) as bound:
            if host not in LOOPBACK:
                err.print(f"warning: anyone who can reach {host} can read these pages", soft_wrap=True)
            address = f"[{host}]" if ":" in host else host
            out.print(f"http://{address}:{bound.server_address[1]}/", soft_wrap=True)
            threading.Thread(target=pages.watch, args=(warn,), daemon=True).start()
            bound.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        pages.close()


def _tell(made: Site) -> None:
    """What could not be read or made, on stderr; the pages say it too."""
    for name, problem in made.problems.items():
        warn(f"{name} is left out: {problem}")
    for name, problem in made.failed.items():
        warn(f"{name}: {problem}")
