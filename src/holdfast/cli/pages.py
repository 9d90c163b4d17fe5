"""The commands that write pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.names import measured_model
from holdfast.cli.output import STORE, StoreOption, out


def report(
    model: Annotated[str, typer.Argument(help="A model, as in `holdfast scores`.")],
    store: StoreOption = STORE,
    out_file: Annotated[Path | None, typer.Option("--out", "-o", help="HTML file to write.")] = None,
) -> None:
    """One self-contained page about a model: summary, scores, curves, flags, worst samples, commands."""
    from holdfast.site.report import file_name, write_report
    from holdfast.store import Store

    kept = Store(store)
    model = measured_model(kept, model)
    path = write_report(kept, model, out_file or Path(file_name(model)))
    out.print(str(path), soft_wrap=True)
