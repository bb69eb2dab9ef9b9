"""The files of a trace, opened for reading: regular files in its folder, or in a packed trace."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

from dovetail.errors import TraceError
from dovetail.files import contained, open_regular
from dovetail_saver.trace.packed import EXPECTED, Region, open_packed, packed_region


def region(folder: Path, name: str) -> Region:
    """Return where the bytes of a file of a trace are stored, for mapping.

    Args:
        folder: The folder of the trace, or the packed trace.
        name: Name of the file.

    Raises:
        TraceError: It is not a regular file, is outside the folder, or is packed in another form.
    """
    return packed_region(folder, name) if os.path.isfile(folder) else Region(_member(folder, name))


def _member(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder; links are followed."""
    path = contained(folder, name, error=TraceError)
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError) as error:
        raise _unreadable(folder / name, error) from error
    if not is_file:
        raise TraceError("not a regular file", where=str(folder / name))
    return path


def open_member(folder: Path, name: str) -> IO[bytes]:
    """Open a file of a trace.

    Args:
        folder: The folder of the trace, or the packed trace.
        name: Name of the file.

    Raises:
        TraceError: It cannot be read, is not a regular file, or is outside the folder.
    """
    if os.path.isfile(folder):  # pathlib's raises if a name is too long
        return open_packed(folder, name)
    path = _member(folder, name)
    try:
        return open_regular(path)
    except OSError as error:
        raise _unreadable(folder / name, error) from error


def _unreadable(path: Path, error: Exception) -> TraceError:
    reason = getattr(error, "strerror", None) or str(error)
    return TraceError(f"cannot read the trace: {reason}", where=str(path), hint=EXPECTED)
