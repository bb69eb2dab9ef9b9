"""Contract of exporters, which write graphs as model files of other formats.

An exporter is a class that an entry point of `dovetail.exporters` loads. It is created without
arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import msgspec

from dovetail.ir.graph import Graph


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an export to any format.

    An exporter with options of its own derives its `options_type` from this class. Every field has
    a default, and a type that `msgspec` decodes.

    Attributes:
        model_version: Version of the model, up to 64 ASCII characters; written to the file.
        copyright: Text that is written to the file. Both are by default what the model says.
    """

    model_version: str = ""
    copyright: str = ""


@runtime_checkable
class Exporter(Protocol):
    """Writes graphs as model files of one format.

    Attributes:
        name: Name of its entry point.
        suffix: Suffix of the files, with its dot.
        options_type: Class of its options.
    """

    name: ClassVar[str]
    suffix: ClassVar[str]
    options_type: ClassVar[type[ExportOptions]]

    def files(self, path: Path) -> tuple[Path, ...]:
        """Return the files that a model of this format may consist of: its own, then others.

        Args:
            path: The model's file; nothing is read.
        """

    def export(self, graph: Graph, path: Path, options: Any) -> tuple[str, ...]:
        """Write a graph as a model.

        The inputs and outputs keep names, order and shapes. The file appears only once it is
        complete; equal graphs produce equal bytes.

        Args:
            graph: A graph whose nodes match their ops; it is not changed.
            path: The file to write.
            options: Options of the export, of the exporter's `options_type`.

        Returns:
            The differences in structure or meaning between the model and the graph, a sentence
            each.

        Raises:
            UnsupportedOpError: The format cannot express some nodes or tensors; all are listed.
            ContainerError: The file cannot be written.
        """


@runtime_checkable
class ModelExporter(Exporter, Protocol):
    """An exporter whose files may have several graphs."""

    def export_graphs(self, graphs: Sequence[Graph], path: Path, options: Any) -> tuple[str, ...]:
        """Write graphs of different names as a model; see `export`."""
