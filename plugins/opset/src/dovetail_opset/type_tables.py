"""Tables of types: rows of text that state the types of the tensors of an op.

A row states the types of inputs and outputs, as in `u8 u8|s8 u8|s32 > u8`. `|` separates types of
which a port takes any, `*` ends a port for all further tensors, and `-` is a port of which
the source says nothing. `since v73` limits a row to newer architectures. A node may omit optional
inputs of a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dovetail.ir import DType, Spec
from dovetail.ops import NodeView

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
    "u4": DType.UFIXED_POINT_4,
    "u8": DType.UFIXED_POINT_8,
    "ui16": DType.UINT_16,
    "ui32": DType.UINT_32,
    "ui8": DType.UINT_8,
}
_ROW = re.compile(r"(?P<ins>.*) > (?P<outs>.*?)(?: since v(?P<since>\d+))?")

Types = tuple[DType, ...]  # in the order of the table; empty allows any
# Whether a tensor of another type can be used for a port of these types.
Converts = Callable[[Spec, Types], bool]


def converts_nothing(spec: Spec, types: Types) -> bool:
    """Return False: only tensors of a port's types are used for it."""
    return False


def takes(spec: Spec, types: Types, converts: Converts) -> bool:
    """Return whether a port of some types takes a tensor."""
    return not types or spec.dtype in types or converts(spec, types)


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

    def mismatches(
        self, specs: Sequence[Spec | None], converts: Converts = converts_nothing
    ) -> Iterator[tuple[str, DType, Types]]:
        """Yield field, type and allowed types of each tensor that has none of the row's types."""
        for i, spec in enumerate(specs):
            types = self.at(i)
            if spec is None or (types is not None and takes(spec, types, converts)):
                continue
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

    def mismatches(
        self, view: NodeView, converts: Converts = converts_nothing
    ) -> list[tuple[str, DType, Types]]:
        """Return field, type and allowed types of each tensor of a node that it does not take."""
        return [
            *self.ins.mismatches(view.ins, converts),
            *self.outs.mismatches(view.outs, converts),
        ]

    def __str__(self) -> str:
        since = f" (since v{self.since})" if self.since else ""
        return f"{self.ins}; {self.outs}{since}"
