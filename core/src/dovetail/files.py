"""Files: atomic writing, contained paths, names made safe for files."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from dovetail.errors import ConfigError, ContainerError, DovetailError, FrontendError

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that appears under `path` only when all of it is written.

    The bytes go to a temporary file beside `path`, are flushed to disk and renamed; after an error
    nothing is left. Its permissions are those of any new file.

    Raises:
        ContainerError: The file cannot be written (FILE_UNWRITABLE), or something that is no file,
            a device or a folder, has its name.
    """
    target = Path(path)
    temporary = target.parent / f".dovetail-{os.urandom(8).hex()}.part"
    try:
        if target.exists() and not target.is_file():  # a rename would put a file in place of it
            raise OSError(errno.EEXIST, "it exists and is not a file")
        file = open(temporary, "xb")  # noqa: SIM115 - closed below; its errors are told apart
    except OSError as error:
        raise unwritable(target, error) from error
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.filename not in (None, str(temporary)):
            raise  # it is about another file, which the caller's block opened
        raise unwritable(target, error) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def contained(folder: Path, relative: str, *, error: type[DovetailError] = FrontendError) -> Path:
    """Return the path of a file that must lie in `folder`, following links.

    Raises:
        DovetailError: Of class `error`: the path leaves the folder.
    """
    root = Path(os.path.realpath(folder))
    path: Path | None = None
    with suppress(ValueError):  # NUL, or half a surrogate pair: no name that a file can have
        path = Path(os.path.realpath(root / relative))
    if path is None or not path.is_relative_to(root):
        raise error(
            f"{relative!r} leads outside the folder of the file that names it",
            where=str(folder),
            hint="files may name only what lies beside or below them",
        )
    return path


def check_suffix(path: Path, suffix: str, what: str, option: str) -> None:
    """Refuses a name that does not end as the files do that are written under it.

    Args:
        path: The name.
        suffix: With its dot, in lower case.
        what: Which files are written, as the message begins.
        option: What the user calls the name.

    Raises:
        ConfigError: It ends in something else, or is no file's name (`.`, `..`, `/`).
    """
    if path.suffix.lower() == suffix:
        return
    better = with_suffix(path, suffix)
    raise ConfigError(
        f"{what}, and the name must say so",
        code="USAGE",
        where=f"{option} {path}",
        hint=f"say {option} {path / f'NAME{suffix}' if better is None else better}",
    )


def with_suffix(path: Path, suffix: str) -> Path | None:
    """Return a path with another suffix; None for a folder's path that ends in no name."""
    return path.with_suffix(suffix) if path.name.strip(".") else None


def safe_name(name: str) -> str:
    """Return a tensor's name as the SDK's tools write it: others than [A-Za-z0-9_.-] become `_`."""
    safe = _UNSAFE.sub("_", name)
    return f"_{safe[1:]}" if safe.startswith(".") else safe


def unwritable(path: Path, error: OSError) -> DovetailError:
    """Return the error for a file or folder that cannot be written."""
    return ContainerError(
        f"cannot be written: {error.strerror or error}",
        code="FILE_UNWRITABLE",
        where=str(path),
        hint="check that the folder exists, may be written and has room",
    )


def unreadable(path: Path, error: OSError) -> DovetailError:
    """Return the error for a file that cannot be read."""
    return FrontendError(
        f"cannot be read: {error.strerror or error}", code="FILE_UNREADABLE", where=str(path)
    )
