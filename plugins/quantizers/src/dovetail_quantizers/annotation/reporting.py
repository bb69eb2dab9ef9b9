"""The report of a graph: decisions and their reasons, differences from the model, and notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import numpy as np

from dovetail.errors import QuantizationError, counted
from dovetail.ir import Block, DType, Encoding, Graph, ScaleOffset, Tensor, TensorKind
from dovetail.quantization import (
    Bias,
    Difference,
    Sharing,
    TensorDecision,
    Weight,
    unmet_options,
)
from dovetail_opset import is_op
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.groups import Group
from dovetail_quantizers.planning.plan import Plan
from dovetail_quantizers.planning.roles import (
    inputs_with_roles,
    present,
    roles_of,
    schema_of,
    weight_axes,
)
from dovetail_quantizers.planning.rules import fixed_range, is_quantized, joins
from dovetail_quantizers.planning.value_range import ValueRange, span

_SUMMARY = {
    "stated": "{} encodings that it states are used",
    "encoding": "{} activations keep their encodings",
    "weight": "{} weights",
    "constant": "{} constants",
    "bias": "{} biases derived again",
    "clip": "{} clips restored",
    "kept": "{} points still quantize by ops",
    "dropped": "{} left out",
    "fixed": "{} float tensors of the model are fixed-point",
    "float": "{} nodes stay float",
    "convert": "{} converted between encodings",
}

# A tensor with fewer steps of its grid has fewer than 5 bits.
STEPS = 32
_SHOWN = 12


def decisions_of(
    plan: Plan, decisions: Mapping[Tensor, EncodingDecision]
) -> tuple[TensorDecision, ...]:
    """Return the decisions on the tensors of a plan's graph."""
    roles = _roles(plan)
    decided = [tensor for tensor in plan.graph.tensors.values() if tensor in decisions]
    lines = Counter(tensor.source for tensor in decided)
    return tuple(
        _line(
            plan,
            tensor,
            roles.get(tensor, "activation"),
            decisions,
            name=tensor.name if lines[tensor.source] > 1 else None,
        )
        for tensor in decided
    )


def _line(
    plan: Plan,
    tensor: Tensor,
    role: str,
    decisions: Mapping[Tensor, EncodingDecision],
    *,
    name: str | None,
) -> TensorDecision:
    got, group = decisions[tensor], plan.groups.get(tensor)
    leader = None if group is None or got.encoding is None else group.leader
    # an interface that stays float leads by its inner tensor
    led = None if leader is None or leader not in decisions else decisions[leader].encoding
    why, shared = got.why, None
    if group is not None and leader not in (None, tensor) and led in (None, got.encoding):
        shared = leader.source
        clipper = group.squashed.get(tensor)
        why = (
            f"clipped by {clipper.where}"
            if clipper
            else "same values as the tensor that it shares with"
        )
    minimum, maximum = _ends(tensor)
    one = tensor.encoding if isinstance(tensor.encoding, ScaleOffset) else None
    return TensorDecision(
        tensor=tensor.source,
        role=role,
        dtype=tensor.dtype.name,
        why=why,
        bitwidth=_bitwidth(tensor),
        scales=None if tensor.encoding is None else _scales(tensor.encoding),
        scale=None if one is None else one.scale,
        offset=None if one is None else one.offset,
        minimum=minimum,
        maximum=maximum,
        observed=got.observed if shared is None else None,
        shared_with=shared,
        name=name,
    )


def _roles(plan: Plan) -> dict[Tensor, str]:
    found: dict[Tensor, str] = {}
    for _, tensor, role in inputs_with_roles(plan.graph, plan.ops):
        if tensor.kind.is_static:
            name = "weight" if isinstance(role, Weight) else "constant"
            found[tensor] = "bias" if isinstance(role, Bias) else name
    return found


def _bitwidth(tensor: Tensor) -> int | None:
    if tensor.encoding is None:
        return None
    return getattr(tensor.encoding, "bitwidth", None) or tensor.dtype.bits


