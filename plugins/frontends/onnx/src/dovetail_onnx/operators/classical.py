"""Operators of ONNX's domain for classical machine learning that are simple arithmetic.

Like the peer's kernels, those that compute with numbers give single precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dovetail.errors import counted
from dovetail.ir import Array, DType, Shape, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importers
from dovetail_onnx.operators._formula import Expr, operand, sigmoid, value_of, where
from dovetail_onnx.operators._parts import constant
from dovetail_opset.importing.constant import Value
from dovetail_opset.importing.indices import indices_tensor

CLASSICAL = Importers("ai.onnx.ml")

_T = TypeVar("_T")
_NORMS = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}


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


@CLASSICAL.importer("Scaler", versions=(1,))
def scaler(op: OpContext) -> Value:
    """Compute (x - offset) * scale, with one number or one for each feature."""
    x = value_of(op, 0).cast(DType.FLOAT_32)
    offset, scale = (_by_feature(op, name, x.shape) for name in ("offset", "scale"))
    return ((x - offset) * scale).emit()


@CLASSICAL.importer("Imputer", versions=(1,))
def imputer(op: OpContext) -> Value:
    """Replace a value, or NaN, by one number or one for each feature."""
    x = value_of(op, 0)
    if x.dtype.is_float:
        missing = op.attr.number("replaced_value_float", 0.0)
        numbers: ArrayLike = _by_feature(op, "imputed_value_floats", x.shape)
    else:
        missing = op.attr.integer("replaced_value_int64", 0)
        found = op.attr.integers("imputed_value_int64s") or ()
        numbers = np.asarray(_checked(op, "imputed_value_int64s", found, x.shape))
    is_missing = x.apply("IsNaN") if math.isnan(missing) else x.equals(missing)
    return where(is_missing, x.expr(numbers), x).emit()


@CLASSICAL.importer("Normalizer", versions=(1,))
def normalizer(op: OpContext) -> Value:
    """Divide each row by its maximum, its sum of magnitudes or its length, unless that is 0."""
    x = value_of(op, 0).cast(DType.FLOAT_32)
    norm = op.attr.text("norm", "MAX")
    if norm not in _NORMS:
        raise op.invalid(f"unsupported norm '{norm}'; expected one of {', '.join(_NORMS)}")
    if not x.shape:
        raise op.invalid("input must not be a scalar")
    axes = constant(op, "axes", [-1], DType.INT_64)
    divisor = x.apply(_NORMS[norm], axes, keepdims=1).named("norm")
    return (x / where(divisor.equals(0.0), 1.0, divisor)).emit()


@CLASSICAL.importer("FeatureVectorizer", versions=(1,))
def feature_vectorizer(op: OpContext) -> Value:
    """Concat of features, a vector as one row."""
    parts = []
    for i in range(op.count):
        x = value_of(op, i).cast(DType.FLOAT_32)
        if len(x.shape) not in (1, 2):
            raise op.invalid(f"input {x.shape} must have 1 or 2 axes")
        parts.append(x.reshaped((1, *x.shape)) if len(x.shape) == 1 else x)
    return parts[0].apply("Concat", *parts[1:], axis=1).emit()


@CLASSICAL.importer("LinearRegressor", versions=(1,))
def linear_regressor(op: OpContext) -> Value:
    """FullyConnected, and what transforms the results."""
    return _transformed(op, _linear(op, op.attr.integer("targets", 1))).emit()


@CLASSICAL.importer("LinearClassifier", versions=(1,))
def linear_classifier(op: OpContext) -> Sequence[Value | None]:
    """FullyConnected, what transforms the scores, and the label of the highest one."""
    labels = op.attr.integers("classlabels_ints") or ()
    classes = len(labels) or len(op.attr.texts("classlabels_strings") or ())
    if op.is_output_used(0) and not labels:
        raise op.unsupported(
            "unsupported class labels: strings", hint="convert only the scores, with --out-name"
        )
    weights, rows = op.attr.numbers("coefficients") or (), _rows(op)
    if len(weights) != classes * rows.shape[1]:
        raise op.unsupported(
            f"unsupported {counted(len(weights), 'coefficient')} for "
            f"{counted(classes, 'class label')} and {counted(rows.shape[1], 'feature')}",
            hint="export the classifier with one row of coefficients for each class",
        )
    scores = _linear(op, classes)
    transformed = _transformed(op, scores).emit(1) if op.is_output_used(1) else None
    if not op.is_output_used(0):
        return [None, transformed]
    best = scores.apply("ArgMax", axis=1, keepdims=0)
    label = Expr(op, constant(op, "labels", labels, DType.INT_64)).apply("Gather", best)
    return [label.emit(), transformed]


def _linear(op: OpContext, targets: int) -> Expr:
    """Return the products of (n, features) and the coefficients, (targets, features)."""
    rows = _rows(op)
    weights = op.attr.numbers("coefficients") or ()
    biases = op.attr.numbers("intercepts") or (0.0,) * targets
    if targets < 1 or len(weights) != targets * rows.shape[1] or len(biases) != targets:
        raise op.invalid(
            f"{counted(len(weights), 'coefficient')} and {counted(len(biases), 'intercept')} do "
            f"not match {counted(rows.shape[1], 'feature')} and {counted(targets, 'target')}"
        )
    matrix = np.reshape(np.asarray(weights, np.float32), (targets, -1))
    held = constant(op, "coefficients", matrix, DType.FLOAT_32)
    bias = constant(op, "intercepts", biases, DType.FLOAT_32)
    return rows.apply("Gemm", held, bias, transB=1).named("scores")


def _rows(op: OpContext) -> Expr:
    """Return the input as rows of features, a vector as one row."""
    x = value_of(op, 0).cast(DType.FLOAT_32)
    if len(x.shape) not in (1, 2):
        raise op.invalid(f"input {x.shape} must have 1 or 2 axes")
    return x.reshaped((1, *x.shape)) if len(x.shape) == 1 else x


def _transformed(op: OpContext, scores: Expr) -> Expr:
    name = op.attr.text("post_transform", "NONE")
    if name != "NONE" and scores.shape[-1] == 1:  # ONNX Runtime's kernels leave it out
        raise op.unsupported(
            f"unsupported post_transform '{name}' of a single result",
            hint="export the model without it, and with an operator of its own after this one",
        )
    if name == "LOGISTIC":
        return sigmoid(scores)
    if name == "SOFTMAX":
        return scores.apply("Softmax", axis=-1)
    if name != "NONE":
        raise op.unsupported(
            f"unsupported post_transform '{name}'; expected NONE, LOGISTIC or SOFTMAX",
            hint="export the model with another transform",
        )
    return scores


def _by_feature(op: OpContext, name: str, shape: Shape) -> Array:
    """Return an attribute's numbers, one for all features or one for each."""
    return np.asarray(_checked(op, name, op.attr.numbers(name) or (), shape), np.float32)


def _checked(op: OpContext, name: str, given: Sequence[_T], shape: Shape) -> Sequence[_T]:
    features = shape[-1] if shape else 1
    if len(given) not in (1, features):
        raise op.invalid(f"{name} has {counted(len(given), 'number')} for {features} features")
    return given
