"""The output folder: earlier results are replaced by those of a run when all are complete."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from dovetail.errors import ContainerError
from dovetail.files import Staging

_RESULT = re.compile(r"Result_\d+")


def replace_results(
    staging: Staging, path: Path, graphs: Iterable[str], summaries: Iterable[str]
) -> None:
    """Move the new results to the output folder, and remove earlier ones.

    Args:
        staging: The new results.
        path: The output folder.
        graphs: Folders of the graphs that were run, below this one; all earlier results in them
            are removed, also those without a new result.
        summaries: Names of files of this folder that are replaced, too.

    Raises:
        ContainerError: The files cannot be moved; the earlier results remain.
    """
    folders = set(graphs)
    new = [Path(entry.name) for entry in staging.new.iterdir() if entry.name not in folders]
    new += [
        Path(graph, entry.name)
        for graph in folders
        if graph and (staging.new / graph).is_dir()
        for entry in (staging.new / graph).iterdir()
    ]
    earlier = [Path(graph, name) for graph in folders for name in _results(path / graph)]
    staging.commit(new, outdated=[*earlier, *map(Path, summaries)])


def check_replaceable(path: Path, graphs: Iterable[str]) -> None:
    """Check that only results would be replaced.

    Raises:
        ContainerError: A folder that is named like a result has other files.
    """
    for graph in graphs:
        _results(path / graph)


def _results(folder: Path) -> list[str]:
    if not os.path.isdir(folder):  # pathlib's raises if a name is too long
        return []
    found = [entry for entry in folder.iterdir() if _RESULT.fullmatch(entry.name)]
    for entry in found:
        if entry.is_symlink() or not entry.is_dir() or any(map(_is_foreign, entry.iterdir())):
            raise ContainerError(
                "the folder has the name of a result but other files than .raw; it is not replaced",
                code="FILE_UNWRITABLE",
                where=str(entry),
                hint="move it away, or choose another --output-dir",
            )
    return [entry.name for entry in found]


def _is_foreign(entry: Path) -> bool:
    return entry.suffix != ".raw" or not entry.is_file()
