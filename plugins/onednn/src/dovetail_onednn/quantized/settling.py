"""Exact float32 levels on the grid of a result, in float64 as the definition has it.

    q = clip(rint(settled((x - zero) * ratio + z')))

Adding and subtracting a number whose last bit is 2^-20 settles, see
`dovetail_numpy.integer.grid`: that rounds halves to even, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.integer.grid import SETTLED_PARTS
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_onednn.execution import Argument
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.word_conversions import StoredReals

_BLOCK = 1 << 15  # elements, whose float64 numbers are in a cache
_SETTLES = 1.5 * 2**52 / SETTLED_PARTS
_DOUBLE = 8  # bytes


def settled_step(
    call: KernelCall,
    stages: Stages,
    inputs: Sequence[StoredReals],
    real: Argument,
    line: tuple[int, float],
) -> Step:
    """Return the step that executes primitives and rounds their result.

    Args:
        call: The call of the kernel.
        stages: The primitives.
        inputs: Inputs that they read as float32.
        real: Their result x, float32, dense; below 2^30 in steps of the output.
        line: What is subtracted from x, and the factor.
    """
    run, out = stages.execution(), call.write(0)
    zero, ratio = line
    _, shift, limits = grid_of(call.outputs[0].spec)
    pad = call.scratch(_DOUBLE * _BLOCK)

    def bind(buffers: Buffers) -> Bound:
        found, target = buffers.array(real.value).view(np.float32), buffers.array(out).reshape(-1)
        spare = buffers.array(pad).view(np.float64)
        reads = [each.conversion(buffers) for each in inputs]

        def settle() -> None:
            for start in range(0, target.size, _BLOCK):
                into = target[start : start + _BLOCK]
                v = spare[: into.size]
                np.subtract(found[start : start + into.size], zero, v, dtype=np.float64)
                np.multiply(v, ratio, v)
                _store(v, shift, limits, into)

        return call_sequence((*reads, run(buffers), settle))

    return call.step(bind)


def _store(steps: Array, shift: int, limits: tuple[int, int], out: Array) -> None:
    low, high = limits
    np.add(steps, float(shift), steps)
    np.clip(steps, low, high, out=steps)  # whole limits: the order does not matter
    np.add(steps, _SETTLES, steps)
    np.subtract(steps, _SETTLES, steps)
    np.rint(steps, steps)
    np.copyto(out, steps, casting="unsafe")
