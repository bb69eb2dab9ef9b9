"""Files and folders that appear only when they are complete.

They are written under a temporary name in the same folder and renamed. The writer holds a lock,
which ends with the process: a later writer recognizes what killed processes left, and removes it.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from dovetail.errors import DovetailError
from dovetail.files._paths import unwritable

try:
    import fcntl
except ImportError:  # Windows has no such module
    _HAS_LOCKS = False
else:
    _HAS_LOCKS = True

_LOG = logging.getLogger("dovetail.files")
_TEMPORARY, _PART = ".dovetail-", ".part"
_LOCK, _OLD = "lock", "old"  # in a temporary folder

_written: ContextVar[list[Path] | None] = ContextVar("dovetail_written", default=None)


@contextmanager
def recorded_writes() -> Iterator[list[Path]]:
    """Record the paths that `atomic_write` and `Staging.commit` write in this thread.

    Returns:
        The paths as they were given, in order.
    """
    found: list[Path] = []
    token = _written.set(found)
    try:
        yield found
    finally:
        _written.reset(token)


def _note_written(*paths: Path) -> None:
    found = _written.get()
    if found is not None:
        found += paths


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
        _note_written(given)
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


class Staging:
    """New files and folders, to be moved into a folder when all are complete.

    Attributes:
        new: A temporary folder on the file system of their folder, in which they are written.
        created: Folders that were created to move them into.
    """

    def __init__(self, folder: Path, temporary: Path) -> None:
        self._folder = folder
        self._old = temporary / _OLD
        self.created: list[Path] = []
        self.new = temporary / "new"

    def commit(
        self,
        names: Iterable[Path],
        *,
        outdated: Iterable[Path] = (),
        renamed: Mapping[Path, Path] | None = None,
    ) -> None:
        """Move what is new into position, and what was there away; all or nothing.

        Args:
            names: Paths below `new`, and below the folder.
            outdated: Paths below the folder that are removed, too.
            renamed: New paths of what would be removed, by path; both below the folder.

        Raises:
            ContainerError: Something cannot be moved, or a file would replace a folder; the folder
                is unchanged.
        """
        new = sorted(names)
        for name in new:
            if self._is_folder(self._folder / name) and not self._is_folder(self.new / name):
                error = IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                raise unwritable(self._folder / name, error)
        old = [n for n in sorted({*new, *outdated}) if os.path.lexists(self._folder / n)]
        kept = {name: self._folder / path for name, path in (renamed or {}).items()}
        moves = [(name, self._folder / name, kept.get(name, self._old / name)) for name in old]
        moves += [(name, self.new / name, self._folder / name) for name in new]
        done: list[tuple[Path, Path]] = []
        try:
            for name, source, target in moves:
                try:
                    self.created += _create_folders(target.parent)
                    source.replace(target)
                except OSError as error:
                    raise unwritable(self._folder / name, error) from error
                done.append((source, target))
        except BaseException:
            for source, target in reversed(done):
                target.replace(source)
            raise
        _note_written(*(self._folder / name for name in new))

    @staticmethod
    def _is_folder(path: Path) -> bool:
        return path.is_dir() and not path.is_symlink()


@contextmanager
def staged_folder(folder: Path) -> Iterator[Staging]:
    """Open a folder for new content that appears in it only when all is complete.

    Without `Staging.commit` nothing changes: the folder and its parents are removed if they were
    created here. The temporary folders of killed processes are removed by a later call for the
    same folder, unless they have content that was moved away.

    Raises:
        ContainerError: The folder, or a file in it that the caller's block opens, cannot be
            created or written.
    """
    created: list[Path] = []
    try:
        created = _create_folders(folder)
        _remove_abandoned(folder)
        lock, temporary = _create_temporary(folder, is_folder=True)
        staging = Staging(folder, temporary)
        staging.new.mkdir()
    except OSError as error:
        _remove_empty(created)
        raise unwritable(folder, error) from error
    try:
        yield staging
    except OSError as error:
        path = Path(error.filename) if isinstance(error.filename, str) else staging.new
        if not path.is_relative_to(staging.new):
            raise  # an error of another file, which the caller's block opened
        raise unwritable(folder / path.relative_to(staging.new), error) from error
    except DovetailError as error:
        # the user knows no temporary folder
        error.where = error.where.replace(str(staging.new), str(folder))
        raise
    finally:
        shutil.rmtree(temporary / _OLD, ignore_errors=True)
        lock.close()  # not before, or another process would report the earlier content
        shutil.rmtree(temporary, ignore_errors=True)
        _remove_empty([*created, *staging.created])


@contextmanager
def created_folder(folder: Path) -> Iterator[None]:
    """Create a folder and its parents; remove those again if the block raises and they are empty.

    Raises:
        ContainerError: The folder cannot be created.
    """
    try:
        created = _create_folders(folder)
    except OSError as error:
        raise unwritable(folder, error) from error
    try:
        yield
    except BaseException:
        _remove_empty(created)
        raise


def _create_folders(path: Path) -> list[Path]:
    """Create a folder and its parents; return the folders created."""
    missing: list[Path] = []
    at = path
    while not at.is_dir():
        if os.path.lexists(at):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        missing.append(at)
        at = at.parent
    path.mkdir(parents=True, exist_ok=True)
    return missing


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        with suppress(OSError):
            folder.rmdir()


def _create_temporary(folder: Path, *, is_folder: bool = False) -> tuple[IO[bytes], Path]:
    """Return the locked file of a new temporary file or folder, and the path of the latter."""
    while True:
        path = folder / f"{_TEMPORARY}{os.urandom(8).hex()}{_PART}"
        if is_folder:
            path.mkdir()
        file = open(_locked_file(path), "xb")  # noqa: SIM115 - closed by the caller
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


def _locked_file(path: Path) -> Path:
    return path / _LOCK if path.is_dir() else path


def _remove_abandoned(folder: Path) -> None:
    """Remove the temporary files and folders in a folder whose writers no longer run.

    A writer holds a lock, which ends with the process. Without locks nothing is removed: a process
    that cannot be found may run on another host. A folder with earlier content is not removed.
    """
    if not _HAS_LOCKS:
        return
    for path in folder.glob(f"{_TEMPORARY}*{_PART}"):
        with suppress(OSError):  # also where another user's folder is private
            _remove_if_abandoned(path)


def _remove_if_abandoned(path: Path) -> None:
    if path.is_symlink() or not _locked_file(path).is_file():
        return
    with open(_locked_file(path), "r+b") as file:
        _lock(file)
        if (path / _OLD).exists():
            _LOG.warning("%s has earlier results, left by a run that was killed", path)
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _lock(file: IO[bytes]) -> None:
    """Lock a file until it is closed; do nothing where the system has no such locks.

    Raises:
        BlockingIOError: Another process holds the lock.
        OSError: The file system has no locks.
    """
    if _HAS_LOCKS:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
