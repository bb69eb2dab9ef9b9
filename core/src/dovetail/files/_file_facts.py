"""Facts about the contents of files, which are known until the files change."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from dovetail.files._file_cache import FileCache
from dovetail.files._reads import FileState

SUFFIX = ".json"
_MAX_BYTES = 1 << 16
# A file that changed so recently may change again without a new modification time.
_SETTLED_NS = 2_000_000_000


class _Record(msgspec.Struct, frozen=True):
    """A fact about a file in a state, which may be trusted if it was settled."""

    state: FileState
    fact: str


class FileFacts:
    """Facts about the contents of files, such as their hashes.

    A fact is computed again if size, modification time or inode of the file differ.

    Args:
        cache: Where the facts are kept.
        what: Name of the fact.
    """

    def __init__(self, cache: FileCache, what: str) -> None:
        self._cache = cache
        self._what = what

    def of(self, path: Path, compute: Callable[[], str]) -> tuple[str, FileState]:
        """Return the fact about a file, and the file's state before it was computed.

        Args:
            path: The file.
            compute: Computes the fact; its errors are raised.

        Raises:
            OSError: The file cannot be found.
        """
        state = FileState.of(path.stat())
        text = f"{self._what} {os.path.realpath(path)}"
        name = f"{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()}{SUFFIX}"
        known = self._read(name)
        if known is not None and known.state == state:
            return known.fact, state
        began = time.time_ns()
        fact = compute()
        is_settled = state.mtime_ns < began - _SETTLED_NS
        if is_settled and FileState.of(path.stat()) == state:
            self._cache.write(name, msgspec.json.encode(_Record(state, fact)))
        return fact, state

    def _read(self, name: str) -> _Record | None:
        data = self._cache.read(name, _MAX_BYTES)
        try:
            return None if data is None else msgspec.json.decode(data, type=_Record)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
