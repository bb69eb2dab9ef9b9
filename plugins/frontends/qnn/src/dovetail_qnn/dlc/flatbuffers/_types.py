"""Types of the fields of tables, and their declaration."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True, slots=True)
class Number:
    """A number of fixed width, little-endian."""

    code: struct.Struct

    @property
    def size(self) -> int:
        """Width in bytes, and its alignment."""
        return self.code.size


@dataclass(frozen=True, slots=True)
class WideNumber:
    """A number of 4 bytes in old files and 8 in newer ones; the room in its table says which.

    It is written with 8.
    """

    narrow: Number
    wide: Number


@dataclass(frozen=True, slots=True)
class Text:
    """A UTF-8 string."""


@dataclass(frozen=True, slots=True)
class RawBytes:
    """A vector of elements of `width` bytes, read as a view of the buffer's bytes."""

    width: int = 1


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Args:
        declared: Returns its class; a function, since tables may contain their own kind.
    """

    declared: Callable[[], type[Any]]


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector of numbers, strings or tables."""

    element: Number | Text | Table


FieldType = Number | WideNumber | Text | RawBytes | Table | Vector

UINT8 = Number(struct.Struct("<B"))
INT32 = Number(struct.Struct("<i"))
UINT32 = Number(struct.Struct("<I"))
UINT64 = Number(struct.Struct("<Q"))
FLOAT32 = Number(struct.Struct("<f"))
WIDE_INT = WideNumber(INT32, Number(struct.Struct("<q")))
WIDE_FLOAT = WideNumber(FLOAT32, Number(struct.Struct("<d")))
STRING = Text()
BYTES = RawBytes()
RAW_FLOATS = RawBytes(4)


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of a table: its name, number in the vtable, type, and value if absent."""

    name: str
    number: int
    type: FieldType
    default: Any


def slot(number: int, type: FieldType, default: Any = None) -> Any:
    """Declare a field of a table, in a frozen dataclass.

    Args:
        number: Its index in the vtable.
        type: Its type.
        default: The value of an absent field, which is not written; by default 0 for numbers, no
            elements for vectors, and None for the rest.
    """
    if default is None:
        default = _absent(type)
    return dataclasses.field(default=default, metadata={"slot": (number, type)})


def _absent(type: FieldType) -> Any:
    if isinstance(type, WideNumber):
        return _absent(type.wide)
    if isinstance(type, Number):
        return type.code.unpack(bytes(type.size))[0]
    return () if isinstance(type, Vector) else None


@cache
def slots_of(declared: Any) -> tuple[Slot, ...]:
    """Return the fields of a declared table.

    Args:
        declared: Its class. The type checker does not take classes for hashable.
    """
    found = []
    for field in dataclasses.fields(declared):
        number, type = field.metadata["slot"]
        found.append(Slot(field.name, number, type, field.default))
    return tuple(found)
