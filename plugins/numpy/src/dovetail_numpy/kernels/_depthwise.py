"""Depthwise convolution: the sum over taps of rows of inputs times the tap's weights.

NumPy is fastest on long dense rows. So the weights of a tap are repeated for all columns, and
(columns, channels) are one axis: with stride 1 the inputs of a tap are dense too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value, call_sequence
from dovetail_numpy.kernels._calls import (
    MOST_BLOCKS,
    Call,
    Floats,
    blocks,
    constant,
    copy,
    fill,
    floats,
    scratch_floats,
    ufunc,
)
from dovetail_numpy.kernels._epilogue import Epilogue
from dovetail_numpy.kernels._geometry import Geometry
from dovetail_numpy.kernels._taps import Axis, Patch, patches, view_of

# Floats of the result computed at a time: 128 kB, which fit a second-level cache of 1 MB together
# with inputs and products. With half of it MobileNetV2 took a twelfth longer, with a quarter a
# fifth.
_BLOCK = 32768


def depthwise_step(call: KernelCall, geometry: Geometry) -> Step | None:
    """Return the step of a convolution in which each group has one channel.

    x: (n, h, w, c); weight: (fh, fw, 1, c * m); bias: (c * m,); or one axis less.

    Returns:
        None if the weights have no data: they could not be repeated in advance.
    """
    if not call.has_data(1):
        return None
    columns, made = geometry.out[2:]

    def repeated(arrays: Sequence[Any], _: object) -> Array:
        return np.tile(arrays[0].reshape(-1, made), (1, columns))

    taps = call.packed(1, f"cpu.depthwise.{columns}", repeated)
    x = call.read(0)
    epilogue = Epilogue(call, bias=2)
    out = call.write()
    return call.step(_Depthwise(call, geometry, taps, (x, out), epilogue).bind)


class _Depthwise:
    def __init__(
        self,
        call: KernelCall,
        geometry: Geometry,
        taps: Floats,
        values: tuple[Value, Value],
        epilogue: Epilogue,
    ) -> None:
        self._geometry = g = geometry
        self._taps = taps  # (fh * fw, ow * c * m)
        self._x, self._out = values
        self._epilogue = epilogue
        (top, _), (left, _) = g.pads
        self._height = Axis(g.x[1], g.out[1], g.size[0], g.stride[0], g.dilation[0], top)
        self._width = Axis(g.x[2], g.out[2], g.size[1], g.stride[1], g.dilation[1], left)
        row = g.out[2] * g.out[3]
        fewest = -(-g.x[0] * g.out[1] // MOST_BLOCKS)
        self._rows = min(max(_BLOCK // row, fewest, 1), g.out[1])
        self._product = scratch_floats(call, self._rows * row)
        # each channel as many times as it has filters
        self._multiple = g.out[3] // g.x[3]
        spread = g.x[1] * g.x[2] * g.out[3]
        self._spread = scratch_floats(call, spread) if self._multiple > 1 else None

    def bind(self, buffers: Buffers) -> Bound:
        g = self._geometry
        made = g.out[3]
        x, out = buffers.array(self._x).reshape(g.x), buffers.array(self._out).reshape(g.out)
        product = floats(buffers, self._product)
        after = self._epilogue.bind(buffers, made)
        calls: list[Call] = []
        for n in range(g.x[0]):
            image = x[n]
            if self._spread is not None:
                image = floats(buffers, self._spread).reshape(*g.x[1:3], made)
                many = image.reshape(*g.x[1:], self._multiple)
                calls.append(copy(many, x[n][..., None]))
            for rows in blocks(g.out[1], self._rows):
                calls += self._block(image, out[n], product, rows)
                part = out[n, rows].reshape(-1, made)
                calls += after(part, (n * g.out[1] + rows.start) * g.out[2])
        return call_sequence(calls)

    def _block(self, image: Array, out: Array, product: Floats, rows: slice) -> list[Call]:
        columns = self._geometry.out[2]
        found = patches(self._height, self._width, rows)
        calls: list[Call] = []
        is_written = bool(found) and found[0].covers(rows, columns)
        if not is_written:
            calls.append(fill(out[rows], constant(0)))
        for i, patch in enumerate(found):
            inputs = view_of(image, patch.in_rows, patch.in_cols)
            weights = self._weights(patch, inputs)
            target = view_of(out, patch.out_rows, patch.out_cols).reshape(inputs.shape)
            if i == 0 and is_written:
                calls.append(ufunc(np.multiply, inputs, weights, target))
                continue
            terms = product[: inputs.size].reshape(inputs.shape)
            calls.append(ufunc(np.multiply, inputs, weights, terms))
            calls.append(ufunc(np.add, target, terms, target))
        return calls

    def _weights(self, patch: Patch, inputs: Array) -> Array:
        made = self._geometry.out[3]
        count = (patch.out_cols.stop - patch.out_cols.start) * made
        return self._taps[patch.tap, :count].reshape(inputs.shape[1:])
