"""Nodes that stay float: without fixed-point support, or by choice."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dovetail.errors import DovetailError
from dovetail.ir import DType, Graph, Node, ScaleOffset, Spec, Tensor
from dovetail.ops import Domain, OpRegistry, OpSchema, Port, bind_node
from dovetail.quantization import Bias
from dovetail_quantizers.planning.groups import Group
from dovetail_quantizers.planning.recipe import float_type
from dovetail_quantizers.planning.roles import present, roles_of, schema_of
from dovetail_quantizers.planning.rules import is_quantized

_ANY = ScaleOffset(1.0)
# It only reads shapes, so stored values do not matter.
_SHAPES_ONLY = ("Shape",)


@dataclass(frozen=True, slots=True)
class Float:
    """The reason why a node stays float, and its bitwidth."""

    bitwidth: int
    why: str


def float_nodes(
    graph: Graph,
    ops: OpRegistry,
    groups: Mapping[Tensor, Group],
    chosen: Mapping[Node, Float],
    pinned: Collection[Tensor],
    bitwidth: int,
) -> dict[Node, Float]:
    """Return the nodes that stay float.

    Args:
        graph: The float graph.
        ops: Finds ops.
        groups: The groups of its tensors.
        chosen: Nodes that are float in any case.
        pinned: Tensors that are fixed-point in any case.
        bitwidth: Of the other nodes that stay float.
    """
    found: dict[Node, Float] = {}
    for node in graph.nodes:
        if not touches_floats(node):
            continue
        if node in chosen:
            found[node] = chosen[node]
            continue
        if why := unsupported_reason(node, ops):
            found[node] = Float(bitwidth, why)
            continue
        before = _moved_from(graph, node, groups, found)
        if before is not None and not any(t in pinned for t in node.outputs):
            found[node] = Float(found[before].bitwidth, f"moves what {before.where} gives")
    return found


def touches_floats(node: Node) -> bool:
    """Return whether a node reads or writes a tensor that could be quantized."""
    return any(is_quantized(t) for t in (*(t for _, t in present(node)), *node.outputs))


def unsupported_reason(node: Node, ops: OpRegistry, dtype: DType = DType.UFIXED_POINT_8) -> str:
    """Return why a node's op does not support tensors of a type; empty if it does."""
    schema = schema_of(node, ops)
    stored = schema.domain is Domain.STORED and node.op_type not in _SHAPES_ONLY
    if stored and dtype.is_fixed_point:
        return f"{node.op_type} reads stored values, which are not numbers in fixed point"
    ins = [None if t is None else _as_type(t, dtype) for t in node.inputs]
    return _fault(schema, node, ins, [_as_type(t, dtype) for t in node.outputs])


def takes_types(node: Node, ops: OpRegistry, dtype: DType, others: Mapping[int, Spec]) -> bool:
    """Return whether a node's op supports a type for all tensors but some inputs.

    Args:
        node: The node.
        ops: Finds its op.
        dtype: The type of the tensors that could be quantized.
        others: The inputs of other types, by number.
    """
    ins = [None if t is None else _as_type(t, dtype) for t in node.inputs]
    mixed = [others.get(i, spec) for i, spec in enumerate(ins)]
    outs = [_as_type(t, dtype) for t in node.outputs]
    return not _fault(schema_of(node, ops), node, mixed, outs)


def _fault(schema: OpSchema, node: Node, ins: list[Spec | None], outs: list[Spec]) -> str:
    ports = [*_faults(schema.inputs, ins), *_faults(schema.outputs, outs)]
    return ports[0] if ports else _inference_fault(schema, node, ins, outs)


def _inference_fault(schema: OpSchema, node: Node, ins: list[Spec | None], outs: list[Spec]) -> str:
    try:
        inferred = schema.infer(bind_node(schema, node), ins, outs)
    except DovetailError as error:
        return error.message
    for spec, wanted in zip(inferred, outs, strict=False):
        if spec.dtype is not wanted.dtype:
            return f"{node.op_type} gives {spec.dtype.name} for inputs of other types"
    return ""


def _as_type(tensor: Tensor, dtype: DType) -> Spec:
    if not is_quantized(tensor):
        return tensor.spec
    return Spec(dtype, tensor.shape, _ANY if dtype.is_fixed_point else None)


def _faults(ports: tuple[Port, ...], specs: list[Spec] | list[Spec | None]) -> list[str]:
    found = []
    for i, spec in enumerate(specs):
        port = ports[min(i, len(ports) - 1)]
        if spec is not None and port.dtypes and spec.dtype not in port.dtypes:
            found.append(f"its {port.name} takes no {spec.dtype.name}")
    return found


def _moved_from(
    graph: Graph, node: Node, groups: Mapping[Tensor, Group], found: Mapping[Node, Float]
) -> Node | None:
    """Return the float node whose outputs a node only moves; None if it moves others, too."""
    inputs = [t for _, t in present(node) if is_quantized(t) and not t.kind.is_static]
    within = [groups[t].inside | groups[t].choosing for t in inputs]
    if not inputs or any(node not in moving for moving in within):
        return None
    makers = [graph.producer(t) for t in inputs]
    if any(maker is None or maker not in found for maker in makers):
        return None
    return makers[0]


def fallen_back(
    graph: Graph,
    ops: OpRegistry,
    groups: Mapping[Tensor, Group],
    encodings: Collection[Tensor],
    bitwidth: int,
) -> dict[Node, Float]:
    """Return the nodes that stay float because an encoding is missing.

    Encodings are propagated before: tensors between which values are only moved share one.

    Args:
        graph: The float graph.
        ops: Finds ops.
        groups: The groups of its tensors.
        encodings: Tensors with a given encoding.
        bitwidth: Of the nodes that stay float.
    """
    given = {groups[t] for t in encodings if t in groups}
    known = {*encodings, *(t for group in given for t in group.members)}
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
        why = unsupported_reason(node, ops, float_type(bitwidth))
        if why:
            found[node] = Float(32, why)
        else:
            found[node] = Float(bitwidth, f"{bitwidth}-bit floats were asked for")
    return found
