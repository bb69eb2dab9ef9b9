"""Products of stored integers by float32 code, which is exact while sums stay below 2**24.

For processors without exact code for bytes, and for weights that are no signed bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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

# Describes the primitive with post-ops, with dense operands or in layouts that it chooses.
Describe = Callable[[tuple[PostOp, ...], bool], PrimitiveDesc]


def float_step(
    call: KernelCall,
    integers: Integers,
    describe: Describe,
    operands: tuple[MemoryDesc, MemoryDesc, MemoryDesc],
    accepts: Callable[[PrimitiveDesc], bool] = lambda desc: not is_slow(desc),
) -> Step | None:
    """Return the step of a product; None if the library has no code that is accepted.

    Args:
        call: The call of the kernel.
        integers: Its numbers; it is exact in float32.
        describe: Describes the primitive, without a bias.
        operands: Dense descriptors of source, weights and result, float32.
        accepts: Returns whether the code of a primitive is good enough.
    """
    source, weights, target = operands
    if integers.fused.added is not None:
        return None
    of_each = per_unit(integers.units, target)
    terms = [(BinaryAlgorithm.MULTIPLY, integers.rescale.multiplier)]
    terms += [(BinaryAlgorithm.ADD, integers.rescale.bias)] if integers.has_bias else []
    zero = integers.fused.zero
    binary = [Binary(algorithm, of_each) for algorithm, _ in terms]
    ops: tuple[PostOp, ...] = (
        *binary,
        *integers.fused.ops,
        *((Eltwise(Algorithm.LINEAR, 1.0, float(zero)),) if zero else ()),
    )
    desc = next((d for d in (describe(ops, True), describe(ops, False)) if accepts(d)), None)
    if desc is None:
        return None
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
    for position, (op, (_, values)) in enumerate(zip(binary, terms, strict=True)):
        full = np.broadcast_to(values, (integers.units,))
        arguments[operand(position, op)] = stages.numbers(full, of_each)
    stages.add(desc, arguments)
    stages.move(result, Argument(target.of_type(integers.target), call.write(0)))
    return stages.step()


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
