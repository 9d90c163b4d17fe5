"""The commands, put together."""

from __future__ import annotations

from collections.abc import Callable

import typer

from holdfast.cli import (
    agreeing,
    board_command,
    catalogue,
    data,
    doctor,
    evaluating,
    exchange,
    figuring,
    pages,
    predicting,
    store_commands,
    training_command,
    trending,
)
from holdfast.cli.output import with_options
from holdfast.core.config import read_config

app = typer.Typer(
    name="holdfast",
    help="Measures how an image classifier holds up when the world changes: corruptions, natural shifts and attacks, "
    "per sample, with intervals.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: holdfast demo",
)


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Show the version and stop.", is_eager=True),
) -> None:
    if version:
        from holdfast import __version__

        typer.echo(f"holdfast {__version__}")
        raise typer.Exit
    defaults = read_config().defaults
    given = {name: value for name in ("store", "device") if (value := getattr(defaults, name)) is not None}
    context.default_map = {command.name or "": given for command in app.registered_commands}


COMMANDS: dict[str, Callable[..., None]] = {
    "demo": evaluating.demo,
    "doctor": doctor.doctor,
    "list": catalogue.list_kind,
    "show": catalogue.show_command,
    "check": evaluating.check_command,
    "plan": evaluating.plan_command,
    "evaluate": evaluating.evaluate_command,
    "status": store_commands.status_command,
    "verify": store_commands.verify_command,
    "scores": store_commands.scores_command,
    "board": board_command.board,
    "compare": store_commands.compare_command,
    "trend": trending.trend_command,
    "agree": agreeing.agree_command,
    "predict": predicting.predict_command,
    "explain": store_commands.explain_command,
    "report": pages.report_command,
    "site": pages.site_command,
    "serve": pages.serve_command,
    "import": exchange.import_results,
    "export": exchange.export_command,
    "train": training_command.train_command,
}
for command_name, function in COMMANDS.items():
    app.command(command_name)(with_options(function))
app.add_typer(figuring.app, name="figure")
app.add_typer(data.app, name="data")
