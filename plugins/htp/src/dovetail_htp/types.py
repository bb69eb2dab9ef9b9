"""The op and type tables: rows of `data/types.json`.

A row states the types of inputs and outputs, as in `u8 u8|s8 u8|s32 > u8`. `|` separates types of
which a port takes any, `*` ends a port for all further tensors, and `-` is a port of which
the source says nothing. `since v73` limits a row to newer architectures. A node may omit optional
inputs of a row.

Source: the data types of the op definition supplements of the vendor's reference, version 2.25.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dovetail.ir import DType, Spec
from dovetail.ops import NodeView
from dovetail_htp._data import read_data

_NAMES = {
    "b8": DType.BOOL_8,
    "f16": DType.FLOAT_16,
    "f32": DType.FLOAT_32,
    "i32": DType.INT_32,
    "i64": DType.INT_64,
    "s16": DType.SFIXED_POINT_16,
    "s32": DType.SFIXED_POINT_32,
    "s8": DType.SFIXED_POINT_8,
    "u16": DType.UFIXED_POINT_16,
    "u8": DType.UFIXED_POINT_8,
    "ui16": DType.UINT_16,
    "ui32": DType.UINT_32,
    "ui8": DType.UINT_8,
}
_ROW = re.compile(r"(?P<ins>.*) > (?P<outs>.*?)(?: since v(?P<since>\d+))?")

Types = tuple[DType, ...]  # in the order of the table; empty allows any


@dataclass(frozen=True, slots=True)
class Ports:
    """The types of the inputs or outputs of a row.

    Attributes:
        what: `in` or `out`.
        types: By port.
        variadic: Whether the last port is for all further tensors.
    """

    what: str
    types: tuple[Types, ...]
    variadic: bool

    @classmethod
    def of(cls, what: str, text: str) -> Ports:
        """Return the ports that a row's text states."""
        ports = text.split()
        types = (p.removesuffix("*").split("|") for p in ports)
        found = tuple(() if p == ["-"] else tuple(_NAMES[t] for t in p) for p in types)
        return cls(what, found, bool(ports) and ports[-1].endswith("*"))

    def at(self, index: int) -> Types | None:
        """Return the types of a port; None if the row has no such port."""
        if index < len(self.types):
            return self.types[index]
        return self.types[-1] if self.variadic else None

    def mismatches(self, specs: Sequence[Spec | None]) -> Iterator[tuple[str, DType, Types]]:
        """Yield field, type and allowed types of each tensor that has none of the row's types."""
        for i, spec in enumerate(specs):
            types = self.at(i)
            if spec is not None and (types is None or (types and spec.dtype not in types)):
                yield f"{self.what}[{i}].dtype", spec.dtype, types or ()

    def __str__(self) -> str:
        last = len(self.types) - 1
        return ", ".join(
            f"{self.what}[{i}{'..' if self.variadic and i == last else ''}] "
            f"{' or '.join(t.name for t in types) or 'any'}"
            for i, types in enumerate(self.types)
        )


@dataclass(frozen=True, slots=True)
class Row:
    """A combination of types that an op takes.

    Attributes:
        text: As in the file.
        ins, outs: The types.
        since: The first architecture that has it; 0 for all.
    """

    text: str
    ins: Ports
    outs: Ports
    since: int

    @classmethod
    def of(cls, text: str) -> Row:
        """Return the row of a text."""
        found = _ROW.fullmatch(text)
        if found is None:
            raise AssertionError(f"not a row: {text}")
        return cls(
            text,
            Ports.of("in", found["ins"]),
            Ports.of("out", found["outs"]),
            int(found["since"] or 0),
        )

    def mismatches(self, view: NodeView) -> list[tuple[str, DType, Types]]:
        """Return field, type and allowed types of each tensor of a node that it does not take."""
        return [*self.ins.mismatches(view.ins), *self.outs.mismatches(view.outs)]

    def __str__(self) -> str:
        since = f" (since v{self.since})" if self.since else ""
        return f"{self.ins}; {self.outs}{since}"


@functools.cache
def _file() -> dict[str, dict[str, list[str]]]:
    return read_data("types.json", dict[str, dict[str, list[str]]])


def ops(table: str) -> tuple[str, ...]:
    """Return the sorted names of the ops of a table."""
    return tuple(_file()[table])


@functools.cache
def rows(table: str, op_type: str) -> tuple[Row, ...]:
    """Return the rows of an op; empty if the table does not have it."""
    return tuple(Row.of(text) for text in _file()[table].get(op_type, ()))
