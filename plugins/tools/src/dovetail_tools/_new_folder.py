"""A folder of new files that appears only when all of them are written: how projects begin."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from dovetail.errors import ContainerError
from dovetail.files import unwritable
from dovetail_tools._output_folder import make_folders, remove_folders


def check_writable(path: Path, may_replace: Callable[[Path], bool] | None = None) -> None:
    """Checks that nothing of the user's would be replaced.

    Args:
        path: The folder to write.
        may_replace: Says whether a folder that holds something may give way; None refuses any.

    Raises:
        ContainerError: It is a file or a link, or a folder that holds something.
    """
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise _refused(path, "something that is no folder has this name")
    if path.is_dir() and any(path.iterdir()) and not (may_replace and may_replace(path)):
        raise _refused(path, "the folder holds something already: it is not replaced")


def write_folder(
    path: Path, files: Mapping[str, str], may_replace: Callable[[Path], bool] | None = None
) -> None:
    """Writes a folder of text files, in UTF-8; after an error nothing of it is left.

    Args:
        path: The folder; the ones that it lies in are made too.
        files: Texts by path in the folder, with forward slashes.
        may_replace: As for `check_writable`.

    Raises:
        ContainerError: As `check_writable`, or it cannot be written; what was there stays.
    """
    check_writable(path, may_replace)
    made: list[Path] = []
    try:
        made = make_folders(path.parent)
        aside = Path(tempfile.mkdtemp(dir=path.parent, prefix=".dovetail-"))
        try:
            _fill(aside / "new", files)
            _put(aside, path)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except BaseException as error:
        remove_folders(made)
        if isinstance(error, OSError):
            raise unwritable(path, error) from error
        raise


def _fill(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8", newline="\n")


def _put(aside: Path, path: Path) -> None:
    """Moves what was there aside and the new folder in its place."""
    old = aside / "old"
    if path.exists():
        path.rename(old)
    try:
        (aside / "new").rename(path)
    except BaseException:
        if old.exists():
            old.rename(path)
        raise


def _refused(path: Path, message: str) -> ContainerError:
    return ContainerError(
        message,
        code="FILE_UNWRITABLE",
        where=str(path),
        hint="move it away, or choose another --output-path",
    )
