"""`dovetail explain`: the catalogue of codes, and a comparison with the SDK's tools."""

from __future__ import annotations

from typing import Annotated, cast

import typer
from typer.main import get_command

from dovetail.cli._options import GLOBAL_OPTIONS, dashed, declared_options
from dovetail.cli._sdk_options import Verdict, sdk_tools, verdicts
from dovetail.cli.output import current_output, table
from dovetail.errors import CATALOGUE, ConfigError, Entry, PluginError, nearest
from dovetail.plugins import COMMANDS, load, names

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_COMPAT = "compat"
_FRONTENDS = "dovetail.frontends"


@app.command()
def explain(
    code: Annotated[
        str | None,
        typer.Argument(help="Name of a code, or its QNN number (decimal or 0x...); or `compat`."),
    ] = None,
) -> None:
    """Explain an error code and what to do about it.

    Without an argument, list all codes. `compat` lists the SDK's tools, and their options that the
    installed commands spell otherwise, cannot have or still lack.
    """
    if code is None:
        _list_codes()
    elif code.lower() == _COMPAT:
        _explain_compat()
    else:
        _explain_code(code)


def _list_codes() -> None:
    entries = list(CATALOGUE)
    rows = [(e.name, "" if e.number is None else e.number, e.exit_code, e.meaning) for e in entries]
    text = table(("CODE", "NUMBER", "EXIT", "MEANING"), rows)
    current_output().data({"codes": [e._asdict() for e in entries]}, text)


def _explain_code(code: str) -> None:
    entries = CATALOGUE.find(code)
    if not entries:
        known = [_COMPAT, *(e.name for e in CATALOGUE)]
        near = nearest(code, known)
        hint = f"did you mean '{near}'?" if near else "`dovetail explain` lists all codes"
        raise ConfigError(f"code '{code}' not found", code="USAGE", hint=hint)
    text = "\n\n".join(_entry_text(e) for e in entries)
    current_output().data({"codes": [e._asdict() for e in entries]}, text)


def _entry_text(entry: Entry) -> str:
    number = "" if entry.number is None else f", QNN's number {entry.number}"
    return (
        f"{entry.name} (exit code {entry.exit_code}{number})\n"
        f"  {entry.meaning}\n"
        f"  remedy: {entry.remedy}"
    )


def _explain_compat() -> None:
    tools = sdk_tools()
    apps = {tool.command: _app(tool.command) for tool in tools}
    rows, found = [], list[Verdict]()
    for tool in tools:
        app = apps[tool.command]
        each = verdicts(tool, _declared(app), names(_FRONTENDS)) if app is not None else ()
        found += each
        offered = f"{sum(bool(v.offered) for v in each)} of {len(each)}" if app else ""
        state = _state(app, tool.command, tool.frontend)
        rows.append((tool.name, tool.command, state, offered))
    others = [(v.tool, v.option, v.text) for v in found if v.offered != dashed(v.option)]
    data = {
        "tools": [{"sdk": n, "command": c, "state": state} for n, c, state, _ in rows],
        "options": [
            {
                "sdk": v.tool,
                "command": v.command,
                "option": v.option,
                "offered": v.offered,
                "reason": v.reason,
                "lack": v.lack,
                "verdict": v.text,
            }
            for v in found
        ],
    }
    text = (
        table(("SDK TOOL", "COMMAND", "HERE", "OPTIONS"), rows)
        + "\n\nOptions of the SDK's tools that the installed commands spell otherwise or lack:\n\n"
        + table(("SDK TOOL", "OPTION", "HERE"), others)
    )
    current_output().data(data, text)


def _app(command: str) -> typer.Typer | None:
    """Return an installed command's app, or None if it is missing or broken."""
    try:
        return cast("typer.Typer", load(COMMANDS, command))
    except PluginError:
        return None  # the table shows it, and `doctor` the reason


def _state(app: typer.Typer | None, command: str, frontend: str | None) -> str:
    if app is None:
        return "cannot be loaded" if command in names(COMMANDS) else "not installed"
    if frontend is not None and frontend not in names(_FRONTENDS):
        return f"no frontend '{frontend}' is installed"
    return "yes"


def _declared(app: typer.Typer) -> set[str]:
    """Return the options of a command and of the shell, with dashes."""
    return {*declared_options(get_command(app)), *GLOBAL_OPTIONS}
