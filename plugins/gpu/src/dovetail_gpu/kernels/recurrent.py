"""Long short-term memory.

One product computes what the inputs add to the gates in all steps. The steps follow. On processors
one launch runs all steps of a small layer; other devices have one for each step, and large layers
a product of h before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dovetail.ir import DType, Spec
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Storage, Value
from dovetail_gpu.elements import Element
from dovetail_gpu.engine import current
from dovetail_gpu.kernels._choices import choose_tile
from dovetail_gpu.kernels._lstm import Parts, Sizes, joined, packed
from dovetail_gpu.kernels._product import NO_STAGES, Operands, Product, product_launch
from dovetail_gpu.kernels._registry import KERNELS, PACKAGE
from dovetail_gpu.kernels._rows import is_real, lanes
from dovetail_gpu.kernels._stored import Stored
from dovetail_gpu.kernels._tiles import Tile
from dovetail_gpu.launching import Argument, Launch
from dovetail_gpu.layouts import element_of, layout_for, read, write
from dovetail_gpu.programs import Source, type_lines

BLOCK = 64  # columns of packed weights that the steps multiply themselves
_RESET = 24
_MOST_INSIDE = 1 << 18  # multiply-accumulates of a step that one work group runs


@KERNELS.register(PACKAGE, "Lstm")
def lstm(call: KernelCall) -> Step | None:
    """Run an Lstm."""
    specs = [s for i, s in enumerate(call.head.ins) if i != _RESET]
    if not all(map(is_real, (*specs, *call.head.outs))):
        return None
    sizes = Sizes.of(call)
    parts = Parts(call, _source(call, 1), sizes)
    x = _inputs(parts)
    return _recurrence(parts, x)


def _inputs(parts: Parts) -> Value:
    """Return the sums of the inputs of all steps, (positions, columns)."""
    call, sizes = parts.call, parts.sizes
    product = Product(sizes.steps * sizes.batch, sizes.features, sizes.columns)
    tile = choose_tile(product, Element.FLOAT, Stored.FLOAT)
    weights = packed(parts, [g.weights for g in sizes.gates], sizes.features, tile.columns)
    found = parts.room(sizes.steps * sizes.batch * sizes.columns + BLOCK)
    operands = Operands(read(call, 0, Element.FLOAT), weights, found)
    parts.launches.append(product_launch(product, tile, operands, NO_STAGES, Element.FLOAT))
    return found


def _recurrence(parts: Parts, x: Value) -> Step:
    call, sizes = parts.call, parts.sizes
    product = Product(sizes.batch, sizes.size, sizes.columns, pixel=sizes.state)
    is_inside = sizes.size * sizes.columns <= _MOST_INSIDE
    group = lanes()
    tile = Tile(1, BLOCK // 8) if is_inside else choose_tile(product, Element.FLOAT, Stored.FLOAT)
    weights = packed(parts, [g.recurrent for g in sizes.gates], sizes.size, tile.columns)
    table = joined(parts, sizes.table, BLOCK)
    projection = table
    if call.has(22):
        projection = packed(parts, [22], sizes.units, BLOCK)
    state = parts.room(sizes.batch * sizes.state)
    more = x if is_inside else parts.room(sizes.batch * sizes.columns + 8)
    work = parts.room(sizes.batch * sizes.working)
    kept, memory = _kept(parts) if call.has(_RESET) else (work, None)
    h, c = (read(call, i, Element.FLOAT) if call.has(i) else table for i in (10, 11))
    reset = read(call, _RESET) if call.has(_RESET) else table
    values = x, more, weights, table, projection, h, c, reset, kept, state, work, *_results(parts)

    def steps(count: int, *, begins: bool) -> Launch:
        numbers = (sizes.steps, count, int(begins), int(is_inside), *sizes.numbers)
        arguments: list[Argument] = [
            *values,
            *numbers,
            float(call.op.cell_clip_threshold),
            float(call.op.output_clip_threshold),
        ]
        items = 1 if begins else group
        source = parts.source if begins else _source(call, group)
        return Launch(source, "steps", arguments, (sizes.batch * items,), (items,))

    if is_inside and group == 1:
        return _step(parts, [*parts.launches, steps(sizes.steps, begins=True)], [], kept, memory)
    begin, each = [*parts.launches, steps(0, begins=True)], [steps(1, begins=False)]
    if not is_inside:
        operands = Operands(state, weights, more)
        each.insert(0, product_launch(product, tile, operands, NO_STAGES, Element.FLOAT))
    return _step(parts, begin, each, kept, memory)


def _source(call: KernelCall, group: int) -> Source:
    element = element_of(call.outputs[0].spec)
    return Source.of("lstm", {"GROUP": group}, type_lines(element))


def _step(
    parts: Parts, begin: Sequence[Launch], each: Sequence[Launch], kept: Value, memory: Any
) -> Step:
    """Return the step that runs launches once, then others for each step of the sequence."""

    def bind(buffers: Buffers) -> Bound:
        def buffer(value: Value) -> Any:
            return (memory, 0) if memory is not None and value is kept else buffers.buffer(value)

        calls = [made.with_buffers(buffer) for made in begin]
        repeated = [made.with_buffers(buffer) for made in each]

        def run() -> None:
            for first in calls:
                first()
            for _ in range(parts.sizes.steps if repeated else 0):
                for one in repeated:
                    one()

        return run

    return parts.call.step(bind)


def _results(parts: Parts) -> list[Value]:
    """Declare the eight results; nothing reads those that the node does not have."""
    found = [write(parts.call, i) for i in range(len(parts.call.outputs))]
    for _ in range(8 - len(found)):
        found.append(parts.room(parts.sizes.batch * max(parts.sizes.units, parts.sizes.size)))
    return found


def _kept(parts: Parts) -> tuple[Value, Any]:
    """Return memory of its own for the states that the next run begins with."""
    sizes, space = parts.sizes, current().engine.space
    layout = layout_for(Element.FLOAT, sizes.batch * (1 + sizes.size + sizes.units))
    block = space.allocate(max(4, layout.nbytes))
    space.write(block, np.zeros(block.nbytes, np.uint8))
    return Value("state", Spec(DType.UINT_8, (layout.nbytes,)), Storage.ARENA, layout), block.buffer
