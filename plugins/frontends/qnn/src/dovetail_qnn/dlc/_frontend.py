"""The frontend for DLC files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from dovetail.ir import Graph
from dovetail_qnn._base import GraphFileFrontend
from dovetail_qnn.dlc._file import looks_like_dlc, read_dlc


class DlcFrontend(GraphFileFrontend):
    """Reads DLC files of QNN's converters and backends."""

    name: ClassVar[str] = "dlc"
    suffixes: ClassVar[tuple[str, ...]] = (".dlc",)

    def recognises(self, path: Path) -> bool:
        """Return whether a file is a zip archive with a stream of graphs."""
        return looks_like_dlc(path)

    def _load(self, path: Path) -> Sequence[Graph]:
        return read_dlc(path)
