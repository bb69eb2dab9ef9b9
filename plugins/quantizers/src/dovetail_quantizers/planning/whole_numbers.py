"""Tensors of which whole numbers count, and grids of which these are points.

On another grid a whole number is up to half a step above its point. A cast to an integer truncates:
it would give the whole number below, and a Gather would take the wrong row.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dovetail.ir import Graph, Tensor
from dovetail.ops import OpRegistry
from dovetail_opset import is_op
from dovetail_quantizers.grid import Grid
from dovetail_quantizers.planning.groups import Group
from dovetail_quantizers.planning.roles import present, schema_of
from dovetail_quantizers.planning.rules import op_of


def whole_groups(graph: Graph, ops: OpRegistry) -> Callable[[Group], bool]:
    """Return the test whether a group needs a grid with points at whole numbers.

    Its members are whole numbers whatever the inputs are, or a cast truncates one of them: an input
    may have only whole numbers, too.
    """
    found: set[Tensor] = set()

    def is_whole(tensor: Tensor) -> bool:
        if not (tensor.dtype.is_float and tensor.kind.is_static):
            return tensor in found or not (tensor.dtype.is_float or tensor.dtype.is_fixed_point)
        values = tensor.values().reshape(-1)
        # the first few say it of weights, whose copy may be large
        return all(bool((x == np.rint(x)).all()) for x in (values[:99], values))

    cut: set[Tensor] = set()
    for node in graph.nodes:
        if is_op(node, "Cast") and node.outputs[0].dtype.is_int:
            cut.update(t for _, t in present(node) if t.dtype.is_float)
        # constants, whose values must be read, come last
        inputs = sorted((t for _, t in present(node)), key=lambda t: t.kind.is_static)
        op = op_of(node, ops)
        keeps = schema_of(node, ops).keeps_whole(op)
        if op.rounds or (keeps and all(map(is_whole, inputs))):
            found.update(node.outputs)
    return lambda group: all(map(is_whole, group.members)) or bool(cut & set(group.members))


def whole_grid(grid: Grid, minimum: float, maximum: float) -> Grid | None:
    """Return the finest grid of a type on which all whole numbers of a range are points.

    Its scale is a power of two, so that every multiple is exact.

    Args:
        grid: The grid of the range, which has the type.
        minimum: The smallest value of the range.
        maximum: The largest value.

    Returns:
        The grid; None if the type has too few points.
    """
    low, high = grid.dtype.stored_range(grid.bitwidth)
    steps = min(-low, high) if grid.dtype.is_signed else high - low
    first, last = min(math.floor(minimum), 0), max(math.ceil(maximum), 0)
    if grid.dtype.is_signed:  # symmetric
        first, last = 0, max(-first, last)
    if not 0 < last - first <= steps:
        return None
    exponent = (steps // (last - first)).bit_length() - 1
    return Grid(grid.dtype, grid.bitwidth, 2.0**-exponent, first * 2**exponent)
