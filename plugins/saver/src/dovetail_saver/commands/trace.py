"""`dovetail trace`: tools for traces, one module for each."""

from __future__ import annotations

import typer

from dovetail_saver.commands.bisect import bisect
from dovetail_saver.commands.diff import diff
from dovetail_saver.commands.dump import dump
from dovetail_saver.commands.export import app as export
from dovetail_saver.commands.import_program import import_program
from dovetail_saver.commands.info import info
from dovetail_saver.commands.minimize import minimize
from dovetail_saver.commands.pack import pack
from dovetail_saver.commands.redact import redact
from dovetail_saver.commands.stats import stats
from dovetail_saver.commands.trim import trim
from dovetail_saver.commands.verify import verify

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
for _command in (info, stats, dump, diff, trim, pack, redact, verify, bisect, minimize):
    app.command()(_command)
app.command("import")(import_program)
app.add_typer(export, name="export")


@app.callback()
def trace() -> None:
    """List, compare, reduce and convert recorded traces."""
