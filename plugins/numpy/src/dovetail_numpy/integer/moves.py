"""Ops that move elements, and those that choose among them.

Stored integers are copied where the encodings of inputs and result are equal. Otherwise each input
is first requantized to the result's grid, by `q' = clip(rint((q - z) * s / s' + z'))` in float64.
Fill values are on the result's grid. With several scales, or results with different encodings, real
values move and each result is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dovetail.ir import Array, ScaleOffset, Spec
from dovetail.ops import Domain, NodeView
from dovetail.ops.simulate import keeps_stored
from dovetail_numpy.integer.binary import by_reference
from dovetail_numpy.integer.definitions import DEFINITIONS, Run
from dovetail_numpy.integer.grid import is_defined, is_fixed, is_tabular, real_of, stored_of
from dovetail_numpy.integer.tables import TableKey, grid_key, look_up, made_table

# They have the elements of their input in order: between grids, they requantize.
REQUANTIZING = ("Reshape", "ExpandDims", "Squeeze")
MOVES = (
    *REQUANTIZING,
    "Transpose",
    "Concat",
    "Split",
    "Pack",
    "UnPack",
    "Tile",
    "BatchPermutation",
    "DepthToSpace",
    "SpaceToDepth",
    "BatchToSpace",
    "SpaceToBatch",
    "ChannelShuffle",
    "ArgbToRgb",
    "Im2Col",
    "Gather",
    "GatherElements",
    "GatherNd",
    "Pad",
    "StridedSlice",
    "Buffer",
    "ResizeNearestNeighbor",
)
_SCATTERS = ("ScatterElements", "ScatterNd")
SELECT = "ElementWiseSelect"

Convert = Callable[[Array], Array]


def requantizing_table(source: Spec, target: Spec) -> Array | None:
    """Return the table from one grid to another; see `look_up`.

    None if the source has more than 16 bits, or one of them several scales.
    """
    if not is_tabular(source) or not isinstance(target.encoding, ScaleOffset):
        return None

    def move(stored: Array) -> Array:
        return stored_of(real_of(stored, source), target)

    return made_table(TableKey("requantize", grid_key(source), grid_key(target), move))


def requantizer(source: Spec, target: Spec) -> Convert:
    """Return the function from stored integers of one grid to those of another, any shape."""
    if grid_key(source) == grid_key(target):
        return lambda stored: stored
    table = requantizing_table(source, target)
    if table is None:
        return lambda stored: stored_of(real_of(stored, source), target)
    return lambda stored: look_up(table, stored)


@DEFINITIONS.prepares(*MOVES, supports=is_defined)
def move(view: NodeView) -> Run:
    """Move elements of the first result's grid."""
    if keeps_stored(Domain.MOVE, view.ins, view.outs):
        return _moved(view, [_unchanged] * len(view.ins))
    target = view.outs[0]
    is_one_grid = all(grid_key(out) == grid_key(target) for out in view.outs)
    if not is_one_grid or not isinstance(target.encoding, ScaleOffset):
        return by_reference(view)
    return _moved(view, [_to_target(spec, target) for spec in view.ins])


@DEFINITIONS.prepares(SELECT, supports=is_defined)
def select(view: NodeView) -> Run:
    """Choose between two tensors on the result's grid by a condition, which is a real value."""
    condition, *_ = view.ins
    (target,) = view.outs
    if condition is None or not (is_tabular(target) or not target.dtype.is_fixed_point):
        return by_reference(view)

    def is_true(stored: Array) -> Array:
        return real_of(stored, condition)

    return _moved(view, [is_true, *(_to_target(spec, target) for spec in view.ins[1:])])


@DEFINITIONS.prepares(*_SCATTERS, supports=is_defined)
def scatter(view: NodeView) -> Run:
    """Update elements on the result's grid; with a reduction it is one of real values."""
    (target,) = view.outs
    if view.op.reduction or not isinstance(target.encoding, ScaleOffset):
        return by_reference(view)
    return _moved(view, [_to_target(spec, target) for spec in view.ins])


def _moved(view: NodeView, before: Sequence[Convert]) -> Run:
    """Return the reference of a node on stored integers, each input converted first."""
    schema, op = view.definition

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        given = [None if x is None else convert(x) for x, convert in zip(ins, before, strict=True)]
        return schema.reference(op, given, view.outs)

    return run


def _to_target(source: Spec | None, target: Spec) -> Convert:
    return requantizer(source, target) if source is not None and is_fixed(source) else _unchanged


def _unchanged(stored: Array) -> Array:
    return stored
