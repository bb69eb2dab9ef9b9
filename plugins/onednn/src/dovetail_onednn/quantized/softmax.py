"""Softmax of stored integers along the last axis.

Of words, NumPy looks up exponentials and divides them by their sums, a block at a time. Results are
rounded as `marks` says.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value, call_sequence
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.grid import is_single
from dovetail_numpy.integer.norms import power_table, scale_of, single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels._calls import block_size, blocks
from dovetail_numpy.kernels.near_ties import ULP, Exact, NearTies, Places
from dovetail_numpy.kernels.wide import BLOCK
from dovetail_onednn._api import FORWARD_INFERENCE, SOFTMAX_ACCURATE, Arg
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import dense
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.marks import marked_step
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES, WORDS, is_narrow
from dovetail_onednn.steps import is_slow

_BYTE, _WORD = 1 << 8, 1 << 16
_LEAST = 1 << 14  # words: with fewer, NumPy alone takes less time
# Of exponentials and of a quotient of their sums: the library's exponentials are off by some 4.
_ERRORS = 128 * ULP
_MOST_ERROR = 2.0**-14
# Of exponentials, their sum, its reciprocal and a product.
_ERRORS_OF_WORDS = 4 * ULP
_MOST_ERROR_OF_WORDS = 2.0**-4
_TRUE = np.ones(1, np.bool_)
_FEWEST_STEPS, _MOST_STEPS = 16.0, 512.0


def softmax(call: KernelCall) -> Step | None:
    """Run Softmax along the last axis; see `Kernel.make`."""
    spec, out, total = call.spec(0), call.outputs[0], math.prod(call.spec(0).shape)
    if DEFINITIONS.of(call.head) is None or not total or out.encoding is None:
        return None
    if call.op.axis != len(spec.shape) - 1 or grid_of(out.spec)[2] != out.dtype.stored_range():
        return None
    if spec.dtype in WORDS and out.dtype in WORDS | TYPES.keys() and is_single(out.spec):
        return _of_words(call) if total >= _LEAST else None
    are_bytes = not {spec.dtype, out.dtype} - TYPES.keys()
    return _of_bytes(call) if are_bytes and is_narrow(spec) and is_narrow(out.spec) else None


def _of_bytes(call: KernelCall) -> Step | None:
    """Return the step of a softmax of bytes; None if errors matter too often."""
    spec, out, op = call.spec(0), call.outputs[0], call.op
    step = grid_of(out.spec)[0]
    # arguments up to this one are rounded before their differences
    farthest = abs(single(op.beta)) * scale_of(spec) * _BYTE
    errors = 2 * farthest * ULP + _ERRORS
    is_usual = errors < _MOST_ERROR and _FEWEST_STEPS < 1 / step < _MOST_STEPS
    if not is_usual:
        return None
    rows = dense((math.prod(spec.shape) // spec.shape[-1], spec.shape[-1]))
    description = Description(
        "softmax_forward",
        (ENGINE, FORWARD_INFERENCE, SOFTMAX_ACCURATE, rows, rows, 1),
        lambda: f"a softmax of {rows.key}",
    )
    with PrimitiveDesc(description) as desc:
        if is_slow(desc):
            return None
        stages = Stages(call)
        data = Argument(rows.of_type(TYPES[spec.dtype]), call.read(0))
        real = stages.room(rows)
        stages.move(data, real, scale=single(op.beta) * scale_of(spec))
        stages.add(desc, {Arg.SOURCE: real, Arg.DESTINATION: real})
    near = NearTies(*grid_of(out.spec), 0.0, errors)
    exact_of = partial(_exact_of, call, data.value)
    return marked_step(call, stages, real.value, 1.0, near, exact_of, is_positive=True)


def _of_words(call: KernelCall) -> Step | None:
    """Return the step of a softmax of words; None if errors matter too often."""
    spec, beta = call.spec(0), single(call.op.beta)
    near = NearTies(*grid_of(call.outputs[0].spec), 0.0, _ERRORS_OF_WORDS)
    if not near.relative * near.farthest < _MOST_ERROR_OF_WORDS:
        return None
    size = spec.shape[-1]
    count = math.prod(spec.shape) // size
    most = min(max(1, block_size(count * size, BLOCK) // size), count)
    stages, stored = Stages(call), call.read(0)
    real = stages.room(dense((count, size))).value
    distances, sums = (call.scratch(each * most * size) for each in (2, 8))
    powers = power_table(abs(beta) * scale_of(spec), _WORD).astype(np.float32)
    entries = call.constant(powers)

    def before(buffers: Buffers) -> Bound:
        rows, table = buffers.array(stored).reshape(-1, size), buffers.array(entries)
        results = buffers.array(real).view(np.float32)[: rows.size].reshape(rows.shape)
        far = buffers.array(distances).view(np.uint16).reshape(most, size)
        pad = buffers.array(sums).view(np.float64).reshape(most, size)

        def divide(block: slice) -> None:
            q, v = rows[block], results[block]
            d, wide = far[: len(q)], pad[: len(q)]
            table.take(_distances(q, beta, d), None, v, "wrap")
            np.copyto(wide, v)
            total = np.einsum("ri->r", wide)
            np.multiply(v, (1.0 / total).astype(np.float32)[:, None], v)

        return call_sequence([partial(divide, block) for block in blocks(count, most)])

    exact_of = partial(_exact_of, call, stored)
    return marked_step(call, stages, real, 1.0, near, exact_of, is_positive=True, before=before)


def _distances(rows: Array, beta: float, out: Array | None = None) -> Array:
    """Return distances of integers from the largest one of each row, or the smallest, unsigned."""
    first = (np.maximum if beta >= 0 else np.minimum).reduce(rows, axis=1, keepdims=True)
    kind = np.dtype(f"u{rows.itemsize}")
    ends = first.view(kind), rows.view(kind)
    # modulo the number of integers, in which differences of signed ones are right as well
    return np.asarray(np.subtract(*(ends if beta >= 0 else ends[::-1]), out=out))


def _exact_of(call: KernelCall, data: Value, buffers: Buffers) -> Exact:
    """Return the function that computes elements by the definition."""
    spec, beta = call.spec(0), single(call.op.beta)
    rows = buffers.array(data).reshape(-1, spec.shape[-1])
    powers = power_table(abs(beta) * scale_of(spec), 1 << 8 * rows.itemsize)

    def exact(at: Places) -> Array:
        row, column = np.divmod(at, rows.shape[1])
        # indices are sorted, so that those of a row are neighbors
        is_first = np.concatenate((_TRUE, row[1:] != row[:-1]))
        index, q = np.cumsum(is_first) - 1, rows[row[is_first]]
        of_each = powers[_distances(q, beta)]
        return np.asarray(of_each[index, column] / of_each.sum(1)[index])

    return exact
