"""Arguments of a tool as those of our command."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from dovetail.cli import option_names, sdk_option_names
from dovetail.cli.output import current_output, write
from dovetail.errors import ConfigError, PluginError
from dovetail.plugins import load, names
from dovetail_qnn_names._declarations import Implied, Option, OutputFile, Tool
from dovetail_qnn_names._help import help_text

_FRONTENDS = "dovetail.frontends"
_HELP, _VERSION = ("-h", "--help"), "--version"


def translated(tool: Tool, args: Sequence[str]) -> list[str]:
    """Return the command and its arguments.

    Args:
        tool: The tool.
        args: Its arguments.

    Raises:
        PluginError: The command or a frontend is not installed, or it is broken.
        ConfigError: The option with the model is missing, an option is cut to what several begin
            with, or has no value or another one than those it can have (USAGE).
    """
    declared = option_names(tool.command)
    tokens = list(_replaced(tool.options, _in_full(tool, args, declared), declared))
    if set(_HELP) & set(tokens):
        write(sys.stdout, help_text(tool, declared))
        return [tool.command, *tokens]
    if _VERSION in tokens:
        return [tool.command, *tokens]
    for option, by in tool.superseded.items():
        if by in map(_name, tokens):
            tokens = _without(tokens, option, f"{by} replaces it")
    present = set(map(_name, tokens))
    added: list[str] = []
    for default in tool.defaults:
        if default[0] in declared and default[0] not in present:
            added += default
    for each in tool.implied:
        if each.by in present and not present & set(each.unless) and _is_met(each, tokens):
            added += each.tokens
    if tool.output is not None:
        source = _model(tool.output, tokens)
        tokens, more = _with_output(tool, tool.output, source, tokens)
        added += more
        _require_frontend(tool, source)
    # first: the last option of the user may lack its value, which nothing of ours may become
    return [tool.command, *added, *tokens]


def _is_met(implied: Implied, tokens: Sequence[str]) -> bool:
    """Return whether the arguments have the other option that implied ones need."""
    if implied.needs is None:
        return True
    name, values = implied.needs
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        if _name(token) == name:
            _, equals, value = token.partition("=")
            value = value if equals or following.startswith("-") else following
            if value in values:
                return True
    return False


def _in_full(tool: Tool, args: Sequence[str], declared: Collection[str]) -> Iterator[str]:
    """Yield the arguments, with options in full that begin like one of the tool's alone."""
    own = {name for option in tool.options for name in option.names}
    for token in args:
        name, equals, value = token.partition("=")
        name = _name(name)
        if name.startswith("--") and not (name in own or name in declared):
            # those of later releases are only declared, and come after: some are ours alone
            first = own | sdk_option_names(tool.command)
            found = [each for each in first if each.startswith(name)]
            found = found or [each for each in declared if each.startswith(name)]
            if len(found) > 1:
                text = f"ambiguous option {name}; it could be {', '.join(sorted(found))}"
                raise ConfigError(text, code="USAGE")
            yield f"{found[0]}{equals}{value}" if found else token
        else:
            yield token


def _replaced(
    options: Sequence[Option], args: Iterable[str], declared: Collection[str]
) -> Iterator[str]:
    table = {n: o for o in options for n in o.names if o.always or n not in declared}
    rest = list(args)
    while rest:
        token = rest.pop(0)
        option = table.get(_name(token))
        if option is None:
            yield token
            continue
        _, equals, value = token.partition("=")
        if not equals and rest and (option.takes_value or rest[0] in option.values):
            equals, value = "=", rest.pop(0)
        if option.why and option.takes_value and (not equals or value.startswith("--")):
            raise ConfigError(f"{_name(token)} requires a value", code="USAGE")
        if option.why:
            current_output().message(f"note: {_name(token)} has no effect: {option.why}")
        elif equals and value in option.values:
            yield from option.values[value]
        elif option.takes_value and not option.to:
            expected = ", ".join(option.values)
            raise ConfigError(
                f"unsupported value '{value}' of {_name(token)}; expected one of {expected}",
                code="USAGE",
            )
        else:
            yield from (*option.to, *([value] if equals else []))


def _model(output: OutputFile, tokens: Sequence[str]) -> str:
    source = _value(tokens, output.source)
    if source is None:
        option = output.source[-1].lstrip("-").replace("-", "_")
        raise ConfigError(
            f"missing option --{option}",
            code="USAGE",
            hint=f"pass the path of the model: `--{option} MODEL`",
        )
    return source


def _with_output(
    tool: Tool, output: OutputFile, source: str, tokens: list[str]
) -> tuple[list[str], list[str]]:
    """Return the arguments without the path of the file, and those that replace it."""
    given = _value(tokens, (output.option, output.short))
    if given in ("", ".", "..", "/"):
        return tokens, []  # the command reports it
    path = Path(given) if given is not None else Path(source).with_suffix(output.ending)
    tokens = _without(_without(tokens, output.option), output.short)
    present = set(map(_name, tokens))
    # another format has a suffix of its own
    if path.suffix.lower() != output.suffix and "--output-format" not in present:
        path = path.with_name(path.name + output.suffix)
    added = [output.option, str(path)]
    if "--output-format" not in present:
        added += ["--output-format", output.format]
    # a file of another format names its graphs itself
    is_known = not tool.frontends or Path(source).suffix.lower() in tool.frontends
    if output.names_graph and is_known and "--graph-name" not in present:
        name = re.sub(r"\W", "_", path.stem, flags=re.ASCII)
        added += ["--graph-name", f"_{name}" if name[0].isdigit() else name]
    return tokens, added


def _require_frontend(tool: Tool, source: str) -> None:
    """Raise if the frontend for a model is not installed, before its options are read."""
    name = tool.frontend or tool.frontends.get(Path(source).suffix.lower(), "")
    if not name:
        return
    if name not in names(_FRONTENDS):
        installed = ", ".join(names(_FRONTENDS))
        raise PluginError(
            f"the frontend '{name}', which reads such models, is not installed",
            code="PLUGIN_MISSING",
            where=source,
            hint=f"export the model to ONNX; the installed frontends: {installed}",
        )
    load(_FRONTENDS, name)


def _name(token: str) -> str:
    """Return an option's name with dashes, without a value; other arguments as they are."""
    name = token.partition("=")[0]
    return name.replace("_", "-") if name.startswith("--") else name


def _value(tokens: Sequence[str], names: Collection[str]) -> str | None:
    """Return the last value of an option; None if it is not given."""
    found = None
    for i, token in enumerate(tokens):
        if _name(token) in names:
            _, equals, value = token.partition("=")
            found = value if equals else "".join(tokens[i + 1 : i + 2])
    return found


def _without(tokens: Sequence[str], name: str, why: str = "") -> list[str]:
    """Return arguments without an option that takes one value."""
    kept: list[str] = []
    rest = list(tokens)
    while rest:
        token = rest.pop(0)
        if _name(token) != name:
            kept.append(token)
            continue
        if "=" not in token and rest:
            rest.pop(0)
        if why:
            current_output().message(f"note: {name} has no effect: {why}")
    return kept
