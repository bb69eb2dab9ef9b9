"""Pooling, and Lrn within channels: windows over height and width."""

from __future__ import annotations

from typing import Any

from dovetail.runtime.plan import Branch, KernelCall, Step
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels._rows import are_real, pixel_range, written_with_stages
from dovetail_gpu.launching import Argument, launch
from dovetail_gpu.layouts import element_of, read
from dovetail_gpu.programs import Source, type_lines
from dovetail_gpu.stages import can_fuse
from dovetail_opset import STANDARD

_ZERO = "#define START 0.0f\n"
_SQUARES = _ZERO + "#define STEP(V, m, e) m = m + (e) * (e)\n"
_MEAN = _ZERO + "#define STEP(V, m, e) m = m + (e)\n#define FINISH(V, LOAD_V, m) v = m / (V)"
_WINDOWS = {
    # the padding counts as 0; a window beyond it has no elements, and is 0
    "PoolMax2d": "#define START (-INFINITY)\n"
    "#define STEP(V, m, e) m = select(m, e, ((e) > m) | ((e) != (e)))\n"
    "#define FINISH(V, LOAD_V, m) if (padded > inside) m = select(m, (V)(0.0f), m < (V)(0.0f)); "
    "v = padded > 0 ? m : (V)(0.0f)\n",
    "PoolAvg2d": _MEAN + "(max(inside, 1))\n",
    "PoolAvg2d all": _MEAN + "(size_y * size_x)\n",
    "L2Pool2d": _SQUARES + "#define FINISH(V, LOAD_V, m) v = sqrt(m)\n",
    "Lrn": _SQUARES
    + "#define FINISH(V, LOAD_V, m) v = LOAD_V(x + at) * POWER(V, bias + alpha * m)\n",
}


@KERNELS.register(STANDARD, "PoolMax2d", can_fuse=can_fuse, branch=Branch.GATE)
@KERNELS.register(STANDARD, "PoolAvg2d", can_fuse=can_fuse, branch=Branch.GATE)
@KERNELS.register(STANDARD, "L2Pool2d", can_fuse=can_fuse, branch=Branch.GATE)
def pool(call: KernelCall) -> Step | None:
    """Run a pooling, and fused nodes as stages."""
    name, window = call.head.op_type, call.op.window
    if name == "PoolAvg2d" and call.op.count_pad_for_edges:
        name = "PoolAvg2d all"
    (top, bottom), (left, right) = window.pads
    sizes = (*window.size, *window.stride, top, left, bottom, right)
    shape, result = call.spec(0).shape, call.head.outs[0].shape
    return _windows(call, name, shape, result[1:3], sizes, (0.0, 0.0, 0.0))


# for pow, compilers call a function that takes hundreds of instructions
_POWERS = {0.5: "(1.0f / sqrt(v))", 0.75: "(1.0f / (sqrt(v) * sqrt(sqrt(v))))", 1.0: "(1.0f / (v))"}


def power_line(beta: float) -> str:
    """Return the definition of POWER(V, v), a number to the power of -beta."""
    return f"#define POWER(V, v) {_POWERS.get(beta, 'pow(v, (V)(-beta))')}\n"


def lrn_within(call: KernelCall) -> Step | None:
    """Run Lrn over neighbors on the spatial axes; None if there are more than two."""
    op: Any = call.op
    shape = call.spec(0).shape
    spatial = (1,) * (4 - len(shape)) + shape[1:-1]
    if len(spatial) != 2:
        return None
    # an axis of size 1 has no neighbors, whatever the radius is
    reach = [min(op.radius, n) for n in spatial]
    sizes = (*(2 * r + 1 for r in reach), 1, 1, *reach, *reach)
    image = (shape[0], *spatial, shape[-1])
    return _windows(call, "Lrn", image, spatial, sizes, (op.alpha, op.beta, op.bias))


def _windows(
    call: KernelCall,
    name: str,
    shape: tuple[int, ...],
    outputs: tuple[int, ...],
    sizes: tuple[int, ...],
    numbers: tuple[float, float, float],
) -> Step | None:
    """Return the step of windows over (n, h, w, c).

    Args:
        call: The call, whose last result has `outputs` windows along height and width.
        name: What a window computes.
        shape: The shape.
        outputs: Number of windows.
        sizes: Sizes, strides and pads of windows: top, left, bottom, right.
        numbers: alpha, beta and bias.
    """
    if not are_real(call):
        return None
    element = element_of(call.outputs[0].spec)
    x = read(call, 0, element)
    y, stages = written_with_stages(call, element)
    images, height, width, channels = shape
    rows = images * outputs[0]
    lines = type_lines(element) + power_line(numbers[1]) + _WINDOWS[name]
    source = Source.of("pooling", {}, lines + stages.lines)
    arguments: list[Argument] = [x, y, rows, height, width, channels, *outputs, *sizes]
    arguments += [*map(float, numbers), *stages.arguments]
    return launch(call, source, "pool", arguments, *pixel_range(rows, outputs[1], channels))
