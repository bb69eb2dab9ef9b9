"""Copies between layouts, those that transpose matrices by way of blocks.

The library's code for a transpose gathers single elements on one side. Blocks of 16 rows or columns
are whole cache lines on both sides of two copies: (64, 3136) took 52 us at once and 31 by way of
blocks, (256, 196) from columns to rows 34 and 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from dovetail.runtime.plan import Value
from dovetail_onednn._api import Arg, DataType
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument, Work
from dovetail_onednn.primitives import reorder_primitive

_BLOCK = 16  # float32 in a cache line
_NARROWEST = 2 * _BLOCK  # with 16 the library copies blocks itself
_LEAST, _MOST = 1 << 13, 1 << 23  # elements: fewer gain nothing, more take too much memory
_LONG = 16  # rows for each column, from which blocks of columns are better
# Rows whose number is a multiple of this make results whose rows fall into the same few lines of a
# cache. Blocks of 16 columns need all of these at once: (16384, 64) took 350 us that way, 240 by
# blocks of rows and 280 at once, (65536, 32), beyond a core's cache, 1640, 1000 and 590.
_ALIASING, _MOST_ALIASING = 1 << 10, 1 << 20


class _Matrices(NamedTuple):
    """Matrices that a copy transposes: how many there are, their rows and their columns."""

    stack: int
    rows: int
    columns: int


def moves(source: Argument, target: Argument, room: Callable[[int], Value]) -> list[Work]:
    """Return the executions that copy a tensor into another layout.

    Args:
        source: The tensor.
        target: The same in the other layout.
        room: Returns a scratchpad of a number of bytes.

    Raises:
        BackendError: oneDNN has no such reorder.
    """
    matrices = _transposed(source.desc, target.desc)
    if matrices is None:
        return [_move(source, target)]
    first, second = _by_blocks(*matrices)
    between = room(source.desc.nbytes)
    ends = Argument(first[0], source.value, source.offset), Argument(first[1], between)
    last = Argument(second[0], between), Argument(second[1], target.value, target.offset)
    return [_move(*ends), _move(*last)]


def _move(source: Argument, target: Argument) -> Work:
    primitive = reorder_primitive(source.desc, target.desc)
    return Work(primitive, {Arg.SOURCE: source, Arg.DESTINATION: target})


def _transposed(source: MemoryDesc, target: MemoryDesc) -> _Matrices | None:
    """Return the matrices that a copy of float32 transposes; None if blocks do not help."""
    count = math.prod(source.dims)
    is_dense = source.row is not None and target.row is not None
    is_real = source.type is target.type is DataType.F32
    if not (is_dense and is_real and source.dims == target.dims and _LEAST <= count <= _MOST):
        return None
    axes = [axis for axis, size in enumerate(source.dims) if size > 1]
    before, after = (sorted(axes, key=lambda a: -d.strides[a]) for d in (source, target))
    while before and before[0] == after[0]:
        del before[0], after[0]
    at = before.index(after[0]) if before else 0
    if not at or before[at:] + before[:at] != after:
        return None
    rows, columns = (math.prod(source.dims[a] for a in p) for p in (before[:at], before[at:]))
    if _has_aliases(rows, columns) and count > _MOST_ALIASING:
        return None
    found = _Matrices(count // (rows * columns), rows, columns)
    return found if _is_divided(rows) or _is_divided(columns) else None


def _has_aliases(rows: int, columns: int) -> bool:
    """Return whether rows of a transposed matrix take turns in the cache, see `_ALIASING`."""
    return rows % _ALIASING == 0 and columns < rows


def _is_divided(size: int) -> bool:
    return size >= _NARROWEST and size % _BLOCK == 0


def _by_blocks(
    count: int, rows: int, columns: int
) -> tuple[tuple[MemoryDesc, MemoryDesc], tuple[MemoryDesc, MemoryDesc]]:
    """Return what both copies of transposed matrices read and write."""
    size = rows * columns
    is_long = _LONG * columns <= rows and not _has_aliases(rows, columns)
    by_columns = _is_divided(columns) and (not _is_divided(rows) or is_long)
    if by_columns:
        parts = columns // _BLOCK
        dims = (count, rows, parts, _BLOCK)
        first = _descs(dims, (size, columns, _BLOCK, 1), (size, _BLOCK, _BLOCK * rows, 1))
        dims = (count, parts, _BLOCK, rows)
        steps = (size, _BLOCK * rows, 1, _BLOCK)
        return first, _descs(dims, steps, (size, _BLOCK * rows, rows, 1))
    parts = rows // _BLOCK
    dims = (count, parts, _BLOCK, columns)
    block = _BLOCK * columns
    first = _descs(dims, (size, block, columns, 1), (size, block, 1, _BLOCK))
    dims = (count, parts, columns, _BLOCK)
    return first, _descs(dims, (size, block, _BLOCK, 1), (size, _BLOCK, rows, 1))


def _descs(
    dims: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> tuple[MemoryDesc, MemoryDesc]:
    return MemoryDesc.strided(dims, before), MemoryDesc.strided(dims, after)
