"""Folders of generated dists: written aside, put in place whole, replaced only where they are ours.

A generated folder holds a marker with the digests of its files, so that a later run knows what was
generated and what somebody wrote.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import ConfigError, ContainerError, Problem
from dovetail.files import unwritable

MARKER = ".dovetail-op-package.json"
_ASIDE = ".dovetail-generator-"
# What tools leave in a dist's folder: nothing that anybody wrote.
_CACHES = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"}


@dataclass(frozen=True, slots=True)
class Dist:
    """A dist to be written.

    Attributes:
        folder: Where it goes.
        files: Their texts by path below the folder.
    """

    folder: Path
    files: Mapping[str, str]


def check_targets(dists: Sequence[Dist], *, force: bool) -> None:
    """Checks that no folder of somebody's is in the way.

    Args:
        dists: What is to be written.
        force: Whether generated folders are replaced.

    Raises:
        ConfigError: Two dists have one folder.
        ContainerError: Folders are in the way; names all of them.
    """
    folders = [dist.folder for dist in dists]
    if twice := sorted({str(f) for f in folders if folders.count(f) > 1}):
        raise ConfigError(
            f"two op packages would be written to {', '.join(twice)}",
            code="USAGE",
            hint="write them one by one, each with an --output-path of its own",
        )
    problems = [p for f in folders if (p := _in_the_way(f, force)) is not None]
    if problems:
        raise ContainerError("nothing is written", code="FILE_UNWRITABLE", problems=problems)


def _in_the_way(folder: Path, force: bool) -> Problem | None:
    if not os.path.lexists(folder):
        return None
    if folder.is_symlink() or not folder.is_dir():
        return Problem("it exists and is not a folder", str(folder), "move it away")
    if not any(folder.iterdir()):
        return None
    if not (folder / MARKER).is_file():
        why = "it holds files that this command did not write; they are never replaced"
        return Problem(why, str(folder), "move it away, or choose another --output-path")
    if not force:
        return Problem("it exists", str(folder), "--force-generation (-f) replaces it")
    return None


def write_dists(dists: Sequence[Dist]) -> list[Path]:
    """Writes dists, all or none.

    Returns:
        Folders that what was there was moved to, where somebody had worked on it.

    Raises:
        ContainerError: They cannot be written; then everything is as it was.
    """
    kept: list[Path] = []
    with _aside(dists[0].folder.parent) as aside:
        made = [_write(dist, aside / f"new-{i}") for i, dist in enumerate(dists)]
        moved: list[tuple[Path, Path]] = []
        try:
            for i, (dist, new) in enumerate(zip(dists, made, strict=True)):
                if dist.folder.is_dir() and any(dist.folder.iterdir()):
                    is_edited = _is_edited(dist.folder)
                    old = _free(dist.folder) if is_edited else aside / f"old-{i}"
                    kept += [old] if is_edited else []
                    _move(dist.folder, old, moved)
                elif dist.folder.is_dir():
                    dist.folder.rmdir()
                _move(new, dist.folder, moved)
        except OSError as error:
            for source, target in reversed(moved):
                target.rename(source)
            raise unwritable(dist.folder, error) from error
    return kept


@contextmanager
def _aside(parent: Path) -> Iterator[Path]:
    """A folder beside the targets, so that what is made there can be moved in one step."""
    missing = [p for p in (parent, *parent.parents) if not p.exists()]
    try:
        parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=parent, prefix=_ASIDE))
    except OSError as error:
        _remove(missing)
        raise unwritable(parent, error) from error
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        _remove(missing)


def _remove(folders: Sequence[Path]) -> None:
    """Removes folders that were made for nothing, innermost first."""
    for folder in folders:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _write(dist: Dist, folder: Path) -> Path:
    marker = {"files": {path: _digest(text.encode()) for path, text in dist.files.items()}}
    texts = {**dist.files, MARKER: json.dumps(marker, indent=2, sort_keys=True) + "\n"}
    try:
        for name, text in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
    except OSError as error:
        raise unwritable(dist.folder, error) from error
    return folder


def _move(source: Path, target: Path, moved: list[tuple[Path, Path]]) -> None:
    source.rename(target)
    moved.append((source, target))


def _is_edited(folder: Path) -> bool:
    """Whether a generated folder holds anything that was not generated."""
    try:
        generated = json.loads((folder / MARKER).read_text("utf-8"))["files"]
        return any(
            generated.get(path.relative_to(folder).as_posix()) != _digest(path.read_bytes())
            for path in _own_files(folder)
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return True  # who changed the marker has worked on it


def _own_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if _CACHES.isdisjoint(parts) and parts != (MARKER,) and not path.is_dir():
            yield path


def _free(folder: Path) -> Path:
    """A name beside a folder that nothing has."""
    number = 1
    while os.path.lexists(folder.with_name(f"{folder.name}.old-{number}")):
        number += 1
    return folder.with_name(f"{folder.name}.old-{number}")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