def _scales(encoding: Encoding) -> int:
    return 1 if isinstance(encoding, ScaleOffset) else int(np.size(getattr(encoding, "scales", 0)))


def _ends(tensor: Tensor) -> tuple[float | None, float | None]:
    """Return the minimum and maximum of a tensor's encoding."""
    if tensor.encoding is None or not all(tensor.shape):
        return None, None
    scale, offset = tensor.encoding.scales_and_offsets(tensor.shape)
    low, high = tensor.dtype.stored_range(_bitwidth(tensor))
    wide = offset.astype(np.float64)
    return float(((wide + low) * scale).min()), float(((wide + high) * scale).max())


def differences_of(
    plan: Plan, decisions: Mapping[Tensor, EncodingDecision]
) -> Iterator[Difference]:
    """Yield the differences in quantization between a graph and the model.

    Args:
        plan: The plan; its graph is annotated.
        decisions: The decision on each tensor.
    """
    given = {*plan.overrides.encodings, *plan.overrides.interfaces}
    for tensor, got in decisions.items():
        group = plan.groups.get(tensor)
        shares = group is not None and group in plan.given
        flows = not tensor.kind.is_static and got.encoding is not None
        if flows and tensor not in given and not shares:
            text = f"float in the model; {tensor.dtype.name} here: {got.why}"
            yield Difference(tensor=tensor.source, kind="fixed", text=text)
    left = set(plan.graph.nodes)
    for node, chosen in plan.floats.items():
        if node not in left:
            continue
        text = f"{node.where} stays float: {chosen.why}"
        yield Difference(tensor=node.outputs[0].source, kind="float", text=text)
    for node in plan.graph.nodes:
        if is_op(node, "Convert") and not node.sources:
            read = node.inputs[0]
            kinds = "" if read is None else f"{read.dtype.name} to {node.outputs[0].dtype.name}"
            text = f"{kinds}, for {_readers(plan, node.outputs[0])}"
            yield Difference(tensor=node.outputs[0].source, kind="convert", text=text)


def dropped(changes: Sequence[Difference]) -> list[Difference]:
    """Return the changes for ignored quantization of the model."""
    left_out = ("stated", "encoding", "weight", "bias", "constant")
    return [
        Difference(tensor=each.tensor, kind="dropped", text="left out: ignore_encodings")
        if each.kind in left_out
        else each
        for each in changes
    ]


def summary_of(graph: str, differences: Sequence[Difference]) -> str:
    """Return one line on all differences of a graph."""
    counts = Counter(each.kind for each in differences)
    parts = [text.format(counts[kind]) for kind, text in _SUMMARY.items() if counts[kind]]
    before = "is float" if counts["stated"] and not counts["weight"] else "was quantized before"
    return f"graph '{graph}' {before}: {', '.join(parts)}; the report lists each"


def _readers(plan: Plan, tensor: Tensor) -> str:
    readers = [node.where for node in plan.graph.consumers(tensor)]
    if not tensor.kind.is_internal:
        readers.append("the application")
    return " and ".join(readers)


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
            f"algorithms ({', '.join(algorithms)}) need a float network; fixed-point "
            f"already: {counted(fixed, 'tensor')}",
            where=f"graph '{graph.name}'",
            hint="pass the float model, or remove the algorithms",
        )
    if any(is_quantized(t) for t in graph.tensors.values()):
        return [
            f"graph '{graph.name}': fixed-point already, and unchanged: {counted(fixed, 'tensor')}"
        ]
    return [f"graph '{graph.name}' is fixed-point already: nothing is left to quantize"]


def without_effect(plan: Plan, decisions: Mapping[Tensor, EncodingDecision]) -> Iterator[str]:
    """Yield a note for each option without effect, with the reason."""
    options = plan.options
    for text in unmet_options(options):
        yield f"an option had no effect: {text}"
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
    if options.use_dynamic_16_bit_weights and not _has_wide_weight(plan):
        yield (
            "use_dynamic_16_bit_weights had no effect: no node computes a weight of another from "
            "activations of 16 bits"
        )
    # a float graph for a backend needs none
    is_used = plan.overrides.encodings or options.target_backend is None
    fixed = any(d.encoding is not None for d in decisions.values())
    if options.float_fallback and is_used and not fixed:
        why = (
            "no encoding matches a node" if plan.overrides.encodings else "no encodings were given"
        )
        yield f"float_fallback leaves graph '{plan.graph.name}' float: {why}"


