"""Record of the files that are read meanwhile, for caches of what is computed from them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class FileState(NamedTuple):
    """Identity of a file's content: size, modification time (ns), inode and device."""

    size: int
    mtime_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileState:
        """Return the state in the result of `os.stat`."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev)


_reads: ContextVar[dict[str, FileState] | None] = ContextVar("dovetail_reads", default=None)


@contextmanager
def recorded_reads() -> Iterator[dict[str, FileState]]:
    """Record the files that `note_read` reports in this thread during the `with` block.

    Returns:
        The state of each file when it was opened, by its path.
    """
    found: dict[str, FileState] = {}
    token = _reads.set(found)
    try:
        yield found
    finally:
        _reads.reset(token)


def note_read(path: str | os.PathLike[str], descriptor: int) -> None:
    """Report a file that was opened for reading.

    Mapped files and those of `open_regular` are reported; a frontend that opens files of a model by
    other means calls this itself, or a changed file is not noticed by the cache of contexts.

    Args:
        path: The file.
        descriptor: Its open descriptor.
    """
    found = _reads.get()
    if found is not None:
        found[os.path.abspath(path)] = FileState.of(os.fstat(descriptor))
