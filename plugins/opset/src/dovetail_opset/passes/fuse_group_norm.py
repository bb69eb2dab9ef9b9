"""Recognition of a group normalization written as one of groups with axes of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Graph, Tensor
from dovetail.ir.patterns import constant_number, either, op, value
from dovetail_opset._package import is_op
from dovetail_opset.build import add, static
from dovetail_opset.ops.normalization import InstanceNorm
from dovetail_opset.passes._moving import add_transposed, moved_tensor
from dovetail_opset.passes._patterns import Found, fuse_matches, is_closed, over_axes
from dovetail_opset.passes._rewrite import bound, first_input, is_constant, is_float, sources_of
from dovetail_opset.passes.fuse_layer_norm import NORMALIZED, normalized_axes
from dovetail_opset.perms import inverse, is_to_last, perm_of, to_last

_LAST = value("last", op("Transpose", value("grouped", op("Reshape", value("x")))))
_GAMMA, _BETA = value("gamma"), value("beta")
_NORM = either(op("InstanceNorm", _LAST, _GAMMA, _BETA), op("InstanceNorm", _LAST, _GAMMA))
_GROUP_NORM = op("Reshape", value("first", op("Transpose", value("norm", _NORM))))
_OF_LAST = op("Reshape", NORMALIZED)


@dataclass(frozen=True, slots=True)
class FuseGroupNorm:
    """Fuse a reshape to groups, their norm and the reshape back to GroupNorm.

    PyTorch exports an InstanceNorm of the groups as channels. Keras and Flax, whose channels are
    the last axis, divide that axis and write the norm out in one of the forms that fuse-layer-norm
    knows. Factors of the channels that follow join its gamma and beta in other passes. As in a
    frontend, channels-first tensors are transposed before it and back after it; so it runs before
    channels-last.
    """

    name: str = "fuse-group-norm"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = fuse_matches(graph, _GROUP_NORM, _fuse)
        return fuse_matches(graph, _OF_LAST, _fuse_last) or changed


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
    sources = sources_of(match.nodes)
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


def _fuse_last(graph: Graph, match: Found) -> bool:
    """Fuse a norm of the groups of the last axis."""
    grouped, last = match.values["x"], match.nodes[-1]
    maker, out = graph.producer(grouped), last.outputs[0]
    x = first_input(maker) if maker is not None and is_op(maker, "Reshape") else None
    if x is None or x.spec != out.spec or not is_float(x) or not _are_groups(grouped, x):
        return False
    rank = len(grouped.shape)
    if normalized_axes(graph, match) != (*range(1, rank - 2), rank - 1):
        return False
    factors = [
        _by_channel(match.values.get(name), grouped, default)
        for name, default in (("gamma", 1), ("beta", 0))
    ]
    is_inner = all(reader in match.nodes for reader in graph.consumers(grouped))
    if any(f is None for f in factors) or not is_inner or not is_closed(graph, match.nodes, last):
        return False
    graph.remove_node(last)
    constants = []
    for name, values in zip(("gamma", "beta"), factors, strict=True):
        origin = match.values.get(name)
        source = None if origin is None else origin.source
        if values is not None:
            constants.append(static(graph, f"{last.name}.{name}", values, source=source))
    add(
        graph,
        "GroupNorm",
        [x, *constants],
        name=last.name,
        outputs=out,
        sources=sources_of(match.nodes),
        epsilon=constant_number(match.values["epsilon"]),
        group=grouped.shape[-2],
    )
    return True


def _are_groups(grouped: Tensor, x: Tensor) -> bool:
    """Return whether the last two axes of a tensor are groups of the channels of x."""
    if len(x.shape) < 3 or len(grouped.shape) != len(x.shape) + 1:
        return False
    *outer, groups, each = grouped.shape
    return (*outer, groups * each) == x.shape


def _by_channel(tensor: Tensor | None, grouped: Tensor, default: float) -> Array | None:
    """Return the values of a constant over groups and channels; None if it varies elsewhere.

    Those of a factor that is missing are the default: another pass may join them with what follows.
    """
    if tensor is None:
        return np.full(math.prod(grouped.shape[-2:]), default, grouped.dtype.storage)
    rank = len(grouped.shape)
    values = over_axes(tensor, grouped, (rank - 2, rank - 1))
    return None if values is None else np.ascontiguousarray(values).reshape(-1)
