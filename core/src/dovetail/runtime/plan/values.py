"""Values and steps: a plan is a list of steps, which read and write values."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

import msgspec

from dovetail.container import FormKey
from dovetail.ir import Array, Spec
from dovetail.runtime.measurements import Counter, EventUnit
from dovetail.runtime.plan.slots import Slot
from dovetail.runtime.plan.spaces import Block, Space

Bound = Callable[[], None]


class Layout(Protocol):
    """An engine's arrangement of a value's bytes, opaque to core; hashable, compared by equality.

    None is the layout that all engines share: dense, row-major, one array item for each element.
    """

    @property
    def nbytes(self) -> int:
        """Bytes that a value takes in this layout."""

    @property
    def key(self) -> str:
        """Text that equal layouts share and others do not."""

    @property
    def space(self) -> Space | None:
        """The memory space of values in this layout; None is the host's."""

    def __hash__(self) -> int: ...

    def __eq__(self, other: object, /) -> bool: ...


class Storage(enum.Enum):
    """Memory that a value is stored in."""

    ARENA = enum.auto()
    INPUT = enum.auto()
    OUTPUT = enum.auto()
    CONSTANT = enum.auto()


class Value(msgspec.Struct, eq=False, dict=True):
    """A tensor in one layout, a scratchpad, or a constant. Compared by identity.

    Attributes:
        name: The tensor's name, for errors and watching.
        spec: Type and shape of the tensor; the scratchpad's bytes.
        storage: The memory that it is stored in.
        layout: Arrangement of its bytes.
        array: A constant's data: a block in spaces other than the host's.
        key: Identity of a constant that is a form in a `WeightStore`.
        slot: The slot of a constant that updates change.
        alias_of: The value that owns the bytes, for views and results computed in place.
        offset: Offset of the first byte in that value.
    """

    name: str
    spec: Spec
    storage: Storage
    layout: Layout | None = None
    array: Array | Block | None = None
    key: FormKey | None = None
    slot: Slot | None = None
    alias_of: Value | None = None
    offset: int = 0

    @cached_property
    def nbytes(self) -> int:
        """Number of bytes."""
        if self.layout is not None:
            return self.layout.nbytes
        return math.prod(self.spec.shape) * self.spec.dtype.storage.itemsize

    @property
    def space(self) -> Space | None:
        """The memory space that it is stored in; None is the host's."""
        return None if self.layout is None else self.layout.space

    @property
    def root(self) -> Value:
        """The value that owns the bytes."""
        return self.root_and_offset[0]

    @property
    def root_and_offset(self) -> tuple[Value, int]:
        """The value that owns the bytes, and the offset of the first byte in it."""
        value, offset = self, self.offset
        while value.alias_of is not None:
            value = value.alias_of
            offset += value.offset
        return value, offset

    @property
    def is_application(self) -> bool:
        """True if its bytes are the application's, which may pass others for every run."""
        return self.root.storage in (Storage.INPUT, Storage.OUTPUT)


class Buffers(Protocol):
    """The buffers of values, passed to a step when it is bound."""

    def array(self, value: Value) -> Array:
        """Return a value's buffer: an array of its type and shape.

        For values in an engine's layout and for scratchpads, the bytes: uint8 (nbytes,).
        """

    def buffer(self, value: Value) -> Any:
        """Return the buffer of a value in a space other than the host's."""

    def address(self, value: Value) -> int:
        """Return the address of a value's first byte."""


class Step(msgspec.Struct, frozen=True, eq=False):
    """A unit of work.

    `bind` is called once before the first run, and again when the application passes other input or
    output buffers for values of the step; it returns the call that does the work. The kernel
    creates everything costly (primitives, descriptors, packed weights) beforehand.

    Attributes:
        nodes: Names, in the user's model, of the nodes it runs; empty for a reorder.
        reads, writes: Values that it reads and writes.
        bind: Returns the call for the given buffers.
        scratch: Values that are used only during the step.
        in_place: Pairs (index in writes, index in reads) that may share their bytes.
        work: Multiply-accumulates of one execution.
    """

    nodes: tuple[str, ...]
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    bind: Callable[[Buffers], Bound]
    scratch: tuple[Value, ...] = ()
    in_place: tuple[tuple[int, int], ...] = ()
    work: int = 0

    @property
    def counters(self) -> tuple[Counter, ...]:
        """Quantities of one execution, for profiles."""
        moved = sum(value.nbytes for value in (*self.reads, *self.writes))
        return Counter("work", self.work), Counter("bytes_moved", moved, EventUnit.BYTES)
