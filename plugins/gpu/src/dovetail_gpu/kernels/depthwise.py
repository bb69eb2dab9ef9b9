"""Depthwise convolutions."""

from __future__ import annotations

import math

from dovetail.runtime.plan import Branch, KernelCall, Step
from dovetail_gpu.computing import current
from dovetail_gpu.elements import VECTOR
from dovetail_gpu.kernels._product import operand_element, zero_row
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels._rows import are_real
from dovetail_gpu.kernels._windows import window_of
from dovetail_gpu.launching import Argument, launch, spread
from dovetail_gpu.layouts import element_of, read, write
from dovetail_gpu.programs import Source, type_defines, type_lines
from dovetail_gpu.stages import can_fuse, stages_of
from dovetail_opset import STANDARD

_PIXELS = 4  # of a work item
_MOST_SPAN = 24  # elements of a line that a work item reads
_ENOUGH = 64  # work items


@KERNELS.register(STANDARD, "DepthWiseConv1d", can_fuse=can_fuse, branch=Branch.GATE)
@KERNELS.register(STANDARD, "DepthWiseConv2d", can_fuse=can_fuse, branch=Branch.GATE)
def depthwise_convolution(call: KernelCall) -> Step | None:
    """Run a depthwise convolution, some pixels of a line at a time."""
    if not are_real(call):
        return None
    result = call.outputs[0].spec
    element = element_of(result)
    window = window_of(call)
    channels, x_channels = result.shape[-1], call.spec(0).shape[-1]
    multiplier = channels // x_channels
    # many small cores read neighboring channels at a time; NVIDIA's compiler has read wrong halves
    # for vectors here
    is_cpu = current().engine.device.is_cpu
    is_narrow = multiplier > 1 or channels < VECTOR or not is_cpu
    (taps_y, taps_x), (stride_y, stride_x), (step_y, step_x) = (
        window.taps,
        window.stride,
        window.step,
    )
    reach = (taps_x - 1) * step_x + 1
    pixels = _PIXELS if (_PIXELS - 1) * stride_x + reach <= _MOST_SPAN else 1
    stored = operand_element(element)
    x, weights = read(call, 0, stored), read(call, 1, stored)
    zeros = zero_row(call, x_channels, stored)
    stages = stages_of(call, element, bias=2)
    y = write(call)
    tiles = -(-window.out[1] // pixels)
    lines = math.prod(result.shape[:-1]) // max(1, window.out[1])
    width = 1 if is_narrow else VECTOR
    chunk = _chunk(channels, tiles * lines, width) if is_cpu else width
    parts = -(-channels // chunk)
    group = spread(parts)
    defines: dict[str, int | str] = {
        **type_defines("X", stored),
        "NARROW": int(is_narrow),
        "PIXELS": pixels,
        "TAPS_X": taps_x,
        "STRIDE_X": stride_x,
        "STEP_X": step_x,
        "GROUP_X": group[0],
        "GROUP_Y": group[1],
    }
    source = Source.of("depthwise", defines, type_lines(element) + stages.lines)
    numbers = (channels, multiplier, lines, tiles, chunk, *window.image, *window.out)
    rest = (taps_y, stride_y, step_y, *window.pads)
    arguments: list[Argument] = [x, weights, zeros, y, *numbers, *rest, *stages.arguments]
    return launch(call, source, "depthwise", arguments, (parts, tiles * lines), group)


def _chunk(channels: int, items: int, width: int) -> int:
    """Return the channels of a work item: fewer if there are few other items."""
    parts = max(1, min(-(-_ENOUGH // max(1, items)), -(-channels // width)))
    return max(1, -(-channels // parts // width) * width)
