"""The trials of a search, in a JSON file that survives an interruption."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from dovetail_quantizers.stored_results import ResultsFile, read_results, write_results


class _File(ResultsFile):
    searches: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)


class State:
    """The scores of one search by assignment.

    Each new score is written immediately, so no trial is lost.

    Args:
        path: The file, which may be missing; None stores nothing.
        key: A text of what scores depend on; scores of other keys stay in the file.

    Raises:
        FrontendError: The file cannot be read.
        QuantizationError: The file is damaged, or not a state file.
    """

    def __init__(self, path: Path | None, key: str) -> None:
        self._path = path
        self._file = _File()
        if path is not None:
            self._file = read_results(path, _File, "state file of mixed precision")
        digest = hashlib.sha256(key.encode()).hexdigest()
        self._scores = self._file.searches.setdefault(digest, {})
        self._asked: set[str] = set()

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
