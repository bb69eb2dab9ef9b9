"""The frontends for the files of QNN's converters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from dovetail.ir import Graph
from dovetail_qnn._base import GraphFileFrontend
from dovetail_qnn._cpp_reader import looks_like_cpp_model, read_cpp_model
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


class QnnCppFrontend(GraphFileFrontend):
    """Reads `X.cpp`, whose weights are in `X.bin`; nothing is compiled or run."""

    name: ClassVar[str] = "qnn-cpp"
    suffixes: ClassVar[tuple[str, ...]] = (".cpp",)

    def recognises(self, path: Path) -> bool:
        """Return whether a file looks like C++ source of QNN's converters."""
        return looks_like_cpp_model(path)

    def _load(self, path: Path) -> Sequence[Graph]:
        return read_cpp_model(path)
