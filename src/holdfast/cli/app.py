"""The commands, put together."""

from __future__ import annotations

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


app.command("demo")(evaluating.demo)
app.command("doctor")(doctor.doctor)
app.command("list")(catalogue.list_kind)
app.command("show")(catalogue.show_command)
app.command("check")(evaluating.check_command)
app.command("plan")(evaluating.plan_command)
app.command("evaluate")(evaluating.evaluate_command)
app.command("status")(store_commands.status_command)
app.command("verify")(store_commands.verify_command)
app.command("scores")(store_commands.scores_command)
app.command("board")(board_command.board)
app.command("compare")(store_commands.compare_command)
app.command("trend")(trending.trend_command)
app.command("agree")(agreeing.agree_command)
app.command("predict")(predicting.predict_command)
app.command("explain")(store_commands.explain_command)
app.command("report")(pages.report_command)
app.command("site")(pages.site_command)
app.command("serve")(pages.serve_command)
app.command("import")(exchange.import_results)
app.command("export")(exchange.export_command)
app.command("train")(training_command.train_command)
app.add_typer(figuring.app, name="figure")
app.add_typer(data.app, name="data")
