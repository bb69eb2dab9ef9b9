"""Joining of fixed-point interfaces with a fixed-point graph."""

from __future__ import annotations

from collections.abc import MutableMapping

from dovetail.ir import Graph, Tensor, TensorKind
from dovetail_opset import is_op
from dovetail_opset.passes import DeadCode
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.overrides import GIVEN_BY_MODEL
from dovetail_quantizers.planning.plan import Plan


def join_interfaces(plan: Plan, decisions: MutableMapping[Tensor, EncodingDecision]) -> None:
    """Remove conversions to float and back between tensors of the same encoding.

    Args:
        plan: The plan; its graph is annotated, and changed.
        decisions: The decision on each tensor; removed tensors are removed here, too.
    """
    graph, interfaces = plan.graph, plan.overrides.interfaces
    for stored in interfaces:
        if not _join_made(graph, stored):
            _join_given(graph, stored)
            decisions[stored] = EncodingDecision(stored.dtype, stored.encoding, GIVEN_BY_MODEL)
    if interfaces:
        DeadCode().run(graph)
    for tensor in list(decisions):
        if graph.tensors.get(tensor.name) is not tensor:
            del decisions[tensor]


def _join_made(graph: Graph, stored: Tensor) -> bool:
    """Replace the output of a Quantize by its input, or by that of a Convert before it."""
    quantize = graph.producer(stored)
    if quantize is None or not is_op(quantize, "Quantize"):
        return False
    x = quantize.inputs[0]
    convert = None if x is None else graph.producer(x)
    if (
        x is not None
        and x.spec != stored.spec
        and convert is not None
        and is_op(convert, "Convert")
    ):
        x = convert.inputs[0]
    if x is None or x.spec != stored.spec:
        return False
    graph.replace_uses(stored, x)
    graph.remove_node(quantize)
    graph.remove_tensor(stored)
    return True


def _join_given(graph: Graph, stored: Tensor) -> None:
    """Replace the result of a Dequantize and a Convert by their input, if it is the same."""
    for dequantize in graph.consumers(stored):
        if not is_op(dequantize, "Dequantize"):
            continue
        for convert in graph.consumers(dequantize.outputs[0]):
            y = convert.outputs[0]
            same = is_op(convert, "Convert") and y.spec == stored.spec
            if same and y.kind is TensorKind.NATIVE:
                graph.replace_uses(y, stored)
