"""Tables of major 4 from graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dovetail.errors import Problem, QuantizationError
from dovetail.ir import DataFormat, DType, Graph, Node, Param, Scalar, Tensor, TensorKind
from dovetail_qnn.dlc._graphs import EXTRA, PACKAGE_KEY, PARAM
from dovetail_qnn.dlc._op_types import write_op
from dovetail_qnn.dlc._payload_writer import PayloadRegions
from dovetail_qnn.dlc._quantization import cached_type, write_encoding
from dovetail_qnn.dlc._tables import (
    UNDEFINED,
    AttributeTable,
    GraphPayloadsTable,
    GraphTable,
    NodePayloadsTable,
    NodeTable,
    PayloadTable,
    Quantization,
    TensorTable,
    ValueTable,
)

_NULL = "null_tensor"
_SCALAR, _TENSOR = 0, 1  # kinds of attributes


@dataclass(slots=True)
class GraphWriter:
    """The tables of one graph.

    Attributes:
        graph: The graph.
        regions: Receives its payloads.
        problems: Everything that a DLC cannot express.
        stated: Sources of float tensors whose encodings are in the tables.
        own: Tensors whose encodings are of a kind that no table has.
    """

    graph: Graph
    regions: PayloadRegions
    problems: list[Problem] = field(default_factory=list)
    stated: set[str] = field(default_factory=set)
    own: set[Tensor] = field(default_factory=set)
    _ids: int = 0

    def tables(self) -> tuple[GraphTable, GraphPayloadsTable]:
        """Return the graph and its payloads; complete only if there are no problems."""
        graph = self.graph
        null = graph.fresh_name(_NULL)
        tensors = [self._tensor(t, f"tensor '{t.name}'") for t in graph.tensors.values()]
        payloads = [self._payload(t) for t in graph.tensors.values() if t.data is not None]
        if any(t is None for node in graph.nodes for t in node.inputs):
            tensors.append(
                self._tensor(Tensor(null, DType.FLOAT_32, (0,), TensorKind.NULL), "omitted input")
            )
        nodes, node_payloads = [], []
        for node in graph.nodes:
            attributes = self._attributes(node)
            names = [null if t is None else t.name for t in node.inputs]
            outputs = tuple(t.name for t in node.outputs)
            op_type = write_op(node.op_type, node.package, node.params).name
            nodes.append(NodeTable(node.name, op_type, tuple(names), outputs, attributes))
            found = (p for _, p in sorted(node.params.items()) if isinstance(p, Tensor))
            node_payloads.append(
                NodePayloadsTable(_by_name([self._payload(p) for p in found if p.data is not None]))
            )
        return (
            GraphTable(graph.name, tuple(nodes), tuple(tensors), graph.name),
            GraphPayloadsTable(graph.name, _by_name(payloads), tuple(node_payloads)),
        )

    def _tensor(self, tensor: Tensor, where: str, *, is_param: bool = False) -> TensorTable:
        self.problems += [Problem(text, where) for text in _inexpressible(tensor)]
        self._ids += 1
        return TensorTable(
            id=self._ids,
            name=tensor.name,
            kind=int(tensor.kind),
            shape=tensor.shape,
            unknown_4=-1,
            quantization=self._quantization(tensor),
            dtype=int(tensor.dtype),
            source_dtype=int(tensor.dtype),
            unknown_8=0 if is_param else 1,
            unknown_12=-1,
        )

    def _quantization(self, tensor: Tensor) -> Quantization:
        try:
            if tensor.encoding is None and tensor.dtype.is_float:
                return self._cached(tensor)
            return write_encoding(tensor.encoding, tensor.dtype)
        except QuantizationError:
            self.own.add(tensor)
            return Quantization(UNDEFINED)

    def _cached(self, tensor: Tensor) -> Quantization:
        """Return the encoding that the model states for a float tensor, if a DLC can."""
        none = Quantization(UNDEFINED)
        spec = self.graph.source_encodings.get(tensor.source)
        if spec is None or spec.shape != tensor.shape or tensor.source != tensor.name:
            return none
        try:
            found = write_encoding(spec.encoding, spec.dtype)
        except QuantizationError:
            return none  # not the tensor's own encoding: the graph computes without it
        bits = spec.dtype.bits
        is_same = spec.encoding is not None and cached_type(found, bits) is spec.dtype
        if not is_same or spec.encoding is None or spec.encoding.bitwidth is not None:
            return none
        self.stated.add(tensor.source)
        return found

    def _attributes(self, node: Node) -> tuple[AttributeTable, ...]:
        written = write_op(node.op_type, node.package, node.params)
        extras = {**written.extras, PACKAGE_KEY: node.package}
        found = [
            AttributeTable(name, _SCALAR, EXTRA, ValueTable(int(DType.STRING), text=text))
            for name, text in extras.items()
        ]
        for name, param in sorted(written.params.items()):
            if name in extras:
                self.problems.append(Problem(f"a DLC reserves the param name '{name}'", node.where))
            found.append(self._param(name, param, f"{node.where}: param '{name}'"))
        return tuple(sorted(found, key=lambda each: each.name or ""))

    def _param(self, name: str, param: Param, where: str) -> AttributeTable:
        if isinstance(param, Tensor):
            tensor = self._tensor(param, where, is_param=True)
            return AttributeTable(name, _TENSOR, PARAM, tensor=tensor)
        return AttributeTable(name, _SCALAR, PARAM, write_scalar(param))

    def _payload(self, tensor: Tensor) -> PayloadTable:
        if tensor.data is None:
            raise AssertionError(f"tensor {tensor.name} has no data")
        return PayloadTable(tensor.name, location=self.regions.add(tensor.data))


def write_scalar(scalar: Scalar) -> ValueTable:
    """Return the table of a scalar."""
    dtype, value = scalar.dtype, scalar.value
    if dtype is DType.STRING:
        return ValueTable(int(dtype), text=str(value))
    if dtype.is_float:
        return ValueTable(int(dtype), real=float(value))
    whole = int(value)
    return ValueTable(int(dtype), integer=whole - (1 << 64) if whole >= 1 << 63 else whole)


def _inexpressible(tensor: Tensor) -> Iterator[str]:
    if tensor.dynamic:
        yield "a DLC cannot store dynamic axes"
    if tensor.data_format is not DataFormat.DENSE:
        yield f"a DLC cannot store the data format {tensor.data_format.name}"


def _by_name(payloads: list[PayloadTable]) -> tuple[PayloadTable, ...]:
    return tuple(sorted(payloads, key=lambda each: each.name or ""))
