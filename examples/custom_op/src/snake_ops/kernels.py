"""Kernels for the backend `cpu`: float32 without temporaries, 8 bits by a table."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, DType, ScaleOffset, Spec
from dovetail.ops import simulate
from dovetail.runtime.plan import KernelCall, KernelRegistry, Step

KERNELS = KernelRegistry("cpu")
_LEVELS = 256


@KERNELS.register("audio.snake", "Snake")
def snake(call: KernelCall) -> Step | None:
    """Create the step of a Snake node; None leaves it to the op's reference."""
    alpha = call.static(1)
    if alpha is None:
        return None
    types = (call.spec(0).dtype, call.spec(1).dtype, call.outputs[0].dtype)
    if types == (DType.FLOAT_32,) * 3:
        return _floats(call, alpha)
    if types == (DType.UFIXED_POINT_8, DType.FLOAT_32, DType.UFIXED_POINT_8):
        return _bytes(call, alpha)
    return None


def _floats(call: KernelCall, alpha: Array) -> Step:
    inverse = np.divide(1, alpha, out=np.zeros_like(alpha), where=alpha != 0)
    call.read(0)
    call.constant(alpha)
    call.constant(inverse)
    call.write()

    def run(x: Array, alpha: Array, inverse: Array, y: Array) -> None:
        np.multiply(x, alpha, out=y)
        np.sin(y, out=y)
        np.multiply(y, y, out=y)
        np.multiply(y, inverse, out=y)
        np.add(y, x, out=y)

    return call.array_step(run)


def _bytes(call: KernelCall, alpha: Array) -> Step | None:
    """Compute by a table of 256 results for each value of alpha, with the bits of the reference."""
    x, y = call.spec(0), call.outputs[0].spec
    axis = _only_axis(alpha, len(x.shape))
    if axis is None or not (_is_per_tensor(x) and _is_per_tensor(y)):
        return None
    table = _table(call, alpha.reshape(-1, 1), x, y)
    # the start of each alpha's row of the table
    rows = np.arange(alpha.size) * _LEVELS
    rows = rows.reshape([-1 if i == axis else 1 for i in range(len(x.shape))])
    call.read(0)
    call.constant(table)
    call.constant(rows)
    call.write()
    call.scratch(int(np.prod(x.shape)) * rows.itemsize)

    def run(x: Array, table: Array, rows: Array, y: Array, scratch: Array) -> None:
        indices = scratch.view(rows.dtype).reshape(x.shape)
        np.add(x, rows, out=indices)
        # no index is out of range, but NumPy's check of it would copy the result
        np.take(table, indices, out=y, mode="clip")

    return call.array_step(run)


def _only_axis(alpha: Array, rank: int) -> int | None:
    """Return the axis of x along which alpha varies; None if there are several axes."""
    aligned = (1,) * (rank - alpha.ndim) + alpha.shape
    axes = [i for i, size in enumerate(aligned) if size != 1]
    return None if len(axes) > 1 else axes[0] if axes else max(rank - 1, 0)


def _is_per_tensor(spec: Spec) -> bool:
    """Return whether a tensor has one scale and offset."""
    return isinstance(spec.encoding, ScaleOffset)


def _table(call: KernelCall, alpha: Array, x: Spec, y: Spec) -> Array:
    shape = (len(alpha), _LEVELS)
    levels = np.broadcast_to(np.arange(_LEVELS, dtype=np.uint8), shape)
    schema, op = call.head.definition
    (table,) = simulate(
        schema,
        op,
        [levels, alpha],
        [Spec(x.dtype, shape, x.encoding), Spec(DType.FLOAT_32, alpha.shape)],
        [Spec(y.dtype, shape, y.encoding)],
    )
    return table.reshape(-1)
