"""`dovetail trace`: tools for traces, one module for each."""

from __future__ import annotations

import typer

from dovetail_saver.commands.dump import dump
from dovetail_saver.commands.export import app as export
from dovetail_saver.commands.import_program import import_program
from dovetail_saver.commands.info import info

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
app.command()(info)
app.command()(dump)
app.command("import")(import_program)
app.add_typer(export, name="export")


@app.callback()
def trace() -> None:
    """List, compare, reduce and convert recorded traces."""
