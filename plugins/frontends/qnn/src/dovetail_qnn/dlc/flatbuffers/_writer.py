"""Writing of FlatBuffers, front to back; equal tables give equal bytes."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

from dovetail_qnn.dlc.flatbuffers._types import (
    UINT32,
    FieldType,
    Number,
    RawBytes,
    Slot,
    Table,
    Text,
    Vector,
    WideNumber,
    slots_of,
)

_U32 = struct.Struct("<I")


def encode(root: object, identifier: bytes) -> bytes:
    """Return a buffer with a root table.

    Numbers that equal the default of their field are left out, and so is None.

    Args:
        root: An object of a declared class.
        identifier: Four bytes that name the schema.
    """
    writer = _Writer(identifier)
    writer.table(root, 0)
    return bytes(writer.out)


class _Writer:
    """A buffer that grows; an offset is filled in once its target is written after it."""

    def __init__(self, identifier: bytes) -> None:
        self.out = bytearray(4) + identifier
        self._vtables: dict[bytes, int] = {}

    def table(self, value: object, holder: int) -> None:
        """Append a table, and let the offset at `holder` lead to it."""
        declared: Any = type(value)
        given = tuple(
            (field, content)
            for field in slots_of(declared)
            if _is_written(field, content := getattr(value, field.name))
        )
        numbers = tuple(field.number for field, _ in given)
        vtable, size, alignment, positions = _layout(declared, numbers)
        at = self._vtable(vtable)
        # the fields begin after 4 bytes; those of 8 bytes come first, at a multiple of 8
        self._align(alignment, 4)
        start = len(self.out)
        _U32.pack_into(self.out, holder, start - holder)
        self.out += struct.pack("<i", start - at) + bytes(size - 4)
        for (field, content), position in zip(given, positions, strict=True):
            if isinstance(field.type, Number | WideNumber):
                _number(field.type).code.pack_into(self.out, start + position, content)
        for (field, content), position in zip(given, positions, strict=True):
            if not isinstance(field.type, Number | WideNumber):
                self._pointed(content, field.type, start + position)

    def _vtable(self, packed: bytes) -> int:
        if packed not in self._vtables:
            self._align(2)
            self._vtables[packed] = len(self.out)
            self.out += packed
        return self._vtables[packed]

    def _pointed(self, content: Any, type: FieldType, holder: int) -> None:
        if isinstance(type, Table):
            self.table(content, holder)
        elif isinstance(type, Text):
            self._block(content.encode(), len(content.encode()), holder)
            self.out += b"\0"
        elif isinstance(type, RawBytes):
            self._block(bytes(content), len(content) // type.width, holder, type.width)
        elif isinstance(type, Vector):
            self._vector(content, type.element, holder)

    def _vector(self, content: Any, element: Number | Text | Table, holder: int) -> None:
        if isinstance(element, Number):
            code = element.code.format.lstrip("<")
            packed = struct.pack(f"<{len(content)}{code}", *content)
            self._block(packed, len(content), holder, element.size)
            return
        self._block(bytes(4 * len(content)), len(content), holder)
        start = len(self.out) - 4 * len(content)
        for index, each in enumerate(content):
            self._pointed(each, element, start + 4 * index)

    def _block(self, packed: bytes, count: int, holder: int, alignment: int = 4) -> None:
        """Append a number of elements and the elements, aligned."""
        self._align(max(alignment, 4), 4)
        _U32.pack_into(self.out, holder, len(self.out) - holder)
        self.out += _U32.pack(count) + packed

    def _align(self, alignment: int, ahead: int = 0) -> None:
        """Append zeros until what follows `ahead` bytes later is aligned."""
        self.out += bytes(-(len(self.out) + ahead) % alignment)


@lru_cache(maxsize=256)
def _layout(declared: Any, given: tuple[int, ...]) -> tuple[bytes, int, int, tuple[int, ...]]:
    """Return the vtable of given slots, the table's size and alignment, and their offsets."""
    numbers = {f.number: _number(f.type).size for f in slots_of(declared) if f.number in given}
    positions, size = {}, 4
    for number in sorted(numbers, key=lambda each: (-numbers[each], each)):  # without gaps
        positions[number] = size
        size += numbers[number]
    length = 4 + 2 * (max(positions, default=-1) + 1)
    offsets = [positions.get(i, 0) for i in range(length // 2 - 2)]
    vtable = struct.pack(f"<{length // 2}H", length, size, *offsets)
    alignment = max(numbers.values(), default=4)
    return vtable, size, max(alignment, 4), tuple(positions[number] for number in given)


def _number(type: FieldType) -> Number:
    """Return what a table stores of a field: the number itself, or an offset."""
    if isinstance(type, WideNumber):
        return type.wide
    return type if isinstance(type, Number) else UINT32


def _is_written(field: Slot, content: object) -> bool:
    if isinstance(field.type, Number | WideNumber):
        # -0.0 is not the default
        return content != field.default or (isinstance(content, float) and str(content) == "-0.0")
    return content is not None
