"""The shell: reads the global options, runs a command, maps exceptions to exit codes."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dovetail import __version__
from dovetail.cli._help import help_text
from dovetail.cli._options import (
    GLOBAL_OPTIONS,
    Globals,
    dashed,
    declared_options,
    split_command,
    take_globals,
)
from dovetail.cli._origin import origin_of, third_party_error
from dovetail.cli._report import report_bug, report_error
from dovetail.cli.output import Output, flush, output_of_command, printable, write
from dovetail.errors import ConfigError, DovetailError, ExitCode, Problem, suggest_name
from dovetail.plugins import COMMANDS, list_plugins, load, names

INTERRUPTED = 130
READER_GONE = 141
# logging's own numbers, and one above debug's: the SDK ranks `verbose` between info and debug
_LEVELS = {"error": 40, "warn": 30, "info": 20, "verbose": 15, "debug": 10}


class _Run:
    """The state of the run so far, for the report of an error.

    Args:
        prog: Name of a program that runs one command; empty for `dovetail`.
    """

    def __init__(self, prog: str) -> None:
        self.prog = prog
        self.state = Globals()

    @property
    def wants_details(self) -> bool:
        return self.state.log_level in ("debug", "verbose")


def main(
    argv: Sequence[str] | None = None,
    *,
    prog: str = "",
    translate: Callable[[Sequence[str]], Sequence[str]] | None = None,
) -> int:
    """Run the `dovetail` command.

    Args:
        argv: The arguments; by default those of the process.
        prog: Name of a program that runs one command only.
        translate: Returns that command with its arguments, given those of the program. Its errors
            are reported as those of the command.

    Returns:
        The exit code.
    """
    run = _Run(prog)
    args = sys.argv[1:] if argv is None else argv
    try:
        code = _dispatch(translate(args) if translate else args, run)
        flush(sys.stdout)  # here, where a full disk or a closed pipe is handled
    except DovetailError as error:
        code = report_error(error, json=run.state.json, details=run.wants_details)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = READER_GONE
    except Exception as error:  # noqa: BLE001  reported here, with exit code 6 or 70
        code = _report_unexpected(error, run)
    _settle_stdout()
    if argv is None:  # the process ends: without this, Python would search its objects for cycles
        gc.freeze()
    return code


def _report_unexpected(error: Exception, run: _Run) -> int:
    """Report an exception that no command should let through, and return the exit code."""
    origin = origin_of(error)
    failure = third_party_error(error, origin)
    if failure is not None:
        return report_error(failure, json=run.state.json, details=run.wants_details)
    dist = origin[0].dist if origin else "dovetail-core"
    return report_bug(error, json=run.state.json, details=run.wants_details, dist=dist)


def _dispatch(args: Sequence[str], run: _Run) -> int:
    command, rest = split_command(args, run.state)
    if run.state.version:
        return _print_version(run.state)
    if run.state.help:
        write(sys.stdout, help_text())
        return ExitCode.OK
    if command is None:
        write(sys.stderr, help_text())
        return ExitCode.USAGE
    return _run_command(command, rest, run)


def _run_command(name: str, rest: list[str], run: _Run) -> int:
    try:
        name, app = _find(name)
    except DovetailError:
        take_globals(rest, {}, run.state)  # `--json` may follow the command
        raise
    # imported here: `dovetail --help` runs no command
    from typer.main import get_command

    command = get_command(app)
    args = take_globals(rest, declared_options(command), run.state)
    if run.state.version:
        return _print_version(run.state)
    prog = run.prog or f"dovetail {name}"
    output = Output(json=run.state.json, command=prog)
    with output_of_command(output), _logging(run.state.log_level):
        return _invoke(command, prog, args)


def option_names(command: str) -> frozenset[str]:
    """Return the options of an installed command, and the global ones, with dashes.

    Raises:
        PluginError: The command is not installed, or it is broken.
    """
    from typer.main import get_command  # imported here: see `_run_command`

    app: Any = load(COMMANDS, command)
    return frozenset({*declared_options(get_command(app)), *GLOBAL_OPTIONS})


def sdk_option_names(command: str) -> frozenset[str]:
    """Return the options of the SDK's tools that a command represents, with dashes."""
    from dovetail.cli._sdk_options import sdk_tools  # imported here: few calls read the data

    return frozenset(
        dashed(name) for tool in sdk_tools() if tool.command == command for name in tool.options
    )


