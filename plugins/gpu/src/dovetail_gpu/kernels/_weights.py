"""Weights of products: real numbers, or integers with a scale for each column.

Fixed-point weights stay integers on the device if each column has one scale: `q + offset` is
stored in 4, 8 or 16 bits, and a product is `scale[n] * sum of x * (q + offset)`, summed in float32.
Others, such as those with scales for blocks of channels, are stored as real numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import KernelCall, Value
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._packing import Packing
from dovetail_gpu.kernels._product import operand_element
from dovetail_gpu.kernels._stored import Stored
from dovetail_gpu.kernels._tiles import Tile
from dovetail_gpu.launching import Launch
from dovetail_gpu.layouts import is_encoded, layout_for, read
from dovetail_gpu.transfers import to_device


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a product.

    Attributes:
        value: The packed elements.
        stored: Their type.
        scales: A number for each column, float32; None for real numbers.
    """

    value: Value
    stored: Stored
    scales: Value | None = None


def stored_weights(call: KernelCall, packing: Packing, element: Element) -> Stored:
    """Return the type in which the weights of a call, its input 1, are stored.

    Args:
        call: The call.
        packing: Positions of the weights in the input.
        element: Type of the result.
    """
    real = Stored.of(operand_element(element))
    spec = call.spec(1)
    encoding = spec.encoding
    if not call.has_data(1) or packing.shape[0] != 1 or encoding is None or not is_encoded(spec):
        return real
    if not encoding.is_convertible:
        return real
    scale, offset = encoding.scales_and_offsets(spec.shape)
    if any(_varies(array, packing, spec) for array in (scale, offset)):
        return real
    if not np.array_equal(offset, np.rint(offset)):
        return real
    low, high = spec.dtype.stored_range(encoding.bitwidth)
    return Stored.for_range(low + int(np.min(offset)), high + int(np.max(offset))) or real


def weights_of(
    call: KernelCall,
    packing: Packing,
    tile: Tile,
    stored: Stored,
    launches: list[Launch],
) -> Weights:
    """Declare packed weights: a form of constants, or packed by the device in each run.

    Args:
        call: The call, whose input 1 has the weights.
        packing: Their positions in it.
        tile: The tile of the product.
        stored: Their type, see `stored_weights`.
        launches: The launch that packs them is added to these.
    """
    layout = layout_for(stored.element, stored.units(packing.count(tile.columns)))
    form = f"opencl.blocks {stored.name} {tile.columns} {packing}"
    if stored.is_real:
        if call.has_data(1):
            make = functools.partial(_real_form, stored.element, packing, tile)
            return Weights(call.read_packed(1, form, make, layout), stored)
        given, room = read(call, 1, stored.element), call.scratch(layout.nbytes, layout)
        launches.append(packing.launch(given, room, tile.columns, stored.element))
        return Weights(room, stored)
    value = call.read_packed(
        1, form, functools.partial(_integer_form, stored, packing, tile), layout
    )
    scales = call.read_packed(
        1,
        f"{form} scales",
        functools.partial(_scales_form, packing, tile),
        layout_for(Element.FLOAT, packing.columns(tile.columns)),
    )
    return Weights(value, stored, scales)


def _varies(values: Array, packing: Packing, spec: Spec) -> bool:
    """Return whether values differ along other axes than that of the columns."""
    sizes = [1] * (len(spec.shape) - values.ndim) + list(values.shape)
    sizes[packing.column_axis] = 1
    return any(size != 1 for size in sizes)


def _real_form(
    element: Element,
    packing: Packing,
    tile: Tile,
    arrays: Sequence[Array | None],
    specs: Sequence[Spec | None],
) -> Array:
    stored, spec = _only(arrays, specs)
    return packing.packed(to_device(stored, spec, element), tile.columns)


def _integer_form(
    kind: Stored,
    packing: Packing,
    tile: Tile,
    arrays: Sequence[Array | None],
    specs: Sequence[Spec | None],
) -> Array:
    stored, spec = _only(arrays, specs)
    if spec.encoding is None:
        raise AssertionError("integers without an encoding")
    _, offset = spec.encoding.scales_and_offsets(spec.shape)
    centered = np.ascontiguousarray(stored.astype(np.int32) + offset.astype(np.int32))
    return kind.packed(packing.packed(centered, tile.columns))


def _scales_form(
    packing: Packing, tile: Tile, arrays: Sequence[Array | None], specs: Sequence[Spec | None]
) -> Array:
    _, spec = _only(arrays, specs)
    if spec.encoding is None:
        raise AssertionError("integers without an encoding")
    scale, _ = spec.encoding.scales_and_offsets(spec.shape)
    return packing.by_column(scale.astype(np.float32), spec.shape, tile.columns)


def _only(arrays: Sequence[Array | None], specs: Sequence[Spec | None]) -> tuple[Array, Spec]:
    (stored,), (spec,) = arrays, specs
    if stored is None or spec is None:
        raise AssertionError("a product without weights")
    return stored, spec
