"""Choices among the elements of the first input: maxima, order, indices, windows.

The op's reference chooses among levels `q - z`, whole numbers, and level 0 is its padding. What is
chosen is then requantized to the grid of the result, as a move is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.ops import NodeView
from dovetail_numpy.integer.binary import by_reference
from dovetail_numpy.integer.definitions import DEFINITIONS, Run
from dovetail_numpy.integer.grid import (
    is_defined,
    is_fixed,
    is_tabular,
    real_of,
    stored_of,
)
from dovetail_numpy.integer.rescaling import grid_of, scales

CHOICES = (
    "ReduceMax",
    "ReduceMin",
    "PoolMax2d",
    "PoolMax3d",
    "Argmax",
    "Argmin",
    "TopK",
    "NonZero",
    "ExtractPatches",
    "ExtractGlimpse",
    "RoiPooling",
)
# Zero points beyond this are computed in float64.
_FARTHEST_ZERO = 1 << 24


def _chooses(view: NodeView) -> bool:
    noise = getattr(view.op, "noise", None)
    return is_defined(view) and (noise is None or noise.name == "ZEROES")


@DEFINITIONS.prepares(*CHOICES, supports=_chooses)
def choice(view: NodeView) -> Run:
    """Choose among levels by the op's reference on integers."""
    schema, op = view.definition
    x = view.ins[0]
    if x is None or not is_tabular(x):
        return by_reference(view)
    scale, zero, _ = grid_of(x)
    if scale == 0 or abs(zero) > _FARTHEST_ZERO:
        return by_reference(view)  # all real values are equal, or integers could overflow

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        data, *rest = ins
        if data is None:
            raise AssertionError(f"{view.node.where} lacks its data")
        others = [real_operand(array, spec) for array, spec in zip(rest, view.ins[1:], strict=True)]
        given = data.astype(np.int32) - np.int32(zero)
        results = schema.reference(op, [given, *others], view.outs)
        return [chosen_on_grid(y, x, out) for y, out in zip(results, view.outs, strict=True)]

    return run


def chosen_on_grid(chosen: Array, source: Spec, out: Spec) -> Array:
    """Return chosen levels on the result's grid; indices are as they are."""
    if not is_fixed(out):
        return stored_of(chosen, out)
    return stored_of(np.asarray(chosen * scales(source)), out)


def real_operand(stored: Array | None, spec: Spec | None) -> Array | None:
    """Return the real values of positions and boxes; others are as they are stored."""
    if stored is None or spec is None or not is_fixed(spec):
        return stored
    return real_of(stored, spec)
