"""The trials of a search, in a JSON file that survives an interruption."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from dovetail_quantizers.stored_results import ResultsFile, read_results, write_results


class _File(ResultsFile):
    searches: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)


class State:
    """The scores of one search by assignment; a context manager, which reads the file.

    Each new score is written immediately, so no trial is lost.

    Args:
        path: The file, which may be missing; None stores nothing.
        key: A text of what scores depend on; scores of other keys stay in the file.
    """

    def __init__(self, path: Path | None, key: str) -> None:
        self._path = path
        self._key = hashlib.sha256(key.encode()).hexdigest()
        self._file = _File()
        self._asked: set[str] = set()

    def __enter__(self) -> Self:
        """Read the file.

        Raises:
            FrontendError: The file cannot be read.
            QuantizationError: The file is damaged, or not a state file.
        """
        if self._path is not None:
            self._file = read_results(self._path, _File, "state file of mixed precision")
        self._file.searches.setdefault(self._key, {})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: all scores are already written."""

    def __len__(self) -> int:
        return len(self._asked)

    def get(self, assignment: str) -> float | None:
        """Return a known score, None for an unknown one."""
        self._asked.add(assignment)
        return self._scores.get(assignment)

    def put(self, assignment: str, score: float) -> None:
        """Store a score.

        Raises:
            ContainerError: The file cannot be written.
        """
        self._scores[assignment] = score
        if self._path is not None:
            write_results(self._path, self._file)

    @property
    def _scores(self) -> dict[str, float]:
        return self._file.searches[self._key]
