"""Files: atomic writing, contained paths, safe names."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from dovetail.errors import ConfigError, ContainerError, DovetailError, FrontendError

try:
    import fcntl
except ImportError:  # Windows has no such module
    _HAS_LOCKS = False
else:
    _HAS_LOCKS = True

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_TEMPORARY, _PART = ".dovetail-", ".part"


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that appears under `path` only once it is complete.

    The bytes go to a temporary file in the same folder, are flushed to disk and renamed. An error
    leaves no file; the temporary files of killed processes are removed by a later call for
    the same folder. A link is followed: the file that it names is written. Permissions are those
    of any new file.

    Raises:
        ContainerError: The file cannot be written (FILE_UNWRITABLE), or the name belongs to
            something other than a file, such as a device or a folder.
    """
    given = Path(path)
    try:
        target = _replaceable(given)
        _remove_abandoned(target.parent)
        file, temporary = _create_temporary(target.parent)
    except OSError as error:
        raise unwritable(given, error) from error
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if _HAS_LOCKS:  # renamed under its lock, or it might be removed as abandoned
                temporary.replace(target)
        if not _HAS_LOCKS:  # an open file may not be renamed there
            temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.filename not in (None, str(temporary)):
            raise  # an error of another file, which the caller's block opened
        raise unwritable(given, error) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _replaceable(path: Path) -> Path:
    """Return the file to write: `path`, or what it links to."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if target.exists() and not target.is_file():  # a rename would replace it
        raise OSError(errno.EEXIST, "the path exists and is not a file")
    return target


def _create_temporary(folder: Path) -> tuple[IO[bytes], Path]:
    """Return a new temporary file, open and locked, and its path."""
    while True:
        path = folder / f"{_TEMPORARY}{os.urandom(8).hex()}{_PART}"
        file = open(path, "xb")  # noqa: SIM115 - closed by the caller
        try:
            _lock(file)
        except BlockingIOError:  # another process is removing it as abandoned
            file.close()
            continue
        except OSError:  # a file system without locks, where nothing is removed
            return file, path
        if os.name == "nt" or os.fstat(file.fileno()).st_nlink:
            return file, path
        file.close()  # removed before it was locked


def _remove_abandoned(folder: Path) -> None:
    """Remove the temporary files in a folder whose writers no longer run.

    A writer holds a lock on its file, which ends with the process. Without locks nothing is
    removed: a process that cannot be found may run on another host.
    """
    if not _HAS_LOCKS:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        found = [
            entry.path
            for entry in entries
            if entry.name.startswith(_TEMPORARY)
            and entry.name.endswith(_PART)
            and entry.is_file(follow_symlinks=False)
        ]
        for path in found:
            with suppress(OSError), open(path, "r+b") as file:
                _lock(file)
                os.unlink(path)


def _lock(file: IO[bytes]) -> None:
    """Lock a file until it is closed; do nothing where the system has no such locks.

    Raises:
        BlockingIOError: Another process holds the lock.
        OSError: The file system has no locks.
    """
    if _HAS_LOCKS:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def contained(folder: Path, relative: str, *, error: type[DovetailError] = FrontendError) -> Path:
    """Return the path of a file that must be in `folder`; links are followed.

    Raises:
        DovetailError: Of class `error`: the path leaves the folder.
    """
    root = Path(os.path.realpath(folder))
    path: Path | None = None
    with suppress(ValueError):  # NUL, or half a surrogate pair
        path = Path(os.path.realpath(root / relative))
    if path is None or not path.is_relative_to(root):
        raise error(
            f"{relative!r} leads outside the folder of the file that names it",
            where=str(folder),
            hint="a file may refer only to files in its own folder or below",
        )
    return path


def check_suffix(path: Path, suffix: str, what: str, option: str) -> None:
    """Raise if the name of a file to be written has the wrong suffix.

    Args:
        path: The name.
        suffix: With its dot, in lower case.
        what: Beginning of the message: what is written to the file.
        option: The option that set the name.

    Raises:
        ConfigError: The name has another suffix, or does not name a file (`.`, `..`, `/`).
    """
    if path.suffix.lower() == suffix:
        return
    better = with_suffix(path, suffix)
    raise ConfigError(
        f"{what}, and the suffix must be {suffix}",
        code="USAGE",
        where=f"{option} {path}",
        hint=f"use {option} {path / f'NAME{suffix}' if better is None else better}",
    )


def with_suffix(path: Path, suffix: str) -> Path | None:
    """Return a path with another suffix; None if it does not end in a name."""
    return path.with_suffix(suffix) if path.name.strip(".") else None


def safe_name(name: str) -> str:
    """Return a tensor's name as the SDK's tools write it: `_` replaces all but [A-Za-z0-9_.-]."""
    safe = _UNSAFE.sub("_", name)
    return f"_{safe[1:]}" if safe.startswith(".") else safe


def unwritable(path: Path, error: OSError) -> DovetailError:
    """Return the error for a file or folder that cannot be written."""
    return ContainerError(
        f"cannot be written: {error.strerror or error}",
        code="FILE_UNWRITABLE",
        where=str(path),
        hint="check that the folder exists, is writable and has free space",
    )


def unreadable(path: Path, error: OSError) -> DovetailError:
    """Return the error for a file that cannot be read."""
    return FrontendError(
        f"cannot be read: {error.strerror or error}", code="FILE_UNREADABLE", where=str(path)
    )
