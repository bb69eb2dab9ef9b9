"""Constants, shapes, and operators without effect at inference."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from dovetail.ir import Array, DType
from dovetail_onnx._context import OpContext
from dovetail_onnx._dtypes import DTYPES, PACKED, element_type_name
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Constant, Result, Value


@ONNX.importer("Constant", versions=(1, 9, 11, 12, 13, 19, 21, 23, 24, 25))
def constant(op: OpContext) -> Result:
    """Return the value in the attribute."""
    attr = op.attr
    if (proto := attr.tensor("value")) is not None:
        return op.read_tensor(proto)
    if "value_float" in attr:
        return np.asarray(attr.number("value_float", 0), np.float32)
    if "value_int" in attr:
        return np.asarray(attr.integer("value_int", 0), np.int64)
    if (numbers := attr.numbers("value_floats")) is not None:
        return np.asarray(numbers, np.float32)
    if (integers := attr.integers("value_ints")) is not None:
        return np.asarray(integers, np.int64)
    raise op.unsupported("unsupported text or sparse value; only dense numbers can be converted")


@ONNX.importer("Shape", versions=(1, 13, 15, 19, 21, 23, 24, 25))
def shape(op: OpContext) -> Array:
    """Return the shape, which is static."""
    found = op.spec(0).shape
    start = op.attr.integer("start", 0)
    end = op.attr.integer("end", len(found))
    return np.asarray(found[slice(start, end)], np.int64)


@ONNX.importer("Size", versions=(1, 13, 19, 21, 23, 24, 25))
def size(op: OpContext) -> Array:
    """Return the number of elements, which is static."""
    return np.asarray(math.prod(op.spec(0).shape), np.int64)


@ONNX.importer("ConstantOfShape", versions=(9, 20, 21, 23, 24, 25))
def constant_of_shape(op: OpContext) -> Constant:
    """With a known shape it is computed at import; 4-bit integers are computed here."""
    shape = op.need_ints(0, "shape")
    proto = op.attr.tensor("value")
    if proto is None or proto.data_type not in PACKED or len(op.spec(0).shape) > 1:
        return _computed(op, "shape")
    value = op.read_tensor(proto)
    if value.values.size != 1 or any(extent < 0 for extent in shape):
        raise op.invalid(
            f"value must have one element to fill the shape {shape}, got {value.values.size}"
        )
    op.reserve_constant(shape)
    return replace(value, values=np.full(shape, value.values.reshape(())))


@ONNX.importer("Range", versions=(11, 27))
def range_(op: OpContext) -> Constant:
    """Raise: with known bounds it is computed at import."""
    return _computed(op, "start", "limit", "delta")


@ONNX.importer("MelWeightMatrix", versions=(17,))
def mel_weight_matrix(op: OpContext) -> Constant:
    """Raise: with known bounds it is computed at import."""
    return _computed(op, "number of bins", "length", "sample rate", "lower edge", "upper edge")


def _computed(op: OpContext, *inputs: str) -> Constant:
    """Raise for a node whose output has a static shape only if its inputs are known."""
    for i, what in enumerate(inputs):
        op.need_constant(i, what)
    raise op.unsupported("unsupported type of the result")


@ONNX.importer("EyeLike", versions=(9, 22))
def eye_like(op: OpContext) -> Constant:
    """Return a constant with 1 on one diagonal, of the input's shape."""
    like, code = op.spec(0), op.attr.integer("dtype", 0)
    if len(like.shape) != 2:
        raise op.invalid(f"input must have rank 2, got shape {like.shape}")
    if code and code not in DTYPES:
        raise op.unsupported(f"unsupported type {element_type_name(code)}")
    op.reserve_constant(like.shape)
    rows, columns = like.shape
    # beyond the corners all diagonals are alike, and NumPy accepts no larger numbers
    diagonal = max(-rows, min(op.attr.integer("k", 0), columns))
    return _typed(
        op, np.eye(rows, columns, diagonal, np.bool_), DTYPES[code] if code else like.dtype
    )


def _typed(op: OpContext, values: Array, dtype: DType) -> Constant:
    """Return values as a constant of a type."""
    logical = np.dtype(np.float32) if dtype is DType.BFLOAT_16 else dtype.storage
    return Constant(values.astype(logical), dtype, op.node.outputs[0])


@ONNX.importer("Identity", versions=(1, 13, 14, 16, 19, 21, 23, 24, 25))
def identity(op: OpContext) -> Value:
    """Return the input."""
    return op.value(0)


@ONNX.importer("Dropout", versions=(7, 10, 12, 13, 22))
def dropout(op: OpContext) -> Sequence[Result]:
    """Return the input; the mask, where it is used, is true everywhere."""
    check_dropout(op, 1, 2)
    return [op.value(0), *full_mask(op)]


def check_dropout(op: OpContext, ratio: int, training: int) -> None:
    """Raise if a dropout drops anything.

    Args:
        op: The node.
        ratio: The number of the input that is the ratio, 0.5 if it is omitted.
        training: The number of the training mode, off if it is omitted.

    Raises:
        UnsupportedOpError: It drops elements, or that is not known.
    """
    if op.constant(ratio) is not None and float(op.need_number(ratio, "ratio")) == 0:
        return
    if op.has(training) and bool(op.need_constant(training, "training mode").any()):
        raise op.unsupported(
            "dropout in training mode cannot be converted",
            hint="export the model for inference (model.eval()), or convert it with --dropout off",
        )


def full_mask(op: OpContext) -> Sequence[Result]:
    """Return the second output of a dropout, true everywhere, if something uses it."""
    if not op.is_output_used(1):
        return []
    op.reserve_constant(op.spec(0).shape)
    return [np.ones(op.spec(0).shape, np.bool_)]
