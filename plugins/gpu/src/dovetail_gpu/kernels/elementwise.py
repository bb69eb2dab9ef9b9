"""Elementwise functions of real numbers, each fused with those that follow."""

from __future__ import annotations

import math

from dovetail.runtime.plan import Branch, KernelCall, Step
from dovetail_gpu.functions import BINARY, UNARY
from dovetail_gpu.kernels._registry import KERNELS, PACKAGE
from dovetail_gpu.launching import Argument, launch
from dovetail_gpu.layouts import element_of, read, write
from dovetail_gpu.programs import Source, type_lines
from dovetail_gpu.stages import StageWriter, can_fuse, first_operand
from dovetail_opset import PACKAGE as _STANDARD

VECTOR = 8
_GROUP = 64


def elementwise(call: KernelCall) -> Step | None:
    """Run a node and fused ones as stages; None if that needs another broadcast."""
    first = first_operand(call.head)
    if first is None:
        return None
    result = call.outputs[0].spec
    element = element_of(result)
    writer = StageWriter(call, element)
    x = read(call, first, element)
    writer.add_head(first)
    writer.add_fused()
    stages = writer.finished()
    y = write(call)
    count, channels = math.prod(result.shape), result.shape[-1] if result.shape else 1
    whole = int(channels % VECTOR == 0 or not stages.by_channel)
    source = Source.of("elementwise", {"WHOLE_VECTORS": whole}, type_lines(element) + stages.lines)
    arguments: list[Argument] = [x, y, count, max(1, channels), *stages.arguments]
    return launch(
        call, source, "stages", arguments, (-(-count // VECTOR),), (_GROUP,), in_place=((0, 0),)
    )


_OPS = (
    *(op for op in (*UNARY, *BINARY) if op in _STANDARD.schemas),
    "Batchnorm",
    "Convert",
    "Dequantize",
    "ElementWiseBinary",
    "ElementWiseNeuron",
    "ElementWiseUnary",
    "Quantize",
)
for _op_type in _OPS:
    KERNELS.register(PACKAGE, _op_type, can_fuse=can_fuse, branch=Branch.GATE)(elementwise)
