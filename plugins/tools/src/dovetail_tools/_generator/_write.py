"""From definitions to dists on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import ConfigError
from dovetail_tools._generator._folder import Dist, check_targets, write_dists
from dovetail_tools._generator._names import Names, name_faults
from dovetail_tools._generator._project import files_of
from dovetail_tools.op_definitions import Definitions, Remark, unexpressed


@dataclass(frozen=True, slots=True)
class Generated:
    """A dist that was written.

    Attributes:
        definitions: What it was written from.
        names: Of the dist.
        folder: Where it is.
        files: Their paths below the folder.
        remarks: What the definitions say and the code does not.
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
        output: Folder that the dists' folders go to; made if it is not there.
        backends: Those that kernels are to be written for; at least one.
        force: Whether folders that were generated before are replaced.

    Returns:
        What was written, and the folders that replaced ones were moved to because somebody had
        worked on them.

    Raises:
        ConfigError: Names cannot be those of a dist; says all of them.
        ContainerError: Folders are in the way or cannot be written; then nothing has changed.
    """
    if faults := [fault for definitions in collections for fault in name_faults(definitions)]:
        raise ConfigError("no dist can be made of the definitions", problems=faults)
    named = [(definitions, Names.of(definitions)) for definitions in collections]
    dists = [Dist(output / n.dist, files_of(d, n, backends)) for d, n in named]
    check_targets(dists, force=force)
    kept = write_dists(dists)
    found = [
        Generated(d, n, dist.folder, tuple(sorted(dist.files)), tuple(unexpressed(d)))
        for (d, n), dist in zip(named, dists, strict=True)
    ]
    return found, kept
