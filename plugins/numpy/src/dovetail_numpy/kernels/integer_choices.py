"""Maxima, minima and their indices, of stored integers."""

from __future__ import annotations

import numpy as np

from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step
from dovetail_numpy.integer.choices import chosen_on_grid
from dovetail_numpy.integer.definitions import DEFINITIONS
from dovetail_numpy.integer.grid import is_single, is_tabular
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_opset import STANDARD


def _choice(call: KernelCall) -> Step | None:
    """Run a choice that has no padding: stored integers have the order of levels.

    The definition converts all of them, and this only what is chosen.
    """
    view, spec, (out,) = call.head, call.spec(0), call.head.outs
    if DEFINITIONS.of(view) is None or not (is_tabular(spec) and is_single(spec)):
        return None
    (schema, op), zero = view.definition, np.int32(grid_of(spec)[1])
    is_index = not out.dtype.is_fixed_point
    x, written = call.read(0), call.write()

    def bind(buffers: Buffers) -> Bound:
        stored, result = buffers.array(x), buffers.array(written)

        def run() -> None:
            (chosen,) = schema.reference(op, [stored], view.outs)
            levels = chosen if is_index else chosen.astype(np.int32) - zero
            np.copyto(result, chosen_on_grid(levels, spec, out))

        return run

    return call.step(bind)


for _op_type in ("ReduceMax", "ReduceMin", "Argmax", "Argmin"):
    KERNELS.register(STANDARD, _op_type, quantized=True)(_choice)
