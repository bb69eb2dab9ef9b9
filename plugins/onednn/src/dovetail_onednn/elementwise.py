"""Elementwise functions of one tensor and of two, with fused nodes.

The library has fast code for post-ops of a function of two tensors, and generic code for those of a
function of one. So the latter runs as a post-op itself, of a product with 1.

The library differs in two points, here as in post-ops: Gelu of an infinity is NaN, and so is Relu
of minus infinity as a post-op (see `RELU`). NaN stays NaN: functions that lose it are left to NumPy
(maximum and minimum of two tensors, clipping with a lower bound other than 0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from dovetail.ir import Shape
from dovetail.ops import NodeView
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_numpy.kernels.elementwise import whole_exponent
from dovetail_onednn._api import FORWARD_INFERENCE, Algorithm, Arg, BinaryAlgorithm, DataType
from dovetail_onednn.attributes import RELU, Binary, Eltwise, PostOp
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.folding import Folding
from dovetail_onednn.layouts import input_type, narrow_layout, vector
from dovetail_onednn.post_ops import (
    BINARY,
    COMMUTATIVE,
    LONGEST,
    SWISH,
    Chain,
    Functions,
    can_fuse,
    chain_of,
    functions_of,
)
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.steps import Arguments, from_one_to_one, is_slow
from dovetail_onednn.threads import current_threads

# The ops that `post_ops.functions_of` supports.
FUNCTIONS = (
    "ElementWiseAbs",
    "ElementWiseNeuron",
    "ElementWiseRound",
    "ElementWiseSquareRoot",
    "Elu",
    "Gelu",
    "HardSwish",
    "Prelu",
    "Relu",
    "Relu6",
    "ReluMinMax",
    "Sigmoid",
    "Tanh",
)
# With fewer elements, counted once for each node of a group, NumPy's calls are faster: for
# functions of an instruction or two, and for those that take NumPy several calls or slow ones.
_LEAST = 16384
_LEAST_SLOW = 512
# With as many fused nodes the library takes half of the time of NumPy's calls at any size, which is
# worth the compilation of a primitive.
_FEWEST_FUSED = 2
_QUICK = frozenset(
    (
        Algorithm.RELU,
        Algorithm.CLIP,
        Algorithm.ABS,
        Algorithm.ROUND,
        Algorithm.SQRT,
        Algorithm.TANH,
    )
)
# Ops whose results have the same bits in NumPy; Relu differs for -inf.
_EXACT = frozenset((*BINARY, "ElementWiseAbs", "ElementWiseRound"))
# Exact for -inf too. In float32 NumPy's maximum takes half of its time, in one thread.
_EXACT_RELU = Eltwise(Algorithm.ELU)
_MOST_THREADS = 2
# With shorter rows NumPy is faster at a single function of a tensor and one that broadcasts: the
# library's code takes as long for a short row as for one of 16.
_NARROW = 16


class Second(msgspec.Struct, frozen=True):
    """The second operand of a function of two tensors.

    Attributes:
        algorithm: The function.
        index: The input of the call; None is the number 1.
    """

    algorithm: BinaryAlgorithm
    index: int | None = None


def can_fuse_binary(group: Sequence[NodeView], node: NodeView) -> bool:
    """Return whether a node can run after a function of two tensors; see `Kernel.can_fuse`.

    Few elements are left to NumPy if a fused node has other bits there, so that such a node ends
    the group.
    """
    is_few = math.prod(group[0].outs[0].shape) * LONGEST < _LEAST
    return can_fuse(group, node) and (not is_few or node.op_type in _EXACT)


def eltwise(call: KernelCall) -> Step | None:
    """Run a function of each element and fused nodes as one primitive; see `Kernel.make`."""
    functions = functions_of(call.head)
    if not functions or not is_float32(call):
        return None
    skipped = int(_is_swish(call, functions[0]))
    if skipped:
        functions = (SWISH,)
    is_quick = functions[0] == RELU or functions[0].algorithm in _QUICK
    least = _LEAST if is_quick else _LEAST_SLOW
    if _work(call) < least and narrow_layout(call) is None:
        return None
    if len(call.fused) == skipped:
        return _alone(call, functions)
    return joined(call, 0, Second(BinaryAlgorithm.MULTIPLY), functions, skipped)


def binary(call: KernelCall) -> Step | None:
    """Run a function of two tensors and fused nodes as one primitive; see `Kernel.make`.

    The first operand must have the result's shape; the operands of commutative functions are
    exchanged if necessary.
    """
    algorithm = BINARY[call.head.op_type]
    is_narrow = any(narrow_layout(call, index) for index in (0, 1))
    if not is_float32(call) or not (is_narrow or _is_large(call)):
        return None
    result = call.outputs[0].shape
    first, second = 0, 1
    if call.spec(0).shape != result:
        first, second = 1, 0
        if algorithm not in COMMUTATIVE or call.spec(1).shape != result:
            return None
    return joined(call, first, Second(algorithm, second))


def power(call: KernelCall) -> Step | None:
    """Run squares and cubes, and fused nodes, as one primitive of products; see `Kernel.make`."""
    factors = whole_exponent(call)
    if factors not in (2, 3) or not is_float32(call) or _work(call) < _LEAST:
        return None
    by_base = Second(BinaryAlgorithm.MULTIPLY, 0)
    return joined(call, 0, by_base, (by_base,) * (factors - 2))


def exponential(call: KernelCall) -> Step | None:
    """Run Exp and fused nodes as one primitive; see `Kernel.make`.

    The library's exponential of NaN is infinite. The maximum of it and x is NaN, and otherwise the
    exponential, since that is always the larger one.
    """
    if not is_float32(call) or _work(call) < _LEAST:
        return None
    by_x = Second(BinaryAlgorithm.MAXIMUM, 0)
    return joined(call, 0, Second(BinaryAlgorithm.MULTIPLY), (Eltwise(Algorithm.EXP), by_x))


def _is_large(call: KernelCall) -> bool:
    """Return whether a primitive is faster than NumPy's calls: one by one, or one for each node."""
    return _work(call) >= _LEAST or (len(call.fused) >= _FEWEST_FUSED and _is_exact(call))


