"""Recognition of a group normalization written as one of the groups as channels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Graph, Node, Tensor
from dovetail.ir.patterns import either, op, value
from dovetail_opset.build import add, static
from dovetail_opset.ops.normalization import InstanceNorm
from dovetail_opset.passes._moving import add_transposed, moved_tensor
from dovetail_opset.passes._patterns import Found, fuse_matches, is_closed
from dovetail_opset.passes._rewrite import bound, is_constant, is_float
from dovetail_opset.perms import inverse, is_to_last, perm_of, to_last

_LAST = value("last", op("Transpose", value("grouped", op("Reshape", value("x")))))
_GAMMA, _BETA = value("gamma"), value("beta")
_NORM = either(op("InstanceNorm", _LAST, _GAMMA, _BETA), op("InstanceNorm", _LAST, _GAMMA))
_GROUP_NORM = op("Reshape", value("first", op("Transpose", value("norm", _NORM))))


@dataclass(frozen=True, slots=True)
class FuseGroupNorm:
    """Fuse a reshape to groups, their InstanceNorm and the reshape back to GroupNorm.

    PyTorch exports it so. Factors of the channels that follow join its gamma and beta in other
    passes. As in a frontend, channels-first tensors are transposed before it and back after it; so
    it runs before channels-last.
    """

    name: str = "fuse-group-norm"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        return fuse_matches(graph, _GROUP_NORM, _fuse)


def _fuse(graph: Graph, match: Found) -> bool:
    x, norm = match.values["x"], bound(graph.producer(match.values["norm"]))
    groups, out = _groups(x, match.values["grouped"]), match.nodes[-1].outputs[0]
    if not isinstance(norm, InstanceNorm) or not norm.is_by_channel:
        return False
    if not groups or out.spec != x.spec or not is_float(x) or not _keeps_channels(graph, match):
        return False
    given = [match.values[name] for name in ("gamma", "beta") if name in match.values]
    if not all(is_constant(t) and t.dtype is x.dtype for t in given):
        return False
    if not is_closed(graph, match.nodes, match.nodes[-1]):
        return False
    repeated = [(t, np.repeat(t.values(), x.shape[1] // groups)) for t in given]
    _replace(graph, match, repeated, epsilon=norm.epsilon, group=groups)
    return True


def _groups(x: Tensor, grouped: Tensor) -> int:
    """Return the number of groups that a reshape makes of the channels; 0 if it does not."""
    before, after = x.shape, grouped.shape
    if min(len(before), len(after)) < 3 or before[0] != after[0] or 0 in before:
        return 0
    return 0 if before[1] % after[1] else after[1]


def _keeps_channels(graph: Graph, match: Found) -> bool:
    """Return whether the groups are the channels of the norm, and come first again after it."""
    to, back = (graph.producer(match.values[name]) for name in ("last", "first"))
    if to is None or back is None:
        return False
    return is_to_last(perm_of(to)) and perm_of(back) == inverse(perm_of(to))


def _replace(
    graph: Graph,
    match: Found,
    factors: list[tuple[Tensor, Array]],
    *,
    epsilon: float,
    group: int,
) -> None:
    x, last = match.values["x"], match.nodes[-1]
    out, to_first = last.outputs[0], inverse(to_last(len(x.shape)))
    sources = _sources(match.nodes)
    graph.remove_node(last)
    result = moved_tensor(graph, out, to_first, out.encoding)
    constants = [
        static(graph, f"{old.name}.{last.name}", values, source=old.source)
        for old, values in factors
    ]
    add(
        graph,
        "GroupNorm",
        [add_transposed(graph, x, to_first), *constants],
        name=last.name,
        outputs=result,
        sources=sources,
        epsilon=epsilon,
        group=group,
    )
    add(
        graph,
        "Transpose",
        [result],
        name=f"{last.name}.first",
        outputs=out,
        sources=sources,
        perm=to_first,
    )


def _sources(nodes: tuple[Node, ...]) -> dict[str, None]:
    return dict.fromkeys(source for node in nodes for source in node.sources)
