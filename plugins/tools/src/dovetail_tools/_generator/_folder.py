"""Folders of generated dists: written as a whole, and replaced only if they were generated.

A generated folder has a marker with the digests of its files, so that a later run recognizes
changed files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dovetail.errors import ConfigError, ContainerError, Problem
from dovetail_tools._new_folder import NewFolder, write_folders

MARKER = ".dovetail-op-package.json"
# Files and folders that tools create in a dist's folder.
_CACHES = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"}


def check_targets(dists: Sequence[NewFolder], *, force: bool) -> None:
    """Check that no foreign folder would be replaced.

    Args:
        dists: The dists to write.
        force: Whether generated folders are replaced.

    Raises:
        ConfigError: Two dists have one folder.
        ContainerError: Folders exist and cannot be replaced; lists all.
    """
    folders = [dist.path for dist in dists]
    if twice := sorted({str(f) for f in folders if folders.count(f) > 1}):
        raise ConfigError(
            f"two op packages would be written to {', '.join(twice)}",
            code="USAGE",
            hint="write them one by one, with different --output-path",
        )
    problems = [p for f in folders if (p := _in_the_way(f, force)) is not None]
    if problems:
        raise ContainerError("nothing was written", code="FILE_UNWRITABLE", problems=problems)


def _in_the_way(folder: Path, force: bool) -> Problem | None:
    if not os.path.lexists(folder):
        return None
    if folder.is_symlink() or not folder.is_dir():
        return Problem("the path exists and is not a folder", str(folder), "move it away")
    if not any(folder.iterdir()):
        return None
    if not (folder / MARKER).is_file():
        why = "the folder has files of other origin, which are never replaced"
        return Problem(why, str(folder), "move it away, or choose another --output-path")
    if not force:
        return Problem("the folder exists", str(folder), "--force-generation (-f) replaces it")
    return None


def write_dists(dists: Sequence[NewFolder]) -> list[Path]:
    """Write dists, all or none.

    Returns:
        New paths of replaced folders that had changes.

    Raises:
        ContainerError: The dists cannot be written; nothing has changed.
    """
    kept: list[Path] = []

    def keep(folder: Path) -> Path | None:
        if not any(folder.iterdir()) or not _is_edited(folder):
            return None
        kept.append(_free(folder))
        return kept[-1]

    write_folders([NewFolder(dist.path, _marked(dist.files)) for dist in dists], keep)
    return kept


def _marked(files: Mapping[str, str]) -> dict[str, str]:
    marker = {"files": {path: _digest(text.encode()) for path, text in files.items()}}
    return {**files, MARKER: json.dumps(marker, indent=2, sort_keys=True) + "\n"}


def _is_edited(folder: Path) -> bool:
    """Return whether a generated folder has files that were not generated."""
    try:
        generated = json.loads((folder / MARKER).read_text("utf-8"))["files"]
        return any(
            generated.get(path.relative_to(folder).as_posix()) != _digest(path.read_bytes())
            for path in _own_files(folder)
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return True  # a changed marker counts as a change


def _own_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if _CACHES.isdisjoint(parts) and parts != (MARKER,) and not path.is_dir():
            yield path


def _free(folder: Path) -> Path:
    """Return an unused name next to a folder."""
    number = 1
    while os.path.lexists(folder.with_name(f"{folder.name}.old-{number}")):
        number += 1
    return folder.with_name(f"{folder.name}.old-{number}")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
