"""Checks of traces by commands, with the exit codes of `git bisect run`."""

from __future__ import annotations

import enum
import shlex
import subprocess
from pathlib import Path

from dovetail.errors import ConfigError

_SKIP = 125
_LAST_BAD = 127


class Verdict(enum.Enum):
    """The result of a check."""

    GOOD = enum.auto()
    BAD = enum.auto()
    SKIP = enum.auto()


class CommandCheck:
    """Runs a command for each trace: 0 is good, 125 is skip, and 1 to 127 is bad.

    Args:
        command: The command and its arguments, as in a shell but run without one. `{}` is replaced
            by the trace, which is the last argument if there is no `{}`.

    Raises:
        ConfigError: There is no command, or a quote is not closed.
    """

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise ConfigError(
                f"cannot read the command: {error}", code="USAGE", where=f"--check {command}"
            ) from error
        if not self._words:
            raise ConfigError("missing command", code="USAGE", where="--check")
        if not any("{}" in word for word in self._words):
            self._words.append("{}")

    def __call__(self, trace: Path) -> Verdict:
        """Return what the command says about a trace.

        Raises:
            ConfigError: The command cannot be run, or ends with another code.
        """
        words = [word.replace("{}", str(trace)) for word in self._words]
        where = f"--check {shlex.join(self._words)}"
        try:
            code = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, check=False
            ).returncode
        except OSError as error:
            raise ConfigError(
                f"cannot run '{words[0]}': {error.strerror or error}", code="USAGE", where=where
            ) from error
        if not 0 <= code <= _LAST_BAD:
            raise ConfigError(
                f"the command ended with code {code}",
                code="USAGE",
                where=where,
                hint="0 is good, 125 is skip, 1 to 127 is bad; wrap a command that crashes into "
                "one that returns such a code",
            )
        if code == 0:
            return Verdict.GOOD
        return Verdict.SKIP if code == _SKIP else Verdict.BAD
