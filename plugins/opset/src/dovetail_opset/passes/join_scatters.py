"""Scatters to known slices as joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dovetail.ir import Graph, Node, Shape, Spec, Tensor
from dovetail_opset._package import is_op
from dovetail_opset.build import add
from dovetail_opset.passes._rewrite import bound, first_input, is_constant, share_one_scale
from dovetail_opset.passes.dead_code import DeadCode

Box = tuple[tuple[int, int], ...]  # the begin and end of what is written, by axis

# Each axis along which only a part is written needs a join of its own, of all the data.
_MOST_AXES = 2


class _Part(NamedTuple):
    """The elements of a result from `begin` to `end`: those of a tensor, from `first`."""

    begin: int
    end: int
    tensor: Tensor
    first: int


@dataclass(frozen=True, slots=True)
class _Joined:
    """The result of a scatter: parts along an axis, in order, and names in the user's model."""

    axis: int
    parts: tuple[_Part, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JoinScatters:
    """Replace scatters whose constant indices are a slice by a Concat.

    Assignments such as `x[:, 2] = y` of PyTorch are exported as scatters. Of assignments in a row,
    as in a loop over time steps, one Concat is left, and what is read of the results between them
    is read of the parts.
    """

    name: str = "join-scatters"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        found: dict[Tensor, _Joined] = {}
        for node in graph.nodes:
            if is_op(node, "ScatterElements", "ScatterNd"):
                if (box := _box(node)) is not None:
                    found[node.outputs[0]] = _joined(graph, node, box, found)
            elif is_op(node, "StridedSlice") and (known := found.get(first_input(node))):
                _read_part(graph, node, known)
        for result in reversed(found):
            _write(graph, result, found)
        if found:
            DeadCode().run(graph)
        return bool(found)


def _box(node: Node) -> Box | None:
    """Return what a scatter overwrites, in the order of its updates; None if it is no such box."""
    op: Any = bound(node)
    data, indices, updates = node.inputs
    result = node.outputs[0]
    if op is None or op.reduction or data is None or indices is None or updates is None:
        return None
    if not is_constant(indices) or any(
        not share_one_scale(t, result) or t.kind.is_updateable or 0 in t.shape or any(t.dynamic)
        for t in (data, updates, result)
    ):
        return None
    shape, at = data.shape, indices.values().astype(np.int64)
    if is_op(node, "ScatterElements"):
        axis = int(op.axis)
        line = np.moveaxis(at, axis, -1).reshape(-1, at.shape[axis])
        if (line != line[0]).any():
            return None
        rows, sizes = line[0][:, None], shape[axis : axis + 1]
        before = tuple((0, n) for n in at.shape[:axis])
        after = tuple((0, n) for n in at.shape[axis + 1 :])
    else:
        rows, sizes = at.reshape(-1, at.shape[-1]), shape[: at.shape[-1]]
        before, after = (), tuple((0, n) for n in shape[at.shape[-1] :])
    if (written := _written(rows, sizes)) is None:
        return None
    box = (*before, *written, *after)
    return box if len(_partial(box, shape)) <= _MOST_AXES else None


def _partial(box: Box, shape: Shape) -> list[int]:
    """Return the axes along which a box is not the whole."""
    return [a for a, (span, n) in enumerate(zip(box, shape, strict=True)) if span != (0, n)]


def _written(rows: np.ndarray, sizes: Shape) -> Box | None:
    """Return the box whose elements rows of indices name, in C order; None if there is none."""
    limits = np.array(sizes, np.int64)
    if not limits.size or (rows < -limits).any() or (rows >= limits).any():
        return None
    rows = np.where(rows < 0, rows + limits, rows)
    low, high = rows.min(axis=0), rows.max(axis=0) + 1
    if np.prod(high - low) != len(rows):
        return None
    if (np.indices(high - low).reshape(len(sizes), -1).T + low != rows).any():
        return None
    return tuple(zip(low.tolist(), high.tolist(), strict=True))


def _joined(graph: Graph, node: Node, box: Box, found: dict[Tensor, _Joined]) -> _Joined:
    """Return the parts of a scatter's result; along a second axis they are joined now."""
    data, updates = first_input(node), node.inputs[2]
    assert updates is not None
    new = updates
    axes = _partial(box, data.shape) or [0]
    sizes = tuple(end - begin for begin, end in box)
    if new.shape != sizes:
        spec = Spec(new.dtype, sizes, new.encoding)
        name = f"{node.name}.updates"
        new = add(graph, "Reshape", [new], name=name, spec=spec, sources=node.sources)
    for axis in reversed(axes[1:]):
        spans = [box[a] if a < axis else (0, n) for a, n in enumerate(data.shape)]
        begin, end = box[axis]
        parts = _painted(data, axis, (), _Part(begin, end, new, 0))
        pieces = [_piece(graph, node, part, axis, spans) for part in parts]
        name = f"{node.name}.joined"
        new = add(graph, "Concat", pieces, name=name, sources=node.sources, axis=axis)
    axis = axes[0]
    known, part = found.get(data), _Part(*box[axis], new, 0)
    if known is None or known.axis != axis:
        return _Joined(axis, _painted(data, axis, (), part), tuple(node.sources))
    sources = dict.fromkeys((*known.sources, *node.sources))
    return _Joined(axis, _painted(data, axis, known.parts, part), tuple(sources))


def _painted(data: Tensor, axis: int, parts: Sequence[_Part], new: _Part) -> tuple[_Part, ...]:
    """Return parts along an axis of data of which one is replaced; without parts, data is one."""
    result: list[_Part] = []
    for part in parts or (_Part(0, data.shape[axis], data, 0),):
        if part.begin < new.begin:
            result.append(part._replace(end=min(part.end, new.begin)))
        if part.begin <= new.begin < part.end:
            result.append(new)
        if part.end > new.end:
            begin = max(part.begin, new.end)
            result.append(part._replace(begin=begin, first=part.first + begin - part.begin))
    return tuple(result)


def _piece(
    graph: Graph, node: Node, part: _Part, axis: int, spans: Sequence[tuple[int, int]]
) -> Tensor:
    """Return the tensor of a part, cut out where it is not the whole of its tensor.

    Args:
        graph: The graph, to which a slice is added.
        node: The node that it is for.
        part: The part.
        axis: Its axis.
        spans: Begin and end along the other axes.
    """
    tensor = part.tensor
    taken = list(spans)
    taken[axis] = part.first, part.first + part.end - part.begin
    ranges = [
        (begin, end, 1) if end - begin < n else (0, n, 1)
        for (begin, end), n in zip(taken, tensor.shape, strict=True)
    ]
    if all(entry == (0, n, 1) for entry, n in zip(ranges, tensor.shape, strict=True)):
        return tensor
    name = f"{node.name}.part"
    return add(graph, "StridedSlice", [tensor], name=name, sources=node.sources, ranges=ranges)


def _read_part(graph: Graph, node: Node, known: _Joined) -> None:
    """Let a slice that reads of one part read the tensor of that part."""
    op: Any = bound(node)
    if op is None or op.new_axes_mask:
        return
    entries = op.index()
    entry, length = entries[known.axis], first_input(node).shape[known.axis]
    first, end, stride = (
        entry.indices(length) if isinstance(entry, slice) else (entry, entry + 1, 1)
    )
    for part in known.parts:
        if stride > 0 and part.begin <= first < end <= part.end:
            break
    else:
        return
    offset = part.first - part.begin
    ranges = [
        entry.indices(n) if isinstance(entry, slice) else (entry, entry + 1, 1)
        for entry, n in zip(entries, first_input(node).shape, strict=True)
    ]
    ranges[known.axis] = first + offset, end + offset, stride
    graph.remove_node(node)
    add(
        graph,
        "StridedSlice",
        [part.tensor],
        name=node.name,
        outputs=node.outputs[0],
        sources=node.sources,
        ranges=ranges,
        shrink_axes=op.shrink_axes,
    )


def _write(graph: Graph, result: Tensor, found: dict[Tensor, _Joined]) -> None:
    """Replace the scatter of a result by the Concat of its parts, if anything reads that."""
    node, known = graph.producer(result), found[result]
    assert node is not None
    is_read = graph.is_read(result) or result.kind.is_output
    graph.remove_node(node)
    if not is_read:
        graph.remove_tensor(result)
        return
    spans = [(0, n) for n in result.shape]
    pieces = [_piece(graph, node, part, known.axis, spans) for part in known.parts]
    common: dict[str, Any] = {"name": node.name, "outputs": result, "sources": known.sources}
    if len(pieces) == 1:
        add(graph, "Reshape", pieces, **common)
    else:
        add(graph, "Concat", pieces, **common, axis=known.axis)
