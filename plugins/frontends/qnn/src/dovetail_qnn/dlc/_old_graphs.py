"""Graphs from the tables of major 3.

What the types of nodes compute is known for few; the others become nodes of a package of their own,
with everything that the file says about them, so that a conversion lists them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dovetail.errors import DovetailError, FrontendError
from dovetail.ir import DType, Graph, Node, Param, Scalar, Shape, Tensor, TensorKind
from dovetail_opset import PACKAGE
from dovetail_qnn.dlc._old_tables import (
    OldAttributeTable,
    OldModelTable,
    OldNodeTable,
    OldWeightsTable,
    OldWeightTable,
)
from dovetail_qnn.dlc._payloads import BlobSource
from dovetail_qnn.dlc._streams import Stream
from dovetail_qnn.dlc._tables import PayloadTable
from dovetail_qnn.dlc.flatbuffers import FaultList, decode

# The package of nodes whose computation is not known.
OLD_PACKAGE = "dlc.3"
_INPUT, _RESHAPE, _NEURON = "Input", "Reshape", "Neuron"
_SHAPES, _KIND = "OutputDims", "type"
_NEURONS: Mapping[int, str] = {1: "Relu", 3: "Sigmoid"}
_DTYPES: Mapping[int, DType] = {6: DType.UINT_8, 9: DType.FLOAT_32}
_BOOL, _INT, _UNSIGNED, _REAL, _TEXT, _BYTES, _INTS, _REALS, _NESTED = 1, 2, 3, 4, 5, 7, 8, 9, 11


def read_old_graph(
    stream: Stream, params: Stream | None, blobs: BlobSource | None, name: str, faults: FaultList
) -> Graph:
    """Return the only graph of a file of major 3, complete only if there are no faults.

    Values have the type FLOAT_32. Those of `Input` nodes are the graph's inputs, and those that no
    node reads its outputs.
    """
    root = decode(stream.data, OldModelTable, "model", faults)
    weights = OldWeightsTable()
    if params is not None:
        weights = decode(params.data, OldWeightsTable, "model.params", faults)
    if not root.nodes:
        faults.add("the stream has no node", "model")
    reader = _Reader(Graph(name), blobs, {n.name or "": n.weights for n in weights.nodes}, faults)
    for index, node in enumerate(root.nodes):
        where = f"model: nodes[{index}]" + (f" '{node.name}'" if node.name else "")
        try:
            reader.add(node)
        except DovetailError as error:
            faults.add(error.message, where)
    for tensor in reader.graph.tensors.values():
        if tensor.kind is TensorKind.NATIVE and not reader.graph.is_read(tensor):
            tensor.kind = TensorKind.APP_READ
    return reader.graph


@dataclass(frozen=True, slots=True)
class _Reader:
    graph: Graph
    blobs: BlobSource | None
    weights: Mapping[str, tuple[OldWeightTable, ...]]
    faults: FaultList

    def add(self, table: OldNodeTable) -> None:
        """Add a node with its outputs and weights.

        Raises:
            FrontendError: The node has no name or type, or lacks the shape of an output.
            GraphError: A tensor is not found, or a name is a duplicate.
        """
        if not table.name or not table.type:
            raise FrontendError("the node has no name or no type")
        is_input = table.type == _INPUT
        names = table.outputs or table.inputs if is_input else table.outputs
        shapes = list(_shapes(table))
        if len(shapes) != len(names):
            raise FrontendError(f"{len(names)} outputs, but {len(shapes)} shapes in '{_SHAPES}'")
        kind = TensorKind.APP_WRITE if is_input else TensorKind.NATIVE
        outputs = [
            self.graph.add_tensor(Tensor(name, DType.FLOAT_32, shape, kind))
            for name, shape in zip(names, shapes, strict=True)
        ]
        if is_input:
            return
        inputs = [self.graph.tensor(name) for name in table.inputs]
        inputs += [self._weight(table.name, w) for w in self.weights.get(table.name, ())]
        package, op_type, params = _op(table)
        self.graph.add_node(Node(table.name, package, op_type, inputs, outputs, params))

    def _weight(self, node: str, table: OldWeightTable) -> Tensor:
        data = table.data
        if data is None or data.dtype not in _DTYPES or self.blobs is None:
            raise FrontendError(f"the weight '{table.name}' has no payload of a known type")
        dtype = _DTYPES[data.dtype]
        name = f"{node}.{table.name or 'weight'}"
        raw = data.floats if data.floats is not None else data.bytes
        made = Tensor(name, dtype, table.shape, TensorKind.STATIC)
        made.data = self.blobs.blob(PayloadTable(name, raw), dtype)
        return self.graph.add_tensor(made)


def _op(table: OldNodeTable) -> tuple[str, str, Mapping[str, Param]]:
    """Return package, op and params of a node."""
    op_type = table.type or ""
    given = {each.name or "": each for each in table.attributes}
    if op_type == _RESHAPE and len(table.inputs) == 1:
        return PACKAGE.name, op_type, {}
    kind = given.get(_KIND)
    if op_type == _NEURON and kind is not None:
        number = kind.unsigned if kind.type == _UNSIGNED else kind.integer
        if number in _NEURONS:
            return PACKAGE.name, _NEURONS[number], {}
    params = {
        name: param
        for name, each in given.items()
        if name != _SHAPES and (param := _param(each, f"{table.name}.{name}")) is not None
    }
    return OLD_PACKAGE, op_type, params


def _shapes(table: OldNodeTable) -> Iterator[Shape]:
    for each in table.attributes:
        if each.name == _SHAPES:
            for dims in each.attributes:
                yield dims.integers


def _param(each: OldAttributeTable, name: str) -> Param | None:
    """Return an attribute as a param; None for nested ones."""
    if each.type == _BOOL:
        return Scalar(DType.BOOL_8, bool(each.truth))
    if each.type == _INT:
        return Scalar(DType.INT_32, each.integer)
    if each.type == _UNSIGNED:
        return Scalar(DType.UINT_32, each.unsigned)
    if each.type == _REAL:
        return Scalar(DType.FLOAT_32, each.real)
    if each.type == _TEXT:
        return Scalar(DType.STRING, each.text or "")
    if each.type == _INTS:
        return Tensor.static(name, np.array(each.integers, np.int32))
    if each.type == _REALS:
        return Tensor.static(name, np.array(each.reals, np.float32))
    if each.type == _BYTES:
        return Tensor.static(name, np.frombuffer(each.bytes or b"", np.uint8))
    return None
