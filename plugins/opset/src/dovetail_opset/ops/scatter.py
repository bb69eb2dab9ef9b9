"""Scattering by index."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import BatchAxis, Domain, In, Op, choice, scalar, uint32
from dovetail_opset._constants import CONSTANT_TYPES, need_storable, stored_constant
from dovetail_opset._indices import INDEX_TYPES, along, linear, need_within
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import (
    computed,
    first_rank,
    moved,
    need_axis,
    need_same_type,
    need_shape,
)


class ElementsReduction(enum.IntEnum):
    """Combination of an element and its update by ScatterElements; NONE: the update."""

    NONE = 0
    ADD = 1
    MUL = 2
    MAX = 3


class NdReduction(enum.IntEnum):
    """Combination of an element and its update by ScatterNd; NONE: the update."""

    NONE = 0
    ADD = 1
    MUL = 2


_FUNCTIONS: dict[str, np.ufunc] = {"ADD": np.add, "MUL": np.multiply, "MAX": np.maximum}


class _Scatter(Op):
    """Base of the ops that update elements; REAL, since some of them compute."""

    inputs = (In("in[0]"), In("in[1]", INDEX_TYPES), In("in[2]"))
    reduction: Any

    @property
    def keeps(self) -> tuple[int, ...]:
        return () if self.reduction else (0, 2)

    def result(self, data: Spec, updates: Spec, out: Spec | None) -> Spec:
        """Return the spec of the updated data."""
        need_same_type(data, updates)
        follow: Callable[..., Spec] = computed if self.reduction else moved
        return follow(data, data.shape, out)

    def update(self, data: Array, positions: Any, updates: Array) -> None:
        """Update elements in place; without a reduction the last of several updates is kept."""
        if self.reduction:
            _FUNCTIONS[self.reduction.name].at(data, positions, updates)
        else:
            data[positions] = updates


@PACKAGE.op("ScatterElements")
class ScatterElements(_Scatter):
    """`data` with the element at each index along `axis` updated.

    data: any shape; indices: the same rank, on other axes than `axis` not larger, where they update
    the same positions; updates: the shape of the indices. Returns the shape of the data. A negative
    index counts from the end; one out of range is an error. Of several updates of one element
    without a reduction the last is kept.
    """

    batch_axis = BatchAxis.ANY

    source = "spec/qnn_ops.md, ScatterElements; ONNX ScatterElements"

    axis = uint32(0)
    reduction = choice(ElementsReduction, ElementsReduction.NONE)

    def infer(self, data: Spec, indices: Spec, updates: Spec, out: Spec | None) -> Spec:
        need_within(indices, data, need_axis(self.axis, len(data.shape)))
        need_shape(updates, indices.shape, "in[2]")
        return self.result(data, updates, out)

    def reference(self, data: Array, indices: Array, updates: Array) -> Array:
        positions = along(indices, self.axis, data.shape[self.axis])
        result = data.copy()
        self.update(result, positions, updates)
        return result


@PACKAGE.op("ScatterNd")
class ScatterNd(_Scatter):
    """`data` with slices updated, each selected by a row of indices into the first dimensions.

    data: (*d, *slice); indices: (*rows, k), k the number of dimensions d; updates: (*rows, *slice).
    Returns the shape of the data. A negative index counts from the end; one out of range is an
    error. Of several updates of one slice without a reduction the last is kept.
    """

    source = "spec/qnn_ops.md, ScatterNd; ONNX ScatterND"

    reduction = choice(NdReduction, NdReduction.NONE)

    def infer(self, data: Spec, indices: Spec, updates: Spec, out: Spec | None) -> Spec:
        if not indices.shape:
            raise OpError("in[1] must have rank 1 or more, but its shape is ()")
        depth = indices.shape[-1]
        if depth > len(data.shape):
            raise OpError(
                f"in[1] {indices.shape} has rows of {depth} indices, but in[0] {data.shape} has "
                f"{len(data.shape)} dimensions to index"
            )
        need_shape(updates, (*indices.shape[:-1], *data.shape[depth:]), "in[2]")
        return self.result(data, updates, out)

    def reference(self, data: Array, indices: Array, updates: Array) -> Array:
        result = data.copy()
        self.scatter(result, indices, updates)
        return result

    def scatter(self, data: Array, indices: Array, updates: Array) -> None:
        """Update slices of `data`, whose elements must be in order, in place.

        Raises:
            OpError: An index is out of range; nothing is updated then.
        """
        depth = indices.shape[-1]
        inner, slices = data.shape[:depth], data.shape[depth:]
        positions = linear(indices, inner).reshape(-1)
        flat = data.reshape(math.prod(inner), *slices)
        self.update(flat, positions, updates.reshape(len(positions), *slices))


@PACKAGE.op("OneHot")
class OneHot(Op):
    """`on_value` at each index along a new dimension, `off_value` elsewhere.

    indices: any shape; a negative one counts from the end, one out of range sets no on_value.
    Returns the shape with `depth` at `axis`, an axis of the result. The output declares the type,
    which defaults to that of on_value: FLOAT_32, INT_32 or BOOL_8. For a fixed-point output an
    integer is a stored value and a float a real value.
    """

    inputs = (In("in[0]", INDEX_TYPES),)
    domain = Domain.STORED
    source = "spec/qnn_ops.md, OneHot; ONNX OneHot"

    depth = uint32()
    axis = uint32(first_rank)
    on_value = scalar(1.0, dtypes=CONSTANT_TYPES)
    off_value = scalar(0.0, dtypes=CONSTANT_TYPES)

    def infer(self, indices: Spec, out: Spec | None) -> Spec:
        axis = need_axis(self.axis, len(indices.shape) + 1)
        shape = (*indices.shape[:axis], self.depth, *indices.shape[axis:])
        if out is None:
            out = Spec(_type_of(self.on_value), shape)
        for name, value in (("on_value", self.on_value), ("off_value", self.off_value)):
            need_storable(value, out, name)
        return Spec(out.dtype, shape, out.encoding)

    def reference(self, indices: Array, out: Spec) -> Array:
        wanted = indices.astype(np.int64)
        wanted = np.where(wanted < 0, wanted + self.depth, wanted)
        on, off = (stored_constant(v, out) for v in (self.on_value, self.off_value))
        found = np.full(out.shape, off, off.dtype)
        exists = (wanted >= 0) & (wanted < self.depth)
        np.moveaxis(found, self.axis, -1)[exists, wanted[exists]] = on
        return found


def _type_of(value: Any) -> DType:
    if isinstance(value, bool | np.bool_):
        return DType.BOOL_8
    return DType.INT_32 if isinstance(value, int | np.integer) else DType.FLOAT_32
