"""Notes on effects of a quantization that are not visible otherwise."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from dovetail.errors import QuantizationError
from dovetail.ir import Block, Graph, Tensor
from dovetail.quantization import Weight
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.groups import Group
from dovetail_quantizers.planning.plan import Plan
from dovetail_quantizers.planning.roles import present, roles_of, weight_axes
from dovetail_quantizers.planning.rules import JOINERS, is_quantized
from dovetail_quantizers.planning.value_range import ValueRange, span

# A tensor with this share of an 8-bit grid has fewer than 5 bits.
_SHARE = 1 / 8
_SHOWN = 12


def already_fixed(
    graph: Graph, algorithms: Sequence[str], interfaces: Container[Tensor]
) -> list[str]:
    """Return a note on the tensors of a graph that were fixed-point before it was quantized.

    Args:
        graph: The graph before quantization.
        algorithms: Names of the algorithms to run.
        interfaces: Tensors that do not count.

    Raises:
        QuantizationError: There are some, and algorithms, which need a float network.
    """
    fixed = sum(t.dtype.is_fixed_point and t not in interfaces for t in graph.tensors.values())
    if not fixed:
        return []
    if algorithms:
        raise QuantizationError(
            f"{fixed} tensors are fixed-point already, and {', '.join(algorithms)} need a float "
            "network",
            where=f"graph '{graph.name}'",
            hint="pass the float model, or remove the algorithms",
        )
    if any(is_quantized(t) for t in graph.tensors.values()):
        return [f"graph '{graph.name}': {fixed} tensors are fixed-point already and stay so"]
    return [f"graph '{graph.name}' is fixed-point already: nothing is left to quantize"]


def without_effect(plan: Plan, decisions: Mapping[Tensor, EncodingDecision]) -> Iterator[str]:
    """Yield a note for each option without effect, with the reason."""
    options = plan.options
    block = options.weights_block_size
    if block is not None and not any(isinstance(d.encoding, Block) for d in decisions.values()):
        why = _no_blocks(plan, block)
        yield f"weights_block_size had no effect: {why}"
    recipes = (plan.recipes.activation, plan.recipes.weight)
    if options.restrict_quantization_steps and not any(recipe.steps for recipe in recipes):
        widths = " and ".join(str(recipe.bitwidth) for recipe in recipes)
        yield (
            "restrict_quantization_steps had no effect: the steps match neither activations nor "
            f"weights, which have {widths} bits"
        )
    if options.float_fallback and not any(d.encoding is not None for d in decisions.values()):
        why = (
            "no encoding matches a node" if plan.overrides.encodings else "no encodings were given"
        )
        yield f"float_fallback leaves graph '{plan.graph.name}' float: {why}"


def _no_blocks(plan: Plan, block: int) -> str:
    """Return the reason why no weight has blocks."""
    found = {}
    for node in plan.graph.nodes:
        roles = roles_of(node, plan.ops)
        for i, tensor in present(node):
            role = roles.get(i)
            if isinstance(role, Weight) and tensor.kind.is_static and tensor.shape:
                _, summed = weight_axes(role, node, len(tensor.shape))
                if summed is not None:
                    found[tensor] = tensor.shape[summed]
    if not found:
        return "the graph has no constant weights of MatMul or FullyConnected"
    if all(extent % block for extent in found.values()):
        sizes = ", ".join(str(size) for size in sorted(set(found.values()))[:_SHOWN])
        return f"{block} divides no axis that weights are summed over, of size ({sizes})"
    return "the weights that it divides are float, or have given encodings"


def unlike_members(plan: Plan, members: Mapping[str, ValueRange]) -> Iterator[str]:
    """Yield a note for each shared grid of a join that some tensors hardly use.

    Args:
        plan: The plan.
        members: The observed range of each tensor, by name.
    """
    for group in plan.needed():
        joiners = [n for n in group.inside if n.op_type in JOINERS]
        if joiners and group not in plan.given and len(group.sources) > 1:
            yield from _unlike(group, joiners[0].where, members)


def _unlike(group: Group, where: str, members: Mapping[str, ValueRange]) -> Iterator[str]:
    spans = {t: span(members[t.name][:2]) for t in group.sources if t.name in members}
    widest = max(spans, key=lambda t: spans[t], default=None)
    if widest is None:
        return
    small = [t for t, own in spans.items() if 0 < own < _SHARE * spans[widest]]
    if small:
        shown = ", ".join(f"'{t.source}' ({spans[t]:.3g})" for t in small[:_SHOWN])
        yield (
            f"{where} gives tensors the grid of '{widest.source}', which spans "
            f"{spans[widest]:.3g}, and these use little of it: {shown}; concat=requantize gives "
            "each its own grid"
        )
