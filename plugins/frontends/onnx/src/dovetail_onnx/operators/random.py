"""Random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail.ir import DType, Shape, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._dtypes import DTYPES, element_type_name
from dovetail_onnx.operators._table import ONNX


@ONNX.importer("RandomNormal", versions=(1, 22))
def random_normal(op: OpContext) -> Tensor:
    """RandomNormalLike of a known shape."""
    return _normal(op, op.attr.integers("shape") or (), DType.FLOAT_32)


@ONNX.importer("RandomNormalLike", versions=(1, 22))
def random_normal_like(op: OpContext) -> Tensor:
    """RandomNormalLike of the input's shape, which is known."""
    return _normal(op, op.spec(0).shape, op.spec(0).dtype)


@ONNX.importer("RandomUniform", versions=(1, 22))
def random_uniform(op: OpContext) -> Tensor:
    """RandomUniformLike of a known shape."""
    return _uniform(op, op.attr.integers("shape") or (), DType.FLOAT_32)


@ONNX.importer("RandomUniformLike", versions=(1, 22))
def random_uniform_like(op: OpContext) -> Tensor:
    """RandomUniformLike of the input's shape, which is known."""
    return _uniform(op, op.spec(0).shape, op.spec(0).dtype)


def _normal(op: OpContext, shape: Shape, dtype: DType) -> Tensor:
    mean, scale = op.attr.number("mean", 0.0), op.attr.number("scale", 1.0)
    return _drawn(op, "RandomNormalLike", Spec(dtype, shape), mean=mean, scale=scale)


def _uniform(op: OpContext, shape: Shape, dtype: DType) -> Tensor:
    low, high = op.attr.number("low", 0.0), op.attr.number("high", 1.0)
    return _drawn(op, "RandomUniformLike", Spec(dtype, shape), low=low, high=high)


def _drawn(op: OpContext, op_type: str, default: Spec, **params: Any) -> Tensor:
    if "seed" in op.attr:
        raise op.unsupported(
            "unsupported attribute seed, which fixes the numbers: those that an op draws "
            "differ each "
            "time",
            hint="leave the seed out, or pass the numbers as a constant or an input",
        )
    dtype = default.dtype
    if "dtype" in op.attr:
        code = op.attr.integer("dtype", 0)
        found = DTYPES.get(code)
        if found is None:
            raise op.unsupported(f"unsupported type {element_type_name(code)}")
        dtype = found
    shape = op.static("shape", np.asarray(default.shape, np.uint32), DType.UINT_32)
    return op.emit(op_type, [shape], spec=Spec(dtype, default.shape), **params)
