"""Recurrent layers: one product for all x, then all steps in one launch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from dovetail.ir import Array, Shape, Spec
from dovetail.runtime.plan import KernelCall, Step, Value
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._choices import choose_tile
from dovetail_gpu.kernels._product import (
    NO_STAGES,
    Operands,
    Product,
    operand_element,
    product_launch,
)
from dovetail_gpu.kernels._registry import KERNELS, PACKAGE
from dovetail_gpu.kernels._rows import VECTOR, is_real, lanes, row_launch
from dovetail_gpu.kernels._weights import Packing
from dovetail_gpu.launching import Argument, launch_all
from dovetail_gpu.layouts import element_of, layout_for, read, write
from dovetail_gpu.programs import Source, type_lines
from dovetail_gpu.transfers import to_device
from dovetail_opset._recurrent import LstmWeights
from dovetail_opset.ops.recurrent import Direction

_WEIGHTS = (*range(1, 10), *range(12, 24))  # inputs of Lstm
_RESET = 24


@KERNELS.register(PACKAGE, "Lstm")
def lstm(call: KernelCall) -> Step | None:
    """Run an Lstm; None if it keeps its state between runs, or weights are not constants."""
    specs = (*call.head.ins[:_RESET], *call.head.outs)
    if call.has(_RESET) or not all(map(is_real, specs)):
        return None
    if not all(call.has_data(i) for i in _WEIGHTS if call.has(i)):
        return None
    shape, units = call.spec(0).shape, call.spec(1).shape[0]
    size, depth, gates = call.spec(4).shape[1], shape[-1], 4 if call.has(16) else 3
    steps, batch = _steps(shape, is_time_major=bool(call.op.time_major))
    element, blocks = element_of(call.outputs[0].spec), -(-units // VECTOR)
    columns = blocks * gates * VECTOR
    x = read(call, 0, operand_element(Element.FLOAT))
    product = Product(steps * batch, depth, columns)
    tile = choose_tile(product, Element.FLOAT)
    packing = Packing.of_matrices(1, depth, columns, transposed=True)

    def packed(weights: LstmWeights) -> Array:
        return packing.packed(_by_block(_by_gate(weights.inputs, gates), gates), tile.columns)

    weights = _form(call, f"x {tile}", packed, packing.count(tile.columns))
    padded = -(-size // VECTOR) * VECTOR
    states = _scratch(call, batch * (blocks * VECTOR * (2 + gates) + 2 * padded))
    sums = _scratch(call, steps * batch * columns)
    tables = [
        _form(call, "h", functools.partial(_recurrent, gates=gates), blocks * size * gates * 8),
        _form(call, "bias", lambda w: _by_block(w.bias, gates), columns),
        _form(call, "norms", lambda w: _by_block(w.norm, gates), columns) if call.has(13) else x,
        _form(call, "peepholes", functools.partial(_peepholes, gates=gates), columns)
        if call.has(19)
        else x,
    ]
    if call.has(22):
        tables.append(_form(call, "projection", _projection, padded * units))
        tables.append(_form(call, "projection bias", _projection_bias, padded))
    else:
        tables += [x, x]
    given = [read(call, i, element) if call.has(i) else x for i in (10, 11)]
    outputs = [_written(call, i, batch * max(units, size), element) for i in range(3)]
    has_gates = len(call.outputs) > 3
    kept = [
        _written(call, i, batch * max(units, size), element) if has_gates else outputs[1]
        for i in range(3, 8)
    ]
    defines: dict[str, int | str] = {
        "GROUP": lanes(),
        "GATES": gates,
        "WITH_NORMS": int(call.has(13)),
        "WITH_PEEPHOLES": int(call.has(19)),
        "WITH_PROJECTION": int(call.has(22)),
        "WITH_GATES": int(has_gates),
    }
    pitches = (batch, 1) if call.op.time_major or len(shape) == 2 else (1, steps)
    clips = (float(call.op.cell_clip_threshold), float(call.op.output_clip_threshold))
    is_reverse = int(call.op.direction is Direction.REVERSE)
    numbers = (steps, batch, units, size, int(call.has(10)), int(call.has(11)), is_reverse)
    arguments: list[Argument] = [sums, *tables, *given, states, *outputs, *kept]
    arguments += [*numbers, *pitches, *clips]
    source = Source.of(("groups", "lstm"), defines, type_lines(element))
    launches = [
        product_launch(product, tile, Operands(x, weights, sums), NO_STAGES, Element.FLOAT),
        row_launch(source, "lstm", arguments, batch),
    ]
    return launch_all(call, launches)


def _steps(shape: Shape, *, is_time_major: bool) -> tuple[int, int]:
    """Return the number of steps and of elements of the batch."""
    if len(shape) == 2:
        return 1, shape[0]
    return (shape[0], shape[1]) if is_time_major else (shape[1], shape[0])


def _scratch(call: KernelCall, count: int) -> Value:
    layout = layout_for(Element.FLOAT, count)
    return call.scratch(layout.nbytes, layout)


def _written(call: KernelCall, index: int, count: int, element: Element) -> Value:
    """Declare an output as written, or a scratchpad in its stead if it is omitted."""
    if index < len(call.outputs):
        return write(call, index)
    layout = layout_for(element, count)
    return call.scratch(layout.nbytes, layout)


def _form(call: KernelCall, name: str, make: Callable[[LstmWeights], Array], count: int) -> Value:
    """Declare a form of the weights of all gates.

    Args:
        call: The call.
        name: Name of the form.
        make: Returns it.
        count: Number of its elements.
    """
    inputs = range(_RESET)
    known = [i if i in _WEIGHTS else _RESET for i in inputs]

    def form(arrays: Sequence[Array | None], specs: Sequence[Spec | None]) -> Array:
        real = [
            None if array is None or spec is None else to_device(array, spec, Element.FLOAT)
            for array, spec in zip(arrays, specs, strict=True)
        ]
        return np.ascontiguousarray(make(LstmWeights.of([*real, None])), np.float32).reshape(-1)

    return call.read_packed(known, f"opencl.lstm {name}", form, layout_for(Element.FLOAT, count))


def _by_gate(matrix: Array, gates: int) -> Array:
    """Return (gates * units, n) as (gates, units, n)."""
    return matrix.reshape(gates, matrix.shape[0] // gates, matrix.shape[1])


def _by_block(values: Array | None, gates: int) -> Array:
    """Return (gates, units, ...) as (blocks, gate, 8, ...), with zeros for units that lack."""
    if values is None:
        raise AssertionError("weights are omitted")
    units, rows = values.shape[1], values
    blocks = -(-units // VECTOR)
    found = np.zeros((gates, blocks * VECTOR, *rows.shape[2:]), np.float32)
    found[:, :units] = rows
    split = found.reshape(gates, blocks, VECTOR, *rows.shape[2:])
    return np.ascontiguousarray(split.swapaxes(0, 1))


def _recurrent(weights: LstmWeights, gates: int) -> Array:
    """Return the recurrent weights, (blocks, h, gate, 8)."""
    blocked = _by_block(_by_gate(weights.recurrent, gates), gates)
    return np.ascontiguousarray(blocked.transpose(0, 3, 1, 2))


def _peepholes(weights: LstmWeights, gates: int) -> Array:
    """Return the peepholes, with zeros for the cell, (blocks, gate, 8)."""
    given = weights.peepholes
    if given is None:
        raise AssertionError("peepholes are omitted")
    return _by_block(np.concatenate([given, np.zeros_like(given[:1])]), gates)


def _projection(weights: LstmWeights) -> Array:
    """Return the projection, (blocks, unit, 8)."""
    if weights.projection is None:
        raise AssertionError("the projection is omitted")
    blocked = _by_block(weights.projection[None], 1)[:, 0]
    return np.ascontiguousarray(blocked.swapaxes(1, 2))


def _projection_bias(weights: LstmWeights) -> Array:
    """Return the bias of the projection, zeros added."""
    if weights.projection is None:
        raise AssertionError("the projection is omitted")
    given = weights.projection_bias
    return _by_block(np.zeros((1, len(weights.projection))) if given is None else given[None], 1)
