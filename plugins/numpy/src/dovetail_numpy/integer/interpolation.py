"""Interpolation between the levels `q - z` of the first input, around which there is level 0.

Weights and sums of weighted levels `y` are those of the op's reference in float64. The result is

    v = float32(y) * m + z',   q = clip(rint(v)),   m = float32(s / s')

where positions come from params and float32 holds all levels, see `is_single`; elsewhere it is
`clip(rint(settled(y * (s / s') + z')))`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array
from dovetail.ops import NodeView
from dovetail_numpy.integer.binary import by_reference
from dovetail_numpy.integer.choices import choice, real_operand
from dovetail_numpy.integer.definitions import DEFINITIONS, Run
from dovetail_numpy.integer.grid import is_defined, is_fixed, is_single, is_tabular, level_on_grid
from dovetail_numpy.integer.rescaling import LARGEST_MULTIPLIER, Rescale, grid_of, levels

INTERPOLATIONS = ("Resize", "ResizeBilinear", "GridSample", "RoiAlign")
# Products of matrices: in float64 a library computes them, in an order of its own.
_PRODUCTS = ("RoiAlign",)


def _interpolates(view: NodeView) -> bool:
    return is_fixed(view.ins[0]) and is_defined(view)


def interpolation_rescale(view: NodeView) -> Rescale | None:
    """Return the rescaling of weighted levels; None if it is in float64.

    That is so unless the data are the only input, and float32 holds all levels, see `is_single`.
    """
    x, (out,) = view.ins[0], view.outs
    if x is None or len(view.ins) > 1 or not (is_single(x) and is_single(out)):
        return None
    (scale, *_), (step, zero, limits) = grid_of(x), grid_of(out)
    multiplier = np.asarray(min(scale / step, LARGEST_MULTIPLIER), np.float32)
    return Rescale(multiplier, np.zeros((), np.float32), zero, limits)


@DEFINITIONS.prepares(*INTERPOLATIONS, supports=_interpolates)
def interpolation(view: NodeView) -> Run:
    """Interpolate between levels; what copies elements is a choice."""
    schema, op = view.definition
    x, (out,) = view.ins[0], view.outs
    rescale = interpolation_rescale(view)
    kind = np.longdouble if view.op_type in _PRODUCTS else np.float64
    if view.op.keeps:
        return choice(view)
    if x is None or not is_tabular(x):
        return by_reference(view, kind=kind, settled=True)

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        data, *rest = ins
        if data is None:
            raise AssertionError(f"{view.node.where} lacks its data")
        others = [real_operand(array, spec) for array, spec in zip(rest, view.ins[1:], strict=True)]
        (y,) = schema.reference(op, [levels(data, x).astype(kind), *others], view.outs)
        if rescale is not None:
            return [rescale.apply(y, out)]
        return [level_on_grid(y.astype(np.float64), x, out)]

    return run
