"""Option tokens: the shell's own options, and one spelling for everybody's.

The SDK writes `--input_list`, we write `--input-list`; both are taken everywhere. A token is an
option if it starts with `--`, up to the first `=`; after a lone `--`, and where it is the value of
the option before it, it is left as it is.

Two more of the SDK's forms are taken by commands without positional arguments, where nothing else
can be meant: `--flag true` and `--flag false`, and several values after an option whose metavar
says so (`NAME [NAME ...]`), up to the next option.
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
    """An option that a command declares.

    Attributes:
        name: Its own spelling.
        values: How many tokens are its value.
        is_switch: Whether `true` or `false` may follow.
        repeats: Whether each further value stands for the option once more.
    """

    name: str
    values: int
    is_switch: bool = False
    repeats: bool = False


def dashed(name: str) -> str:
    """Return an option's name in our spelling."""
    return "--" + name[2:].replace("_", "-") if name.startswith("--") else name


def split_command(args: Sequence[str], state: Globals) -> tuple[str | None, list[str]]:
    """Take the global options before the command; return the command and what follows it.

    Raises:
        ConfigError: An option that is not a global one, or not as it must be.
    """
    tokens = list(args)
    while tokens and tokens[0].startswith("-"):
        token = tokens.pop(0)
        if not _take_global(token, tokens, state):
            raise _usage(
                f"there is no global option '{token}'",
                f"{suggest_name(token, GLOBAL_OPTIONS)}; the options of a command follow its name",
            )
    return (tokens[0], tokens[1:]) if tokens else (None, [])


def take_globals(
    args: Sequence[str], declared: Mapping[str, Declared], state: Globals
) -> list[str]:
    """Take the global options among a command's arguments, and return the others in its spelling.

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
    switches: dict[str, bool] = {}  # the last word on each counts
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
        command: What `typer.main.get_command` gives; its type is click's, or typer's copy of it.
    """
    found: dict[str, Declared] = {}
    # a token that is no option might be an argument, or name a subcommand
    alone = not hasattr(command, "commands") and all(
        param.param_type_name == "option" for param in command.params
    )
    for param in _params(command):
        if param.param_type_name != "option":
            continue
        flag = param.is_flag or param.count
        switch = alone and param.is_flag and not param.secondary_opts
        repeats = alone and param.multiple and (param.metavar or "").endswith(" ...]")
        for name in (*param.opts, *param.secondary_opts):
            values = 0 if flag else param.nargs
            found.setdefault(dashed(name), Declared(name, values, switch, repeats))
    return found


def _params(command: Any) -> Iterator[Any]:
    yield from command.params
    for child in getattr(command, "commands", {}).values():
        yield from _params(child)


def _switched(name: str, value: str | None, rest: list[str]) -> bool:
    """Tells what a flag is set to, by its own value or by the next token if this says it."""
    if value is None:
        if not rest or rest[0].lower() not in _SWITCHED:
            return True
        value = rest.pop(0)
    if value.lower() not in _SWITCHED:
        raise _usage(f"{dashed(name)} was given '{value}'; it takes true, false or no value")
    return _SWITCHED[value.lower()]


def _with_values(own: Declared, value: str, rest: list[str]) -> list[str]:
    """Return an option in its spelling with its values, which are taken from the rest."""
    count = 0 if value else own.values
    found = [own.name + value, *rest[:count]]
    del rest[:count]
    while own.repeats and rest and not rest[0].startswith("-"):
        found += [own.name, rest.pop(0)]
    return found


def _take_global(token: str, rest: list[str], state: Globals) -> bool:
    """Take a global option, with its value from the rest; tells whether it was one."""
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
            suggest_name(text, LEVELS) if text else "",
        )
    return text.lower()


def _usage(message: str, hint: str = "") -> ConfigError:
    return ConfigError(message, code="USAGE", hint=hint or "see `dovetail --help`")
