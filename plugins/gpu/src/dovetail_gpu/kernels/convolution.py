"""Convolutions of images, and of signals as images of one line."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import KernelCall, Step, Value
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._choices import choose_tile
from dovetail_gpu.kernels._product import (
    GROUP,
    Operands,
    Product,
    Window,
    is_real,
    operand_element,
    pack_launch,
    packed_weights,
    product_launch,
    zero_row,
)
from dovetail_gpu.kernels._registry import KERNELS, PACKAGE
from dovetail_gpu.kernels._tiles import Tile
from dovetail_gpu.launching import Launch, launch_all
from dovetail_gpu.layouts import element_of, layout_for, read, write
from dovetail_gpu.programs import Source, type_lines
from dovetail_gpu.stages import StageWriter, can_fuse
from dovetail_gpu.transfers import to_device

_SHORT = 32  # channels of a tap below which the taps of a line are read as one


@KERNELS.register(PACKAGE, "Conv1d", can_fuse=can_fuse)
@KERNELS.register(PACKAGE, "Conv2d", can_fuse=can_fuse)
def convolution(call: KernelCall) -> Step | None:
    """Run a convolution as sums of products over the elements of its window."""
    if not reals(call):
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
        before, after = _pads(call)[-1]
        x, product = _as_lines(call, x, product, window, (before, after), launches)
    tile = choose_tile(product, element)
    weights = _weights(call, product, tile, element, launches)
    zeros = (
        None if product.is_pointwise else zero_row(call, product.channels, operand_element(element))
    )
    writer = StageWriter(call, element)
    writer.add_bias(2)
    writer.add_fused()
    stages = writer.finished()
    operands = Operands(x, weights, write(call), zeros=zeros)
    launches.append(product_launch(product, tile, operands, stages, element))
    return launch_all(call, launches)


def reals(call: KernelCall) -> bool:
    """Return whether all tensors of a call's head have real numbers."""
    return all(spec is None or is_real(spec) for spec in (*call.head.ins, *call.head.outs))


def window_of(call: KernelCall) -> Window:
    """Return the window of a convolution; that of a signal has one line."""
    shape, weight = call.spec(0).shape, call.spec(1).shape
    dims = len(shape) - 2
    return Window(
        _pair(shape[1:-1], 1),
        _pair(call.outputs[0].spec.shape[1:-1], 1),
        _pair(weight[:-2], 1),
        _pair(_numbers(call.op.stride, dims), 1),
        _pair(_numbers(call.op.dilation, dims), 1),
        _pair([before for before, _ in _pads(call)], 0),
    )


def _numbers(param: Array | int, dims: int) -> list[int]:
    return [int(n) for n in np.broadcast_to(np.reshape(param, -1), dims)]


def _pads(call: KernelCall) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in np.reshape(call.op.pad_amount, (-1, 2))]


def _pair(values: Sequence[int], missing: int) -> tuple[int, int]:
    first, second = (missing, *values) if len(values) == 1 else values
    return int(first), int(second)


def _reads_lines(window: Window, channels: int) -> bool:
    """Return whether the elements of a window's line are read as one tap.

    They lie next to each other in memory, where the image has its padding. That is worth a copy for
    few channels.
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
        layout = layout_for(operand_element_of(x), lines * padded * channels)
        room = call.scratch(layout.nbytes, layout)
        numbers = (layout.count, padded * channels, width * channels, pads[0] * channels)
        source = Source.of("arrange", {}, type_lines(layout.element))
        launches.append(Launch(source, "pad", (x, room, *numbers), (layout.count,), (GROUP,)))
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


def operand_element_of(value: Value) -> Element:
    """Return the type of elements of a value on the device."""
    found = getattr(value.layout, "element", None)
    if not isinstance(found, Element):
        raise AssertionError(f"{value.name} does not lie on the device")
    return found


def _weights(
    call: KernelCall, product: Product, tile: Tile, element: Element, launches: list[Launch]
) -> Value:
    """Declare the packed weights: a form of constants, or packed by the device for each run."""
    stored = operand_element(element)
    layout = layout_for(stored, product.packed_count(tile))
    if call.has_data(1):
        form = f"opencl.columns {stored.text} {product.groups} {tile.columns}"
        make = functools.partial(_packed, stored, product.groups, tile.columns)
        return call.read_packed(1, form, make, layout)
    given, room = read(call, 1, stored), call.scratch(layout.nbytes, layout)
    columns = product.columns * product.groups
    launches.append(pack_launch(given, room, product, tile, (0, columns, 1)))
    return room


def _packed(
    element: Element,
    groups: int,
    block: int,
    arrays: Sequence[Array | None],
    specs: Sequence[Spec | None],
) -> Array:
    """Return filters (..., channels, columns) as `packed_weights` does."""
    (stored,), (spec,) = arrays, specs
    if stored is None or spec is None:
        raise AssertionError("a convolution without filters")
    real = to_device(stored, spec, element)
    return packed_weights(real.reshape(-1, real.shape[-1]), groups, block)
