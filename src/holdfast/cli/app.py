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
    pages,
    predicting,
    store_commands,
    trending,
)

app = typer.Typer(
    name="holdfast",
    help="Measures how an image classifier holds up when the world changes: corruptions, natural shifts and attacks, "
    "per sample, with intervals.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: holdfast demo",
)


@app.callback(invoke_without_command=True)
def top(version: bool = typer.Option(False, "--version", help="Show the version and stop.", is_eager=True)) -> None:
    if version:
        from holdfast import __version__

        typer.echo(f"holdfast {__version__}")
        raise typer.Exit


app.command("demo")(evaluating.demo)
app.command("doctor")(doctor.doctor)
app.command("list")(catalogue.list_kind)
app.command("show")(catalogue.show)
app.command("check")(evaluating.check_command)
app.command("plan")(evaluating.plan_command)
app.command("evaluate")(evaluating.evaluate_command)
app.command("status")(store_commands.status)
app.command("verify")(store_commands.verify)
app.command("scores")(store_commands.scores)
app.command("board")(board_command.board)
app.command("compare")(store_commands.compare)
app.command("trend")(trending.trend)
app.command("agree")(agreeing.agree)
app.command("predict")(predicting.predict)
app.command("explain")(store_commands.explain)
app.command("report")(pages.report)
app.command("site")(pages.site)
app.command("serve")(pages.serve)
app.command("import")(exchange.import_results)
app.command("export")(exchange.export)
app.command("train")(evaluating.train_command)
app.add_typer(data.app, name="data")
