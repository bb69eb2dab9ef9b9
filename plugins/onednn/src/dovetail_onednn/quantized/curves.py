"""Functions of stored integers as post-ops with the results of their tables."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.ops import NodeView
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.integer.tables import FUNCTIONS, HardSwish, function_table
from dovetail_numpy.kernels.lookup import all_integers
from dovetail_numpy.kernels.near_ties import ULP
from dovetail_onednn._api import Algorithm, Arg, BinaryAlgorithm
from dovetail_onednn.attributes import Eltwise
from dovetail_onednn.layouts import vector
from dovetail_onednn.post_ops import functions_of
from dovetail_onednn.primitives import ENGINE, Addresses, Description, Primitive, PrimitiveDesc
from dovetail_onednn.quantized.lines import Line, line_through
from dovetail_onednn.quantized.types import TYPES, is_narrow
from dovetail_onednn.threads import threads

Curve = tuple[Eltwise, ...]
# Minimum distance from where rounding changes: for the same argument, the library's function is the
# same everywhere up to the last bits, some 2**-16 of a step.
_MARGIN = 2.0**-12


def curve_of(view: NodeView) -> Curve | None:
    """Return post-ops after which rounding a stored byte returns the table's entry, or None.

    They read whole numbers, and include the zero points. The library's own results for all bytes
    are not near to where rounding changes.
    """
    (x, *_), (out, *_) = view.ins, view.outs
    if view.op_type not in FUNCTIONS or len(view.ins) != 1 or DEFINITIONS.of(view) is None:
        return None
    if x is None or not (is_narrow(x) and is_narrow(out)) or {x.dtype, out.dtype} - TYPES.keys():
        return None
    table = function_table(view)
    if table is None:
        return None
    if line := line_of(x, table, out):
        return line
    functions, (scale, zero, _) = functions_of(view), grid_of(x)
    if not functions:
        return None
    order = np.argsort(stored := all_integers(x.dtype))
    results = table[order]
    ops = (Eltwise(Algorithm.LINEAR, scale, -zero * scale), *functions)
    values = _evaluated(ops, int(stored.min()))
    if not np.isfinite(values).all():
        return None
    # arguments differ if a product and a sum are fused here but not there
    levels = 256 + 2 * int(np.abs(stored.astype(np.int64) - zero).max())
    steepest = 1 + int(np.abs(np.diff(results.astype(np.int64))).max())
    found = line_through(values, results, _MARGIN + levels * steepest * ULP)
    return None if found is None else (*ops, *_line_ops(found, out))


def line_of(x: Spec, table: Array, out: Spec) -> Curve | None:
    """Return post-ops of a line after which rounding a stored byte returns its entry, or None.

    Args:
        x: The bytes.
        table: The results for all bytes, as stored.
        out: The results.
    """
    line = line_through(all_integers(x.dtype), table)
    return None if line is None else _line_ops(line, out)


def word_curve_of(view: NodeView) -> Curve | None:
    """Return post-ops with the definition's formula of a function where there are 16 bits, or None.

    They read whole numbers, include the zero points, and neither round nor clip.
    """
    numbers = None if DEFINITIONS.of(view) is None else HardSwish.of(view)
    if numbers is None:
        return None
    return (
        Eltwise(Algorithm.LINEAR, 1.0, -float(numbers.zero)),
        Eltwise(Algorithm.LINEAR, float(numbers.factor)),
        Eltwise(Algorithm.HARDSWISH, float(numbers.slope), 0.5),
        Eltwise(Algorithm.LINEAR, 1.0, float(numbers.target_zero)),
    )


def _line_ops(line: Line, out: Spec) -> Curve:
    ops = (Eltwise(Algorithm.LINEAR, line.slope, line.start),)
    if (line.low, line.high) == out.dtype.stored_range():
        return ops  # the result saturates there
    return (*ops, Eltwise(Algorithm.CLIP, float(line.low), float(line.high)))


@lru_cache(maxsize=128)
def _evaluated(ops: Curve, first: int) -> Array:
    """Return what the library computes of 256 bytes in order, float32."""
    stored = np.arange(first, first + 256, dtype=np.float32)
    flat, number, one = vector(stored.size), vector(1), np.ones(1, np.float32)
    description = Description(
        "binary",
        (ENGINE, BinaryAlgorithm.MULTIPLY, flat, number, flat),
        lambda: f"functions of {stored.size} numbers",
        ops,
    )
    with threads(1), PrimitiveDesc(description) as desc:
        addresses: Addresses = {
            Arg.SOURCE: (flat, int(stored.ctypes.data)),
            Arg.OTHER: (number, int(one.ctypes.data)),
            Arg.DESTINATION: (flat, int(stored.ctypes.data)),
        }
        Primitive(desc).bind(addresses)()
    stored.flags.writeable = False
    return stored
