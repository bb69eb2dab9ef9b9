"""Reading of text files of limited size."""

from __future__ import annotations

from pathlib import Path

from dovetail.errors import FrontendError
from dovetail.files import unreadable


def read_bytes(path: Path, most: int) -> bytes:
    """Return the content of a file, which may be a pipe: no more than the limit is read.

    Args:
        path: The file.
        most: The largest size in bytes.

    Raises:
        FrontendError: It cannot be read, or is larger.
    """
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise unreadable(path, error) from error
    if len(content) > most:
        raise FrontendError(f"the file exceeds {most} bytes", where=str(path))
    return content
