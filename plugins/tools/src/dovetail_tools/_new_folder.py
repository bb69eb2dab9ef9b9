"""Folders of new projects, written to a temporary folder and moved into position when complete."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import Problem
from dovetail.files import unwritable
from dovetail_tools._output_folder import make_folders, remove_folders


@dataclass(frozen=True, slots=True)
class NewFolder:
    """A folder to write.

    Attributes:
        path: Path of the folder.
        files: Texts by path below the folder, with forward slashes.
    """

    path: Path
    files: Mapping[str, str]


def in_the_way(path: Path) -> Problem | None:
    """Return a problem if a folder would replace foreign files, else None."""
    hint = "move it away, or choose another --output-path"
    if path.is_symlink() or (os.path.lexists(path) and not path.is_dir()):
        return Problem("the path exists and is not a folder", str(path), hint)
    if path.is_dir() and any(path.iterdir()):
        return Problem("the folder is not empty, and is not replaced", str(path), hint)
    return None


def write_folders(
    folders: Sequence[NewFolder], keep: Callable[[Path], Path | None] | None = None
) -> None:
    """Write folders, all or none, in UTF-8; they replace existing ones.

    Args:
        folders: All in one parent folder, which is created if missing.
        keep: Returns the path to which a replaced folder is moved; None to delete it.

    Raises:
        ContainerError: The folders cannot be written; nothing has changed.
    """
    with _aside(folders[0].path.parent) as aside:
        moved: list[tuple[Path, Path]] = []
        at = folders[0].path
        try:
            for i, folder in enumerate(folders):
                at = folder.path
                _fill(aside / f"new-{i}", folder.files)
            for i, folder in enumerate(folders):
                at = folder.path
                if at.exists():
                    _move(at, (keep and keep(at)) or aside / f"old-{i}", moved)
                _move(aside / f"new-{i}", at, moved)
        except BaseException as error:
            for source, target in reversed(moved):
                target.rename(source)
            if isinstance(error, OSError):
                raise unwritable(at, error) from error
            raise


@contextmanager
def _aside(parent: Path) -> Iterator[Path]:
    """Yield a folder on the file system of the targets, from which files are moved in one step."""
    made: list[Path] = []
    try:
        made = make_folders(parent)
        aside = Path(tempfile.mkdtemp(dir=parent, prefix=".dovetail-"))
    except OSError as error:
        remove_folders(made)
        raise unwritable(parent, error) from error
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        remove_folders(made)  # those that are still empty


def _fill(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def _move(source: Path, target: Path, moved: list[tuple[Path, Path]]) -> None:
    source.rename(target)
    moved.append((source, target))
