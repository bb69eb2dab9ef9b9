"""Graphs from the tables of major 4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dovetail.errors import DovetailError, FrontendError, GraphError
from dovetail.ir import Blob, DType, Graph, Node, Param, Scalar, Spec, Tensor, TensorKind
from dovetail_opset import PACKAGE
from dovetail_qnn.dlc._op_types import NodeType, read_op
from dovetail_qnn.dlc._payloads import BlobSource, Payloads
from dovetail_qnn.dlc._quantization import bitwidth_of, cached_type, read_encoding
from dovetail_qnn.dlc._tables import (
    AttributeTable,
    GraphTable,
    NodeTable,
    PayloadTable,
    TensorTable,
    ValueTable,
)
from dovetail_qnn.dlc.flatbuffers import FaultList

PACKAGE_KEY = "packageName"
# Roles of attributes: params of the op, and what the file says besides.
PARAM, EXTRA = 1, 2
# Nodes of old files that only name inputs.
_INPUT = "Input"
_MOST_AXES = 64
_DTYPES = frozenset(int(dtype) for dtype in DType)
_KINDS = frozenset(int(kind) for kind in TensorKind)


@dataclass(frozen=True, slots=True)
class GraphReader:
    """Builds one graph.

    Attributes:
        table: Its table.
        payloads: Its payloads.
        blobs: Their bytes; None if the file has no stream of payloads.
        where: Name of the table, for faults.
        faults: Receives all faults.
    """

    table: GraphTable
    payloads: Payloads
    blobs: BlobSource | None
    where: str
    faults: FaultList

    def read(self, name: str) -> Graph:
        """Return the graph, complete only if there are no faults."""
        graph = Graph(name)
        tensors: dict[str, Tensor | None] = {}
        # ids are in the order of creation, which is the model's order of inputs and outputs
        for index, table in sorted(enumerate(self.table.tensors), key=lambda each: each[1].id):
            where = _where(self.where, "tensors", index, table.name)
            if (made := self._tensor(table, self.payloads.tensors, table.name, where)) is None:
                continue
            if made.kind is TensorKind.NULL:
                tensors[made.name] = None  # an omitted optional input
                continue
            self._cached(graph, made, table, where)
            try:
                tensors[made.name] = graph.add_tensor(made)
            except GraphError as error:
                self.faults.add(error.message, where)
        for index, node in enumerate(self.table.nodes):
            if node.type != _INPUT:
                self._add_node(graph, node, index, tensors)
        return graph

    def _add_node(
        self, graph: Graph, table: NodeTable, index: int, tensors: Mapping[str, Tensor | None]
    ) -> None:
        where = _where(self.where, "nodes", index, table.name)
        unknown = [name for name in (*table.inputs, *table.outputs) if name not in tensors]
        for name in unknown:
            self.faults.add(f"tensor '{name}' not found in the graph", where)
        outputs = [t for name in table.outputs if (t := tensors.get(name)) is not None]
        if not unknown and len(outputs) < len(table.outputs):
            self.faults.add("the node writes a tensor of kind NULL", where)
        package, found = self._attributes(table, index, where)
        if unknown or len(outputs) < len(table.outputs):
            return
        if not table.name or not table.type:
            self.faults.add("the node has no name or no type", where)
            return
        try:
            op_type, params = read_op(found, package)
            graph.add_node(
                Node(
                    table.name,
                    package,
                    op_type,
                    [tensors[name] for name in table.inputs],
                    outputs,
                    params,
                )
            )
        except DovetailError as error:
            self.faults.add(error.message, where)

    def _attributes(self, node: NodeTable, index: int, where: str) -> tuple[str, NodeType]:
        """Return the op package and the type of a node, with its attributes."""
        package = PACKAGE.name
        params: dict[str, Param] = {}
        extras: dict[str, str] = {}
        for each in node.attributes:
            here = f"{where}: attribute '{each.name}'"
            if not each.name or each.name in params:
                self.faults.add("the name is missing or a duplicate", here)
                continue
            if each.role == EXTRA or each.name == PACKAGE_KEY:
                text = None if each.value is None else each.value.text
                package = text or package if each.name == PACKAGE_KEY else package
                extras[each.name] = text or ""
                continue
            if (made := self._param(node, each, index, here)) is not None:
                params[each.name] = made
        return package, NodeType(node.type or "", params, extras)

    def _param(self, node: NodeTable, each: AttributeTable, index: int, where: str) -> Param | None:
        if each.tensor is not None:
            payloads = self.payloads.of_node(index)
            name = each.tensor.name or f"{node.name}.{each.name}"
            made = self._tensor(each.tensor, payloads, each.tensor.name, where, name)
            if made is not None and made.kind is not TensorKind.STATIC:
                self.faults.add(f"a param cannot be {made.kind.name}", where)
            return made
        try:
            return read_scalar(each.value or ValueTable())
        except FrontendError as error:
            self.faults.add(error.message, where)
            return None

    def _tensor(
        self,
        table: TensorTable,
        payloads: Mapping[str, PayloadTable],
        key: str | None,
        where: str,
        name: str | None = None,
    ) -> Tensor | None:
        faults = list(_faults_of(table))
        if faults:
            for text in faults:
                self.faults.add(text, where)
            return None
        made = Tensor(
            name or table.name or "", DType(table.dtype), table.shape, TensorKind(table.kind)
        )
        try:
            if not made.dtype.is_float:
                made.encoding = read_encoding(table.quantization)
            if made.kind.is_static:
                made.data = self._data(payloads.get(key or ""), made.dtype)
        except DovetailError as error:
            self.faults.add(error.message, where)
        return made

    def _data(self, payload: PayloadTable | None, dtype: DType) -> Blob:
        if payload is None or self.blobs is None:
            raise FrontendError("the tensor is static, but the file has no payload for it")
        return self.blobs.blob(payload, dtype)

    def _cached(self, graph: Graph, tensor: Tensor, table: TensorTable, where: str) -> None:
        """Add the encoding that a file states for a float tensor, for the quantizer."""
        if not tensor.dtype.is_float or table.quantization is None:
            return
        try:
            encoding = read_encoding(table.quantization)
            bits = bitwidth_of(table.quantization)
            if encoding is None or not bits:
                return
            dtype = cached_type(table.quantization, bits)
            graph.source_encodings[tensor.source] = Spec(dtype, tensor.shape, encoding)
        except KeyError:
            self.faults.add(f"no fixed-point type has {bits} bits", where)
        except DovetailError as error:
            self.faults.add(error.message, where)


def read_scalar(value: ValueTable) -> Scalar:
    """Return a scalar.

    Raises:
        FrontendError: Its type is unknown, or cannot hold it.
    """
    if value.kind not in _DTYPES:
        raise FrontendError(f"unknown data type {value.kind:#x} of a scalar")
    dtype = DType(value.kind)
    if dtype is DType.STRING:
        return Scalar(dtype, value.text or "")
    if dtype is DType.BOOL_8:
        return Scalar(dtype, bool(value.integer))
    if dtype.is_float:
        return Scalar(dtype, value.real)
    whole = value.integer
    if not dtype.is_signed and whole < 0:
        whole %= 1 << dtype.bits  # old files store all integers in 32 signed bits
    found = Scalar(dtype, whole)
    if not found.fits:
        raise FrontendError(f"{value.integer} does not fit the type {dtype.name}")
    return found


def _faults_of(table: TensorTable) -> Iterator[str]:
    if not table.name:
        yield "the tensor has no name"
    if table.kind not in _KINDS:
        yield f"unknown kind {table.kind} of a tensor"
    if table.dtype not in _DTYPES:
        yield f"unknown data type {table.dtype:#x}"
    if len(table.shape) > _MOST_AXES:
        yield f"{len(table.shape)} axes; at most {_MOST_AXES} are read"


def _where(parent: str, kind: str, index: int, name: str | None) -> str:
    named = f" '{name}'" if name else ""
    return f"{parent}.{kind}[{index}]{named}"
