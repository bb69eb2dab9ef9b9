"""Reading of text files of limited size."""

from __future__ import annotations

from pathlib import Path

from dovetail.errors import FrontendError
from dovetail.files import read_start


def read_bytes(path: Path, most: int) -> bytes:
    """Return the content of a file, which may be a pipe: no more than the limit is read.

    Args:
        path: The file.
        most: The largest size in bytes.

    Raises:
        FrontendError: It cannot be read, or is larger.
    """
    content = read_start(path, most + 1)
    if len(content) > most:
        raise FrontendError(f"the file exceeds {most} bytes", where=str(path))
    return content
