"""Option tokens: the shell's own options, and one spelling for the options of commands.

The SDK writes `--input_list`, we write `--input-list`; both are accepted everywhere. A token is an
option if it starts with `--`, up to the first `=`. Tokens after `--`, and values of options, are
not changed.

Commands without required arguments accept two more of the SDK's forms, which are unambiguous
there: `--flag true` and `--flag false`, and several values after an option whose metavar has the
form `NAME [NAME ...]`, up to the next option. An option whose metavar is in brackets as a whole may
have no value; its command reads the values. One with the metavar `[NAME ...]` has an empty value
then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.errors import ConfigError, suggest_name

LEVELS = ("error", "warn", "info", "debug", "verbose")
_SWITCHED = {"true": True, "false": False}
GLOBAL_OPTIONS = ("--json", "--log-level", "--version", "--help", "-h")


@dataclass(slots=True)
class Globals:
    """The values of the global options.

    Attributes:
        json: Whether results and errors are printed as JSON.
        log_level: One of LEVELS.
        version: Whether to print the version.
        help: Whether to print the help of the program.
    """

    json: bool = False
    log_level: str = "warn"
    version: bool = False
    help: bool = False


@dataclass(frozen=True, slots=True)
class Declared:
    """An option of a command.

    Attributes:
        name: Name as the command spells it.
        values: Number of tokens that form its value.
        is_switch: Whether `true` or `false` may follow.
        repeats: Whether further values repeat the option.
    """

    name: str
    values: int
    is_switch: bool = False
    repeats: bool = False


def dashed(name: str) -> str:
    """Return an option's name with dashes instead of underscores."""
    return "--" + name[2:].replace("_", "-") if name.startswith("--") else name


def split_command(args: Sequence[str], state: Globals) -> tuple[str | None, list[str]]:
    """Read the global options before the command; return the command and its arguments.

    Raises:
        ConfigError: An option is not a global one, or has an invalid value.
    """
    tokens = list(args)
    while tokens and tokens[0].startswith("-"):
        token = tokens.pop(0)
        if not _take_global(token, tokens, state):
            raise _usage(
                f"unknown global option '{token}'",
                f"{suggest_name(token, GLOBAL_OPTIONS)}; the options of a command follow its name",
            )
    return (tokens[0], tokens[1:]) if tokens else (None, [])


def take_globals(
    args: Sequence[str], declared: Mapping[str, Declared], state: Globals
) -> list[str]:
    """Read the global options among a command's arguments; return the others as it spells them.

    An option that the command declares itself is the command's; help is always the command's.

    Args:
        args: The arguments after the command.
        declared: The command's options, by their dashed names.
        state: Updated.

    Raises:
        ConfigError: A global option has an invalid value.
    """
    tokens = list(args)
    kept: list[str] = []
    switches: dict[str, bool] = {}  # the last occurrence counts
    while tokens:
        token = tokens.pop(0)
        if token == "--":
            kept += [token, *tokens]
            break
        name, equals, value = token.partition("=")
        own = declared.get(dashed(name)) if name.startswith("-") else None
        if own is not None and own.is_switch:
            switches[own.name] = _switched(name, value if equals else None, tokens)
        elif own is not None:
            kept += _with_values(own, equals + value, tokens)
        elif dashed(name) in ("--help", "-h") or not _take_global(token, tokens, state):
            kept.append(dashed(name) + equals + value)
    return [*(name for name, on in switches.items() if on), *kept]


def declared_options(command: Any) -> dict[str, Declared]:
    """Return the options of a click command and of all its subcommands, by their dashed names.

    Args:
        command: The result of `typer.main.get_command`, of click's type or typer's copy of it.
    """
    found: dict[str, Declared] = {}
    # otherwise a token that is no option may be a required argument, or name a subcommand
    alone = not hasattr(command, "commands") and not any(
        param.param_type_name == "argument" and param.required for param in command.params
    )
    for param in _params(command):
        if param.param_type_name != "option":
            continue
        flag = param.is_flag or param.count
        switch = alone and param.is_flag and not param.secondary_opts
        repeats = alone and param.multiple and (param.metavar or "").endswith(" ...]")
        for name in (*param.opts, *param.secondary_opts):
            values = 0 if flag or _is_bracketed(param.metavar or "") else param.nargs
            found.setdefault(dashed(name), Declared(name, values, switch, repeats))
    return found


def _is_bracketed(metavar: str) -> bool:
    """Return whether an option's values may all be omitted: its metavar is in one bracket."""
    depth = 0
    for i, letter in enumerate(metavar):
        depth += (letter == "[") - (letter == "]")
        if depth == 0:
            return letter == "]" and i == len(metavar) - 1
    return False


def _params(command: Any) -> Iterator[Any]:
    yield from command.params
    for child in getattr(command, "commands", {}).values():
        yield from _params(child)


def _switched(name: str, value: str | None, rest: list[str]) -> bool:
    """Return the value of a flag: its own, or that of the next token if this is a boolean."""
    if value is None:
        if not rest or rest[0].lower() not in _SWITCHED:
            return True
        value = rest.pop(0)
    if value.lower() not in _SWITCHED:
        raise _usage(f"invalid value '{value}' of {dashed(name)}; expected true, false or no value")
    return _SWITCHED[value.lower()]


def _with_values(own: Declared, value: str, rest: list[str]) -> list[str]:
    """Return an option as its command spells it, with its values, which are removed from `rest`."""
    count = 0 if value else own.values
    if own.repeats and not count and not value:
        count = 1 if rest and not rest[0].startswith("-") else 0
        value = "" if count else "="
    found = [own.name + value, *rest[:count]]
    del rest[:count]
    while own.repeats and rest and not rest[0].startswith("-"):
        found += [own.name, rest.pop(0)]
    return found


def _take_global(token: str, rest: list[str], state: Globals) -> bool:
    """Read a global option, with its value from `rest`; return whether the token is one."""
    name, equals, value = token.partition("=")
    name = dashed(name)
    if name not in GLOBAL_OPTIONS:
        return False
    if name == "--log-level":
        if not equals:
            value = rest.pop(0) if rest else ""
        state.log_level = _level(value)
        return True
    if equals:
        raise _usage(f"{name} takes no value, got '{value}'")
    if name == "--json":
        state.json = True
    elif name == "--version":
        state.version = True
    else:
        state.help = True
    return True


def _level(text: str) -> str:
    if text.lower() not in LEVELS:
        given = f"unsupported value '{text}'" if text else "missing value"
        raise _usage(
            f"{given} of --log-level; expected one of {', '.join(LEVELS)}",
            suggest_name(text, LEVELS) if text else "",
        )
    return text.lower()


def _usage(message: str, hint: str = "") -> ConfigError:
    return ConfigError(message, code="USAGE", hint=hint or "see `dovetail --help`")
