"""Copies between layouts, those that transpose matrices by way of blocks.

The library's code for a transpose gathers single elements on one side. Blocks of 16 rows or columns
are whole cache lines on both sides of two copies: (64, 3136) took 52 us at once and 31 by way of
blocks, (256, 196) from columns to rows 34 and 8. A third copy has the rows that fill no block:
(16900, 21) took 204 us at once and 70 so.
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
_NARROWEST = 2 * _BLOCK  # with 16 the library copies blocks itself: (50001, 16) in 70 us, not 180
_FLOAT_BYTES = 4
_LEAST, _MOST = 1 << 13, 1 << 23  # elements: fewer gain nothing, more take too much memory
_LONG = 16  # rows for each column, from which blocks of columns are better
# Rows whose number is a multiple of this make results whose rows fall into the same few lines of a
# cache. Blocks of 16 columns need all of these at once: (16384, 64) took 350 us that way, 240 by
# blocks of rows and 280 at once, (65536, 32), beyond a core's cache, 1640, 1000 and 590.
_ALIASING, _MOST_ALIASING = 1 << 10, 1 << 20
_LEAST_UNDIVIDED, _MOST_UNDIVIDED = 1 << 16, 3 << 19


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
    return [_move(*ends), _move(*last), *_rest(source, target, matrices)]


def _rest(source: Argument, target: Argument, matrices: _Matrices) -> list[Work]:
    """Return the execution that copies the rows of a matrix after the last block of them."""
    _, rows, columns = matrices
    left = rows % _BLOCK
    if not left or _are_columns(rows, columns):
        return []
    done = rows - left
    read, written = _descs((left, columns), (columns, 1), (1, rows))
    before = source.offset + done * columns * _FLOAT_BYTES
    after = target.offset + done * _FLOAT_BYTES
    ends = Argument(read, source.value, before), Argument(written, target.value, after)
    return [_move(*ends)]


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
    is_divided = _is_divided(rows) or _is_divided(columns) or _gains_undivided(found)
    return found if is_divided else None


def _gains_undivided(matrices: _Matrices) -> bool:
    """Return whether blocks help where neither number is a multiple of theirs.

    Beyond a core's cache only if the rows of the result nearly begin in the same lines of it: for
    (263169, 21) one copy took 9.5 ms and blocks take 4.2, for (103041, 21) 0.55 and 0.65. The
    library's copies of blocks of several matrices are wrong if there are other rows in between.
    """
    count, rows, columns = matrices
    is_near = 0 < rows % _ALIASING < _BLOCK
    fits = rows * columns >= _LEAST_UNDIVIDED and (rows * columns <= _MOST_UNDIVIDED or is_near)
    return count == 1 and columns > _BLOCK and rows >= _NARROWEST and fits


def _has_aliases(rows: int, columns: int) -> bool:
    """Return whether rows of a transposed matrix take turns in the cache, see `_ALIASING`."""
    return rows % _ALIASING == 0 and columns < rows


def _are_columns(rows: int, columns: int) -> bool:
    """Return whether blocks are of columns rather than of rows."""
    is_long = _LONG * columns <= rows and not _has_aliases(rows, columns)
    return _is_divided(columns) and (not _is_divided(rows) or is_long)


def _is_divided(size: int) -> bool:
    return size >= _NARROWEST and size % _BLOCK == 0


def _by_blocks(
    count: int, rows: int, columns: int
) -> tuple[tuple[MemoryDesc, MemoryDesc], tuple[MemoryDesc, MemoryDesc]]:
    """Return what both copies of transposed matrices read and write."""
    size = rows * columns
    if _are_columns(rows, columns):
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
