"""Encodings that follow from given ones, where no samples are run.

A node that only clips its input leaves integers of the input's encoding. So its output takes that
encoding, and nothing is rounded again.
"""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.ir import DType, Encoding, Graph, Node, Tensor
from dovetail.ops import OpRegistry
from dovetail.quantization import QuantizationOptions
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.groups import Group, find_groups
from dovetail_quantizers.planning.overrides import Overrides
from dovetail_quantizers.planning.rules import op_of


def propagate(
    graph: Graph, ops: OpRegistry, options: QuantizationOptions, overrides: Overrides
) -> None:
    """Add the encodings of tensors that only clip tensors with a given one.

    Args:
        graph: A float graph; not changed.
        ops: Finds its ops.
        options: The user's options.
        overrides: Given decisions; the found ones are added.
    """
    groups = find_groups(graph, ops, options, overrides.claims, overrides.floats)
    known = {groups[t]: e for t, e in overrides.encodings.items() if t in groups}
    claimed = {groups[t] for t in (*overrides.widths, *overrides.types) if t in groups}
    clips = {node.outputs[0]: node for node in graph.nodes if op_of(node, ops).clips}
    for result in clips:  # in the order of the graph
        group = groups.get(result)
        if group is None or group in known or group in claimed:
            continue
        found = _entering(group, clips, groups, known)
        if found is None:
            continue
        known[group] = found
        why = f"the encoding of the input of {clips[result].where}, which only clips"
        made = EncodingDecision(found.dtype, found.encoding, why)
        overrides.encodings.update(dict.fromkeys((*group.sources, *group.squashed), made))


def _entering(
    group: Group,
    clips: Mapping[Tensor, Node],
    groups: Mapping[Tensor, Group],
    known: Mapping[Group, EncodingDecision],
) -> EncodingDecision | None:
    """Return the encoding of all values that nodes clip into a group; None without a single one."""
    found: dict[tuple[DType, Encoding | None], EncodingDecision] = {}
    for tensor in (*group.sources, *group.squashed):
        node = clips.get(tensor)
        read = None if node is None or node.inputs[0] is None else groups.get(node.inputs[0])
        if read is group:
            continue
        if read is None or read not in known:
            return None
        found[known[read].dtype, known[read].encoding] = known[read]
    added = group.bounds or group.constants  # other values, perhaps beyond the grid
    return next(iter(found.values())) if len(found) == 1 and not added else None
