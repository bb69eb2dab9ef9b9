"""Scattering by index, and one-hot vectors."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dovetail.ir import Array, DType, Scalar, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, operand
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value
from dovetail_opset.importing.indices import indices_tensor, known_indices, narrowed
from dovetail_opset.importing.layout import reshaped

_REDUCTIONS = {"none": 0, "add": 1, "mul": 2, "max": 3}
# Returns the updated data; the last argument is the reduction's number.
_Scatter = Callable[[Tensor, Tensor, int], Tensor]


@ONNX.importer("Scatter", versions=(9,))
@ONNX.importer("ScatterElements", versions=(11, 13, 16, 18))
def scatter_elements(op: OpContext) -> Value:
    """ScatterElements; a minimum is the maximum of the negatives."""
    shape = op.spec(0).shape
    axis = op.axis(op.attr.integer("axis", 0), len(shape))
    indices = indices_tensor(op, 1, shape[axis])

    def scatter(data: Tensor, updates: Tensor, reduction: int) -> Tensor:
        inputs = [data, indices, updates]
        if _reduction(op) == "min":
            return op.step("max", "ScatterElements", inputs, axis=axis, reduction=reduction)
        return op.emit("ScatterElements", inputs, axis=axis, reduction=reduction)

    return _reduced(op, scatter)


@ONNX.importer("ScatterND", versions=(11, 13, 16, 18))
def scatter_nd(op: OpContext) -> Value:
    """ScatterNd, or ScatterElements of flattened tensors for reductions that ScatterNd lacks."""
    data, rows = op.spec(0).shape, op.spec(1).shape
    if not rows or rows[-1] > len(data):
        raise op.invalid(f"indices {rows} do not match the data {data}")
    extents = data[: rows[-1]]
    if _reduction(op) not in ("max", "min"):
        inputs = [op.tensor(0), indices_tensor(op, 1, extents), op.tensor(2)]
        return op.emit("ScatterNd", inputs, reduction=_REDUCTIONS[_reduction(op)])
    op.need_constant(1, f"indices, for the reduction '{_reduction(op)}',")
    known = known_indices(op, 1, extents)
    if known is None:
        raise AssertionError("indices that are known")
    places = op.static("places", _places(op, known, data), DType.INT_32)

    def scatter(data: Tensor, updates: Tensor, reduction: int) -> Tensor:
        flat = [reshaped(op, "data", data, (math.prod(data.shape),)), places]
        flat.append(reshaped(op, "updates", updates, places.shape))
        y = op.step("flat", "ScatterElements", flat, reduction=reduction)
        if _reduction(op) == "min":
            return reshaped(op, "shaped", y, data.shape)
        return op.emit("Reshape", [y], spec=data.spec)

    return _reduced(op, scatter)


@ONNX.importer("TensorScatter", versions=(24,))
def tensor_scatter(op: OpContext) -> Tensor:
    """ScatterElements of a cache, each item of the batch from its own index on."""
    cache, update = op.tensor(0), op.tensor(1)
    axis = op.axis(op.attr.integer("axis", -2), len(cache.shape))
    mode = op.attr.text("mode", "linear")
    if axis == 0 or mode not in ("linear", "circular"):
        raise op.invalid(
            f"axis {axis} must not be the batch, and mode '{mode}' must be linear or circular"
        )
    kept = (*cache.shape[:axis], *update.shape[axis : axis + 1], *cache.shape[axis + 1 :])
    if update.shape != kept or update.shape[axis] > cache.shape[axis]:
        raise op.invalid(f"update {update.shape} does not match the cache {cache.shape}")
    if op.has(2) and op.spec(2).shape != cache.shape[:1]:
        raise op.invalid(f"write indices {op.spec(2).shape} do not match the cache {cache.shape}")
    op.reserve_constant(update.shape)
    steps = np.arange(update.shape[axis]).reshape(-1, *(1,) * (len(cache.shape) - axis - 1))
    dtype = op.spec(2).dtype if op.has(2) else DType.INT_32
    rows = Expr(op, op.static("steps", np.broadcast_to(steps, update.shape), dtype))
    if op.has(2):
        known_indices(op, 2, cache.shape[axis])
        rows += operand(op, 2).reshaped((*op.spec(2).shape, *(1,) * (len(cache.shape) - 1)))
    if mode == "circular":
        rows %= cache.shape[axis]
    indices = narrowed(op, "indices", rows.tensor)
    return op.emit("ScatterElements", [cache, indices, update], axis=axis)


def _reduction(op: OpContext) -> str:
    found = op.attr.text("reduction", "none")
    if found not in (*_REDUCTIONS, "min"):
        raise op.invalid(
            f"unsupported reduction '{found}'; expected one of {', '.join(_REDUCTIONS)}, min"
        )
    return found


def _reduced(op: OpContext, scatter: _Scatter) -> Value:
    data, updates, reduction = op.tensor(0), op.tensor(2), _reduction(op)
    if reduction != "min":
        return scatter(data, updates, _REDUCTIONS[reduction])
    if not data.dtype.is_float:
        raise op.unsupported(
            f"unsupported reduction 'min' of {data.dtype.name}",
            hint="cast data and updates to a float type, and the result back",
        )
    negative = [(-Expr(op, x)).tensor for x in (data, updates)]
    return (-Expr(op, scatter(negative[0], negative[1], _REDUCTIONS["max"]))).emit()


def _places(op: OpContext, rows: Array, data: tuple[int, ...]) -> Array:
    """Return the index in flattened data of each element of the updates, flattened."""
    depth = rows.shape[-1]
    each = math.prod(data[depth:])
    op.reserve_constant((*rows.shape[:-1], each))
    first = np.zeros(rows.shape[:-1], np.int64)
    for i, extent in enumerate(data[:depth]):
        first = first * extent + rows[..., i]
    return (first[..., np.newaxis] * each + np.arange(each)).reshape(-1)


@ONNX.importer("OneHot", versions=(9, 11, 28))
def one_hot(op: OpContext) -> Tensor:
    """OneHot with INT_32 indices; depth and values must be known."""
    indices, depth = op.tensor(0), op.need_ints(1, "depth")
    values, dtype = op.need_constant(2, "values").reshape(-1), op.spec(2).dtype
    if len(depth) != 1 or depth[0] < 1 or len(values) != 2:
        raise op.invalid(
            f"depth must be a positive number and values two numbers, got {depth} and "
            f"{values.tolist()}"
        )
    rank = len(indices.shape) + 1
    axis = op.axis(op.attr.integer("axis", -1), rank)
    indices = narrowed(op, "indices", indices)
    off, on = (Scalar(dtype, value.item()) for value in values)
    shape = (*indices.shape[:axis], depth[0], *indices.shape[axis:])
    return op.emit(
        "OneHot",
        [indices],
        spec=Spec(dtype, shape),
        depth=depth[0],
        axis=axis,
        on_value=on,
        off_value=off,
    )
