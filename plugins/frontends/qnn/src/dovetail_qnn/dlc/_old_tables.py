"""Tables of major 3, of the converters before QNN. Source: docs/dlc.md, "Major 3"."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail_qnn.dlc.flatbuffers import (
    BYTES,
    FLOAT32,
    INT32,
    RAW_FLOATS,
    STRING,
    UINT8,
    UINT32,
    Table,
    Vector,
    slot,
)


@dataclass(frozen=True, slots=True)
class OldAttributeTable:
    """An attribute; `type` says which of its slots counts."""

    name: str | None = slot(0, STRING)
    type: int = slot(1, UINT8)
    truth: int = slot(2, UINT8)
    integer: int = slot(3, INT32)
    unsigned: int = slot(4, UINT32)
    real: float = slot(5, FLOAT32)
    text: str | None = slot(6, STRING)
    bytes: memoryview | None = slot(8, BYTES)
    integers: tuple[int, ...] = slot(9, Vector(INT32))
    reals: tuple[float, ...] = slot(10, Vector(FLOAT32))
    attributes: tuple[OldAttributeTable, ...] = slot(12, Vector(Table(lambda: OldAttributeTable)))


@dataclass(frozen=True, slots=True)
class OldNodeTable:
    """A node."""

    index: int = slot(0, INT32)
    name: str | None = slot(1, STRING)
    type: str | None = slot(2, STRING)
    inputs: tuple[str, ...] = slot(3, Vector(STRING))
    outputs: tuple[str, ...] = slot(4, Vector(STRING))
    attributes: tuple[OldAttributeTable, ...] = slot(5, Vector(Table(lambda: OldAttributeTable)))


@dataclass(frozen=True, slots=True)
class OldModelTable:
    """The root of NETD."""

    nodes: tuple[OldNodeTable, ...] = slot(1, Vector(Table(lambda: OldNodeTable)))


@dataclass(frozen=True, slots=True)
class OldDataTable:
    """The payload of a weight: bytes, or numbers of type FLOAT_32."""

    dtype: int = slot(0, UINT8)
    bytes: memoryview | None = slot(1, BYTES)
    floats: memoryview | None = slot(2, RAW_FLOATS)


@dataclass(frozen=True, slots=True)
class OldWeightTable:
    """A weight of a node."""

    name: str | None = slot(0, STRING)
    shape: tuple[int, ...] = slot(1, Vector(INT32))
    data: OldDataTable | None = slot(2, Table(lambda: OldDataTable))


@dataclass(frozen=True, slots=True)
class OldNodeWeightsTable:
    """The weights of a node."""

    name: str | None = slot(0, STRING)
    weights: tuple[OldWeightTable, ...] = slot(1, Vector(Table(lambda: OldWeightTable)))


@dataclass(frozen=True, slots=True)
class OldWeightsTable:
    """The root of NETP."""

    nodes: tuple[OldNodeWeightsTable, ...] = slot(0, Vector(Table(lambda: OldNodeWeightsTable)))
