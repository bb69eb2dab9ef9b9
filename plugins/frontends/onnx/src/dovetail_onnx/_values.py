"""The values of an ONNX model during its import."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.ir import Graph
from dovetail_onnx._source import SourceGraph
from dovetail_onnx._tensors import TensorReader
from dovetail_onnx._value_info import DeclaredSpecs
from dovetail_opset.importing.budget import Budget
from dovetail_opset.importing.constant import Constant
from dovetail_opset.importing.values import Values


class OnnxValues(Values):
    """Values by ONNX name. Initializers are read at the first request.

    Args:
        source: The model.
        reader: Reads its initializers.
        graph: The graph to which static tensors are added.
        declared: Declared types and shapes.
        budget: The limits of computation at import.
        updateable: Names of the initializers that become UPDATEABLE_STATIC tensors.

    Attributes:
        reader: As given.
        declared: As given.
        batch: The first dimension of the inputs in the file and in this graph, if they differ.
        rebatched: Names of the nodes whose constant shapes begin with the one of the file.
    """

    def __init__(
        self,
        source: SourceGraph,
        reader: TensorReader,
        graph: Graph,
        declared: DeclaredSpecs,
        budget: Budget,
        updateable: Iterable[str] = (),
    ) -> None:
        self.reader = reader
        self.declared = declared
        self.batch: tuple[int, int] | None = None
        self.rebatched: list[str] = []
        initializers = source.initializers

        def load(name: str) -> Constant | None:
            found = initializers.get(name)
            return None if found is None else reader.read_initializer(found)

        super().__init__(graph, budget, load, source.names(), source.outputs, updateable)
