"""Boxes: moves of elements from one strided view of a tensor to another, and their launches.

The views are NumPy arrays that describe only shape and strides: their elements share one byte and
are never touched, so that any indexing, transposing or broadcasting of NumPy describes a move.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Shape
from dovetail.runtime.plan import KernelCall, Value
from dovetail_gpu.computing import current
from dovetail_gpu.elements import VECTOR
from dovetail_gpu.launching import GROUP, Argument, Launch
from dovetail_gpu.layouts import element_in, table
from dovetail_gpu.programs import Source

_UNITS = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
_BLOCK = 2048  # elements that a work item of a processor copies
_JOINED = 4  # matrices that one launch joins
_LINE = 16  # elements of a cache line
_INTERLEAVED = (2, 3, 4)
_SIDE, _ITEMS = 32, 256  # of a tile in local memory, and of its group


def for_processor() -> bool:
    """Return whether work items run one after the other, each a block, and not in groups."""
    return current().engine.device.is_cpu


def described(shape: Shape) -> Array:
    """Return an array that describes a dense tensor; its elements must not be touched."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return np.lib.stride_tricks.as_strided(np.empty(1, np.int8), shape, strides)


def offset_in(part: Array, whole: Array) -> int:
    """Return the offset of a view's first element in what it is a view of, in elements."""
    first, start = (int(a.__array_interface__["data"][0]) for a in (whole, part))
    return start - first


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a box: its size, and its steps in x and y in elements."""

    size: int
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Box:
    """A move of elements.

    Attributes:
        axes: The axes, merged where possible: no two are one longer axis.
        x, y: Offset of the first element in source and target.
    """

    axes: tuple[Axis, ...]
    x: int
    y: int

    @classmethod
    def of(cls, x: Array, y: Array, whole_x: Array, whole_y: Array) -> Box:
        """Return the move between views of the same shape; see `described`.

        Args:
            x: The elements that are read.
            y: Where they are written.
            whole_x: The tensor of which `x` is a view.
            whole_y: The tensor of which `y` is a view.
        """
        if x.shape != y.shape:
            raise AssertionError(f"a move of {x.shape} to {y.shape}")
        given = map(Axis, y.shape, x.strides, y.strides)
        return cls(_merged(tuple(given)), offset_in(x, whole_x), offset_in(y, whole_y))

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(axis.size for axis in self.axes)


def _merged(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    found: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if found and found[-1].x == axis.size * axis.x and found[-1].y == axis.size * axis.y:
            axis = Axis(found.pop().size * axis.size, axis.x, axis.y)
        found.append(axis)
    return tuple(found)


def copied(call: KernelCall, x: Value, y: Value, box: Box) -> Launch:
    """Return the launch of a move."""
    if (found := transposition(box)) is not None:
        return transposed(call, x, y, found)
    (*_, column) = (Axis(1, 1, 1), *box.axes)
    is_run = column.y == 1
    function = "copy_elements" if not is_run else "copy_runs" if column.x == 1 else "copy_into_runs"
    return boxed(call, x, y, box, function, move_source(x))


def joins(
    call: KernelCall, sources: Sequence[Value], widths: Sequence[int], y: Value, rows: int
) -> list[Launch]:
    """Return the launches that copy matrices of some widths side by side into a matrix."""
    width, column, found = sum(widths), 0, []
    # a work item copies rows of several matrices, since launches of little work cost more than it
    together = _JOINED if for_processor() and rows > 1 and width <= _BLOCK else 1
    for k in range(0, len(sources), together):
        values, parts = sources[k : k + together], widths[k : k + together]
        if together == 1:
            whole, x = described((rows, width)), described((rows, *parts))
            part = whole[:, column : column + parts[0]]
            found.append(copied(call, values[0], y, Box.of(x, part, x, whole)))
        else:
            found.append(_join(values, parts, y, (column, rows, width)))
        column += sum(parts)
    return found


def _join(
    values: Sequence[Value], widths: Sequence[int], y: Value, numbers: tuple[int, int, int]
) -> Launch:
    missing = _JOINED - len(values)
    pairs = [*zip(values, widths, strict=True), *[(values[0], 0)] * missing]
    _, rows, width = numbers
    tall = max(1, min(rows, _BLOCK // max(1, width)))
    arguments: list[Argument] = [argument for pair in pairs for argument in pair]
    arguments += [y, *numbers, tall]
    return Launch(move_source(y), "join", arguments, (-(-rows // tall),), move_group())


def transposition(box: Box) -> Box | None:
    """Return a move with the axis that is contiguous in the source as the last but one.

    Returns:
        The move; None if no such axis exists, or the last is not contiguous in the target.
    """
    if len(box.axes) < 2 or box.axes[-1].y != 1 or box.axes[-1].x in (0, 1):
        return None
    *outer, column = box.axes
    rows = [axis for axis in outer if axis.x == 1]
    if not rows:
        return None
    row = max(rows, key=lambda axis: axis.size)
    outer.remove(row)
    return Box((*outer, row, column), box.x, box.y)


def transposed(call: KernelCall, x: Value, y: Value, box: Box) -> Launch:
    """Return the launch of a move whose last two axes are contiguous in source and target."""
    row, column = box.axes[-2:]
    if not for_processor():
        source = move_source(x, "transpose_local")
        return boxed(call, x, y, box, "transpose_local", source, block=(1, _SIDE, _SIDE))
    source = move_source(x, "transpose")
    if column.size in _INTERLEAVED and row.y == column.size:
        return boxed(call, x, y, box, f"interleave{column.size}", source)
    if min(row.size, column.size) < VECTOR:
        return boxed(call, x, y, box, "copy_into_runs", move_source(x))
    block = (1, _LINE, _BLOCK // _LINE)
    return boxed(call, x, y, box, "transpose_tiles", source, block=block)


def boxed(
    call: KernelCall,
    x: Value,
    y: Value,
    box: Box,
    function: str,
    source: Source,
    more: Sequence[Argument] = (),
    block: tuple[int, int, int] | None = None,
) -> Launch:
    """Return the launch of a function with BOX_PARAMETERS; see `box.cl`.

    Args:
        call: The call.
        x: The source.
        y: The target.
        box: The move.
        function: Name of the function.
        source: Its program.
        more: Arguments after those of the box.
        block: Planes, rows and columns of the block of a work item, or of a group.
    """
    missing = [Axis(1, 0, 0)] * (3 - len(box.axes))
    given = (*missing, *box.axes) if box.axes else (*missing[:2], Axis(1, 1, 1))
    outer, inner = given[:-3], given[-3:]
    numbers = [number for axis in reversed(outer) for number in (axis.size, axis.x, axis.y)]
    axes = table(call, numbers or [0])
    count = math.prod(axis.size for axis in outer)
    sizes = tuple(axis.size for axis in inner)
    blocks = _block(sizes, is_run=inner[-1].x == inner[-1].y == 1) if block is None else block
    arguments: list[Argument] = [x, y, axes, len(outer), count, box.x, box.y, *sizes]
    arguments += [*(axis.x for axis in inner), *(axis.y for axis in inner), *blocks, *more]
    items = count * math.prod(-(-n // m) for n, m in zip(sizes, blocks, strict=True))
    if function == "transpose_local":
        return Launch(source, function, arguments, (items * _ITEMS,), (_ITEMS,))
    return Launch(source, function, arguments, (items,), move_group())


def move_group() -> tuple[int]:
    """Return the size of a group of work items."""
    return (1,) if for_processor() else (GROUP,)


def row_blocks(rows: int, columns: int) -> tuple[int, int, int]:
    """Return rows and columns that a work item copies, and the number of work items."""
    _, tall, wide = _block((1, rows, columns), is_run=True)
    return tall, wide, -(-rows // tall) * -(-columns // wide)


def _block(sizes: Sequence[int], *, is_run: bool) -> tuple[int, int, int]:
    """Return planes, rows and columns that a work item copies."""
    if not for_processor():
        return 1, 1, VECTOR if is_run else 1
    rest, found = _BLOCK, []
    for size in reversed(sizes):
        found.append(max(1, min(size, rest)))
        rest //= found[-1]
    return found[2], found[1], found[0]


def move_source(value: Value, *templates: str) -> Source:
    """Return the program of templates that move a value's elements; by default copies."""
    size = element_in(value).nbytes
    return Source.of(("box", *(templates or ("copy",))), {"E": _UNITS[size], "E_BYTES": size})
