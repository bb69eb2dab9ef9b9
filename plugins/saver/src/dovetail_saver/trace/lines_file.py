"""The file of lines: written whole and at once, so that it survives the end of its process."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

_FIRST = 1 << 16  # bytes
_STEP = 1 << 24  # largest growth
_RESERVE = 1 << 12  # for the last line, which may follow a full disk
_ZEROS = bytes(1 << 16)


class LinesFile:
    """A file that lines are appended to.

    It is mapped, so that a line costs no call of the system, and is there when the process is
    killed. Its blocks are allocated ahead: a full disk is an error of `append` before anything of
    the line is written. The rest of the file is zeros, which `close` cuts off.

    Args:
        path: The file, which must not exist.

    Attributes:
        calls: Number of lines that are calls.

    Raises:
        OSError: It cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        self._file = os.open(path, flags, mode=0o666)  # less what the umask removes
        self._used = 0  # bytes
        self.calls = 0
        try:
            self._map = self._grown(0, _FIRST)
        except BaseException:
            os.close(self._file)
            path.unlink(missing_ok=True)
            raise

    @property
    def size(self) -> int:
        """Number of bytes of its lines."""
        return self._used

    def append(self, line: bytes, *, is_call: bool = False, is_last: bool = False) -> None:
        """Write a line; all of it, or nothing: after an error or an interrupt, too.

        Args:
            line: The line, without its end.
            is_call: Whether it counts as a call.
            is_last: Whether it may use the reserve.

        Raises:
            OSError: There is no space, or the file was removed.
        """
        start, end = self._used, self._used + len(line)
        needed, size = end + 1 if is_last else end + 1 + _RESERVE, len(self._map)
        if needed > size:
            before = self._map
            self._map = self._grown(size, max(needed, min(2 * size, size + _STEP)))
            before.close()
        self._map[start:end] = line
        self._map[end] = 10  # after the line: a cut one has no end
        self._used, self.calls = end + 1, self.calls + is_call

    def ends_with(self, line: bytes) -> bool:
        """Return whether a line is the last one."""
        start = self._used - len(line) - 1
        return start >= 0 and self._map[start : self._used] == line + b"\n"

    def close(self) -> None:
        """End the file after its last line.

        Raises:
            OSError: The file was removed.
        """
        try:
            self._require_linked()
        finally:
            self._map.close()
            try:
                os.ftruncate(self._file, self._used)
            finally:
                os.close(self._file)

    def abandon(self) -> None:
        """Let go of the file, which another process writes."""
        self._map.close()
        os.close(self._file)

    def _grown(self, before: int, size: int) -> mmap.mmap:
        """Return a map of the file with a larger size than before.

        Raises:
            OSError: There is no space, or the file was removed.
        """
        self._require_linked()
        _allocate(self._file, before, size)
        return mmap.mmap(self._file, size)

    def _require_linked(self) -> None:
        if os.fstat(self._file).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "the file was removed", str(self._path))


def _allocate(file: int, start: int, end: int) -> None:
    """Allocate the blocks of a part of a file.

    Raises:
        OSError: There is no space.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, start, end - start)
        return
    os.lseek(file, start, os.SEEK_SET)
    while start < end:
        start += os.write(file, _ZEROS[: end - start])
