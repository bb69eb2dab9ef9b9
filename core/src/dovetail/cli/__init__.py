"""The `dovetail` command: a shell that finds its commands by entry point.

A command is a `typer.Typer` app in the group `dovetail.commands`; the entry point of the same name
in `dovetail.command_help` has its line of help as its value. `dovetail.cli.output` has the global
state for commands. Create the app without typer's own decorations:

    app = typer.Typer(add_completion=False, rich_markup_mode=None)

Exit codes: 0 ok, 1 a check failed, 2 usage, 3 bad model or input, 4 unsupported op, 5 incompatible
artefact, 6 plugin missing or broken, 7 backend failure, 70 a bug; also 130 (interrupted) and 141
(the reader of the output closed the pipe).
"""

from dovetail.cli._shell import main, option_names, sdk_option_names

__all__ = ["main", "option_names", "sdk_option_names"]
