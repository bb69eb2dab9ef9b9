"""Reading of hostile FlatBuffers: every offset is checked, and work is bounded by the size."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, TypeVar

from dovetail.errors import Problem
from dovetail_qnn.dlc.flatbuffers._types import (
    UINT32,
    FieldType,
    Number,
    RawBytes,
    Table,
    Text,
    Vector,
    WideNumber,
    slots_of,
)

_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")
_HEADER_BYTES = 8  # offset of the root table, then the identifier
_MAX_DEPTH = 32
_MAX_FAULTS = 100
# What a table takes at least: its own offset to a vtable, and the offset that leads to it.
_TABLE_BYTES = 8

T = TypeVar("T")
# The way to a value, formatted only for a fault: the way to its parent, its name and its index.
Path = tuple[Any, str, int]


class FaultList:
    """The faults of a file, up to a limit.

    Attributes:
        problems: The faults.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    @property
    def is_full(self) -> bool:
        """True once no more faults are listed."""
        return len(self.problems) >= _MAX_FAULTS

    def add(self, message: str, where: str) -> None:
        """Add a fault unless the list is full."""
        if not self.is_full:
            self.problems.append(Problem(message, where))


def identifier_of(data: memoryview) -> bytes:
    """Return the four bytes that name a buffer's schema; fewer if it is cut short."""
    return bytes(data[4:8])


def decode(data: memoryview, declared: type[T], where: str, faults: FaultList) -> T:
    """Return the root table of a buffer.

    Strings are copied, vectors of bytes are views. Damaged fields have their default, and each adds
    a fault. Tables that many offsets share are limited: the result takes no more elements than a
    buffer of this size could hold.

    Args:
        data: The buffer, bytes.
        declared: Class of the root table.
        where: Name of the buffer, for faults.
        faults: Receives all faults.
    """
    reader = _Reader(data, faults)
    path: Path = (None, where, -1)
    found: T | None = None
    if len(data) < _HEADER_BYTES:
        faults.add(f"the buffer is cut short: {len(data)} bytes", where)
    else:
        found = reader.table(_U32.unpack_from(data, 0)[0], declared, path, 0)
    return declared() if found is None else found


class _DamageError(Exception):
    """A field cannot be read."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the fields of tables with one vtable are.

    Attributes:
        size: Of each table, in bytes.
        numbers: Names, offsets in the table and codes of present numbers.
        others: Names, offsets and types of other present fields.
        damaged: Names of damaged fields, and what is wrong.
    """

    size: int
    numbers: tuple[tuple[str, int, struct.Struct], ...]
    others: tuple[tuple[str, int, FieldType], ...]
    damaged: tuple[tuple[str, str], ...]


def _layout(data: memoryview, start: int, declared: Any) -> _Layout:
    if start < 0 or start + 4 > len(data):
        raise _DamageError(f"the vtable at {start} is outside the {len(data)} bytes")
    length, size = _U16.unpack_from(data, start)[0], _U16.unpack_from(data, start + 2)[0]
    if length < 4 or length % 2 or start + length > len(data):
        raise _DamageError(f"the vtable at {start} has the impossible length {length}")
    if size < 4:
        raise _DamageError(f"the vtable at {start} has the impossible table size {size}")
    offsets = struct.unpack_from(f"<{length // 2 - 2}H", data, start + 4)
    numbers, others, damaged = [], [], []
    for field in slots_of(declared):
        offset = offsets[field.number] if field.number < len(offsets) else 0
        type = field.type
        if not offset:
            continue
        if isinstance(type, WideNumber):
            after = min((o for o in offsets if o > offset), default=size)
            type = type.wide if after - offset >= type.wide.size else type.narrow
        width = type.size if isinstance(type, Number) else UINT32.size
        if offset < 4 or offset + width > size:
            text = f"the field at {offset} is outside its table of {size} bytes"
            damaged.append((field.name, text))
        elif isinstance(type, Number):
            numbers.append((field.name, offset, type.code))
        else:
            others.append((field.name, offset, type))
    return _Layout(size, tuple(numbers), tuple(others), tuple(damaged))


