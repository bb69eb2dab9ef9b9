"""The part of a tool's help about the options that differ from our command's."""

from __future__ import annotations

from collections.abc import Collection

from dovetail.cli.output import table
from dovetail_qnn_names._declarations import Option, Tokens, Tool


def help_text(tool: Tool, declared: Collection[str]) -> str:
    """Return what precedes the help of the command.

    Args:
        tool: The tool.
        declared: The options of the command, with dashes.
    """
    rows = [
        (", ".join(option.names), _meaning(option))
        for option in tool.options
        if option.always or not set(option.names) & set(declared)
    ]
    lines = [
        f"This is `dovetail {tool.command}`, whose help follows. Options may be written with _."
    ]
    added = [" ".join(tokens) for tokens in tool.defaults if tokens[0] in declared]
    if added:
        lines.append(f"Added unless it is given: {', '.join(added)}.")
    for each in tool.implied:
        name, values = each.needs or ("", ())
        needed = " or ".join(f"{name} {value}".rstrip() for value in values)
        given = f" with {needed}" if needed else ""
        lines.append(
            f"{each.by}{given} adds {' '.join(each.tokens)}, unless {' or '.join(each.unless)} is "
            "given."
        )
    if tool.output is not None:
        lines.append(f"Writes {tool.output.suffix} files, by default NAME{tool.output.ending}.")
    shown = table(("OPTION", "HERE"), rows) if rows else ""
    return "\n".join([*lines, "", shown, ""]) if shown else "\n".join([*lines, ""])


def _meaning(option: Option) -> str:
    if option.why:
        return f"no effect: {option.why}"
    words = [" ".join(option.to)] if option.to else []
    values: dict[Tokens, list[str]] = {}
    for value, to in option.values.items():
        if to != option.to:
            values.setdefault(to, []).append(value)
    words += [f"{', '.join(given)}: {' '.join(to) or 'nothing'}" for to, given in values.items()]
    return "; ".join(words)
