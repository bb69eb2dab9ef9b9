"""Contract of exporters, which write graphs as model files of other formats.

An exporter is a class that an entry point of `dovetail.exporters` loads. It is created without
arguments.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

import msgspec

from dovetail.ir.graph import Graph


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an export.

    Attributes:
        external_data: Whether weights are written to a separate file next to the model. If the
            format cannot store them in the model file, they always are.
    """

    external_data: bool = False


@runtime_checkable
class Exporter(Protocol):
    """Writes graphs as model files of one format.

    Attributes:
        name: Name of its entry point.
        suffix: Suffix of the files, with its dot.
    """

    name: ClassVar[str]
    suffix: ClassVar[str]

    def export(self, graph: Graph, path: Path, options: ExportOptions) -> tuple[str, ...]:
        """Write a graph as a model.

        The inputs and outputs keep names, order and shapes. The file appears only once it is
        complete; equal graphs produce equal bytes.

        Args:
            graph: A graph whose nodes match their ops; it is not changed.
            path: The file to write.
            options: Options of the export.

        Returns:
            The differences in structure or meaning between the model and the graph, a sentence
            each.

        Raises:
            UnsupportedOpError: The format cannot express some nodes or tensors; all are listed.
            ContainerError: The file cannot be written.
        """
