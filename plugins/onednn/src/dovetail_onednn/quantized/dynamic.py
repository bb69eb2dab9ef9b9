"""Dynamic quantization of activations, and their products by stored bytes.

The library multiplies bytes by bytes, with exact sums, then by both scales: as ONNX Runtime does.
Float products round each sum instead.
"""

# Annotations stay types: msgspec would compile texts at each start of a process (ADR 39).

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dovetail.ir import DType
from dovetail.runtime.plan import (
    Bind,
    Bound,
    Buffers,
    Data,
    KernelCall,
    PlanRecorder,
    RecipeError,
    Source,
    Step,
    Storage,
    Value,
)
from dovetail_onednn._api import SCALES, ZERO_POINTS, Algorithm, Arg, BinaryAlgorithm, DataType
from dovetail_onednn.attributes import Binary, Eltwise, Quantization, operand
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.dynamic_ops import scale_and_zero
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import dense
from dovetail_onednn.matrix import as_rows, pack_weights
from dovetail_onednn.post_ops import chain_of
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.matrix_products import BY_COLUMN, matrix_desc
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.recipes import BUILDERS
from dovetail_onednn.steps import Arguments, is_slow

_QUANTIZE = "onednn.dynamic_quantize"
_TYPES = [DType.FLOAT_32, DType.FLOAT_32, DType.UINT_8, DType.INT_32]
_Q, _SCALE, _ZERO, _WEIGHTS, _FACTORS, _BIAS = range(6)  # inputs of a product


def dynamic_matmul(call: KernelCall) -> Step | None:
    """Run DynamicMatMul and fused nodes as one primitive; see `Kernel.make`."""
    depth, units = call.spec(_WEIGHTS).shape
    rows = math.prod(call.spec(_Q).shape) // depth
    chain = chain_of(call, lambda shape: dense(as_rows(shape, rows, units)))
    matrix, offset = dense((depth, units)).of_type(DataType.S8), int(call.op.offset)
    mask = BY_COLUMN if math.prod(call.spec(_FACTORS).shape) > 1 else 0
    quantization = Quantization(
        ((Arg.SOURCE, 0), (Arg.WEIGHTS, mask)), (Arg.SOURCE, *((Arg.WEIGHTS,) if offset else ()))
    )
    has_bias = call.has(_BIAS)
    operands = (
        dense((rows, depth)).of_type(DataType.U8),
        MemoryDesc.any(matrix.dims, DataType.S8),
        dense((1, units)) if has_bias else None,
        dense((rows, units)),
    )
    with matrix_desc(operands, chain.ops, quantization) as desc:
        if is_slow(desc):
            return None
        arguments = Arguments(call, desc)
        arguments.read_plain(Arg.SOURCE, _Q)
        arguments.read_plain(SCALES | Arg.SOURCE, _SCALE)
        arguments.read_plain(SCALES | Arg.WEIGHTS, _FACTORS)
        arguments.read_plain(ZERO_POINTS | Arg.SOURCE, _ZERO)
        if offset:
            arguments.numbers(ZERO_POINTS | Arg.WEIGHTS, np.full(1, -offset, np.int32))
        pack_weights(call, arguments, desc, matrix, _WEIGHTS)
        if has_bias:
            arguments.read(Arg.BIAS, _BIAS, dense((1, units)))
        arguments.read_chain(chain)
        arguments.write(Arg.DESTINATION, 0, dense((rows, units)))
        return arguments.step()


def dynamic_quantize(call: KernelCall) -> Step | None:
    """Run DynamicQuantize: two reductions, numbers of Python, and a primitive for the bytes.

    The primitive clips as it writes bytes, and makes NaN 0.
    """
    count = math.prod(call.spec(0).shape)
    if not count:
        return None
    full, one = dense((1, count)), dense((1, 1))
    added = Binary(BinaryAlgorithm.ADD, one)
    description = Description(
        "binary",
        (ENGINE, BinaryAlgorithm.DIVIDE, full, one, full.of_type(DataType.U8)),
        lambda: f"a quantization of {full.key}",
        (Eltwise(Algorithm.ROUND), added),
    )
    with PrimitiveDesc(description) as desc:
        if is_slow(desc):
            return None
        stages = Stages(call)
        x, (q, scale, zero, whole) = call.read(0), (call.write(i) for i in range(4))
        room = stages.room(one)
        stages.add(
            desc,
            {
                Arg.SOURCE: Argument(full, x),
                Arg.OTHER: Argument(one, scale),
                operand(1, added): room,
                Arg.DESTINATION: Argument(full.of_type(DataType.U8), q),
            },
        )
    values = x, scale, zero, whole, room.value
    return call.step(DynamicQuantization(stages.execution(), values))


class DynamicQuantization:
    """The bind of a dynamic quantization.

    Args:
        quantize: The bind of the primitive that writes the bytes.
        values: The numbers, the scale, the zero point in both types, and the zero point as the
            primitive reads it, float32.
    """

    def __init__(self, quantize: Bind, values: Sequence[Value]) -> None:
        self._quantize, self._values = quantize, tuple(values)

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        quantize = self._quantize(buffers)
        found = [buffers.array(value).reshape(-1) for value in self._values]
        numbers, scale, zero, whole, room = found
        real = room.view(np.float32)
        least, most = np.minimum.reduce, np.maximum.reduce

        def run() -> None:
            step, point = scale_and_zero(least(numbers), most(numbers))
            scale[0], zero[0], whole[0], real[0] = step, point, point, point
            quantize()

        return run

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return it as data; see `Recipe`."""
        x, scale, zero, whole, room = map(recorder.value, self._values)
        inner = recorder.inner(self._quantize)
        return _QUANTIZE, QuantizationData(*inner, (x, scale, zero, whole, room))


class QuantizationData(Data, frozen=True):
    """The bytes' bind, and the numbers, the scale, the zero points and a scratchpad."""

    builder: str
    quantize: Any
    values: tuple[int, int, int, int, int]


@BUILDERS.builds(_QUANTIZE, QuantizationData)
def _dynamic_quantization(data: QuantizationData, source: Source) -> DynamicQuantization:
    values = [source.value(number) for number in data.values]
    numbers, *points, room = values
    types = [value.spec.dtype for value in (numbers, *points)]
    counts = [math.prod(value.spec.shape) for value in points]
    fits = types == _TYPES and counts == [1, 1, 1]
    can_write = all(v.root.storage in (Storage.ARENA, Storage.OUTPUT) for v in values[1:])
    is_dense = all(value.layout is None for value in values)
    if not (fits and can_write and is_dense and numbers.nbytes and room.nbytes == 4):
        raise RecipeError(f"'{numbers.name}' cannot be quantized to '{points[1].name}'")
    return DynamicQuantization(source.bind(data.builder, data.quantize), values)
