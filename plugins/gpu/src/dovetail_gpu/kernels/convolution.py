"""Convolutions of images, and of signals as images of one line."""

from __future__ import annotations

import dataclasses
import functools
import math

from dovetail.runtime.plan import Branch, KernelCall, Step, Value
from dovetail_gpu.computing import current
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._choices import choose_tile, measured_launches
from dovetail_gpu.kernels._packing import Packing
from dovetail_gpu.kernels._product import (
    Operands,
    Product,
    Window,
    operand_element,
    parts_room,
    product_launches,
    zero_row,
)
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels._rows import are_real
from dovetail_gpu.kernels._stored import Stored
from dovetail_gpu.kernels._tiles import Tile
from dovetail_gpu.kernels._weights import stored_weights, weights_of
from dovetail_gpu.kernels._windows import pads_of, window_of
from dovetail_gpu.kernels._winograd import Winograd
from dovetail_gpu.launching import Launch, launch_all, spread
from dovetail_gpu.layouts import element_in, element_of, layout_for, read, scratch, table, write
from dovetail_gpu.programs import Source, type_lines
from dovetail_gpu.stages import can_fuse, stages_of
from dovetail_opset import STANDARD

_PIECE = 2048  # elements of a padded line that a work item of a processor writes
_SHORT = 32  # channels of a tap below which the taps of a line are read as one


@KERNELS.register(STANDARD, "Conv1d", can_fuse=can_fuse, branch=Branch.GATE)
@KERNELS.register(STANDARD, "Conv2d", can_fuse=can_fuse, branch=Branch.GATE)
def convolution(call: KernelCall) -> Step | None:
    """Run a convolution as sums of products over the elements of its window."""
    if not are_real(call):
        return None
    result = call.outputs[0].spec
    element = element_of(result)
    window = window_of(call)
    taken, made = call.spec(1).shape[-2:]
    groups = int(call.op.group)
    positions = math.prod(result.shape[:-1])
    product = Product(positions, taken, made // groups, window, groups)
    launches: list[Launch] = []
    x = read(call, 0, operand_element(element))
    if groups == 1 and _reads_lines(window, taken):
        before, after = pads_of(call)[-1]
        x, product = _as_lines(call, x, product, window, (before, after), launches)
    packing = Packing.of_filters((*window.taps, taken, made), groups)
    stored = stored_weights(call, packing, element)
    tile = choose_tile(product, element, stored)
    if (by_tiles := _winograd(call, product, tile, stored, element)) is not None:
        return _run_by_tiles(call, x, by_tiles, element)
    weights = weights_of(call, packing, tile, stored, launches)
    zeros = (
        None if product.is_pointwise else zero_row(call, product.channels, operand_element(element))
    )
    stages = stages_of(call, element, bias=2)
    sums = parts_room(call, product, tile)
    operands = Operands(x, weights.value, write(call), (), zeros, stored, weights.scales, sums)
    launches += product_launches(product, tile, operands, stages, element)
    return launch_all(call, launches)


def _winograd(
    call: KernelCall, product: Product, tile: Tile, stored: Stored, element: Element
) -> Winograd | None:
    """Return a convolution as one by tiles if that is faster."""
    if not call.has_data(1) or not stored.is_real:
        return None
    found = Winograd.of(call.spec(0).shape[0], product)
    if found is None:
        return None
    inner = choose_tile(found.product, Element.FLOAT, Stored.FLOAT)
    direct = functools.partial(measured_launches, product, tile, element, stored)
    return found if found.is_faster(inner, direct, element) else None


def _run_by_tiles(call: KernelCall, x: Value, by_tiles: Winograd, element: Element) -> Step:
    """Return the step of a convolution by tiles."""
    tile = choose_tile(by_tiles.product, Element.FLOAT, Stored.FLOAT)
    form = f"opencl.winograd {tile.columns} {by_tiles.packing}"
    layout = layout_for(Element.FLOAT, by_tiles.packing.count(tile.columns))
    weights = call.read_packed(1, form, functools.partial(by_tiles.filters, tile), layout)
    first, second = (table(call, numbers) for numbers in by_tiles.tables(tile))
    counts = by_tiles.scratch_counts()
    points, products = (scratch(call, Element.FLOAT, count) for count in counts)
    zeros = zero_row(call, by_tiles.channels, operand_element(element))
    stages = stages_of(call, element, bias=2)
    operands = Operands(x, weights, write(call), (first, second), zeros)
    return launch_all(call, by_tiles.launches(tile, operands, (points, products), stages, element))


def _reads_lines(window: Window, channels: int) -> bool:
    """Return whether the elements of a window's line are read as one tap.

    They are next to each other in memory if the lines include their padding, which is worth a copy
    for few channels.
    """
    return window.taps[1] > 1 and window.step[1] == 1 and channels < _SHORT


def _as_lines(
    call: KernelCall,
    x: Value,
    product: Product,
    window: Window,
    pads: tuple[int, int],
    launches: list[Launch],
) -> tuple[Value, Product]:
    """Return an input with zeros around its lines, and the product that reads lines of a window."""
    height, width = window.image
    channels, padded = product.channels, width + sum(pads)
    if any(pads):
        lines = call.spec(0).shape[0] * height
        element, made = element_in(x), padded * channels
        room = scratch(call, element, lines * made)
        wide = max(1, min(_PIECE, made)) if current().engine.device.is_cpu else 1
        numbers = (lines, made, width * channels, pads[0] * channels, wide)
        source, size = Source.of("arrange", {}, type_lines(element)), (-(-made // wide), lines)
        launches.append(Launch(source, "pad", (x, room, *numbers), size, spread(size[0])))
        x = room
    # the last element of a line begins where the window still fits
    whole = dataclasses.replace(
        window,
        image=(height, padded),
        taps=(window.taps[0], 1),
        pads=(window.pads[0], 0),
    )
    depth = channels * window.taps[1]
    return x, dataclasses.replace(product, channels=depth, window=whole, pixel=channels)
