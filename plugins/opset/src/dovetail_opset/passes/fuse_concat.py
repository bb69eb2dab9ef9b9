"""Recognition of a concatenation along a separate axis that is merged with another one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.ir import Graph, Node, Shape, Spec, Tensor
from dovetail_opset._package import is_op, nodes_of
from dovetail_opset.build import add
from dovetail_opset.ops.layout import Concat
from dovetail_opset.passes._rewrite import (
    bound,
    first_input,
    share_one_scale,
    sole_producer,
    sources_of,
)
from dovetail_opset.passes.dead_code import DeadCode
from dovetail_opset.perms import perm_of


@dataclass(frozen=True, slots=True)
class FuseConcat:
    """Replace a Concat whose axis is then merged with another one by a Concat along that.

    Recurrent layers of both directions have this form: ONNX returns their results as (time,
    direction, batch, units), and models need (time, batch, units of both directions).
    """

    name: str = "fuse-concat"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in nodes_of(graph, "Reshape"):
            if (found := _written_out(graph, node)) is not None:
                changed |= _fuse(graph, *found)
        if changed:
            DeadCode().run(graph)
        return changed


def _written_out(graph: Graph, last: Node) -> list[Node] | None:
    """Return the Concat, the Transpose if there is one, and the Reshape."""
    nodes = [last]
    while (before := sole_producer(graph, first_input(nodes[0]))) is not None:
        nodes.insert(0, before)
        if is_op(before, "Concat"):
            break
        if len(nodes) > 2 or not is_op(before, "Transpose"):
            return None
    tensors = (*nodes[0].inputs, *(node.outputs[0] for node in nodes))
    if not share_one_scale(last.outputs[0], *tensors):
        return None
    return nodes if is_op(nodes[0], "Concat") else None


def _fuse(graph: Graph, concat: Node, *moves: Node) -> bool:
    op = bound(concat)
    if not isinstance(op, Concat):
        return False
    axis, parts = op.axis, [t for t in concat.inputs if t is not None]
    turned, out = first_input(moves[-1]).shape, moves[-1].outputs[0]
    perm = perm_of(moves[0]) if len(moves) > 1 else tuple(range(len(turned)))
    kept = [p for p in perm if p != axis]
    if kept != sorted(kept) or any(
        part.shape[axis] != 1 or part.kind.is_updateable for part in parts
    ):
        return False
    at = _merged(turned, perm.index(axis), out.shape)
    if at is None:
        return False
    sources = sources_of((concat, *moves))
    graph.remove_node(moves[-1])
    shape = (*out.shape[:at], out.shape[at] // len(parts), *out.shape[at + 1 :])
    joined = [_reshaped(graph, part, shape, concat) for part in parts]
    add(graph, "Concat", joined, name=moves[-1].name, outputs=out, sources=sources, axis=at)
    return True


def _merged(turned: Shape, position: int, shape: Shape) -> int | None:
    """Return the axis of a shape into which two adjacent axes of another were merged."""
    merged = math.prod(turned[position : position + 2])
    if position + 1 == len(turned) or 0 in turned:
        return None
    before = math.prod(turned[:position])
    found = (a for a, n in enumerate(shape) if n == merged and math.prod(shape[:a]) == before)
    return next(found, None)


def _reshaped(graph: Graph, part: Tensor, shape: Shape, concat: Node) -> Tensor:
    spec = Spec(part.dtype, shape, part.encoding)
    name = f"{part.name}.{concat.name}"
    return add(graph, "Reshape", [part], name=name, spec=spec, sources=concat.sources)
