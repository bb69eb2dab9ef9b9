"""Reports of failed commands: on stderr, as text or as one line of JSON."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from dovetail.cli.output import printable
from dovetail.errors import DovetailError, ExitCode, Problem


def report_error(error: DovetailError, *, json: bool, details: bool) -> int:
    """Print an error to stderr and return the exit code.

    As JSON it is one line, an object with the key `error`: the last line that the command prints
    to stderr, after any log messages.

    Args:
        error: The error.
        json: Print it as JSON.
        details: Print the traceback before it.
    """
    if details:
        _print_traceback(error)
    hint = error.hint or error.entry.remedy
    if json:
        problems = [
            {"message": p.message, "where": p.where, "hint": p.hint} for p in error.problems
        ]
        _print_json(
            code=error.code,
            number=error.number,
            message=error.message,
            where=error.where,
            problems=problems,
            hint=hint,
            exit_code=int(error.exit_code),
        )
    else:
        where = f"{error.where}: " if error.where else ""
        _print(f"error[{error.code}]: {where}{error.message}")
        for line in _lines(error.problems):
            _print(f"  - {line}")
        _print(f"hint: {hint}")
    return int(error.exit_code)


def _lines(problems: Iterable[Problem]) -> Iterator[str]:
    """Yield a line for each kind of problem: all objects that it is about, then the message."""
    found: dict[Problem, dict[str, None]] = {}
    for problem in problems:
        found.setdefault(replace(problem, where=""), {})[problem.where] = None
    for problem, places in found.items():
        yield str(replace(problem, where=", ".join(filter(None, places))))


def report_bug(error: Exception, *, json: bool, details: bool, dist: str) -> int:
    """Print an exception that no command should let through, and return the exit code.

    Args:
        error: The exception.
        json: Print it as one line of JSON, as `report_error` does.
        details: Print the traceback before it.
        dist: The part of Dovetail that raised it.
    """
    if details:
        _print_traceback(error)
    message = f"{type(error).__name__}: {error}"
    hint = f"this is a bug in {dist}, not an error of yours: please report it"
    if not details:
        hint += "; run again with `--log-level debug` for the traceback"
    if json:
        _print_json(code="BUG", message=message, hint=hint, exit_code=int(ExitCode.BUG))
    else:
        _print(f"internal error: {message}\n{hint}")
    return int(ExitCode.BUG)


def _print_json(**fields: Any) -> None:
    import json  # imported here: printing help needs none

    _print(json.dumps({"error": fields}))


def _print_traceback(error: BaseException) -> None:
    _print("".join(traceback.format_exception(error)).rstrip())


def _print(text: str) -> None:
    print(printable(text), file=sys.stderr)
