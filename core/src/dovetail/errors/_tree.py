"""The error tree.

Every error has a code (an entry of the catalogue), names the object concerned in the user's terms
(`where`) and says what to do (`hint`). A validator that finds several faults raises one error with
all of them as `problems`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from dovetail.errors._catalogue import CATALOGUE
from dovetail.errors._entry import Entry


class ExitCode(enum.IntEnum):
    """The exit statuses of commands."""

    OK = 0
    CHECK_FAILED = 1
    USAGE = 2
    BAD_MODEL = 3
    UNSUPPORTED_OP = 4
    INCOMPATIBLE = 5
    PLUGIN = 6
    BACKEND = 7
    BUG = 70


@dataclass(frozen=True, slots=True)
class Problem:
    """One of several faults found together."""

    message: str
    where: str = ""
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        return f"{where}{self.message}" + (f" ({self.hint})" if self.hint else "")


class DovetailError(Exception):
    """The root of all errors caused by the user, a plugin or a file, never by a bug of ours.

    Args:
        message: What failed and why, in one sentence.
        code: Symbolic name in the catalogue; each class has a default.
        where: The object in the user's terms: graph, node, tensor, or file and line.
        hint: What to do.
        problems: All faults found, if there are several.
    """

    default_code: ClassVar[str] = "DOVETAIL_ERROR"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        where: str = "",
        hint: str = "",
        problems: Iterable[Problem] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.entry: Entry = CATALOGUE[code or self.default_code]
        self.where = where
        self.hint = hint
        self.problems = tuple(problems)

    @property
    def code(self) -> str:
        """The symbolic name of the error."""
        return self.entry.name

    @property
    def number(self) -> int | None:
        """QNN's number of the error if it is one of the runtime API, else None."""
        return self.entry.number

    @property
    def exit_code(self) -> ExitCode:
        """The exit status of a command that ends with this error."""
        return ExitCode(self.entry.exit_code)

    def as_problem(self, where: str | None = None) -> Problem:
        """Return the error as one of several faults; what it lists is left out.

        Args:
            where: The object; by default that of the error.
        """
        return Problem(self.message, self.where if where is None else where, self.hint)

    def as_problems(self, where: str | None = None) -> tuple[Problem, ...]:
        """Return the faults that the error lists; if none, the error as `as_problem` returns it."""
        return self.problems or (self.as_problem(where),)

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.message}" if self.where else self.message]
        lines += [f"  - {problem}" for problem in self.problems]
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class ConfigError(DovetailError):
    """An invalid option, config file or command line."""

    default_code = "CONFIG_INVALID"


class PluginError(DovetailError):
    """A plugin that is missing, broken, claimed twice or for another version of core."""

    default_code = "PLUGIN_BROKEN"


class GraphError(DovetailError):
    """A graph that is not well-formed."""

    default_code = "GRAPH_INVALID"


class OpError(DovetailError):
    """A node that does not match its op's schema."""

    default_code = "OP_INVALID"


class UnsupportedOpError(DovetailError):
    """An op that no installed plugin converts or runs."""

    default_code = "OP_UNSUPPORTED"


class FrontendError(DovetailError):
    """A model file that cannot be read."""

    default_code = "MODEL_INVALID"


class QuantizationError(DovetailError):
    """Invalid encodings or calibration data."""

    default_code = "ENCODING_INVALID"


class BackendError(DovetailError):
    """A call of the runtime API that was rejected, or that failed in the backend."""

    default_code = "BACKEND_FAILED"


class ContainerError(DovetailError):
    """A container file that is damaged, or a file that is none."""

    default_code = "CONTAINER_DAMAGED"


class TraceError(DovetailError):
    """A recorded trace that cannot be read or replayed."""

    default_code = "TRACE_INVALID"
