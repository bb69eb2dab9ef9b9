"""Writing of dists for definitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import ConfigError
from dovetail_tools._generator._folder import check_targets, write_dists
from dovetail_tools._generator._names import Names, name_faults
from dovetail_tools._generator._project import files_of
from dovetail_tools._new_folder import NewFolder
from dovetail_tools.op_definitions import Definitions, Remark, unexpressed


@dataclass(frozen=True, slots=True)
class Generated:
    """A dist that was written.

    Attributes:
        definitions: The definitions.
        names: Names of the dist.
        folder: Path of the dist.
        files: Paths of its files below the folder.
        remarks: Facts of the definitions that the code does not express.
    """

    definitions: Definitions
    names: Names
    folder: Path
    files: tuple[str, ...]
    remarks: tuple[Remark, ...]


def generate(
    collections: Sequence[Definitions], output: Path, backends: Sequence[str], *, force: bool
) -> tuple[list[Generated], list[Path]]:
    """Write a dist for each collection of definitions, all or none.

    Args:
        collections: At least one.
        output: Folder in which the dists' folders are created; it is created if missing.
        backends: Backends to write kernels for; at least one.
        force: Whether folders that were generated before are replaced.

    Returns:
        The dists written, and the new paths of replaced folders that had changes.

    Raises:
        ConfigError: Names are not valid for a dist; lists all.
        ContainerError: Folders exist or cannot be written; nothing has changed.
    """
    if faults := [fault for definitions in collections for fault in name_faults(definitions)]:
        raise ConfigError("a dist cannot be written for the definitions", problems=faults)
    named = [(definitions, Names.of(definitions)) for definitions in collections]
    dists = [NewFolder(output / n.dist, files_of(d, n, backends)) for d, n in named]
    check_targets(dists, force=force)
    kept = write_dists(dists)
    found = [
        Generated(d, n, dist.path, tuple(sorted(dist.files)), tuple(unexpressed(d)))
        for (d, n), dist in zip(named, dists, strict=True)
    ]
    return found, kept
