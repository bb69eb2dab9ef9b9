"""Reading of limited size: regular files in folders that anyone may have filled, or any files."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from dovetail.files._paths import unreadable
from dovetail.files._reads import note_read


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; links are followed.

    A pipe with this name does not block: what was opened is checked, so that no change between
    check and opening matters.

    Raises:
        OSError: It cannot be opened, or is not a regular file.
    """
    file = open(path, "rb", opener=_open)  # noqa: SIM115 - the caller closes it
    try:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        note_read(path, file.fileno())
    except BaseException:
        file.close()
        raise
    return file


def read_limited(path: Path, most: int) -> bytes:
    """Return the content of a regular file.

    Args:
        path: The file; links are followed.
        most: The largest size in bytes.

    Raises:
        OSError: It cannot be read, is not a regular file, or is larger.
    """
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
    return content


def read_start(path: Path, count: int) -> bytes:
    """Return the first bytes of a file, which may also be a pipe, or a device without an end.

    Args:
        path: The file.
        count: The largest number of bytes: one more than its limit shows that a file is larger.

    Raises:
        FrontendError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        raise unreadable(path, error) from error


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
