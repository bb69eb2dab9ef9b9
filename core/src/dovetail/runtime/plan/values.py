"""Values, what steps read and write, and steps, what a plan is a list of."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from dovetail.ir import Array, Spec

Bound = Callable[[], None]


class Layout(Protocol):
    """How an engine arranges a value's bytes: its own business, hashable, compared by equality.

    Where a layout is None, the value is in the one layout that everybody knows: dense, row-major,
    one array item for each element.
    """

    @property
    def nbytes(self) -> int:
        """Bytes that a value takes in this layout."""

    def __hash__(self) -> int: ...

    def __eq__(self, other: object, /) -> bool: ...


class Storage(enum.Enum):
    """Where a value lies."""

    ARENA = enum.auto()
    INPUT = enum.auto()
    OUTPUT = enum.auto()
    CONSTANT = enum.auto()


@dataclass(eq=False, slots=True)
class Value:
    """A tensor in one layout, a scratchpad, or a constant. Compared by identity.

    Attributes:
        name: The tensor's name, for errors and watching.
        spec: Type and shape of the tensor; the scratchpad's bytes.
        storage: Where it lies.
        layout: How its bytes are arranged.
        nbytes: How many there are.
        array: A constant's data.
        alias_of: The value whose bytes these are, for views and results computed in place.
        offset: How many of that value's bytes come before.
    """

    name: str
    spec: Spec
    storage: Storage
    layout: Layout | None = None
    nbytes: int = field(init=False)
    array: Array | None = None
    alias_of: Value | None = None
    offset: int = 0

    def __post_init__(self) -> None:
        dense = math.prod(self.spec.shape) * self.spec.dtype.storage.itemsize
        self.nbytes = dense if self.layout is None else self.layout.nbytes

    @property
    def root(self) -> Value:
        """The value that owns the bytes."""
        return self.place[0]

    @property
    def place(self) -> tuple[Value, int]:
        """The value that owns the bytes, and how many of its bytes come before."""
        value, offset = self, self.offset
        while value.alias_of is not None:
            value = value.alias_of
            offset += value.offset
        return value, offset

    @property
    def is_application(self) -> bool:
        """Whether its bytes are the application's, which may bring others for every run."""
        return self.root.storage in (Storage.INPUT, Storage.OUTPUT)


class Buffers(Protocol):
    """The places of values, given to a step when it is bound."""

    def array(self, value: Value) -> Array:
        """Return a value's place: an array of its type and shape.

        For a value in an engine's layout and for scratchpads: its bytes, uint8 (nbytes,).
        """

    def address(self, value: Value) -> int:
        """Return the address of a value's first byte."""


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """One unit of work.

    `bind` is called once before the first run, and again when the application brings other input
    or output buffers that the step touches; it gives the call that does the work. Whatever is
    costly (primitives, descriptors, packed weights) is made before, by the kernel.

    Attributes:
        nodes: Names, in the user's model, of the nodes it runs; none for a reorder.
        reads, writes: Values it touches.
        bind: Gives the call for these buffers.
        scratch: Values that live only during the step.
        in_place: Pairs (index in writes, index in reads) that may share their bytes.
    """

    nodes: tuple[str, ...]
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    bind: Callable[[Buffers], Bound]
    scratch: tuple[Value, ...] = ()
    in_place: tuple[tuple[int, int], ...] = field(default=())
