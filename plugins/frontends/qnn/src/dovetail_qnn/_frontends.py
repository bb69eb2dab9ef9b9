"""The frontends for the files of QNN's converters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from dovetail.ir import Graph
from dovetail_qnn._base import GraphFileFrontend
from dovetail_qnn._json_reader import looks_like_json_model, read_json_model


class QnnJsonFrontend(GraphFileFrontend):
    """Reads `X_net.json`, whose weights are in `X.bin`."""

    name: ClassVar[str] = "qnn-json"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)

    def recognises(self, path: Path) -> bool:
        """Return whether a file looks like JSON of QNN's converters."""
        return looks_like_json_model(path)

    def _load(self, path: Path) -> Sequence[Graph]:
        return (read_json_model(path),)
