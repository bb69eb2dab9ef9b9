"""Folders of new files, written aside and put in place whole: for what writes projects."""

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
    """A folder to be written.

    Attributes:
        path: Where it goes.
        files: Texts by path below it, with forward slashes.
    """

    path: Path
    files: Mapping[str, str]


def in_the_way(path: Path) -> Problem | None:
    """Return what of somebody's would be replaced by a folder; None where nothing would be."""
    hint = "move it away, or choose another --output-path"
    if path.is_symlink() or (os.path.lexists(path) and not path.is_dir()):
        return Problem("it exists and is not a folder", str(path), hint)
    if path.is_dir() and any(path.iterdir()):
        return Problem("the folder holds something: it is not replaced", str(path), hint)
    return None


def write_folders(
    folders: Sequence[NewFolder], keep: Callable[[Path], Path | None] | None = None
) -> None:
    """Write folders, all or none, in UTF-8; whatever has their names gives way.

    Args:
        folders: All in one folder, which is made if it is not there.
        keep: Says where a folder that gives way is kept; None drops it.

    Raises:
        ContainerError: They cannot be written; then everything is as it was.
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
    """A folder beside the targets, so that what is made there can be moved in one step."""
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
        remove_folders(made)  # those that are empty still


def _fill(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def _move(source: Path, target: Path, moved: list[tuple[Path, Path]]) -> None:
    source.rename(target)
    moved.append((source, target))
