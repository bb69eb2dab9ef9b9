"""The frontend for DLC files, whose reader is imported for files that may be one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from dovetail.ir import Graph
from dovetail_qnn._base import GraphFileFrontend
from dovetail_qnn.dlc._archive import is_zip


class DlcFrontend(GraphFileFrontend):
    """Reads DLC files of QNN's converters and backends."""

    name: ClassVar[str] = "dlc"
    suffixes: ClassVar[tuple[str, ...]] = (".dlc",)

    def recognises(self, path: Path) -> bool:
        """Return whether a file is a zip archive with a stream of graphs."""
        if not is_zip(path):
            return False
        from dovetail_qnn.dlc._file import looks_like_dlc

        return looks_like_dlc(path)

    def _load(self, path: Path) -> Sequence[Graph]:
        from dovetail_qnn.dlc._file import read_dlc

        return read_dlc(path)
