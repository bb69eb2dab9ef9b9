"""Memory descriptors: the layout of a tensor's elements in memory, as oneDNN describes it.

A descriptor is data: strides, or any format, or what a primitive chose for an argument. The
library's object is created when it is first needed.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from ctypes import POINTER, c_int, c_int64
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from dovetail_onednn._api import ANY_FORMAT, BLOCKED, DataType, Dims, Query
from dovetail_onednn._library import library
from dovetail_onednn.errors import check, failure
from dovetail_onednn.handles import Handle, engine, make

if TYPE_CHECKING:  # primitives are described with descriptors
    from dovetail_onednn.primitives import Described

Numbers = tuple[int, ...]
MAX_BYTES = 1 << 46  # of a descriptor that is read from a file


class Choice(NamedTuple):
    """The layout that a primitive chose for an argument.

    Attributes:
        primitive: The primitive, as it was described.
        arg: The argument, an `Arg`.
    """

    primitive: Described
    arg: int


class MemoryDesc:
    """An immutable memory descriptor; equal if the described layouts are equal.

    Use `strided`, `any` and `chosen`, which return the same object for the same layout if they can.

    Attributes:
        dims: Logical shape.
        type: Type of the elements.
        origin: Strides in elements, or the choice of a primitive; None for any format.
    """

    __slots__ = ("__weakref__", "_handle", "_key", "_nbytes", "dims", "origin", "type")

    def __init__(
        self,
        dims: Numbers,
        kind: DataType,
        origin: Numbers | Choice | None,
        handle: Handle | None = None,
    ) -> None:
        self.dims = dims
        self.type = kind
        self.origin = origin
        self._handle = handle
        self._key = ""
        self._nbytes = -1

    @classmethod
    def strided(
        cls, dims: Sequence[int], strides: Sequence[int], kind: DataType = DataType.F32
    ) -> MemoryDesc:
        """Return the descriptor with these strides, in elements."""
        return cls._interned(tuple(dims), kind, tuple(strides))

    @classmethod
    def any(cls, dims: Sequence[int], kind: DataType = DataType.F32) -> MemoryDesc:
        """Return the descriptor whose layout a primitive chooses."""
        return cls._interned(tuple(dims), kind, None)

    @classmethod
    def _interned(cls, dims: Numbers, kind: DataType, strides: Numbers | None) -> MemoryDesc:
        known = _KNOWN.get((dims, kind, strides))
        if known is None:
            known = _KNOWN[dims, kind, strides] = cls(dims, kind, strides)
        return known

    @classmethod
    def chosen(cls, given: int, choice: Choice) -> MemoryDesc:
        """Return the descriptor of a primitive's argument.

        Args:
            given: Address of the library's descriptor, which belongs to the primitive.
            choice: The primitive and the argument.
        """
        dims = _list(given, Query.DIMS, _number(given, Query.NDIMS))
        kind = DataType(_number(given, Query.DATA_TYPE))
        is_strided = _number(given, Query.FORMAT_KIND) == BLOCKED
        if is_strided and not _number(given, Query.INNER_BLOCKS):
            known = cls.strided(dims, _list(given, Query.STRIDES, len(dims)), kind)
            if library().functions["memory_desc_equal"](given, known.address):  # it has no padding
                return known
        copy = make("memory_desc_clone", given, doing="copying a memory descriptor")
        return cls(dims, kind, choice, Handle("memory_desc", copy))

    @property
    def strides(self) -> Numbers:
        """Distance between elements, or blocks of them, along each axis, in elements."""
        if isinstance(self.origin, tuple) and not isinstance(self.origin, Choice):
            return self.origin
        return _list(self.address, Query.STRIDES, len(self.dims))

    @property
    def nbytes(self) -> int:
        """Size of the memory, with padding."""
        if self._nbytes < 0:
            self._nbytes = int(library().functions["memory_desc_get_size"](self.address))
        return self._nbytes

    @property
    def reach(self) -> int:
        """Bytes from the first element to the end of the last one: a part of rows ends before them.

        The size where the layout has blocks.
        """
        if not isinstance(self.origin, tuple) or isinstance(self.origin, Choice) or not self.nbytes:
            return self.nbytes
        last = sum((n - 1) * step for n, step in zip(self.dims, self.origin, strict=True))
        return (last + 1) * self.type.nbytes

    @property
    def row(self) -> MemoryDesc | None:
        """The elements in the order in which they are stored; None if there are gaps or blocks."""
        count = math.prod(self.dims)
        is_strided = isinstance(self.origin, tuple) and not isinstance(self.origin, Choice)
        if not is_strided or self.nbytes != count * self.type.nbytes:
            return None
        return self.strided((count,), (1,), self.type)

    @property
    def key(self) -> str:
        """Text that equal descriptors share: type, shape and, if they exist, strides and blocks."""
        if not self._key:
            self._key = self._described()
        return self._key

    @property
    def address(self) -> int:
        """Address of the library's object, which lives as long as this one.

        Raises:
            BackendError: There is no such layout.
        """
        if self._handle is None:
            self._handle = Handle("memory_desc", self._created())
        return self._handle.address

    def _created(self) -> int:
        dims, doing = array(self.dims), f"describing {self.type.text} {_by(self.dims)}"
        if self.origin is None:
            function, doing = "memory_desc_create_with_tag", f"{doing} of any format"
            return make(function, len(self.dims), dims, self.type, ANY_FORMAT, doing=doing)
        doing = f"{doing} with strides {self.strides}"
        function = "memory_desc_create_with_strides"
        return make(function, len(self.dims), dims, self.type, array(self.strides), doing=doing)

    def of_type(self, kind: DataType) -> MemoryDesc:
        """Return a descriptor of another element type with the same strides."""
        return self if kind is self.type else self.strided(self.dims, self.strides, kind)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, MemoryDesc):
            return NotImplemented
        if (self.dims, self.type) != (other.dims, other.type):
            return False
        return bool(library().functions["memory_desc_equal"](self.address, other.address))

    def __hash__(self) -> int:
        return hash((self.dims, self.type))

    def __repr__(self) -> str:
        return f"<MemoryDesc {self.key}>"

    def _described(self) -> str:
        text = f"t{int(self.type)}:{_by(self.dims)}"
        kind = _number(self.address, Query.FORMAT_KIND)
        if kind != BLOCKED:
            return f"{text}:k{kind}:{self.nbytes}"
        rank, blocks = len(self.dims), _number(self.address, Query.INNER_BLOCKS)
        padded = _list(self.address, Query.PADDED_DIMS, rank)
        # the stride of an axis of one element does not matter, and equality ignores it
        along = zip(padded, _list(self.address, Query.STRIDES, rank), strict=True)
        strides = ("_" if size == 1 else str(stride) for size, stride in along)
        sizes = _list(self.address, Query.INNER_BLOCK_SIZES, blocks)
        axes = _list(self.address, Query.INNER_BLOCK_DIMS, blocks)
        inner = ",".join(f"{size}of{axis}" for size, axis in zip(sizes, axes, strict=True))
        return f"{text}:p{_by(padded)}:s{','.join(strides)}:b{inner}:{self.nbytes}"


_KNOWN: WeakValueDictionary[tuple[Numbers, DataType, Numbers | None], MemoryDesc] = (
    WeakValueDictionary()
)


def _number(desc: int, query: Query) -> int:
    found = c_int()
    _query(desc, query, found)
    return found.value


def _list(desc: int, query: Query, count: int) -> Numbers:
    found = POINTER(c_int64)()
    _query(desc, query, found)
    return tuple(found[:count])


def _query(desc: int, query: Query, result: Any) -> None:
    status = library().functions["memory_desc_query"](desc, query, ctypes.byref(result))
    if status:
        check(status, f"querying {query.name} of a memory descriptor")


class Memory(Handle):
    """An address with its descriptor. It does not own the bytes, which must outlive it.

    Attributes:
        data: Address of the bytes.
    """

    __slots__ = ("data", "desc")

    def __init__(self, desc: MemoryDesc, address: int) -> None:
        self.desc = desc
        self.data = address
        pointer = make(
            "memory_create",
            *(desc.address, engine(), address),
            doing=lambda: f"creating a memory of {desc.key}",
        )
        super().__init__("memory", pointer)

    def move(self, address: int) -> None:
        """Use other bytes, in the same layout."""
        if address != self.data:
            self.data = 0  # unknown if the user interrupts: the next call must set it again
            if status := library().functions["memory_set_data_handle"](self, address):
                raise failure(status, f"moving a memory of {self.desc.key}")
            self.data = address


def array(values: Sequence[int]) -> ctypes.Array[c_int64]:
    """Return values as the fixed-size array from which the library reads shapes."""
    return Dims(*values)


def _by(dims: Sequence[int]) -> str:
    return "x".join(map(str, dims)) or "scalar"
