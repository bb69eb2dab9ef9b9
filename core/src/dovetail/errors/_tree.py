"""The error tree.

Every error names its code (an entry of the catalogue), the object it is about in the user's own
terms (`where`), and what to do (`hint`). A validator that found several faults raises one error
that carries them all as `problems`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from dovetail.errors._catalogue import CATALOGUE
from dovetail.errors._entry import Entry


class ExitCode(enum.IntEnum):
    """What a command's exit status says."""

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
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.message}" + (f" ({self.hint})" if self.hint else "")


class DovetailError(Exception):
    """The root of every error that is the user's, a plugin's or a file's, never a bug of ours.

    Args:
        message: What failed and why, one sentence.
        code: Symbolic name in the catalogue; each class has its own default.
        where: The object in the user's own terms: graph, node, tensor or file and line.
        hint: What to do about it.
        problems: Every fault found, where there are several.
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
        """QNN's number of the error, where it is one of the runtime API's."""
        return self.entry.number

    @property
    def exit_code(self) -> ExitCode:
        """The exit status of a command that ends with this error."""
        return ExitCode(self.entry.exit_code)

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.message}" if self.where else self.message]
        lines += [f"  - {problem}" for problem in self.problems]
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class ConfigError(DovetailError):
    """An option, a config file or a command line that cannot be taken."""

    default_code = "CONFIG_INVALID"


class PluginError(DovetailError):
    """A plugin that is missing, broken, claimed twice or built for another core."""

    default_code = "PLUGIN_BROKEN"


class GraphError(DovetailError):
    """A graph that is not well formed."""

    default_code = "GRAPH_INVALID"


class OpError(DovetailError):
    """A node that does not fit its op's schema."""

    default_code = "OP_INVALID"


class UnsupportedOpError(DovetailError):
    """An op that nothing installed can convert or run."""

    default_code = "OP_UNSUPPORTED"


class FrontendError(DovetailError):
    """A model file that cannot be read."""

    default_code = "MODEL_INVALID"


class QuantizationError(DovetailError):
    """Encodings or calibration data that make no sense."""

    default_code = "ENCODING_INVALID"


class BackendError(DovetailError):
    """The runtime API refused a call, or a backend failed in one."""

    default_code = "BACKEND_FAILED"


class ContainerError(DovetailError):
    """A container file that is damaged or not one."""

    default_code = "CONTAINER_DAMAGED"


class TraceError(DovetailError):
    """A recorded trace that cannot be read or replayed."""

    default_code = "TRACE_INVALID"