def _find(name: str) -> tuple[str, Any]:
    """Return a command's name as its dist spells it, and its app."""
    known = {plugin.name for plugin in list_plugins(COMMANDS)}
    if name not in known and name.replace("_", "-") in known:
        name = name.replace("_", "-")
    if name not in known:
        hint = suggest_name(name, names(COMMANDS))
        raise ConfigError(f"command '{name}' not found", code="USAGE", hint=hint)
    return name, load(COMMANDS, name)


def _invoke(command: Any, prog: str, args: list[str]) -> int:
    """Run a click command.

    Its own `main` is not used: it prints errors and ends the process itself.
    """
    import typer  # imported here: see `_run_command`

    # typer has a copy of click in some versions and depends on click in others; either way this
    # is the base class of its parser's errors
    click_error: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
    faults: list[Any] = []
    for each in _commands(command):
        _collect_faults(each, click_error, faults)
    try:
        with command.make_context(prog, args, help_option_names=["-h", "--help"]) as context:
            return _exit_code(command.invoke(context))
    except typer.Exit as end:
        return int(end.exit_code)
    except typer.Abort:
        return INTERRUPTED
    except click_error as error:
        raise _usage_error(faults or [error], prog) from None


def _commands(command: Any) -> Iterator[Any]:
    """Yield a click command and its subcommands."""
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from _commands(each)


def _collect_faults(command: Any, click_error: Any, faults: list[Any]) -> None:
    """Let a click command add the faults of all parameters before it fails with the first."""

    def handling_all(handle: Any) -> Any:
        def handle_all(context: Any, given: Mapping[str, Any], args: list[str]) -> Any:
            try:
                return handle(context, given, args)
            except click_error as error:
                faults.append(error)
                return None, args

        return handle_all

    for param in command.params:
        param.handle_parse_result = handling_all(param.handle_parse_result)
    parse = command.parse_args

    def parse_all(context: Any, args: list[str]) -> Any:
        unknown: list[Any] = []
        rest = None
        while rest is None:
            try:
                rest = parse(context, list(args))
            except click_error as error:
                known = _without_option(args, error)
                if known is None:
                    # the value of an unknown option may be an argument too many
                    faults.extend([] if unknown else [error])
                    break
                unknown.append(error)
                args = known
        faults[:0] = unknown
        if faults:
            raise faults[0]
        return rest

    command.parse_args = parse_all


def _without_option(args: list[str], error: Any) -> list[str] | None:
    """Return the arguments without the unknown option of an error; None for other errors."""
    if type(error).__name__ != "NoSuchOption":
        return None
    rest = [arg for arg in args if arg.partition("=")[0] != error.option_name]
    return rest if len(rest) < len(args) else None


def _exit_code(result: object) -> int:
    return int(result) if isinstance(result, int) and not isinstance(result, bool) else 0


def _usage_error(faults: Sequence[Any], prog: str) -> ConfigError:
    """Return the error of one or more faults that click's parser found."""
    first = faults[0]
    context = getattr(first, "ctx", None)
    path = context.command_path if context is not None else prog
    if type(first).__name__ == "NoArgsIsHelpError":  # its message is the whole help
        return ConfigError("missing arguments", code="USAGE", where=path, hint=_see_help(path))
    usage = " ".join(context.get_usage().split()[1:]) if context is not None else prog
    hint = f"usage: {usage}; {_see_help(path)}"
    # without pydantic's prefix
    texts = [e.format_message().replace("Value error, ", "").rstrip(".") for e in faults]
    if len(texts) == 1:
        return ConfigError(texts[0], code="USAGE", where=path, hint=hint)
    problems = [Problem(text) for text in texts]
    return ConfigError("invalid options", code="USAGE", where=path, problems=problems, hint=hint)


def _see_help(path: str) -> str:
    return f"see `{path} --help`"


def _print_version(state: Globals) -> int:
    Output(json=state.json).data({"dovetail-core": __version__}, f"dovetail {__version__}")
    return ExitCode.OK


@contextmanager
def _logging(level: str) -> Iterator[None]:
    """Send log messages to stderr while a command runs."""
    import logging  # imported here: `dovetail --help` logs nothing

    logging.addLevelName(_LEVELS["verbose"], "VERBOSE")

    class Printable(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return printable(super().format(record))

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Printable("%(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(_LEVELS[level])
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


def _settle_stdout() -> None:
    """Discard output that cannot be written, so that Python does not report it at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
