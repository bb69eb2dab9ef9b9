"""The exporter contract: how a graph becomes a model file of another format.

An exporter is an entry point of `dovetail.exporters` that loads a class, made without arguments.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

import msgspec

from dovetail.ir.graph import Graph


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user decides about writing a model.

    Attributes:
        external_data: Whether weights go to a file of their own beside the model. Where the format
            cannot hold them in the model file they do in any case.
    """

    external_data: bool = False


@runtime_checkable
class Exporter(Protocol):
    """Writes graphs as model files of one format.

    Attributes:
        name: As its entry point has it.
        suffix: Of the files, with its dot.
    """

    name: ClassVar[str]
    suffix: ClassVar[str]

    def export(self, graph: Graph, path: Path, options: ExportOptions) -> tuple[str, ...]:
        """Write a model that computes what a graph does.

        The inputs and outputs keep names, order and shapes. The file appears only when all of it is
        written; equal graphs give equal bytes.

        Args:
            graph: A graph whose nodes fit their ops; it is not changed.
            path: Where the file goes.
            options: What the user decides.

        Returns:
            Where the model differs in structure or meaning from the graph, one sentence each.

        Raises:
            UnsupportedOpError: Nodes or tensors that the format cannot express, all of them.
            ContainerError: The file cannot be written.
        """