def _has_wide_weight(plan: Plan) -> bool:
    """Return whether a node of the quantized graph has a computed weight of 16 bits."""
    return any(
        i > 0 and t.dtype is DType.SFIXED_POINT_16 and not t.kind.is_static
        for node in plan.graph.nodes
        for i, t in present(node)
        if isinstance(roles_of(node, plan.ops).get(i), Weight)
    )


def _no_blocks(plan: Plan, block: int) -> str:
    """Return the reason why no weight has blocks."""
    found = {}
    for node, tensor, role in inputs_with_roles(plan.graph, plan.ops):
        if isinstance(role, Weight) and tensor.kind.is_static and tensor.shape:
            _, summed = weight_axes(role, node, len(tensor.shape))
            if summed is not None:
                found[tensor] = tensor.shape[summed]
    if not found:
        return "the graph has no constant weights of MatMul or FullyConnected"
    if all(size % block for size in found.values()):
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
        joiners = [n for n in group.inside if joins(schema_of(n, plan.ops))]
        if joiners and group not in plan.given:
            yield from _unlike(plan, group, [group], members, joiners[0].where)
    if plan.options.concat is Sharing.REQUANTIZE:
        for node in plan.graph.nodes:
            joined = plan.groups.get(node.outputs[0])
            is_join = plan.is_fixed(node) and joins(schema_of(node, plan.ops))
            if is_join and joined is not None and joined not in plan.given:
                inputs = [plan.groups[t] for _, t in present(node) if t in plan.groups]
                yield from _unlike(plan, joined, inputs, members, node.where)


def _spans(
    plan: Plan, groups: Iterable[Group], members: Mapping[str, ValueRange]
) -> dict[Tensor, float]:
    """Return the spans of the values of groups: those observed, and those known from ops."""
    spans: dict[Tensor, float] = {}
    for group in groups:
        spans |= {t: span(members[t.name][:2]) for t in group.sources if t.name in members}
        spans |= _known_spans(plan, group)
    return spans


def _known_spans(plan: Plan, group: Group) -> dict[Tensor, float]:
    """Return the spans of the members whose ops give them a range, such as a Sigmoid."""
    makers = {t: plan.graph.producer(t) for t in group.members}
    found = {t: fixed_range(n, plan.ops) for t, n in makers.items() if n is not None}
    return {t: span(known) for t, known in found.items() if known is not None}


def _unlike(
    plan: Plan,
    joined: Group,
    parts: Iterable[Group],
    members: Mapping[str, ValueRange],
    where: str,
) -> Iterator[str]:
    """Yield a note if some parts of a joined tensor use few of its steps, and it can be helped."""
    spans = _spans(plan, parts, members)
    widest = max(spans, key=lambda t: spans[t], default=None)
    if widest is None:
        return
    bitwidth = plan.recipe(joined).bitwidth
    few = spans[widest] * STEPS / 2**bitwidth
    small = [t for t, own in spans.items() if 0 < own < few]
    outputs = [t.source for t in joined.members if t.kind is TensorKind.APP_READ]
    if outputs:
        entry = "a float entry" if bitwidth > 8 else "an entry with 16 bits or float"
        remedy = (
            f"the output '{outputs[0]}' has this grid, too: {entry} for it in "
            "quantization_overrides keeps small values"
        )
    elif plan.options.concat is Sharing.SHARE:
        remedy = "concat=requantize gives each its own grid"
    else:
        return
    if small:
        shown = ", ".join(f"'{t.source}' ({spans[t]:.3g})" for t in small[:_SHOWN])
        yield (
            f"{where} gives tensors the grid of '{widest.source}', which spans "
            f"{spans[widest]:.3g}, and these use little of it: {shown}; {remedy}"
        )
