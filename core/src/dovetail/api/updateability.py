"""Encodings that adapters may replace: which tensors of a converted graph become updateable."""

from __future__ import annotations

from typing import Literal

from dovetail.errors import ConfigError
from dovetail.ir import Graph, Node, Tensor, TensorKind
from dovetail.ops import OpRegistry, Weight

UpdatableMode = Literal["none", "adapter_only", "all", "float_only"]


def make_encodings_updateable(graph: Graph, mode: UpdatableMode, ops: OpRegistry) -> None:
    """Make the tensors UPDATEABLE whose encodings differ between adapters.

    The encodings of UPDATEABLE_STATIC tensors are updateable in any case. `none` and `float_only`
    add no others. `adapter_only` adds the outputs of nodes that read an UPDATEABLE_STATIC tensor,
    and what nodes without another computed input and without a constant weight compute from them:
    the side branch of an adapter up to the addition that joins it. `all` adds all tensors except
    constants, whose values no adapter changes.

    Args:
        graph: Changed in place, after all passes: these do not rewrite updateable tensors.
        mode: The mode.
        ops: Finds ops.

    Raises:
        ConfigError: The mode is `adapter_only`, and the graph has no updateable weights.
    """
    if mode == "all":
        tensors = [t for t in graph.tensors.values() if not t.kind.is_static]
    elif mode == "adapter_only":
        tensors = _branches(graph, ops)
    else:
        return
    for tensor in tensors:
        if not tensor.kind.is_updateable and tensor.kind is not TensorKind.NULL:
            tensor.kind = TensorKind[f"UPDATEABLE_{tensor.kind.name}"]


def _branches(graph: Graph, ops: OpRegistry) -> list[Tensor]:
    """Return the tensors that adapters compute, in topological order.

    Raises:
        ConfigError: There are no updateable weights.
    """
    if not any(t.kind is TensorKind.UPDATEABLE_STATIC for t in graph.tensors.values()):
        raise ConfigError(
            "no tensor belongs to an adapter: the model has no updateable weights",
            code="USAGE",
            where="--quant-updatable-mode adapter_only",
            hint="name the adapter's weights with --lora-weight-list",
        )
    found: dict[Tensor, None] = {}
    for node in graph.nodes:
        inputs = [t for t in node.inputs if t is not None and t.kind is not TensorKind.NULL]
        has_weights = any(t.kind is TensorKind.UPDATEABLE_STATIC for t in inputs)
        computed = [t for t in inputs if not t.kind.is_static]
        continues = len(computed) == 1 and computed[0] in found and not _is_layer(node, ops)
        if has_weights or continues:
            found |= dict.fromkeys(node.outputs)
    return list(found)


def _is_layer(node: Node, ops: OpRegistry) -> bool:
    """Return whether a node multiplies with constant weights of more than one dimension."""
    roles = ops.find(node.package, node.op_type).op.quantization_roles
    inputs = enumerate(node.inputs)
    return any(
        tensor is not None and tensor.kind.is_static and len(tensor.shape) > 1
        for i, tensor in inputs
        if isinstance(roles.get(i), Weight)
    )
