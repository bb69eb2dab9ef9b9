"""RoiAlign of stored integers in float64, and by the definition where a tie is near."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from dovetail.ir import Array, ScaleOffset
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value
from dovetail_numpy.integer.definitions import DEFINITIONS
from dovetail_numpy.integer.grid import is_fixed, is_tabular, level_on_grid, real_of
from dovetail_numpy.integer.rescaling import grid_of, levels
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_opset import STANDARD

# Steps from a tie that settled values are rounded from; see `stored_of`.
_SETTLED = 2.0**-21
_MOST_ERROR = 2.0**-16  # steps: with larger errors, too many regions are computed twice
_ULP = 2.0**-53


@KERNELS.register(STANDARD, "RoiAlign", quantized=True)
def roi_align(call: KernelCall) -> Step | None:
    """Run RoiAlign.

    Sums in float64 depend on their order, by which results differ only next to where settled values
    change. The regions of these are computed in extended precision, as the definition does.
    """
    view, data, (out,) = call.head, call.spec(0), call.head.outs
    is_usual = isinstance(out.encoding, ScaleOffset) and out.dtype.is_fixed_point
    if DEFINITIONS.of(view) is None or not is_tabular(data) or not is_usual:
        return None
    if 0 in out.shape or 0 in data.shape or grid_of(out)[0] <= 0:
        return None
    (scale, zero, _), (step, shift, limits) = grid_of(data), grid_of(out)
    largest = max(abs(limit - zero) for limit in data.dtype.stored_range())
    # weights of an element add up to 1; each is rounded the same way in either precision
    roundings = sum(data.shape[1:3]) + 16
    error = _ULP * (roundings * largest * scale / step + 4 * abs(shift))
    if not error < _MOST_ERROR:
        return None
    schema, op = view.definition
    reads, written = [call.read(i) for i in range(3)], call.write()

    def sums(images: Array, rois: Array, batch: Array) -> Array:
        spec = replace(out, shape=(len(rois), *out.shape[1:]))
        (found,) = schema.reference(op, [images, rois, batch], (spec,))
        return np.asarray(found, np.float64)

    def bind(buffers: Buffers) -> Bound:
        def real(index: int, value: Value) -> Array:
            stored, spec = buffers.array(value), call.spec(index)
            return real_of(stored, spec) if is_fixed(spec) else stored

        result = buffers.array(written)

        def run() -> None:
            whole = levels(buffers.array(reads[0]), data)
            images, rois, batch = whole.astype(np.float64), real(1, reads[1]), real(2, reads[2])
            steps = sums(images, rois, batch)
            np.multiply(steps, scale / step, steps)
            np.add(steps, shift, steps)
            nearest = np.rint(steps)
            np.abs(np.subtract(steps, nearest, steps), steps)
            np.copyto(result, nearest.clip(*limits, out=nearest), casting="unsafe")
            farthest = steps.reshape(len(rois), -1).max(axis=1)
            near = np.flatnonzero(~(farthest < 0.5 - _SETTLED - error))  # or NaN
            if near.size:
                exact = sums(whole.astype(np.longdouble), rois[near], batch[near])
                result[near] = level_on_grid(exact, data, out)

        return run

    return call.step(bind)
