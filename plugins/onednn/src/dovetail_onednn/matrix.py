"""Matrix products with their bias and fused nodes.

Several rows by one constant matrix are a `matmul` with weights packed once per context. The time of
one row is that of reading the weights: an `inner_product` reads them unpacked, which is as fast
(4096 x 25088: 23 ms in one thread, packed 27) and needs no second copy. It also multiplies by a
matrix that is an input, up to twice as fast as `matmul`, and by one column: 4096 rows of 256 took
45 us and 142. Everything else is a batched `matmul` over strides. So are small products, since an
`inner_product` divides any work between threads. In bfloat16, constant weights are always packed.

With AVX2 the library packs the weights of an `inner_product` alone: 16 rows by (768, 3072) took
0.33 ms so and 0.66 as a `matmul`, 128 rows 2.4 and 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from dovetail.ir import Array, Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_onednn._api import Arg, DataType
from dovetail_onednn._library import library
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.layouts import (
    OneDnnLayout,
    Strided,
    aligned,
    dense,
    input_type,
    permuted,
    vector,
)
from dovetail_onednn.post_ops import Chain, chain_of
from dovetail_onednn.precision import factor_type
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.product import Product
from dovetail_onednn.reorder import Arrays, given, pack
from dovetail_onednn.steps import Arguments, is_slow
from dovetail_onednn.threads import LEAST_SHARED, threads_for

# With several rows and fewer columns of a result NumPy is faster: (256, 256) by (256, 2) took 0.005
# ms there and 0.013 here, by (256, 8) both took 0.011. But it divides larger products between
# threads of its own, whatever number the user set, and on a busy machine one waits for the other:
# (1024, 128) by (128, 4) then took 8 ms.
_NARROWEST = 8


def fully_connected(call: KernelCall) -> Step | None:
    """Run FullyConnected and fused nodes as one primitive; see `Kernel.make`."""
    if not _is_supported(call):
        return None
    units, depth = call.spec(1).shape
    return _by_one_matrix(call, depth, units, (1, depth))


def matmul(call: KernelCall) -> Step | None:
    """Run MatMul and fused nodes as one primitive; see `Kernel.make`."""
    if not _is_supported(call):
        return None
    matrix, transposed = call.spec(1).shape, bool(call.op.transpose_in1)
    if math.prod(matrix[:-2]) > 1 or call.op.transpose_in0:
        return _batched(call)
    depth, units = matrix[:-3:-1] if transposed else matrix[-2:]
    return _by_one_matrix(call, depth, units, (1, depth) if transposed else (units, 1))


def _is_supported(call: KernelCall) -> bool:
    """Return whether the library runs a call; small results of few columns are left to NumPy."""
    *stack, columns = call.outputs[0].shape
    is_left = columns < _NARROWEST and math.prod(stack) > 1 and call.head.work < LEAST_SHARED
    return is_float32(call) and not is_left


def _by_one_matrix(
    call: KernelCall, depth: int, units: int, strides: tuple[int, int]
) -> Step | None:
    """Multiply rows by one matrix, (depth, units) with these strides."""
    result = call.outputs[0].shape
    rows, is_known = math.prod(result[:-1]), call.has_data(1)
    has_bias, is_small = call.has(2), rows * depth * units < LEAST_SHARED
    kind = _type(call, rows * depth * units)
    chain = chain_of(call, lambda shape: dense(as_rows(shape, rows, units)), kind)
    source, target = dense((rows, depth)), dense((rows, units))
    is_unpacked = not is_small and (min(rows, units) == 1 or not is_known)
    if is_unpacked or (rows > 1 and is_known and not library().has_avx512):
        weights = MemoryDesc.strided((units, depth), strides[::-1])
        bias = vector(units) if has_bias else None
        product = Product("inner_product", source, weights, bias, target, kind)
        packs = is_known and (kind is not DataType.F32 or not is_unpacked)
        return _step(call, product, chain, packs=packs)
    weights = MemoryDesc.strided((depth, units), strides)
    bias = dense((1, units)) if has_bias else None
    product = Product("matmul", source, weights, bias, target, kind)
    return _step(call, product, chain, packs=is_known)


def as_rows(shape: Shape, rows: int, units: int) -> Shape:
    """Return the shape, aligned with (rows, units), of an operand of one element, a row or all."""
    count = math.prod(shape)
    return (rows, units) if count == rows * units else (1, count)


def _batched(call: KernelCall) -> Step | None:
    """Multiply stacks of matrices, transposed by strides, broadcast by axes of size 1."""
    result = call.outputs[0].shape
    rank = len(result)
    if result[-1] == 1 and math.prod(result) > 1:  # NumPy takes a third of the time
        return None
    bias = dense(aligned(result[-1:], rank)) if call.has(2) else None
    transposed = (call.op.transpose_in0, call.op.transpose_in1)
    depth = call.spec(0).shape[-2 if transposed[0] else -1]
    kind = _type(call, math.prod(result) * depth)
    chain = chain_of(call, lambda shape: dense(aligned(shape, rank)), kind)
    layouts = call.layout(0), call.layout(1)
    lazy = tuple(isinstance(each, Strided) and each.type is kind for each in layouts)
    for as_is in dict.fromkeys((lazy, (False, False))):
        source, weights = (
            _matrices(call, index, rank, transposed[index], as_is=as_is[index]) for index in (0, 1)
        )
        product = Product("matmul", source, weights, bias, dense(result), kind)
        if step := _step(call, product, chain, as_is=as_is):
            return step
    return None


def _type(call: KernelCall, products: int) -> DataType:
    """Return the type of operands: for few products the conversion takes longer than it saves."""
    is_narrow = any(input_type(call, index) is not DataType.F32 for index in (0, 1))
    return factor_type() if is_narrow or products >= LEAST_SHARED else DataType.F32


def _matrices(
    call: KernelCall, index: int, rank: int, is_transposed: bool, *, as_is: bool
) -> MemoryDesc:
    """Describe a stack of matrices; with `as_is`, a transpose without a copy by its strides."""
    shape, layout = aligned(call.spec(index).shape, rank), call.layout(index)
    *batch, row, column = range(rank)
    form = permuted(shape, (*batch, column, row) if is_transposed else (*batch, row, column))
    return layout.along(form) if as_is and isinstance(layout, Strided) else form


def _step(
    call: KernelCall,
    product: Product,
    chain: Chain,
    *,
    packs: bool = False,
    as_is: Sequence[bool] = (False, False),
) -> Step | None:
    """Return the step of a product; None if the library only has generic code for it.

    Args:
        call: The call of the kernel.
        product: Its operands.
        chain: The post-ops.
        packs: Whether the weights are constant and packed.
        as_is: For source and weights, whether their present layout is described.
    """
    wanted = product
    if packs:
        wanted = replace(product, weights=MemoryDesc.any(product.weights.dims, product.type))
    with threads_for(product.count):
        desc = wanted.described(chain.ops)
    with desc:
        if is_slow(desc):
            return None
        arguments = Arguments(call, desc)
        if as_is[0]:
            arguments.read_as_is(Arg.SOURCE, 0)
        else:
            arguments.read(Arg.SOURCE, 0, product.source)
        if as_is[1]:
            arguments.read_as_is(Arg.WEIGHTS, 1)
        elif packs:
            pack_weights(call, arguments, desc, product.weights)
        else:
            arguments.read(Arg.WEIGHTS, 1, product.weights)
        if product.bias is not None:
            arguments.read(Arg.BIAS, 2, product.bias)
        arguments.read_chain(chain)
        arguments.write(Arg.DESTINATION, 0, product.target)
        return arguments.step()


def pack_weights(
    call: KernelCall, arguments: Arguments, desc: PrimitiveDesc, unpacked: MemoryDesc, i: int = 1
) -> None:
    """Declare that constant weights are read, in the layout that the primitive chose.

    Args:
        call: The call of the kernel.
        arguments: Of the primitive.
        desc: The primitive's description.
        unpacked: The weights as they are stored.
        i: Index of the input.
    """
    packed = OneDnnLayout(desc.desc(Arg.WEIGHTS), unpacked)

    def make(arrays: Arrays, _: object) -> Array:
        return pack(given(arrays[0]), packed)

    arguments.constant(Arg.WEIGHTS, call.read_packed(i, packed.key, make, packed), packed.desc)
