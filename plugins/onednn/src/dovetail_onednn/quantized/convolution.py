"""Convolutions of stored integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import DataType
from dovetail_onednn.attributes import PostOp
from dovetail_onednn.convolution import Geometry, convolution_desc, geometry_of
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.floats import float_step
from dovetail_onednn.quantized.products import DATA, Integers, integers_of, product_step
from dovetail_onednn.transposed import transposed_geometry

_BY_UNIT, _BY_GROUP_AND_UNIT = 0b1, 0b11  # masks of the axes of filters


def convolution(call: KernelCall) -> Step | None:
    """Run Conv1d to 3d; see `Kernel.make`."""
    source, groups = call.spec(DATA).shape, call.op.group
    if groups == source[-1]:
        return depthwise_convolution(call)
    return _step(call, lambda: geometry_of(call, groups, len(source) - 2))


def depthwise_convolution(call: KernelCall) -> Step | None:
    """Run DepthWiseConv1d and 2d, one axis as two; see `Kernel.make`."""
    source = call.spec(DATA).shape
    return _step(call, lambda: geometry_of(call, source[-1], max(2, len(source) - 2)))


def transposed_convolution(call: KernelCall) -> Step | None:
    """Run TransposeConv1d to 3d; see `Kernel.make`."""
    return _step(call, lambda: transposed_geometry(call))


def _step(call: KernelCall, geometry_in: Callable[[], Geometry]) -> Step | None:
    """Return the step of a convolution; None if the definition runs it.

    Source and result are dense: the library's code for integers is fastest with channels last.
    """
    integers = integers_of(call, call.outputs[0].shape[-1])
    if integers is None:
        return None
    geometry = geometry_in()
    if integers.are_bytes:
        return _in_bytes(call, geometry, integers)
    return _in_floats(call, geometry, integers) if integers.is_exact_in_float else None


def _in_bytes(call: KernelCall, geometry: Geometry, integers: Integers) -> Step | None:
    dense = geometry.source.of_type(integers.source), geometry.target.of_type(integers.target)
    has_groups = len(geometry.weights.dims) > len(geometry.source.dims)
    quantization = integers.quantization(_BY_GROUP_AND_UNIT if has_groups else _BY_UNIT)
    with convolution_desc(geometry, integers.fused.ops, dense, quantization) as desc:
        return product_step(call, desc, integers, geometry.weights.of_type(DataType.S8))


def _in_floats(call: KernelCall, geometry: Geometry, integers: Integers) -> Step | None:
    plain, dense = replace(geometry, bias=None), (geometry.source, geometry.target)

    def describe(ops: tuple[PostOp, ...], is_dense: bool) -> PrimitiveDesc:
        return convolution_desc(plain, ops, dense if is_dense else (None, None))

    operands = geometry.source, geometry.weights, geometry.target
    return float_step(call, integers, describe, operands)
