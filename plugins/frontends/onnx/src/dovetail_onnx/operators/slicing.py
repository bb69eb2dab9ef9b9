"""Slicing."""

from __future__ import annotations

from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value

Row = tuple[int, int, int]


@ONNX.importer("Slice", versions=(1, 10, 11, 13))
def slice_(op: OpContext) -> Value:
    """StridedSlice; negative and far-off bounds become positions."""
    shape = op.spec(0).shape
    rows: list[Row] = [(0, extent, 1) for extent in shape]
    starts, ends, axes, steps = _bounds(op)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise op.invalid(
            f"numbers of starts, ends and axes differ: {len(starts)}, {len(ends)}, {len(axes)}"
        )
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = op.axis(axis, len(shape))
        if step == 0:
            raise op.invalid(f"step on axis {place} must not be 0")
        rows[place] = _row(start, end, step, shape[place])
    if all(row == (0, extent, 1) for row, extent in zip(rows, shape, strict=True)):
        return op.value(0)
    return op.emit("StridedSlice", [op.tensor(0)], ranges=rows)


def _bounds(op: OpContext) -> tuple[tuple[int, ...], ...]:
    """Return starts, ends, axes and steps from attributes (version 1) or inputs."""
    if op.version < 10:
        starts, ends = op.attr.integers("starts") or (), op.attr.integers("ends") or ()
        axes = op.attr.integers("axes")
        return starts, ends, tuple(range(len(starts))) if axes is None else axes, (1,) * len(starts)
    starts, ends = op.need_ints(1, "starts"), op.need_ints(2, "ends")
    axes = op.need_ints(3, "axes") if op.has(3) else tuple(range(len(starts)))
    steps = op.need_ints(4, "steps") if op.has(4) else (1,) * len(starts)
    return starts, ends, axes, steps


def _row(start: int, end: int, step: int, extent: int) -> Row:
    # ONNX clamps bounds as Python does; an end before element 0 is -1 in both
    begin, stop, stride = slice(start, end, step).indices(extent)
    return (begin, stop, stride) if range(begin, stop, stride) else (0, 0, 1)
