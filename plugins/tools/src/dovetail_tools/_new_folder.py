"""Folders of new projects, which appear only when all are complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import Problem
from dovetail.files import staged_folder, unwritable


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
    if os.path.islink(path) or (os.path.lexists(path) and not os.path.isdir(path)):
        return Problem("the path exists and is not a folder", str(path), hint)
    if os.path.isdir(path) and any(path.iterdir()):
        return Problem("the folder is not empty, and is not replaced", str(path), hint)
    return None


def write_folders(
    folders: Sequence[NewFolder], keep: Callable[[Path], Path | None] | None = None
) -> None:
    """Write folders, all or none, in UTF-8; they replace existing ones.

    Args:
        folders: All in one parent folder, which is created if missing.
        keep: Returns the path, in the same folder, to which a replaced folder is moved; None to
            delete it.

    Raises:
        ContainerError: The folders cannot be written; nothing has changed.
    """
    parent = folders[0].path.parent
    with staged_folder(parent) as staging:
        for folder in folders:
            try:
                _fill(staging.new / folder.path.name, folder.files)
            except OSError as error:
                raise unwritable(folder.path, error) from error
        renamed = {
            Path(folder.path.name): Path(to.name)
            for folder in folders
            if keep and os.path.exists(folder.path) and (to := keep(folder.path))
        }
        staging.commit([Path(folder.path.name) for folder in folders], renamed=renamed)


def _fill(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