class _Reader:
    """One buffer."""

    def __init__(self, data: memoryview, faults: FaultList) -> None:
        self._data = data
        self._faults = faults
        self._left = len(data)  # bytes that tables and vectors may still take
        self._strings: dict[int, str] = {}
        self._layouts: dict[tuple[int, type[Any]], _Layout] = {}

    def table(self, at: int, declared: type[T], path: Path, depth: int) -> T | None:
        """Return the table at a position; None with a fault if it is damaged."""
        values: dict[str, Any] = {}
        try:
            layout = self._layout(at, declared)
            self._take(_TABLE_BYTES)
            if depth > _MAX_DEPTH:
                raise _DamageError(f"tables are nested more than {_MAX_DEPTH} deep")
        except _DamageError as damage:
            self._faults.add(str(damage), _text(path))
            return None
        for name, text in layout.damaged:
            self._faults.add(text, _text((path, name, -1)))
        for name, offset, number in layout.numbers:
            values[name] = number.unpack_from(self._data, at + offset)[0]
        for name, offset, type in layout.others:
            if self._faults.is_full:
                break
            here: Path = (path, name, -1)
            try:
                values[name] = self._pointed(self._target(at + offset), type, here, depth)
            except _DamageError as damage:
                self._faults.add(str(damage), _text(here))
        return declared(**values)

    def _layout(self, at: int, declared: type[Any]) -> _Layout:
        """Return where a table's fields are; tables with one vtable share it."""
        data = self._data
        if at < 4 or at + 4 > len(data):
            raise _DamageError(f"the table at {at} is outside the {len(data)} bytes")
        start = at - _I32.unpack_from(data, at)[0]
        if (found := self._layouts.get((start, declared))) is None:
            found = self._layouts[start, declared] = _layout(data, start, declared)
        if at + found.size > len(data):
            raise _DamageError(f"the table at {at} has the impossible size {found.size}")
        return found

    def _pointed(self, target: int, type: FieldType, path: Path, depth: int) -> Any:
        if isinstance(type, Table):
            return self.table(target, type.declared(), path, depth + 1)
        if isinstance(type, Text):
            return self._string(target)
        if isinstance(type, RawBytes):
            start, count = self._span(target, type.width)
            return self._data[start : start + count * type.width]
        if not isinstance(type, Vector):
            raise AssertionError(f"{type} is no type of a field")
        return self._vector(target, type.element, path, depth)

    def _vector(self, target: int, element: Number | Text | Table, path: Path, depth: int) -> Any:
        width = element.size if isinstance(element, Number) else UINT32.size
        start, count = self._span(target, width)
        self._take(count * width)
        if isinstance(element, Number):
            code = element.code.format.lstrip("<")
            return struct.unpack_from(f"<{count}{code}", self._data, start)
        found: list[Any] = []
        for index in range(count):
            if self._faults.is_full:
                break
            here: Path = (path[0], path[1], index)
            try:
                each = self._target(start + 4 * index)
                value = self._pointed(each, element, here, depth)
            except _DamageError as damage:
                self._faults.add(str(damage), _text(here))
                continue
            if value is not None:
                found.append(value)
        return tuple(found)

    def _target(self, at: int) -> int:
        target: int = at + _U32.unpack_from(self._data, at)[0]
        if target + 4 > len(self._data):
            raise _DamageError(f"the offset at {at} leads outside the {len(self._data)} bytes")
        return target

    def _span(self, target: int, width: int) -> tuple[int, int]:
        """Return the start and the number of elements of a vector."""
        count: int = _U32.unpack_from(self._data, target)[0]
        if target + 4 + count * width > len(self._data):
            raise _DamageError(
                f"{count} elements at {target} exceed the {len(self._data)} bytes of the buffer"
            )
        return target + 4, count

    def _string(self, target: int) -> str:
        if (known := self._strings.get(target)) is not None:
            return known
        start, count = self._span(target, 1)
        self._take(count)
        try:
            text = str(self._data[start : start + count], "utf-8")
        except UnicodeDecodeError as error:
            raise _DamageError(f"the text at {target} is not UTF-8: {error.reason}") from error
        self._strings[target] = text
        return text

    def _take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise _DamageError(
                f"tables share parts so that they exceed the {len(self._data)} bytes of the buffer"
            )


def _text(path: Path) -> str:
    """Return a path as text: `model: graphs[0].nodes[3].name`."""
    parts: list[str] = []
    at: Path | None = path
    while at is not None:
        parent, name, index = at
        parts.append(name if index < 0 else f"{name}[{index}]")
        at = parent
    head, *rest = reversed(parts)
    return f"{head}: {'.'.join(rest)}" if rest else head