def _is_exact(call: KernelCall) -> bool:
    """Return whether NumPy has the same results for all fused nodes."""
    return all(tail.view.op_type in _EXACT for tail in call.fused)


def _work(call: KernelCall) -> int:
    return math.prod(call.outputs[0].shape) * (1 + len(call.fused))


def _is_swish(call: KernelCall, function: Eltwise) -> bool:
    """Return whether a sigmoid is multiplied by its own input."""
    if function.algorithm is not Algorithm.LOGISTIC or not call.fused:
        return False
    after = call.fused[0]
    others = [call.tensors[i] for i in after.operands if i is not None]
    return after.view.op_type == "ElementWiseMultiply" and others == [call.tensors[0]]


def eltwise_description(function: Eltwise, flat: MemoryDesc) -> Description:
    """Describe a function of each element of a vector."""
    numbers = (float(function.alpha), float(function.beta))
    return Description(
        "eltwise_forward",
        (ENGINE, FORWARD_INFERENCE, function.algorithm, flat, flat, *numbers),
        lambda: f"a {flat.type.text} {function} of {flat.dims[0]} elements",
    )


def _alone(call: KernelCall, functions: Functions) -> Step | None:
    """Return the step of one function; None for clipping: NumPy is exact for infinities too."""
    is_few = narrow_layout(call) is None and current_threads() <= _MOST_THREADS
    if len(functions) > 1 or (functions[0] == RELU and is_few):
        return None
    function = _EXACT_RELU if functions[0] == RELU else functions[0]
    flat = vector(math.prod(call.outputs[0].shape))
    description = eltwise_description(function, flat.of_type(input_type(call)))
    with PrimitiveDesc(description) as desc:
        return from_one_to_one(call, desc, flat, flat, in_place=[(0, 0)])


