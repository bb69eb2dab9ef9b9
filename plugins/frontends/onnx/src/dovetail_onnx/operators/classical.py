"""Operators of ONNX's domain for classical machine learning that are simple arithmetic."""

from __future__ import annotations

import math

from dovetail.ir import Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importers
from dovetail_onnx.operators._formula import operand
from dovetail_opset.importing.constant import Value
from dovetail_opset.importing.indices import indices_tensor

CLASSICAL = Importers("ai.onnx.ml")


@CLASSICAL.importer("ArrayFeatureExtractor", versions=(1,))
def array_feature_extractor(op: OpContext) -> Tensor:
    """Gather along the last dimension; a vector becomes one row."""
    x, count = op.spec(0), math.prod(op.spec(1).shape)
    if not x.shape:
        raise op.invalid("input must not be a scalar")
    index = indices_tensor(op, 1, x.shape[-1])
    flat = op.step("places", "Reshape", [index], spec=Spec(index.dtype, (count,)))
    taken = op.step("taken", "Gather", [op.tensor(0), flat], axis=len(x.shape) - 1)
    shape = (*((1,) if len(x.shape) == 1 else x.shape[:-1]), count)
    return op.emit("Reshape", [taken], spec=Spec(x.dtype, shape))


@CLASSICAL.importer("Binarizer", versions=(1,))
def binarizer(op: OpContext) -> Value:
    """1 where the input is above the threshold, else 0."""
    x = operand(op, 0)
    if not x.dtype.is_float:
        raise op.unsupported(
            f"unsupported input type {x.dtype.name}", hint="cast it to a float type"
        )
    return (x > op.attr.number("threshold", 0.0)).cast(x.dtype).emit()
