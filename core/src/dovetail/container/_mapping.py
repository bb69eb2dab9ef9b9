"""Mapped files and their blobs, read when they are used; a file that has changed is an error."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dovetail.container._format import Bytes
from dovetail.container.lifetime import Finalizer, anchor
from dovetail.container.memory import aligned_copy
from dovetail.errors import ContainerError
from dovetail.files import open_regular, unreadable
from dovetail.ir import Blob

# Blobs up to this size are copied when they are used, which takes some microseconds each:
# changes of the file cannot harm copies.
COPIED_BYTES = 1 << 16

# Where the system has no such advice, pages stay until it needs the memory.
_DROP: int | None = getattr(mmap, "MADV_DONTNEED", None)


class MappedFile:
    """A file mapped read-only; `check` notices when it was changed in place.

    Replacing a file by a rename does not change it: its bytes remain until the mapping ends.

    Attributes:
        where: Name of the file, for errors.
        data: All bytes of the file; the mapping lives as long as an array over them.

    Raises:
        FrontendError: The file cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.where = path
        try:
            with open_regular(Path(path)) as file:
                # Open as long as the object lives: changes are found through the descriptor.
                self._descriptor = os.dup(file.fileno())
            self._anchor = anchor()
            self._close = Finalizer(self._anchor, os.close, self._descriptor)
            self._state = self._stat()
            size = self._state[0]
            # An empty file cannot be mapped.
            self._mapping = (
                mmap.mmap(self._descriptor, size, access=mmap.ACCESS_READ) if size else None
            )
        except (OSError, ValueError) as error:  # ValueError: cut short since its size was read
            failure = error if isinstance(error, OSError) else OSError(str(error))
            raise unreadable(Path(path), failure) from error
        self.data: Bytes = self.view(0, size)

    def view(self, start: int, size: int) -> Bytes:
        """Return the bytes of a region as an array with a separate base."""
        if self._mapping is None or not size:
            return np.empty(0, np.uint8)
        return np.frombuffer(self._mapping, np.uint8, size, start)

    def check(self) -> None:
        """Raise if the file has changed since it was opened; its bytes may be missing or wrong.

        Raises:
            ContainerError: Its size or modification time differs.
        """
        if self._stat() != self._state:
            raise ContainerError(
                "the file was overwritten or cut short while it was in use",
                code="CONTAINER_CHANGED",
                where=self.where,
                hint="load it again; replace files by renaming, as `save` does, or load with "
                "map_weights=False (--no-map-weights)",
            )

    def release(self, start: int, size: int) -> None:
        """Drop the pages within a region; the system reads them again when they are used."""
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        length = start + size - first
        if length >= mmap.PAGESIZE and self._mapping is not None and _DROP is not None:
            self._mapping.madvise(_DROP, first, length)

    def _stat(self) -> tuple[int, int]:
        found = os.fstat(self._descriptor)
        return found.st_size, found.st_mtime_ns


class MappedBlob(Blob):
    """A blob in a mapped file.

    Args:
        file: The file.
        start: First byte.
        size: Number of bytes.
        hash: SHA-256 in hex where it is known.
        check: Called once, before the bytes are first used; raises if they are damaged.
    """

    __slots__ = ("_copy", "_file", "_size", "_start", "_view")

    def __init__(
        self,
        file: MappedFile,
        start: int,
        size: int,
        *,
        hash: str | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(np.empty(0, np.uint8), hash=hash, check=check)
        self._file = file
        self._start = start
        self._size = size
        self._copy: Bytes | None = None
        self._view: Callable[[], Bytes | None] | None = None  # a weak reference

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._size

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """The bytes, shape (nbytes,), read-only; a copy if there are few.

        Raises:
            ContainerError: The bytes are damaged, or the file has changed.
        """
        if self._copy is not None:
            return self._copy
        self._file.check()
        self._check_once()
        view = self._view() if self._view is not None else None
        if view is None:
            view = self._file.view(self._start, self._size)
        if self._size > COPIED_BYTES:
            self._view = weakref.ref(view)
            return view
        copy = aligned_copy(view)
        copy.flags.writeable = False
        self._copy = copy
        return copy

    @property
    def guard(self) -> Callable[[], None] | None:
        """The check of the file while an array over its mapping is in use, else None."""
        is_used = self._view is not None and self._view() is not None
        return self._file.check if is_used else None

    def detached(self) -> Blob:
        """Return a blob with a copy of the bytes."""
        return Blob(np.array(self.bytes), hash=self._hash)

    def release(self) -> None:
        """Drop the bytes from memory until they are used again; arrays over them stay valid."""
        self._copy = None
        self._file.release(self._start, self._size)
