"""Elementwise functions of one tensor and of two, with what follows them.

The library has fast code for what follows a function of two tensors, generic code for what follows
one of one. So that one runs as a post-op itself: after a product with 1, which changes nothing.

The library differs in two points, here as in post-ops: Gelu of an infinity is NaN, and so is Relu
of minus infinity as a post-op (see `RELU`). NaN stays NaN: functions that lose it are left to NumPy
(maximum and minimum of two tensors, clipping with a lower bound other than 0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import FORWARD_INFERENCE, Algorithm, Arg, BinaryAlgorithm, DataType
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.folding import Folding
from dovetail_onednn.handles import engine
from dovetail_onednn.layouts import input_type, narrow_layout, vector
from dovetail_onednn.post_ops import (
    BINARY,
    COMMUTATIVE,
    SWISH,
    Chain,
    Functions,
    chain_of,
    functions_of,
)
from dovetail_onednn.primitives import RELU, Attributes, Binary, Eltwise, PostOp, PrimitiveDesc
from dovetail_onednn.steps import Arguments, from_one_to_one, is_float32, is_slow

# The ops of one function that `post_ops.functions_of` knows.
FUNCTIONS = (
    "ElementWiseAbs",
    "ElementWiseNeuron",
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
# Elements, counted once for each node of a group, below which NumPy's calls are faster: for
# functions that are an instruction or two, and for those that NumPy makes of several or slow ones.
_LEAST = 16384
_LEAST_SLOW = 512
_QUICK = frozenset((Algorithm.RELU, Algorithm.CLIP, Algorithm.ABS, Algorithm.SQRT, Algorithm.TANH))
# Relu of -inf too; reading and writing the tensor takes longer than its exponentials.
_EXACT_RELU = Eltwise(Algorithm.ELU)
# Elements of a row below which NumPy is faster at one function of a tensor and one that broadcasts:
# the library's code takes as long for a short row as for one of 16.
_NARROW = 16


@dataclass(frozen=True, slots=True)
class Second:
    """The second operand of a function of two tensors.

    Attributes:
        algorithm: The function.
        index: Which input of the call it is; None stands for the number 1.
    """

    algorithm: BinaryAlgorithm
    index: int | None = None


def eltwise(call: KernelCall) -> Step | None:
    """Run a function of each element and its tail as one primitive; see `Kernel.make`."""
    functions = functions_of(call.head)
    if not functions or not is_float32(call):
        return None
    skipped = int(_makes_swish(call, functions[0]))
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
    """Run a function of two tensors and its tail as one primitive; see `Kernel.make`.

    The first operand must have the result's shape; where the function allows it they are exchanged.
    """
    algorithm = BINARY[call.head.op_type]
    is_narrow = any(narrow_layout(call, index) for index in (0, 1))
    if not is_float32(call) or (_work(call) < _LEAST and not is_narrow):
        return None
    made = call.outputs[0].shape
    first, second = 0, 1
    if call.spec(0).shape != made:
        first, second = 1, 0
        if algorithm not in COMMUTATIVE or call.spec(1).shape != made:
            return None
    return joined(call, first, Second(algorithm, second))


def _work(call: KernelCall) -> int:
    return math.prod(call.outputs[0].shape) * (1 + len(call.fused))


def _makes_swish(call: KernelCall, function: Eltwise) -> bool:
    """Return whether a sigmoid is multiplied by its own input."""
    if function.algorithm is not Algorithm.LOGISTIC or not call.fused:
        return False
    after = call.fused[0]
    others = [call.tensors[i] for i in after.operands if i is not None]
    return after.view.op_type == "ElementWiseMultiply" and others == [call.tensors[0]]


def eltwise_desc(function: Eltwise, flat: MemoryDesc) -> PrimitiveDesc:
    """Describe a function of each element of a vector."""
    with Attributes() as attributes:
        return PrimitiveDesc(
            "eltwise_forward",
            engine(),
            FORWARD_INFERENCE,
            function.algorithm,
            flat,
            flat,
            function.alpha,
            function.beta,
            attributes,
            description=f"a {flat.type.text} {function} of {flat.dims[0]} elements",
        )


def _alone(call: KernelCall, functions: Functions) -> Step | None:
    """Return the step of one function; clipping is left to NumPy, which keeps infinities too."""
    if len(functions) > 1:
        return None
    function = _EXACT_RELU if functions[0] == RELU else functions[0]
    flat = vector(math.prod(call.outputs[0].shape))
    desc = eltwise_desc(function, flat.of_type(input_type(call)))
    return from_one_to_one(call, desc, flat, flat, in_place=[(0, 0)])


def joined(
    call: KernelCall,
    source: int,
    second: Second,
    before: Sequence[Eltwise | Second] = (),
    skipped: int = 0,
) -> Step | None:
    """Return the step of a function of two tensors and what follows it.

    Args:
        call: All float32, with elements.
        source: The input that is the first operand; it has the result's shape.
        second: The function and its second operand.
        before: What is done before the call's tail.
        skipped: How many nodes of the tail are among that.
    """
    made = call.outputs[0].shape
    indices = [each.index for each in (second, *before) if isinstance(each, Second)]
    indices += [index for tail in call.fused[skipped:] for index in tail.operands]
    folding = Folding.of(made, [call.spec(i).shape for i in indices if i is not None])
    kind = input_type(call, source)
    chain = _chain(call, before, skipped, folding, kind)
    if not chain.ops and folding.width < _NARROW and folding.width < math.prod(made):
        return None
    full, other = folding.desc(made), folding.desc(_shape(call, second))
    of_other = kind if other == full else _type(call, second)
    with _described(second.algorithm, full.of_type(kind), other.of_type(of_other), chain) as desc:
        if is_slow(desc):
            return None
        places = Arguments(call, desc)
        places.read(Arg.SOURCE, source, full)
        if second.index is None:
            places.constant(Arg.OTHER, call.constant(np.ones(1, np.float32)), other)
        else:
            places.read(Arg.OTHER, second.index, other)
        places.read_chain(chain)
        places.write(Arg.DESTINATION, 0, full)
        return places.step(in_place=[(0, 0)])


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
    """Return what is done before the tail and the rest of the tail as one chain."""
    ops: list[PostOp] = []
    operands: list[tuple[int, int]] = []
    for each in before:
        if isinstance(each, Second) and each.index is not None:
            operands.append((len(ops), each.index))
            ops.append(Binary(each.algorithm, folding.desc(_shape(call, each))))
        elif isinstance(each, Eltwise):
            ops.append(each)
    tail = chain_of(call, folding.desc, kind)
    shift = len(ops) - skipped
    operands += [(at + shift, index) for at, index in tail.operands if at >= skipped]
    return Chain((*ops, *tail.ops[skipped:]), tuple(operands))


def _described(
    algorithm: BinaryAlgorithm, full: MemoryDesc, other: MemoryDesc, chain: Chain
) -> PrimitiveDesc:
    tail = "".join(f" + {op}" for op in chain.ops)
    with Attributes(chain.ops) as attributes:
        return PrimitiveDesc(
            "binary",
            engine(),
            algorithm,
            full,
            other,
            full,
            attributes,
            description=f"a {full.type.text} {algorithm.name.lower()}{tail} of {full.key} and "
            f"{other.key}",
        )
