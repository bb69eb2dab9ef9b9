"""The text of `dovetail --help`, from metadata alone."""

from __future__ import annotations

import textwrap

from dovetail.plugins import COMMAND_HELP, COMMANDS, list_plugins, names

_USAGE = "usage: dovetail [--json] [--log-level LEVEL] COMMAND [ARGS...]"
_OPTIONS = """\
options, before or after the command:
  --json             print results, and errors, as JSON
  --log-level LEVEL  error, warn (the default), info, debug or verbose
  --version          print the version and exit
  -h, --help         print this help, or a command's, and exit

`dovetail COMMAND --help` describes a command. Option names may be written with - or _."""


def help_text() -> str:
    """Return the help of the program, with a line for each command; imports no plugin."""
    lines = {plugin.name: plugin.value for plugin in list_plugins(COMMAND_HELP)}
    commands = names(COMMANDS)
    width = max((len(name) for name in commands), default=0)
    rows = [_row(name, width, lines.get(name, "")) for name in commands]
    listed = "\n".join(rows) or "  (none is installed)"
    return f"{_USAGE}\n\ncommands:\n{listed}\n\n{_OPTIONS}\n"


def _row(name: str, width: int, line: str) -> str:
    start = f"  {name:<{width}}"
    if not line:
        return start.rstrip()
    indent = " " * (len(start) + 2)
    return textwrap.fill(f"{start}  {line}", 100, subsequent_indent=indent)
