"""Option tokens: the shell's own options, and one spelling for everybody's.

The SDK writes `--input_list`, we write `--input-list`; both are taken everywhere. A token is an
option if it starts with `--`, up to the first `=`; after a lone `--`, and where it is the value of
the option before it, it is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.errors import ConfigError, unknown_name

LEVELS = ("error", "warn", "info", "debug", "verbose")
GLOBAL_OPTIONS = ("--json", "--log-level", "--version", "--help", "-h")


@dataclass(slots=True)
class Globals:
    """What the global options say.

    Attributes:
        json: Results and errors are printed as JSON.
        log_level: One of LEVELS.
        version: The version was asked for.
        help: Help was asked for, before any command.
    """

    json: bool = False
    log_level: str = "warn"
    version: bool = False
    help: bool = False


@dataclass(frozen=True, slots=True)
class Declared:
    """An option that a command declares: its own spelling, and how many tokens are its value."""

    name: str
    values: int


def dashed(name: str) -> str:
    """Gives an option's name in our spelling."""
    return "--" + name[2:].replace("_", "-") if name.startswith("--") else name


def split_command(args: Sequence[str], state: Globals) -> tuple[str | None, list[str]]:
    """Takes the global options before the command; gives the command and what follows it.

    Raises:
        ConfigError: An option that is not a global one, or not as it must be.
    """
    tokens = list(args)
    while tokens and tokens[0].startswith("-"):
        token = tokens.pop(0)
        if not _take_global(token, tokens, state):
            raise _usage(
                f"there is no global option '{token}'",
                f"{unknown_name(token, GLOBAL_OPTIONS)}; the options of a command follow its name",
            )
    return (tokens[0], tokens[1:]) if tokens else (None, [])


def take_globals(
    args: Sequence[str], declared: Mapping[str, Declared], state: Globals
) -> list[str]:
    """Takes the global options among a command's arguments, and gives the others in its spelling.

    An option that the command declares itself is the command's; help is always the command's.

    Args:
        args: What follows the command.
        declared: The command's options, by their dashed names.
        state: Changed.

    Raises:
        ConfigError: A global option is not as it must be.
    """
    tokens = list(args)
    kept: list[str] = []
    while tokens:
        token = tokens.pop(0)
        if token == "--":
            return [*kept, token, *tokens]
        name, equals, value = token.partition("=")
        own = declared.get(dashed(name)) if name.startswith("-") else None
        if own is not None:
            kept.append(own.name + equals + value)
            values = 0 if equals else own.values
            kept += tokens[:values]
            del tokens[:values]
        elif dashed(name) in ("--help", "-h") or not _take_global(token, tokens, state):
            kept.append(dashed(name) + equals + value)
    return kept


def declared_options(command: Any) -> dict[str, Declared]:
    """Gives the options of a click command and of all its subcommands, by their dashed names.

    Args:
        command: What `typer.main.get_command` gives; its type is click's, or typer's copy of it.
    """
    found: dict[str, Declared] = {}
    for param in _params(command):
        if param.param_type_name != "option":
            continue
        flag = param.is_flag or param.count
        for name in (*param.opts, *param.secondary_opts):
            found.setdefault(dashed(name), Declared(name, 0 if flag else param.nargs))
    return found


def _params(command: Any) -> Iterator[Any]:
    yield from command.params
    for child in getattr(command, "commands", {}).values():
        yield from _params(child)


def _take_global(token: str, rest: list[str], state: Globals) -> bool:
    """Takes a global option, with its value from the rest; tells whether it was one."""
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
        raise _usage(f"{name} takes no value, but was given '{value}'")
    if name == "--json":
        state.json = True
    elif name == "--version":
        state.version = True
    else:
        state.help = True
    return True


def _level(text: str) -> str:
    if text.lower() not in LEVELS:
        given = f"'{text}'" if text else "nothing"
        raise _usage(
            f"--log-level was given {given}; it takes {', '.join(LEVELS)}",
            unknown_name(text, LEVELS) if text else "",
        )
    return text.lower()


def _usage(message: str, hint: str = "") -> ConfigError:
    return ConfigError(message, code="USAGE", hint=hint or "see `dovetail --help`")
