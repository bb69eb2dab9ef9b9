"""Moves of stored integers: what exchanges axes, concatenation, and reshapes between grids."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Array, Shape, Tensor
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer.moves import requantizing_table
from dovetail_numpy.kernels.conditions import only_moves
from dovetail_numpy.kernels.lookup import is_identity
from dovetail_onednn._api import MAX_DIMS, Arg, BinaryAlgorithm, DataType
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument, Work
from dovetail_onednn.layouts import Strided, row_major, vector
from dovetail_onednn.primitives import PrimitiveDesc, reorder_description, reorder_primitive
from dovetail_onednn.quantized.curves import line_of
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES
from dovetail_onednn.reorder import moved
from dovetail_onednn.steps import execute

# NumPy copies fewer elements in less time than the call of a primitive takes.
_LEAST = 4096
_GENERATED = "jit:"  # implementations
# As bfloat16: numbers below the smallest normal one, and signalling NaN.
_FRAGILE = np.array(
    [sign | bits for sign in (0, 1 << 15) for bits in (*range(1, 0x80), *range(0x7F81, 0x7FC0))],
    np.uint16,
)


def rearranged(call: KernelCall) -> Step | None:
    """Run Transpose, ChannelShuffle, DepthToSpace and SpaceToDepth; see `Kernel.make`."""
    shape, out = call.spec(0).shape, call.outputs[0]
    is_large = math.prod(shape) >= _LEAST
    size = out.dtype.storage.itemsize
    if size > 2 or not is_large or not only_moves(call, 0):
        return None
    if (view := _view(call)) is not None:
        return view
    # the elements are never read, so all share one byte; strides are in elements
    dense = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), shape, row_major(shape))
    if call.head.op_type == "Transpose":
        turned: Array = dense.transpose([int(axis) for axis in call.op.perm])
    else:
        turned = call.op.arranged(dense)
    if not 0 < turned.ndim <= MAX_DIMS + 1 - size:
        return None
    layouts = turned.shape, turned.strides, row_major(turned.shape)
    source, target = _bytes(*layouts) if size == 1 else _words(*layouts)
    arguments: dict[int, Argument] = {
        Arg.SOURCE: Argument(source, call.read(0)),
        Arg.DESTINATION: Argument(target, call.write()),
    }
    return execute(call, Work(reorder_primitive(source, target), arguments))


def _bytes(shape: Shape, *strides: Shape) -> tuple[MemoryDesc, MemoryDesc]:
    """Describe bytes in two layouts."""
    first, second = (MemoryDesc.strided(shape, each, DataType.S8) for each in strides)
    return first, second


def _words(shape: Shape, *strides: Shape) -> tuple[MemoryDesc, MemoryDesc]:
    """Describe elements of 16 bits in two layouts.

    Some of the library's code copies bfloat16 with all its bits, some converts it, and changes
    signalling NaN and the smallest numbers. Pairs of bytes take three times as long.
    """
    first, second = (MemoryDesc.strided(shape, each, DataType.BF16) for each in strides)
    if _copies_bits(shape, strides[0], first, second):
        return first, second
    return _bytes((*shape, 2), *((*(2 * stride for stride in each), 1) for each in strides))


def _copies_bits(shape: Shape, strides: Shape, first: MemoryDesc, second: MemoryDesc) -> bool:
    """Return whether a copy keeps the bits of what a conversion would change."""
    with PrimitiveDesc(reorder_description(first, second)) as desc:
        if first == second or not desc.implementation.startswith(_GENERATED):
            return False  # what moves nothing is copied as fast as bytes
    elements = np.resize(_FRAGILE, math.prod(shape))
    wanted = np.lib.stride_tricks.as_strided(elements, shape, [2 * stride for stride in strides])
    found = moved(elements, first, second).view(np.uint16)
    return np.array_equal(found.reshape(shape), wanted)


def requantized(call: KernelCall) -> Step | None:
    """Run Reshape, ExpandDims and Squeeze of bytes to another grid; see `Kernel.make`."""
    x, out = call.spec(0), call.outputs[0].spec
    count = math.prod(x.shape)
    if count < _LEAST or not {x.dtype, out.dtype} <= TYPES.keys():
        return None
    if (x.dtype, x.encoding) == (out.dtype, out.encoding):
        return None
    table = requantizing_table(x, out)
    if table is None or is_identity(table):
        return None
    ops = line_of(x, table, out)
    if ops is None:
        return None
    source, target = (vector(count).of_type(TYPES[spec.dtype]) for spec in (x, out))
    stages, ends = Stages(call), (Argument(source, call.read(0)), Argument(target, call.write()))
    if not stages.combine(BinaryAlgorithm.MULTIPLY, ends[0], 1.0, ends[1], ops):
        raise AssertionError(f"the library only has generic code for {source.key}")
    return call.step(stages.execution(), in_place=[(0, 0)])


def _view(call: KernelCall) -> Step | None:
    """Return a transpose by strides, if products of two activations alone read the result."""
    view, kind, readers = call.head, TYPES.get(call.spec(0).dtype), call.readers()
    are_products = all(
        node.op_type == "MatMul" and node.package == view.package and _is_computed(node.inputs[1])
        for node in readers
    )
    if view.op_type != "Transpose" or kind is None or not readers or not are_products:
        return None
    perm = [int(axis) for axis in call.op.perm]
    return call.view(0, Strided.transposed(call.spec(0).shape, perm, kind))


def _is_computed(tensor: Tensor | None) -> bool:
    """Return whether a tensor is not constant."""
    return tensor is not None and tensor.data is None
