"""`dovetail trace export`: a trace in another form, one module for each."""

from __future__ import annotations

import typer

from dovetail_saver.commands.export_model import export_model
from dovetail_saver.commands.export_program import export_program
from dovetail_saver.commands.export_python import export_python

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
app.command("model")(export_model)
app.command("python")(export_python)
app.command("saver-c")(export_program)


@app.callback()
def export() -> None:
    """Write a trace in another form."""