def joined(
    call: KernelCall,
    source: int,
    second: Second,
    before: Sequence[Eltwise | Second] = (),
    skipped: int = 0,
) -> Step | None:
    """Return the step of a function of two tensors and its post-ops.

    Args:
        call: All tensors are float32 and not empty.
        source: The input that is the first operand; it has the result's shape.
        second: The function and its second operand.
        before: Functions before those of the fused nodes.
        skipped: Number of fused nodes that `before` has already.
    """
    result = call.outputs[0].shape
    indices = [each.index for each in (second, *before) if isinstance(each, Second)]
    indices += [index for node in call.fused[skipped:] for index in node.operands]
    folding = _folding(call, [index for index in indices if index is not None])
    kind = input_type(call, source)
    chain = _chain(call, before, skipped, folding, kind)
    if not chain.ops and folding.width < _NARROW and folding.width < math.prod(result):
        return None
    full, other = folding.desc(result), folding.desc(_shape(call, second))
    typed = other.of_type(kind if other == full else _type(call, second))
    described = binary_description(second.algorithm, full.of_type(kind), typed, chain)
    with PrimitiveDesc(described) as desc:
        if is_slow(desc):
            return None
        arguments = Arguments(call, desc)
        arguments.read(Arg.SOURCE, source, full)
        if second.index is None:
            arguments.constant(Arg.OTHER, call.constant(np.ones(1, np.float32)), other)
        else:
            arguments.read_operand(Arg.OTHER, second.index, typed, other, folding.repeats)
        arguments.read_chain(chain, folding.repeats)
        arguments.write(Arg.DESTINATION, 0, full)
        return arguments.step(in_place=[(0, 0)])


def _folding(call: KernelCall, indices: Sequence[int]) -> Folding:
    """Return the folding of the result and these inputs; only those with data are repeated."""
    result, shapes = call.outputs[0].shape, [call.spec(index).shape for index in indices]
    folding = Folding.repeating(result, shapes)
    is_known = all(
        call.has_data(index) or math.prod(shape) in (1, math.prod(result))
        for index, shape in zip(indices, shapes, strict=True)
    )
    return folding if is_known else Folding.of(result, shapes)


def _type(call: KernelCall, second: Second) -> DataType:
    return DataType.F32 if second.index is None else input_type(call, second.index)


def _shape(call: KernelCall, second: Second) -> Shape:
    return () if second.index is None else call.spec(second.index).shape


def _chain(
    call: KernelCall,
    before: Sequence[Eltwise | Second],
    skipped: int,
    folding: Folding,
    kind: DataType,
) -> Chain:
    """Return the chain of the functions in `before` and of the other fused nodes."""
    ops: list[PostOp] = []
    operands: list[tuple[int, int]] = []
    for each in before:
        if isinstance(each, Second) and each.index is not None:
            operands.append((len(ops), each.index))
            ops.append(Binary(each.algorithm, folding.desc(_shape(call, each))))
        elif isinstance(each, Eltwise):
            ops.append(each)
    fused = chain_of(call, folding.desc, kind)
    shift = len(ops) - skipped
    operands += [(at + shift, index) for at, index in fused.operands if at >= skipped]
    return Chain((*ops, *fused.ops[skipped:]), tuple(operands))


def binary_description(
    algorithm: BinaryAlgorithm, full: MemoryDesc, other: MemoryDesc, chain: Chain
) -> Description:
    """Describe a function of a tensor and one that broadcasts to it, and its post-ops."""
    fused = "".join(f" + {op}" for op in chain.ops)
    name = f"{full.type.text} {algorithm.name.lower()}{fused}"
    return Description(
        "binary",
        (ENGINE, algorithm, full, other, full),
        lambda: f"a {name} of {full.key} and {other.key}",
        chain.ops,
    )
