"""Collected faults and notes of a file."""

from __future__ import annotations

from dataclasses import dataclass, field

from dovetail.errors import Problem


@dataclass(slots=True)
class Findings:
    """Faults and notes of one file."""

    faults: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    def at(self, path: str, name: str | None = None) -> FileLocation:
        """Return a location in the file for reports: a JSON path, and the tensor."""
        return FileLocation(self, path, name)


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A location in a file."""

    findings: Findings
    path: str
    name: str | None = None

    def fault(self, message: str, below: str = "", hint: str = "") -> None:
        """Report a fault; `below` continues the path."""
        self.findings.faults.append(Problem(message, self._where(below), hint))

    def note(self, message: str, below: str = "") -> None:
        """Report a number that was read differently from what is written."""
        self.findings.notes.append(Problem(message, self._where(below)))

    def below(self, more: str, name: str | None = None) -> FileLocation:
        """Return a location below this one."""
        return FileLocation(self.findings, self.path + more, self.name if name is None else name)

    @property
    def faults(self) -> int:
        """The number of faults so far."""
        return len(self.findings.faults)

    def _where(self, below: str) -> str:
        path = self.path + below
        return f"'{self.name}' at {path}" if self.name is not None else path
