"""Tables of major 4: the stream of graphs (NETD) and the stream of payloads (NETP, NR64).

The vendor publishes no schema. Names are ours; meanings and unused slots are in docs/dlc.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail_qnn.dlc.flatbuffers import (
    BYTES,
    FLOAT32,
    INT32,
    STRING,
    UINT8,
    UINT32,
    UINT64,
    WIDE_FLOAT,
    WIDE_INT,
    Table,
    Vector,
    slot,
)

GRAPHS, PARAMS, WIDE_PARAMS = b"NETD", b"NETP", b"NR64"
UNDEFINED = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class AxisElement:
    """Encoding of one slice along an axis."""

    bitwidth: int = slot(0, INT32)
    minimum: float = slot(1, FLOAT32)
    maximum: float = slot(2, FLOAT32)
    scale: float = slot(3, FLOAT32)
    offset: int = slot(4, INT32)
    is_symmetric: int = slot(5, UINT8)


@dataclass(frozen=True, slots=True)
class PerAxis:
    """Encoding of each slice along an axis."""

    axis: int = slot(0, INT32)
    elements: tuple[AxisElement, ...] = slot(1, Vector(Table(lambda: AxisElement)))


@dataclass(frozen=True, slots=True)
class Quantization:
    """Encoding of a tensor; `kind` says which of its parts counts.

    `is_quantized` is 1 for each tensor that has an encoding.
    """

    kind: int = slot(0, INT32)
    is_quantized: int = slot(1, UINT8)
    per_tensor: AxisElement | None = slot(2, Table(lambda: AxisElement))
    per_axis: PerAxis | None = slot(3, Table(lambda: PerAxis))


@dataclass(frozen=True, slots=True)
class TensorTable:
    """A tensor of a graph, or of an attribute.

    The vendor's library writes -1 in the slots 4 and 12, an empty vector in slot 14, and 1 in slot
    8 of tensors of a graph; their meaning is not known.
    """

    id: int = slot(0, UINT32)
    name: str | None = slot(1, STRING)
    kind: int = slot(2, INT32)
    shape: tuple[int, ...] = slot(3, Vector(UINT32))
    unknown_4: int = slot(4, INT32)
    quantization: Quantization | None = slot(5, Table(lambda: Quantization))
    dtype: int = slot(6, INT32)
    source_dtype: int = slot(7, INT32)
    unknown_8: int = slot(8, UINT8)
    unknown_12: int = slot(12, INT32)
    unknown_14: tuple[int, ...] = slot(14, Vector(UINT8))


@dataclass(frozen=True, slots=True)
class ValueTable:
    """A scalar; `kind` is its data type."""

    kind: int = slot(0, INT32)
    integer: int = slot(1, WIDE_INT)
    real: float = slot(2, WIDE_FLOAT)
    text: str | None = slot(3, STRING)


@dataclass(frozen=True, slots=True)
class AttributeTable:
    """An attribute of a node: a scalar, or a tensor whose payload is in the other stream."""

    name: str | None = slot(0, STRING)
    kind: int = slot(1, INT32)
    role: int = slot(2, UINT8)
    value: ValueTable | None = slot(3, Table(lambda: ValueTable))
    tensor: TensorTable | None = slot(4, Table(lambda: TensorTable))


@dataclass(frozen=True, slots=True)
class NodeTable:
    """A node of a graph."""

    name: str | None = slot(0, STRING)
    type: str | None = slot(1, STRING)
    inputs: tuple[str, ...] = slot(2, Vector(STRING))
    outputs: tuple[str, ...] = slot(3, Vector(STRING))
    attributes: tuple[AttributeTable, ...] = slot(4, Vector(Table(lambda: AttributeTable)))


@dataclass(frozen=True, slots=True)
class GraphTable:
    """A graph. The vendor's library repeats its name in slot 4."""

    name: str | None = slot(0, STRING)
    nodes: tuple[NodeTable, ...] = slot(1, Vector(Table(lambda: NodeTable)))
    tensors: tuple[TensorTable, ...] = slot(2, Vector(Table(lambda: TensorTable)))
    second_name: str | None = slot(4, STRING)


@dataclass(frozen=True, slots=True)
class ModelTable:
    """The root of NETD."""

    graphs: tuple[GraphTable, ...] = slot(0, Vector(Table(lambda: GraphTable)))


@dataclass(frozen=True, slots=True)
class LocationTable:
    """A region of the member with payloads, in bytes."""

    offset: int = slot(0, UINT64)
    size: int = slot(1, UINT64)


@dataclass(frozen=True, slots=True)
class PayloadTable:
    """The payload of a tensor: the bytes, or a region of another member."""

    name: str | None = slot(0, STRING)
    bytes: memoryview | None = slot(1, BYTES)
    location: LocationTable | None = slot(3, Table(lambda: LocationTable))


@dataclass(frozen=True, slots=True)
class NodePayloadsTable:
    """The payloads of a node's attributes."""

    tensors: tuple[PayloadTable, ...] = slot(0, Vector(Table(lambda: PayloadTable)))


@dataclass(frozen=True, slots=True)
class GraphPayloadsTable:
    """The payloads of a graph: of its tensors by name, and of its nodes in their order."""

    name: str | None = slot(0, STRING)
    tensors: tuple[PayloadTable, ...] = slot(1, Vector(Table(lambda: PayloadTable)))
    nodes: tuple[NodePayloadsTable, ...] = slot(2, Vector(Table(lambda: NodePayloadsTable)))


@dataclass(frozen=True, slots=True)
class PayloadsTable:
    """The root of NETP."""

    graphs: tuple[GraphPayloadsTable, ...] = slot(0, Vector(Table(lambda: GraphPayloadsTable)))


@dataclass(frozen=True, slots=True)
class BufferTable:
    """One payload of NR64."""

    bytes: memoryview | None = slot(0, BYTES)


@dataclass(frozen=True, slots=True)
class WidePayloadsTable:
    """The root of NR64: payloads in order, and a NETP buffer with their names."""

    buffers: tuple[BufferTable, ...] = slot(0, Vector(Table(lambda: BufferTable)))
    params: memoryview | None = slot(1, BYTES)
