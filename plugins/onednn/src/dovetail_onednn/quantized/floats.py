"""Products of stored integers by float32 code, which is exact while sums stay below 2**24.

For processors without exact code for bytes, and for weights that are no signed bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import Algorithm, Arg, BinaryAlgorithm
from dovetail_onednn.attributes import Binary, Eltwise, PostOp, operand
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import OneDnnLayout
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.products import DATA, WEIGHTS, Integers, levels_of
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.reorder import Arrays, given, pack
from dovetail_onednn.steps import is_slow

Ops = tuple[PostOp, ...]
# Describes the primitive with post-ops, with dense operands or in layouts that it chooses.
Describe = Callable[[Ops, bool], PrimitiveDesc]


def float_step(
    call: KernelCall,
    integers: Integers,
    describe: Describe,
    operands: tuple[MemoryDesc, MemoryDesc, MemoryDesc],
    accepts: Callable[[PrimitiveDesc], bool] = lambda desc: not is_slow(desc),
    *,
    can_fuse: bool = True,
) -> Step | None:
    """Return the step of a product; None if the library has no code that is accepted.

    Args:
        call: The call of the kernel.
        integers: Its numbers; it is exact in float32.
        describe: Describes the primitive, without a bias.
        operands: Dense descriptors of source, weights and result, float32.
        accepts: Returns whether the code of a primitive is good enough.
        can_fuse: Whether the product may have post-ops; see `dovetail_onednn.transposed`.
    """
    source, weights, target = operands
    if integers.fused.added is not None:
        return None
    of_each = per_unit(integers.units, target)
    terms = [(BinaryAlgorithm.MULTIPLY, integers.rescale.multiplier)]
    terms += [(BinaryAlgorithm.ADD, integers.rescale.bias)] if integers.has_bias else []
    zero = integers.fused.zero
    binary = [Binary(algorithm, of_each) for algorithm, _ in terms]
    ops: Ops = (
        *binary,
        *integers.fused.ops,
        *((Eltwise(Algorithm.LINEAR, 1.0, float(zero)),) if zero else ()),
    )
    found = described(describe, [ops if can_fuse else ()], accepts)
    if found is None:
        return None
    (desc,) = found
    stages = Stages(call)
    data = Argument(source.of_type(integers.source), call.read(DATA))
    real = stages.room(desc.desc(Arg.SOURCE))
    stages.move(data, real, integers.zero)
    result = stages.room(desc.desc(Arg.DESTINATION))
    arguments: dict[int, Argument] = {
        Arg.SOURCE: real,
        Arg.WEIGHTS: packed(call, desc, weights),
        Arg.DESTINATION: result,
    }
    numbers = [values for _, values in terms]
    add_product(stages, desc, arguments, ops, numbers, is_fused=can_fuse)
    stages.move(result, Argument(target.of_type(integers.target), call.write(0)))
    return stages.step()


def described(
    describe: Describe, chains: Sequence[Ops], accepts: Callable[[PrimitiveDesc], bool]
) -> list[PrimitiveDesc] | None:
    """Return descriptions of products; None if none will do.

    Args:
        describe: Describes a product.
        chains: The post-ops of each.
        accepts: Returns whether the code of a primitive is good enough.
    """
    for is_dense in (True, False):
        found = [describe(ops, is_dense) for ops in chains]
        if all(map(accepts, found)):
            return found
    return None


def add_product(
    stages: Stages,
    desc: PrimitiveDesc,
    arguments: dict[int, Argument],
    ops: Ops,
    numbers: Sequence[Array],
    *,
    is_fused: bool,
) -> None:
    """Add a product, and post-ops of which the first ones read numbers for each channel.

    Args:
        stages: The step.
        desc: The product.
        arguments: Its data, weights and result.
        ops: The post-ops.
        numbers: Those numbers.
        is_fused: Whether the product has the post-ops; if not, another primitive does.
    """
    result = arguments[Arg.DESTINATION]
    units = result.desc.dims[1]
    if not is_fused:
        stages.add(desc, arguments)
        terms = zip_longest(ops, numbers)
        stages.add_terms((result, result), 0.0, [*terms], units)
        return
    for position, (op, values) in enumerate(zip(ops, numbers, strict=False)):
        if isinstance(op, Binary):
            full = np.broadcast_to(values.reshape(-1), (units,))
            arguments[operand(position, op)] = stages.numbers(full, op.other)
    stages.add(desc, arguments)


def per_unit(units: int, target: MemoryDesc) -> MemoryDesc:
    """Describe a number for each output channel of a result."""
    axes = (1, units, *(1,) * (len(target.dims) - 2))
    return MemoryDesc.strided(axes, tuple(1 if n > 1 else units for n in axes))


def packed(call: KernelCall, desc: PrimitiveDesc, weights: MemoryDesc, shift: int = 0) -> Argument:
    """Return the levels of the weights as float32, packed for a primitive.

    Args:
        call: The call of the kernel.
        desc: The primitive.
        weights: Dense descriptor of the weights, float32.
        shift: 8 for the upper bytes of 16-bit weights.
    """
    layout = OneDnnLayout(desc.desc(Arg.WEIGHTS), weights)

    def make(arrays: Arrays, specs: Sequence[Spec | None]) -> Array:
        levels = levels_of(given(arrays[0]), specs[0], shift)
        return pack(np.ascontiguousarray(levels, np.float32), layout)

    value = call.read_packed(WEIGHTS, f"integers as float32 {shift} {layout.key}", make, layout)
    return Argument(layout.desc, value)
