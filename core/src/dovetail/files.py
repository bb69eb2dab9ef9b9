"""Files: atomic writing, contained paths, names made safe for files."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from dovetail.errors import ContainerError, DovetailError, FrontendError

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Opens a file that appears under `path` only when all of it is written.

    The bytes go to a temporary file beside `path`, are flushed to disk and renamed; after an error
    nothing is left.

    Raises:
        ContainerError: The folder cannot be written (FILE_UNWRITABLE).
    """
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise unwritable(target, error) from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())  # mkstemp's 0600 would surprise
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise unwritable(target, error) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def contained(folder: Path, relative: str, *, error: type[DovetailError] = FrontendError) -> Path:
    """Gives the path of a file that must lie in `folder`, following links.

    Raises:
        DovetailError: Of class `error`: the path leaves the folder.
    """
    root = folder.resolve()
    path = (root / relative).resolve()
    if "\0" in relative or not path.is_relative_to(root):
        raise error(
            f"'{relative}' leads outside the folder of the file that names it",
            where=str(folder),
            hint="files may name only what lies beside or below them",
        )
    return path


def safe_name(name: str) -> str:
    """Gives a tensor's name as the SDK's tools write it: others than [A-Za-z0-9_.-] become `_`."""
    safe = _UNSAFE.sub("_", name)
    return f"_{safe[1:]}" if safe.startswith(".") else safe


def unwritable(path: Path, error: OSError) -> DovetailError:
    """Gives the error for a file or folder that cannot be written."""
    return ContainerError(
        f"cannot be written: {error.strerror or error}",
        code="FILE_UNWRITABLE",
        where=str(path),
        hint="check that the folder exists, may be written and has room",
    )


def unreadable(path: Path, error: OSError) -> DovetailError:
    """Gives the error for a file that cannot be read."""
    return FrontendError(
        f"cannot be read: {error.strerror or error}", code="FILE_UNREADABLE", where=str(path)
    )


def _umask() -> int:
    # the only portable way to read it; a race could matter only to another thread's new file
    mask = os.umask(0)
    os.umask(mask)
    return mask
