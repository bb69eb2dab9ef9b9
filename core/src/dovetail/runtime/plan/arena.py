"""The arena: a block of memory in each space, in which values with disjoint lifetimes overlap."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from dovetail.container import aligned_empty
from dovetail.ir import Array
from dovetail.runtime.plan.spaces import Block, Space
from dovetail.runtime.plan.values import Step, Storage, Value

ALIGNMENT = 64  # a cache line, good for vector loads


class Arena(msgspec.Struct, frozen=True, dict=True):
    """Positions of values in the blocks.

    Attributes:
        offsets: Offset in bytes of each value that owns bytes in the block of its space.
    """

    offsets: Mapping[Value, int]

    @cached_property
    def sizes(self) -> Mapping[Space | None, int]:
        """Size of the block of each space."""
        sizes: dict[Space | None, int] = {}
        for value, at in self.offsets.items():
            end = at + padded(value)
            sizes[value.space] = max(sizes.get(value.space, 0), end)
        return sizes

    @property
    def nbytes(self) -> int:
        """Size of the block in the host's memory."""
        return self.sizes.get(None, 0)

    def allocate(self) -> Array:
        """Return the block in the host's memory, uint8 (nbytes,), aligned."""
        return aligned_empty(self.nbytes)


def alignment_of(space: Space | None) -> int:
    """Return the alignment of values in a space, in bytes."""
    return ALIGNMENT if space is None else space.alignment


def padded(value: Value) -> int:
    """Return the bytes that a value takes in the block of its space."""
    alignment = alignment_of(value.space)
    return -(-max(value.nbytes, 1) // alignment) * alignment


class Life(msgspec.Struct):
    """The first and the last step that use a value."""

    first: int
    last: int


def plan_arena(steps: Sequence[Step], *, shares: bool = True) -> Arena:
    """Assign an offset to every value, and share bytes in place where steps allow it.

    Large values come first, each at the lowest offset that no value alive at the same time
    occupies. Sets `alias_of` on values computed in place.

    Args:
        steps: The steps of the plan.
        shares: Whether values may share bytes.
    """
    lives = lives_of(steps)
    if shares:
        _share_in_place(steps, lives)
    else:
        lives = {value: Life(0, len(steps)) for value in lives}
    offsets: dict[Value, int] = {}
    present: dict[Space | None, list[Value]] = {}
    order = sorted(lives, key=lambda v: (-v.nbytes, lives[v].first))
    for value in order:
        life = lives[value]
        others = present.setdefault(value.space, [])
        taken = sorted(
            (offsets[other], offsets[other] + padded(other))
            for other in others
            if lives[other].first <= life.last and life.first <= lives[other].last
        )
        at = 0
        for start, end in taken:
            if at + value.nbytes <= start:
                break
            at = max(at, end)
        offsets[value] = at
        others.append(value)
    return Arena(offsets)


def lives_of(steps: Sequence[Step]) -> dict[Value, Life]:
    """Return the first and last step that uses each value that owns bytes in the arena."""
    lives: dict[Value, Life] = {}
    for i, step in enumerate(steps):
        for value in (*step.reads, *step.writes, *step.scratch):
            root = value.root
            if root.storage is Storage.ARENA:
                lives.setdefault(root, Life(i, i)).last = i
    return lives


def _share_in_place(steps: Sequence[Step], lives: dict[Value, Life]) -> None:
    for i, step in enumerate(steps):
        for write, read in step.in_place:
            target, operand = step.writes[write], step.reads[read]
            source = operand.root
            if (
                target.root is target
                and target.storage is Storage.ARENA
                and source.storage is Storage.ARENA
                and source.nbytes == operand.nbytes == target.nbytes
                and source.space is target.space
                and lives[source].last == i
                and _read_once(step, source)
            ):
                lives[source].last = lives.pop(target).last
                target.alias_of = source


def _read_once(step: Step, source: Value) -> bool:
    """Return whether no other operand of the step uses the same bytes."""
    return sum(v.root is source for v in (*step.reads, *step.writes)) == 1


class ArenaBuffers:
    """`Buffers` over the arena's blocks, constants, and the application's arrays.

    Args:
        arena: Positions of values in the blocks.
        block: The host's block: uint8, at least as large and aligned as the arena requires; by
            default a new one.
    """

    def __init__(self, arena: Arena, block: Array | None = None) -> None:
        self._arena = arena
        self._block = arena.allocate() if block is None else block
        self._start = int(self._block.ctypes.data)
        self._blocks = {
            space: space.allocate(size) for space, size in arena.sizes.items() if space is not None
        }
        self._others: dict[Value, Array] = {}
        self.application: dict[Value, Any] = {}

    def array(self, value: Value) -> Array:
        """Return a value's buffer; see `Buffers`."""
        root, offset = value.root_and_offset
        if root.storage is Storage.CONSTANT:
            array = _data(root)
            return array if value is root else _formed(array, offset, value)
        if root.storage is Storage.ARENA:
            at = self._arena.offsets.get(root)
            if at is None:  # for a step outside the plan: a reorder for a watch
                block = self._others.setdefault(root, aligned_empty(root.nbytes))
                return _formed(block, offset, value)
            return _formed(self._block, at + offset, value)
        return _formed(self.application[root], offset, value)

    def buffer(self, value: Value) -> Any:
        """Return the buffer of a value in another space; see `Buffers`."""
        root, offset = value.root_and_offset
        space = value.space
        if space is None:
            raise AssertionError(f"{value.name} is stored in the host's memory")
        block: Block
        if root.storage is Storage.CONSTANT:
            block = _data(root)
        elif root.storage is Storage.ARENA:
            block, offset = self._blocks[space], self._arena.offsets[root] + offset
        else:
            block = space.shared(self.application[root])
        return space.part(block, offset, value.nbytes)

    def forget_others(self) -> None:
        """Free the buffers of steps outside the plan."""
        self._others.clear()

    def address(self, value: Value) -> int:
        """Return the address of a value's first byte."""
        root, offset = value.root_and_offset
        given = self.application.get(root)
        if given is not None:
            return _address_of(given) + offset
        at = self._arena.offsets.get(root)
        return _address_of(self.array(value)) if at is None else self._start + at + offset


def _address_of(array: Array) -> int:
    """Return the address of a C-contiguous array's first byte."""
    if array.flags.writeable and array.size:  # four times as fast as asking the array
        buffer: Any = array  # which NumPy's stubs say since 2.5
        return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    return int(array.__array_interface__["data"][0])


def _data(constant: Value) -> Any:
    if constant.array is None:
        raise AssertionError(f"constant {constant.name} has no data")
    return constant.array


def _formed(block: Array, offset: int, value: Value) -> Array:
    spec = value.spec
    is_formed = (block.shape, block.dtype) == (spec.shape, spec.dtype.storage)
    if spec.shape and is_formed and not offset and value.layout is None:
        return block  # the application's array, in a third of the time
    flat = block.reshape(-1).view(np.uint8)[offset : offset + value.nbytes]
    if value.layout is not None:
        return flat
    return flat.view(spec.dtype.storage).reshape(spec.shape)
