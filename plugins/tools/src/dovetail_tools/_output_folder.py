"""The output folder: results go to a temporary folder and are moved when all are complete."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from dovetail.errors import ContainerError
from dovetail.files import unwritable
from dovetail_tools._dead_runs import PREFIX, mark, remove_dead

_RESULT = re.compile(r"Result_\d+")


class OutputFolder:
    """A context manager; without `commit` it removes everything, including folders it created.

    Args:
        path: The output folder, created if missing.

    Attributes:
        staging: A folder on the same file system, to which results are written.

    Raises:
        ContainerError: The folder cannot be created or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._made: list[Path] = []

    def __enter__(self) -> Self:
        try:
            self._made = make_folders(self.path)
            remove_dead(self.path)
            self._aside = Path(tempfile.mkdtemp(dir=self.path, prefix=PREFIX))
            mark(self._aside)
            self.staging = self._aside / "new"
            self.staging.mkdir()
        except OSError as error:
            remove_folders(self._made)
            raise unwritable(self.path, error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self._aside, ignore_errors=True)
        remove_folders(self._made)

    def commit(self, graphs: Iterable[str], summaries: Iterable[str]) -> None:
        """Move the new results to the output folder, and remove earlier ones.

        Args:
            graphs: Folders of the graphs that were run, below this one; all earlier results in them
                are removed, also those without a new result.
            summaries: Names of files of this folder that are replaced, too.

        Raises:
            ContainerError: The files cannot be moved; the earlier results remain.
        """
        moves = list(self._moves(tuple(graphs), tuple(summaries)))
        done: list[tuple[Path, Path]] = []
        try:
            for source, target in moves:
                if target.is_relative_to(self._aside):
                    target.parent.mkdir(parents=True, exist_ok=True)
                else:
                    self._made += make_folders(target.parent)
                source.replace(target)
                done.append((source, target))
        except BaseException as error:
            for source, target in reversed(done):
                target.replace(source)
            if isinstance(error, OSError):
                raise unwritable(self.path, error) from error
            raise
        self._made = []

    def _moves(
        self, graphs: tuple[str, ...], summaries: tuple[str, ...]
    ) -> Iterator[tuple[Path, Path]]:
        """Move the earlier results away, then the new ones in."""
        new = [Path(entry.name) for entry in self.staging.iterdir() if entry.name not in graphs]
        new += [
            Path(graph, entry.name)
            for graph in graphs
            if graph and (self.staging / graph).is_dir()
            for entry in (self.staging / graph).iterdir()
        ]
        old = {name for name in (*new, *map(Path, summaries)) if os.path.lexists(self.path / name)}
        for graph in graphs:
            old |= {Path(graph, name) for name in _results(self.path / graph)}
        for name in sorted(old):
            yield self.path / name, self._aside / "old" / name
        for name in sorted(new):
            yield self.staging / name, self.path / name


def _results(folder: Path) -> list[str]:
    if not folder.is_dir():
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


def check_replaceable(path: Path, graphs: Iterable[str]) -> None:
    """Check that only results would be replaced.

    Raises:
        ContainerError: A folder that is named like a result has other files.
    """
    for graph in graphs:
        _results(path / graph)


def make_folders(path: Path) -> list[Path]:
    """Create a folder and its parents; return the folders created, innermost first."""
    missing: list[Path] = []
    at = path
    while not at.is_dir():
        if os.path.lexists(at):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        missing.append(at)
        at = at.parent
    path.mkdir(parents=True, exist_ok=True)
    return missing


def remove_folders(made: list[Path]) -> None:
    """Remove folders created for a failed run, unless they have other files by now."""
    for folder in sorted(made, key=lambda path: len(path.parts), reverse=True):
        with suppress(OSError):
            folder.rmdir()
