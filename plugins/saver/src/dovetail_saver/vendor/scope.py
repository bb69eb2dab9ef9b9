"""The variables of a Saver program, read when a call uses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dovetail.container import MappedBlob, MappedFile
from dovetail.csource import Value, parse, parse_numbers
from dovetail.csource.structs import SIZES, struct_fields
from dovetail.errors import TraceError
from dovetail.ir import Blob
from dovetail_saver.vendor.constants import CONSTANTS
from dovetail_saver.vendor.declarations import Declarations
from dovetail_saver.vendor.source import Declaration, Read, Source

# What all calls together may read is this multiple of the file, so that a small file with
# references to references cannot take forever.
_WORK = 64
_WORK_LEAST = 1 << 20


class UnsupportedError(Exception):
    """A call uses what our API does not have: it is kept as an opaque record."""


class Handle(NamedTuple):
    """A handle of the trace.

    Attributes:
        kind: Its kind, as in the API table.
        number: Its number.
    """

    kind: str
    number: int


class At(NamedTuple):
    """A value, and the position of the text that has it.

    Attributes:
        value: The value.
        offset: What it refers to is declared before.
    """

    value: Value
    offset: int


class Region(NamedTuple):
    """Bytes of the payloads."""

    start: int
    size: int


class Scope:
    """All variables declared so far.

    Args:
        source: The program.
        payloads: The mapped file with its payloads.
    """

    def __init__(self, source: Source, payloads: MappedFile) -> None:
        self.source = source
        self._payloads = payloads
        self._declared = Declarations(source.text)
        self._regions: dict[bytes, Region] = {}
        self._handles: dict[bytes, Handle | None] = {}
        self._position = 0  # in the payloads
        self._work = _WORK * source.size + _WORK_LEAST

    # -- statements ------------------------------------------------------------------------------

    def declare(self, name: bytes, declaration: Declaration) -> None:
        """Add a variable.

        Raises:
            TraceError: There is one of this name.
        """
        if not self._declared.add(name, declaration):
            raise self.error(f"'{_shown(name)}' is declared twice", declaration.offset)

    def read(self, statement: Read) -> None:
        """Assign the next bytes of the payloads to an array.

        Raises:
            TraceError: The array is not declared or too short, or the payloads end before.
        """
        offset = statement.offset
        array = self._find(statement.buffer, offset)
        nbytes = statement.size * statement.elements
        unit = SIZES.get(array.type, 0)
        if array.length < 0 or (unit and nbytes > array.length * unit):
            raise self.error(
                f"{nbytes} bytes do not fit array '{_shown(statement.buffer)}'", offset
            )
        if self._position + nbytes > self._payloads.data.size:
            raise self.error(
                f"'{_shown(statement.buffer)}' ends at byte {self._position + nbytes} of the "
                f"payloads, which have {self._payloads.data.size}",
                offset,
                hint="the file of the payloads is cut off, or belongs to another program",
            )
        self._regions[statement.buffer] = Region(self._position, nbytes)
        self._position += nbytes

    @property
    def unread(self) -> int:
        """Number of bytes of the payloads that nothing has read."""
        return self._payloads.data.size - self._position

    # -- handles ---------------------------------------------------------------------------------

    def assign(self, at: At, handle: Handle | None) -> None:
        """Make a variable denote a handle; None for one that could not be created.

        Raises:
            TraceError: It is not declared.
        """
        name = self.name(at)
        self._find(name, at.offset)
        self._handles[name] = handle

    def handle(self, at: At, kind: str) -> int | None:
        """Return a handle; None for NULL.

        Raises:
            TraceError: No call has created it, or it is of another kind.
            UnsupportedError: It could not be created.
        """
        if at.value is None:
            return None
        name = self.name(at)
        if name not in self._handles:
            declared = self._find(name, at.offset)
            if declared.start >= 0 and self._parsed(declared) == [None]:
                return None  # initialized with NULL, and never created
            raise self.error(f"no call has created '{_shown(name)}'", at.offset)
        found = self._handles[name]
        if found is None:
            raise UnsupportedError(f"'{_shown(name)}' was not imported")
        if found.kind != kind:
            raise self.error(f"'{_shown(name)}' is a {found.kind}, not a {kind}", at.offset)
        return found.number

    def is_created(self, at: At) -> bool:
        """Return whether a call has created what a variable denotes."""
        return isinstance(at.value, bytes) and at.value in self._handles

    # -- values ----------------------------------------------------------------------------------

    def name(self, at: At) -> bytes:
        """Return a name.

        Raises:
            TraceError: The value is something else.
        """
        if not isinstance(at.value, bytes):
            raise self.error(f"expected a variable, got {_shown_value(at.value)}", at.offset)
        return at.value

    def struct(self, at: At, kind: bytes) -> list[At]:
        """Return the fields of a struct; None for those that are left out.

        Raises:
            TraceError: The value is no such struct.
        """
        items, offset = at.value, at.offset
        if isinstance(items, bytes):
            items, offset = self._initializer(items, offset, kind)
        if not isinstance(items, list):
            raise self.error(f"expected {_shown(kind)}, got {_shown_value(items)}", offset)
        try:
            fields = struct_fields(items, kind)
        except ValueError as error:
            raise self.error(str(error), offset) from error
        return [At(field, offset) for field in fields]

    def array(self, at: At, kind: bytes, count: int | None) -> list[At]:
        """Return the first elements of an array; all of them if `count` is None.

        Raises:
            TraceError: The value is no such array, or has fewer elements.
        """
        if at.value is None:
            if count:
                raise self.error(f"expected {count} elements, got NULL", at.offset)
            return []
        items, offset = at.value, at.offset
        if isinstance(items, bytes):
            items, offset = self._initializer(items, offset, kind)
        if not isinstance(items, list):
            if count:
                raise self.error(f"expected an array, got {_shown_value(items)}", offset)
            return []
        if count is not None and not 0 <= count <= len(items):
            raise self.error(f"expected {count} elements, got {len(items)}", offset)
        return [At(item, offset) for item in (items if count is None else items[:count])]

    def numbers(self, at: At, kinds: Sequence[bytes], count: int | None) -> list[float]:
        """Return the numbers of an array, those of structs in one list.

        Raises:
            TraceError: The value is no such array, or has fewer numbers.
        """
        if isinstance(at.value, bytes):
            declared = self._checked(at.value, at.offset, kinds)
            offset = declared.offset
            try:
                found = parse_numbers(declared.text, declared.start, declared.stop)
            except ValueError as error:
                raise self.error(str(error), offset) from error
        else:
            found, offset = [self.number(each) for each in self.array(at, b"", count)], at.offset
        if count is not None and not 0 <= count <= len(found):
            raise self.error(f"expected {count} numbers, got {len(found)}", offset)
        return found if count is None else found[:count]

    def number(self, at: At) -> float:
        """Return a number; 0 if it is left out.

        Raises:
            TraceError: The value is something else.
        """
        value = at.value
        if value is None:
            return 0
        if not isinstance(value, int | float):
            raise self.error(f"expected a number, got {_shown_value(value)}", at.offset)
        return value

    def integer(self, at: At) -> int:
        """Return an integer; 0 if it is left out.

        Raises:
            TraceError: The value is something else.
        """
        value = at.value
        if value is None:
            return 0
        if not isinstance(value, int):
            raise self.error(f"expected an integer, got {_shown_value(value)}", at.offset)
        return value

    def text(self, at: At) -> str:
        """Return text; empty if it is left out.

        Raises:
            TraceError: The value is something else.
        """
        if at.value is None:
            return ""
        if not isinstance(at.value, str):
            raise self.error(f"expected text, got {_shown_value(at.value)}", at.offset)
        return at.value

    def payload(self, at: At, nbytes: int) -> Blob | None:
        """Return the bytes of an array; None if the program does not read it.

        Raises:
            TraceError: It is not declared, or shorter than `nbytes`.
        """
        name = self.name(at)
        declared = self._find(name, at.offset)
        region = self._regions.get(name)
        size = region.size if region else max(declared.length, 0) * SIZES.get(declared.type, 1)
        if nbytes > size:
            raise self.error(
                f"'{_shown(name)}' has {size} bytes, but a buffer of {nbytes} refers to it",
                at.offset,
            )
        return None if region is None else MappedBlob(self._payloads, region.start, nbytes)

    def parse(self, text: bytes, offset: int) -> list[At]:
        """Return the values of a list of arguments."""
        try:
            return [At(value, offset) for value in parse(text, 0, len(text), CONSTANTS)]
        except ValueError as error:
            raise self.error(str(error), offset) from error

    def error(self, message: str, offset: int, hint: str = "") -> TraceError:
        """Return an error with its line."""
        return self.source.error(message, offset, hint)

    # -- inside ----------------------------------------------------------------------------------

    def _find(self, name: bytes, before: int) -> Declaration:
        found = self._declared.get(name)
        if found is None or found.offset >= before:
            raise self.error(f"'{_shown(name)}' is not declared", before)
        return found

    def _checked(self, name: bytes, before: int, kinds: Sequence[bytes]) -> Declaration:
        found = self._find(name, before)
        if found.type not in kinds:
            raise self.error(
                f"'{_shown(name)}' is a {_shown(found.type)}, not a {_shown(kinds[0])}", before
            )
        if found.start < 0:
            raise self.error(f"'{_shown(name)}' has no value", before)
        self._work -= found.stop - found.start
        if self._work < 0:
            raise self.error("the calls refer to the same variables too often", before)
        return found

    def _initializer(self, name: bytes, before: int, kind: bytes) -> tuple[Value, int]:
        """Return the initializer of a variable, and where it is."""
        for _ in range(_ALIASES):
            declared = self._checked(name, before, (kind,))
            values = self._parsed(declared)
            if len(values) != 1:
                raise self.error(f"'{_shown(name)}' has no single value", declared.offset)
            if not isinstance(values[0], bytes):
                return values[0], declared.offset
            name, before = values[0], declared.offset
        raise self.error("variables refer to each other too deeply", before)

    def _parsed(self, declared: Declaration) -> list[Value]:
        try:
            return parse(declared.text, declared.start, declared.stop, CONSTANTS)
        except ValueError as error:
            raise self.error(str(error), declared.offset) from error


_ALIASES = 8  # variables that are initialized with another


def _shown(name: bytes) -> str:
    text = name.decode(errors="replace")
    return text if len(text) <= 100 else f"{text[:60]}...{text[-30:]}"


def _shown_value(value: Value) -> str:
    if isinstance(value, bytes):
        return f"'{_shown(value)}'"
    if isinstance(value, list):
        return "braces"
    return "NULL" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"
