"""Ops of more axes than backends take, on tensors with fewer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dovetail.ir import Graph, Node, Shape, Spec, Tensor
from dovetail_opset._package import is_op
from dovetail_opset.build import add
from dovetail_opset.passes._alike_axes import join_alike, reshaped
from dovetail_opset.passes._rewrite import (
    bound,
    first_input,
    has_one_scale,
    share_one_scale,
)
from dovetail_opset.perms import perm_of

_MOST_AXES = 5  # of a tensor that backends of QNN take
_MOST_TILED = 4  # of one that is repeated
_MOST_SEARCHED = 4  # of one whose maxima or minima are searched for
_SEARCHES = ("Argmax", "Argmin")
_REDUCTIONS = tuple(f"Reduce{name}" for name in ("Max", "Mean", "Min", "Sum", "SumSquare"))


@dataclass(frozen=True, slots=True)
class JoinAxes:
    """Replace an op on too many axes by one on fewer, between reshapes.

    A Transpose moves axes that stay neighbors as one, and none of size 1: the windows of a
    transformer, (1, rows, 7, columns, 7, channels), then have five axes. Where more are left, as in
    windows of a volume, several transposes move them in turn. A Gather or GatherNd with a matrix of
    indices reads them as one axis, as where an image is unfolded. A Tile repeats neighboring axes
    that stay as they are as one: keys that groups of heads share. A reduction has neighboring axes
    that it keeps or reduces alike: pooling to a given size; so has a search for the largest
    element. A StridedSlice has those that it takes whole as one. A MatMul, a norm, a Softmax, a
    Concat or an op on elements has axes along which it does the same: attention within windows,
    videos.

    It runs late, before reshapes in a row become one: other passes know an op and the Reshape
    around it as a pattern.
    """

    name: str = "join-axes"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in graph.nodes:
            if is_op(node, "Transpose"):
                changed |= _join_moved(graph, node)
            elif is_op(node, "Gather", "GatherNd"):
                changed |= _join_indices(graph, node)
            elif is_op(node, "Tile"):
                changed |= _join_repeated(graph, node)
            elif is_op(node, *_REDUCTIONS, *_SEARCHES):
                changed |= _join_reduced(graph, node)
            elif is_op(node, "StridedSlice"):
                changed |= _join_sliced(graph, node)
            elif small := join_alike(graph, node):
                _restore(graph, node, *small)
                changed = True
        return changed


def _has_too_many(node: Node, most: int = _MOST_AXES) -> bool:
    """Return whether the result has too many axes, with at most one scale for all of them."""
    x, y = first_input(node), node.outputs[0]
    return len(y.shape) > most and share_one_scale(x, y)


def _join_moved(graph: Graph, node: Node) -> bool:
    if not _has_too_many(node):
        return False
    x = first_input(node)
    graph.remove_node(node)
    for i, (shape, perm) in enumerate(steps_of(x.shape, perm_of(node))):
        suffix = f"_{i + 1}" if i else ""
        small = reshaped(graph, node, x, shape, suffix=f"joined{suffix}")
        name = f"{node.name}.moved{suffix}"
        x = add(graph, "Transpose", [small], name=name, sources=node.sources, perm=perm)
    _restore(graph, node, x)
    return True


def _join_indices(graph: Graph, node: Node) -> bool:
    x, indices = first_input(node), node.inputs[1]
    op: Any = bound(node)
    if op is None or indices is None or not _has_too_many(node):
        return False
    # GatherNd reads one element, or part, for each row of the last axis
    row = indices.shape[-1:] if is_op(node, "GatherNd") else ()
    axes = indices.shape[: len(indices.shape) - len(row)]
    if len(axes) < 2 or len(x.shape) > _MOST_AXES or (row and op.batch_dims):
        return False
    graph.remove_node(node)
    line = reshaped(graph, node, indices, (math.prod(axes), *row))
    read = add(
        graph,
        node.op_type,
        [x, line],
        name=f"{node.name}.read",
        sources=node.sources,
        **{name: getattr(op, name) for name in node.params},
    )
    _restore(graph, node, read)
    return True


def _join_repeated(graph: Graph, node: Node) -> bool:
    if not _has_too_many(node, _MOST_TILED):
        return False
    x, y = first_input(node), node.outputs[0]
    if 0 in x.shape:
        return False
    sizes: list[int] = []
    counts: list[int] = []
    for size, result in zip(x.shape, y.shape, strict=True):
        if counts and counts[-1] == 1 and result == size:
            sizes[-1] *= size
        else:
            sizes.append(size)
            counts.append(result // size)
    if len(sizes) > _MOST_TILED:
        return False
    graph.remove_node(node)
    small = reshaped(graph, node, x, tuple(sizes))
    repeated = add(
        graph, "Tile", [small], name=f"{node.name}.tiled", sources=node.sources, multiples=counts
    )
    _restore(graph, node, repeated)
    return True


def _join_sliced(graph: Graph, node: Node) -> bool:
    op: Any = bound(node)
    x = first_input(node)
    if op is None or len(x.shape) <= _MOST_AXES or op.new_axes_mask or 0 in x.shape:
        return False
    if not share_one_scale(x, node.outputs[0]):
        return False
    sizes: list[int] = []
    ranges: list[tuple[int, int, int]] = []
    for size, entry in zip(x.shape, op.index(), strict=True):
        taken = entry.indices(size) if isinstance(entry, slice) else (entry, entry + 1, 1)
        if size == 1 and taken == (0, 1, 1):
            continue
        if ranges and ranges[-1] == (0, sizes[-1], 1) and taken == (0, size, 1):
            sizes[-1] *= size
            ranges[-1] = (0, sizes[-1], 1)
        else:
            sizes.append(size)
            ranges.append(taken)
    if len(sizes) > _MOST_AXES or not sizes:
        return False
    graph.remove_node(node)
    small = reshaped(graph, node, x, tuple(sizes))
    part = add(
        graph,
        "StridedSlice",
        [small],
        name=f"{node.name}.part",
        sources=node.sources,
        ranges=ranges,
    )
    _restore(graph, node, part)
    return True


def _join_reduced(graph: Graph, node: Node) -> bool:
    op: Any = bound(node)
    x, y = first_input(node), node.outputs[0]
    is_search = is_op(node, *_SEARCHES)
    most = _MOST_SEARCHED if is_search else _MOST_AXES
    if op is None or len(x.shape) <= most or 0 in x.shape:
        return False
    if not (has_one_scale(x) and has_one_scale(y)):
        return False
    axes = {int(axis) for axis in ((op.axis,) if is_search else op.axes)}
    sizes: list[int] = []
    reduced: list[bool] = []
    for axis, size in enumerate(x.shape):
        if reduced and reduced[-1] == (axis in axes):
            sizes[-1] *= size
        else:
            sizes.append(size)
            reduced.append(axis in axes)
    if len(sizes) > most:
        return False
    graph.remove_node(node)
    small = reshaped(graph, node, x, tuple(sizes))
    left = [axis for axis, is_reduced in enumerate(reduced) if is_reduced]
    kept = tuple(n for n, is_reduced in zip(sizes, reduced, strict=True) if not is_reduced)
    found = add(
        graph,
        node.op_type,
        [small],
        name=f"{node.name}.computed",
        spec=Spec(y.dtype, kept, y.encoding),
        sources=node.sources,
        **({"axis": left[0]} if is_search else {"axes": left}),
    )
    _restore(graph, node, found)
    return True


def _restore(graph: Graph, node: Node, *results: Tensor) -> None:
    """Add the reshapes that restore the results of a removed node."""
    for small, whole in zip(results, node.outputs, strict=True):
        add(graph, "Reshape", [small], name=node.name, outputs=whole, sources=node.sources)


def steps_of(shape: Shape, perm: Shape) -> Iterator[tuple[Shape, Shape]]:
    """Yield transposes of at most five axes that do in turn what one on more axes does.

    In each step but the last, two neighboring blocks of axes are exchanged: those after which the
    fewest axes are left to move.

    Args:
        shape: The shape before the transpose.
        perm: The transpose.
    """
    shape, perm = joined(shape, perm)
    while len(shape) > _MOST_AXES:
        swap = min(_swaps(len(shape)), key=lambda swap: len(_left(shape, perm, swap)[0]))
        yield joined(shape, swap)
        shape, perm = _left(shape, perm, swap)
    yield shape, perm


def _swaps(count: int) -> Iterator[Shape]:
    """Yield the transposes of axes that exchange two neighboring blocks."""
    axes = tuple(range(count))
    for start, middle, end in itertools.combinations(range(count + 1), 3):
        yield axes[:start] + axes[middle:end] + axes[start:middle] + axes[end:]


def _left(shape: Shape, perm: Shape, done: Shape) -> tuple[Shape, Shape]:
    """Return what is left of a transpose after a part of it is done, as `joined` does."""
    return joined(tuple(shape[axis] for axis in done), tuple(done.index(axis) for axis in perm))


def joined(shape: Shape, perm: Shape) -> tuple[Shape, Shape]:
    """Return the shape whose axes are those that stay neighbors, and how these move.

    Args:
        shape: The shape before a transpose.
        perm: The transpose.
    """
    kept = [axis for axis, size in enumerate(shape) if size != 1]
    index = {axis: i for i, axis in enumerate(kept)}
    groups: list[list[int]] = []
    for axis in perm:
        if shape[axis] == 1:
            continue
        if groups and index[groups[-1][-1]] + 1 == index[axis]:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    ordered = sorted(groups)
    sizes = tuple(math.prod(shape[axis] for axis in group) for group in ordered)
    return sizes, tuple(ordered.index(group) for group in groups)
