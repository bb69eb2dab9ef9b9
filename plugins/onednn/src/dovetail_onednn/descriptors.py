"""Memory descriptors: the layout of a tensor's elements in memory, as oneDNN describes it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_int, c_int64, c_void_p

from dovetail_onednn._api import ANY_FORMAT, BLOCKED, DataType, Dims, Query
from dovetail_onednn._library import library
from dovetail_onednn.errors import check, failure
from dovetail_onednn.handles import Handle, engine, make


class MemoryDesc(Handle):
    """An immutable memory descriptor; equal if the described layouts are equal.

    Attributes:
        nbytes: Size of the memory, with padding.
        dims: Logical shape.
        type: Type of the elements.
        key: Text that equal descriptors share: type, shape and, for a format of strides and
            blocks, these.
    """

    __slots__ = ("dims", "key", "nbytes", "type")

    def __init__(self, pointer: c_void_p) -> None:
        super().__init__("memory_desc", pointer)
        self.nbytes = int(library().functions["memory_desc_get_size"](pointer))
        self.dims = self._list(Query.DIMS, self._number(Query.NDIMS))
        self.type = DataType(self._number(Query.DATA_TYPE))
        self.key = self._key()

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance between elements, or blocks of them, along each axis, in elements."""
        return self._list(Query.STRIDES, len(self.dims))

    @classmethod
    def strided(
        cls, dims: Sequence[int], strides: Sequence[int], kind: DataType = DataType.F32
    ) -> MemoryDesc:
        """Create a descriptor with these strides, in elements."""
        doing = f"describing {kind.text} {_by(dims)} with strides {tuple(strides)}"
        function = "memory_desc_create_with_strides"
        pointer = make(function, len(dims), array(dims), kind, array(strides), doing=doing)
        return cls(pointer)

    @classmethod
    def any(cls, dims: Sequence[int], kind: DataType = DataType.F32) -> MemoryDesc:
        """Create a descriptor whose layout a primitive chooses."""
        doing = f"describing {kind.text} {_by(dims)} of any format"
        function = "memory_desc_create_with_tag"
        pointer = make(function, len(dims), array(dims), kind, ANY_FORMAT, doing=doing)
        return cls(pointer)

    def of_type(self, kind: DataType) -> MemoryDesc:
        """Return a descriptor of another element type with the same strides."""
        return self if kind is self.type else self.strided(self.dims, self.strides, kind)

    @classmethod
    def copy_of(cls, pointer: int | None) -> MemoryDesc:
        """Create a copy of a descriptor that belongs to another object."""
        return cls(make("memory_desc_clone", pointer, doing="copying a memory descriptor"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MemoryDesc):
            return NotImplemented
        equal = library().functions["memory_desc_equal"]
        return self is other or bool(equal(self, other))

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"<MemoryDesc {self.key}>"

    def _key(self) -> str:
        text = f"t{self._number(Query.DATA_TYPE)}:{_by(self.dims)}"
        kind = self._number(Query.FORMAT_KIND)
        if kind != BLOCKED:
            return f"{text}:k{kind}:{self.nbytes}"
        rank, blocks = len(self.dims), self._number(Query.INNER_BLOCKS)
        padded = self._list(Query.PADDED_DIMS, rank)
        # the stride of an axis of one element does not matter, and equality ignores it
        along = zip(padded, self._list(Query.STRIDES, rank), strict=True)
        strides = ("_" if size == 1 else str(stride) for size, stride in along)
        sizes = self._list(Query.INNER_BLOCK_SIZES, blocks)
        axes = self._list(Query.INNER_BLOCK_DIMS, blocks)
        inner = ",".join(f"{size}of{axis}" for size, axis in zip(sizes, axes, strict=True))
        return f"{text}:p{_by(padded)}:s{','.join(strides)}:b{inner}:{self.nbytes}"

    def _number(self, query: Query) -> int:
        found = c_int()
        self._query(query, found)
        return found.value

    def _list(self, query: Query, count: int) -> tuple[int, ...]:
        found = POINTER(c_int64)()
        self._query(query, found)
        return tuple(found[i] for i in range(count))

    def _query(self, query: Query, result: ctypes._CData) -> None:
        status = library().functions["memory_desc_query"](self, query, ctypes.byref(result))
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
        doing = f"creating a memory of {desc.key}"
        super().__init__("memory", make("memory_create", desc, engine(), address, doing=doing))

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
