"""A folder of files that can be created again, of limited size, shared by processes."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import msgspec

from dovetail.errors import DovetailError
from dovetail.files._reading import read_limited
from dovetail.files._writing import atomic_write

_LOG = logging.getLogger("dovetail.files")
_LIMIT = "limit"  # the file with the folder's own limit
_MAX_LIMIT_TEXT = 32
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BLOCK = 4096  # what a file of a few bytes takes, about
DEFAULT_LIMIT = 4 << 30


class CachedFile(msgspec.Struct, frozen=True):
    """A file in a cache.

    Attributes:
        path: The file.
        nbytes: Its size.
        used_ns: Time of its last use, in nanoseconds since the epoch.
    """

    path: Path
    nbytes: int
    used_ns: int


class FileCache:
    """A folder of files that can be created again; those used least recently are removed.

    Processes may share it: files appear when they are complete, and a removed one stays readable
    for those that have opened it. A failure to write is logged, since it only costs time later.
    Names of files are SHA-256 digests with a suffix: the folder may have files of the user, too.

    Args:
        folder: The folder, which is created with the first file.
        suffixes: Suffixes of its files; files with other names in the folder are not touched.
    """

    def __init__(self, folder: Path, suffixes: Collection[str]) -> None:
        self.folder = folder
        self._suffixes = frozenset(suffixes)

    @property
    def limit_bytes(self) -> int:
        """Size that the files may have together."""
        try:
            limit = int(read_limited(self.folder / _LIMIT, _MAX_LIMIT_TEXT))
        except FileNotFoundError:
            return DEFAULT_LIMIT
        except (OSError, ValueError) as error:
            _LOG.warning("%s is ignored: %s", self.folder / _LIMIT, error)
            return DEFAULT_LIMIT
        return max(0, limit)

    def set_limit(self, limit_bytes: int) -> None:
        """Limit the size of the folder, for all processes from now on.

        Raises:
            ContainerError: The folder cannot be written.
        """
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with atomic_write(self.folder / _LIMIT) as file:
            file.write(str(limit_bytes).encode())
        self.trim()

    def find(self, name: str) -> Path | None:
        """Return the path of a file, which counts as used now; None if there is none."""
        path = self.folder / name
        try:
            status = path.stat()
            with suppress(OSError):  # the folder may be another user's
                os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))
        except OSError:
            return None
        return path

    def read(self, name: str, max_bytes: int) -> bytes | None:
        """Return the content of a file; None if there is none, or it is too large."""
        path = self.find(name)
        if path is None:
            return None
        try:
            return read_limited(path, max_bytes)
        except OSError:
            return None

    def write(self, name: str, data: bytes | memoryview) -> bool:
        """Write a file, and remove others if all are too large; return whether it was written."""
        if memoryview(data).nbytes > self.limit_bytes:
            _LOG.info("%s is larger than the limit of the cache %s", name, self.folder)
            return False
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with atomic_write(self.folder / name) as file:
                file.write(data)
        except (OSError, DovetailError) as error:
            _LOG.warning("cannot write to the cache %s: %s", self.folder, error)
            return False
        self.trim(kept=name)
        return True

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        with suppress(OSError):
            (self.folder / name).unlink()

    def files(self) -> list[CachedFile]:
        """Return the files, those used most recently first."""
        found = []
        with suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                stem, suffix = os.path.splitext(entry.name)
                if suffix not in self._suffixes or not _DIGEST.fullmatch(stem):
                    continue
                with suppress(OSError):  # removed meanwhile
                    status = entry.stat(follow_symlinks=False)
                    used = max(status.st_atime_ns, status.st_mtime_ns)
                    found.append(CachedFile(Path(entry.path), status.st_size, used))
        return sorted(found, key=lambda file: (-file.used_ns, file.path.name))

    def trim(self, *, kept: str = "") -> None:
        """Remove the files used least recently until all take at most the limit.

        Args:
            kept: Name of a file that is not removed.
        """
        limit, size = self.limit_bytes, 0
        for file in sorted(self.files(), key=lambda file: file.path.name != kept):
            size += max(file.nbytes, _BLOCK)
            if size > limit and file.path.name != kept:
                self.remove(file.path.name)

    def clear(self) -> int:
        """Remove all files; return their number."""
        files = self.files()
        for file in files:
            self.remove(file.path.name)
        return len(files)
