"""Recurrent layers: one product for all x, then all steps in one launch; or that launch alone."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.ir import Shape
from dovetail.runtime.plan import Branch, KernelCall, Step, Value
from dovetail_gpu.computing import current
from dovetail_gpu.elements import VECTOR, Element
from dovetail_gpu.kernels._choices import choose_tile
from dovetail_gpu.kernels._lstm_weights import Sizes, Tables, are_constant, tables_of
from dovetail_gpu.kernels._product import (
    NO_STAGES,
    Operands,
    Product,
    operand_element,
    parts_room,
    product_launches,
)
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels._rows import lanes, row_launch
from dovetail_gpu.kernels._stored import Stored
from dovetail_gpu.launching import Argument, Launch, launch_all
from dovetail_gpu.layouts import all_real, element_of, read, scratch, write
from dovetail_gpu.programs import Source, type_lines
from dovetail_opset import STANDARD
from dovetail_opset.directions import Direction, can_fuse_sibling, directions_of
from dovetail_opset.lstm_ports import FORGET, INPUT, RARE, RESET, STATES

# Multiplications of all x below which a processor takes longer to begin a launch for them. Measured
# with PoCL, both sides in random order: some 4 % gained up to 2**18.3, none at 2**19.5, and 6 to
# 17 % lost at 2**20.3.
_MOST_IN_STEPS = 1 << 19


@KERNELS.register(STANDARD, "Lstm", can_fuse=can_fuse_sibling, branch=Branch.SIBLING)
def lstm(call: KernelCall) -> Step | None:
    """Run an Lstm, or both directions of a plain one; None if it keeps its state between runs."""
    directions = directions_of(call)
    first = directions[0]
    specs = [spec for each in directions for spec in (*each.view.ins[:RESET], *each.view.outs)]
    if any(each.has(RESET) for each in directions) or not all_real(specs):
        return None
    shape, units = call.spec(0).shape, call.spec(FORGET.weights).shape[0]
    gates, size = 4 if first.has(INPUT.weights) else 3, call.spec(FORGET.recurrent).shape[1]
    sizes = Sizes(gates, units, size, shape[-1])
    steps, batch = _steps(shape, is_time_major=bool(first.op.time_major))
    product = Product(steps * batch, sizes.depth, sizes.columns)
    are_in_steps = _are_in_steps(directions, product)
    if len(directions) > 1 and not (are_in_steps and _are_plain(directions)):
        return None
    x = read(call, 0, operand_element(Element.FLOAT))
    if are_in_steps:
        tables = tables_of(directions, sizes, None)
        return launch_all(call, [_recurrence(directions, sizes, tables, x, steps, batch)])
    tile = choose_tile(product, Element.FLOAT, Stored.FLOAT)
    tables = tables_of(directions, sizes, tile)
    sums = scratch(call, Element.FLOAT, steps * batch * sizes.columns)
    operands = Operands(x, tables.inputs, sums, sums=parts_room(call, product, tile))
    launches = [
        *tables.launches,
        *product_launches(product, tile, operands, NO_STAGES, Element.FLOAT),
        _recurrence(directions, sizes, tables, sums, steps, batch),
    ]
    return launch_all(call, launches)


def _are_in_steps(directions: Sequence[Direction], product: Product) -> bool:
    """Return whether each step multiplies its own x.

    On other devices than processors, the few work items of a step take longer than a launch.
    """
    count = product.positions * product.columns * product.channels
    is_little = current().engine.device.is_cpu and count <= _MOST_IN_STEPS
    return is_little and are_constant(directions)


def _are_plain(directions: Sequence[Direction]) -> bool:
    """Return whether two directions have the same form, and nothing that is rarely used."""
    first, second = directions
    have_gates = first.has(INPUT.weights) == second.has(INPUT.weights)
    clips = [(each.op.cell_clip_threshold, each.op.output_clip_threshold) for each in directions]
    is_rare = any(each.has(port) for each in directions for port in (*STATES, *RARE))
    return have_gates and clips[0] == clips[1] and not is_rare


def _recurrence(
    directions: Sequence[Direction],
    sizes: Sizes,
    tables: Tables,
    x: Value,
    steps: int,
    batch: int,
) -> Launch:
    """Return the launch of all steps.

    Args:
        directions: The directions of the layer.
        sizes: Sizes of each.
        tables: Its weights.
        x: Its x; their products with the weights if these are packed.
        steps: Number of steps.
        batch: Number of elements of the batch.
    """
    first, rows = directions[0], batch * len(directions)
    call, op = first.call, first.op
    element = element_of(call.outputs[0].spec)
    states = sizes.blocks * VECTOR * (2 + sizes.gates) + 2 * sizes.padded
    inputs = x if tables.are_packed else tables.inputs
    parts = (tables.norms, tables.peepholes, tables.projection, tables.projection_bias)
    # what a layer lacks is not read
    arguments: list[Argument] = [x, inputs, tables.recurrent, tables.bias]
    arguments += [x if part is None else part for part in parts]
    starts = [first.index(port) for port in STATES]
    arguments += [x if index is None else read(call, index, element) for index in starts]
    arguments.append(scratch(call, Element.FLOAT, rows * states))
    has_gates = len(call.outputs) > 3
    count = rows * max(sizes.units, sizes.size)
    outputs = [_written(call, i, count, element) for i in range(8 if has_gates else 3)]
    arguments += outputs if has_gates else [*outputs, *[outputs[1]] * 5]
    defines: dict[str, int | str] = {
        "GROUP": lanes(),
        "GATES": sizes.gates,
        "WITH_INPUTS": int(not tables.are_packed),
        "WITH_NORMS": int(tables.norms is not None),
        "WITH_PEEPHOLES": int(tables.peepholes is not None),
        "WITH_PROJECTION": int(tables.projection is not None),
        "WITH_GATES": int(has_gates),
    }
    is_by_step = op.time_major or len(call.spec(0).shape) == 2
    arguments += [steps, batch, sizes.units, sizes.size, sizes.depth]
    arguments += [int(index is not None) for index in starts]
    arguments.append(sum(each.way << i for i, each in enumerate(directions)))
    arguments += (batch, 1) if is_by_step else (1, steps)
    arguments.append(sizes.size * len(directions))
    arguments += [float(op.cell_clip_threshold), float(op.output_clip_threshold)]
    source = Source.of(("groups", "lstm"), defines, type_lines(element))
    return row_launch(source, "lstm", arguments, rows)


def _steps(shape: Shape, *, is_time_major: bool) -> tuple[int, int]:
    """Return the number of steps and of elements of the batch."""
    if len(shape) == 2:
        return 1, shape[0]
    return (shape[0], shape[1]) if is_time_major else (shape[1], shape[0])


def _written(call: KernelCall, index: int, count: int, element: Element) -> Value:
    """Declare an output as written, or a scratchpad in its stead if it is omitted."""
    if index < len(call.outputs):
        return write(call, index)
    return scratch(call, element, count)
