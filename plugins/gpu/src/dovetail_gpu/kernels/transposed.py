"""Transposed convolutions: a convolution for each remainder of the stride.

Along an axis, output o receives element t of the filter from input i if
o + before = i * stride + t. Outputs q * stride + r, for one r, receive from the elements t0,
t0 + stride, ..., where t0 = (r + before) mod stride: that is a convolution of stride 1 with these
elements in reverse.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from dovetail.runtime.plan import Branch, KernelCall, Step
from dovetail_gpu.kernels._choices import choose_tile
from dovetail_gpu.kernels._packing import Packing
from dovetail_gpu.kernels._product import (
    Operands,
    Product,
    Scatter,
    Window,
    operand_element,
    product_launches,
    zero_row,
)
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels._rows import are_real
from dovetail_gpu.kernels._weights import stored_weights, weights_of
from dovetail_gpu.kernels._windows import numbers_of, pads_of, pair
from dovetail_gpu.launching import Launch, launch_all
from dovetail_gpu.layouts import element_of, read, write
from dovetail_gpu.stages import can_fuse, stages_of
from dovetail_opset import STANDARD


@dataclass(frozen=True, slots=True)
class _Phase:
    """The outputs of one remainder along an axis.

    Attributes:
        first: The remainder.
        count: Number of outputs.
        tap: The last element of the filter that contributes.
        taps: Number of elements that contribute.
        before: Padding of the convolution.
    """

    first: int
    count: int
    tap: int
    taps: int
    before: int


@KERNELS.register(STANDARD, "TransposeConv1d", can_fuse=can_fuse, branch=Branch.GATE)
@KERNELS.register(STANDARD, "TransposeConv2d", can_fuse=can_fuse, branch=Branch.GATE)
def transposed_convolution(call: KernelCall) -> Step | None:
    """Run a transposed convolution as one product for each remainder of the strides."""
    if not are_real(call):
        return None
    result = call.outputs[0].spec
    element = element_of(result)
    shape, weight = call.spec(0).shape, call.spec(1).shape
    groups, dims = int(call.op.group), len(shape) - 2
    taken, made = shape[-1] // groups, weight[-1]
    image, out = pair(shape[1:-1], 1), pair(result.shape[1:-1], 1)
    size, stride = pair(weight[:-2], 1), pair(numbers_of(call.op.stride, dims), 1)
    pads = pair([before for before, _ in pads_of(call)], 0)
    axes = [_phases(out[i], size[i], stride[i], pads[i]) for i in (0, 1)]
    stored = operand_element(element)
    launches: list[Launch] = []
    x, zeros = read(call, 0, stored), zero_row(call, taken, stored)
    stages, y = stages_of(call, element, bias=2), write(call)
    for rows, columns in itertools.product(*axes):
        taps, counts = (rows.taps, columns.taps), (rows.count, columns.count)
        window = Window(image, counts, taps, pads=(rows.before, columns.before))
        product = Product(shape[0] * math.prod(counts), taken, made, window, groups)
        # the filters: (height, width, groups, channels of a group, columns of a group)
        line = shape[-1] * made
        packing = Packing(
            (1, groups, *taps, taken, made),
            (0, taken * made, -stride[0] * size[1] * line, -stride[1] * line, made, 1),
            (rows.tap * size[1] + columns.tap) * line,
        )
        kind = stored_weights(call, packing, element)
        tile = choose_tile(product, element, kind, may_split=False)
        weights = weights_of(call, packing, tile, kind, launches)
        operands = Operands(x, weights.value, y, zeros=zeros, stored=kind, scales=weights.scales)
        scatter = Scatter(out, stride, (rows.first, columns.first))
        launches += product_launches(product, tile, operands, stages, element, scatter)
    return launch_all(call, launches)


def _phases(out: int, size: int, stride: int, before: int) -> list[_Phase]:
    """Return the phases of an axis."""
    found = []
    for first in range(min(stride, out)):
        start = (first + before) % stride
        taps = max(0, -(-(size - start) // stride))
        found.append(
            _Phase(
                first,
                -(-(out - first) // stride),
                start + max(0, taps - 1) * stride if taps else 0,
                taps,
                taps - 1 - (first + before - start) // stride,
            )
        )
    return found
