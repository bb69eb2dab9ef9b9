"""Nodes and graphs that stay float because encodings are missing.

Encodings are propagated before: tensors between which values are only moved share one.
"""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.ir import Graph, Node, Tensor
from dovetail.ops import OpRegistry
from dovetail.quantization import Bias
from dovetail_quantizers.planning.groups import Group
from dovetail_quantizers.planning.overrides import Overrides
from dovetail_quantizers.planning.precision import Float, refusal
from dovetail_quantizers.planning.recipe import float_type
from dovetail_quantizers.planning.roles import present, roles_of
from dovetail_quantizers.planning.rules import is_quantized


def fallen_back(
    graph: Graph,
    ops: OpRegistry,
    groups: Mapping[Tensor, Group],
    overrides: Overrides,
    bitwidth: int,
) -> dict[Node, Float]:
    """Return the nodes that stay float because an encoding is missing."""
    known = {t for g in groups.values() for t in g.members if _is_known(g, overrides)}
    known |= overrides.encodings.keys()
    found: dict[Node, Float] = {}
    for node in graph.nodes:
        roles = roles_of(node, ops)
        read = [t for i, t in present(node) if not isinstance(roles.get(i), Bias)]
        lacking = [t for t in (*read, *node.outputs) if is_quantized(t) and t not in known]
        if lacking:
            names = ", ".join(f"'{t.source}'" for t in dict.fromkeys(lacking))
            found[node] = Float(bitwidth, f"no encoding was given for {names}")
    return found


def all_float(graph: Graph, ops: OpRegistry, bitwidth: int) -> dict[Node, Float]:
    """Return all nodes as float of a bitwidth, or of 32 bits if the op does not support it."""
    found: dict[Node, Float] = {}
    for node in graph.nodes:
        why = refusal(node, ops, float_type(bitwidth))
        if why:
            found[node] = Float(32, why)
        else:
            found[node] = Float(bitwidth, f"{bitwidth}-bit floats were asked for")
    return found


def _is_known(group: Group, overrides: Overrides) -> bool:
    return any(t in overrides.encodings for t in group.members)
