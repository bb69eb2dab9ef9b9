"""Joining of fixed-point interfaces with a fixed-point graph."""

from __future__ import annotations

from collections.abc import MutableMapping

from dovetail.ir import Graph, ScaleOffset, Tensor, TensorKind
from dovetail_opset import is_op
from dovetail_opset.build import add
from dovetail_opset.passes import DeadCode
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.overrides import GIVEN_BY_MODEL
from dovetail_quantizers.planning.plan import Plan


def join_interfaces(plan: Plan, decisions: MutableMapping[Tensor, EncodingDecision]) -> None:
    """Remove conversions to float and back, between tensors with one scale each.

    Args:
        plan: The plan; its graph is annotated, and changed.
        decisions: The decision on each tensor; removed tensors are removed here, too.
    """
    graph, interfaces = plan.graph, plan.overrides.interfaces
    for stored in interfaces:
        if isinstance(stored.encoding, ScaleOffset):
            _join_made(graph, stored)
            _join_given(graph, stored)
        decisions[stored] = EncodingDecision(stored.dtype, stored.encoding, GIVEN_BY_MODEL)
    if interfaces:
        DeadCode().run(graph)
    for tensor in list(decisions):
        if graph.tensors.get(tensor.name) is not tensor:
            del decisions[tensor]


def _join_made(graph: Graph, stored: Tensor) -> None:
    """Replace the output of a Quantize by its input, or by that of a Convert before it.

    A Convert replaces the Quantize if the encodings differ, or if neither tensor can be replaced.
    """
    quantize = graph.producer(stored)
    if quantize is None or not is_op(quantize, "Quantize"):
        return
    x = quantize.inputs[0]
    maker = None if x is None else graph.producer(x)
    before = maker.inputs[0] if maker is not None and is_op(maker, "Convert") else None
    if before is not None and before.spec == stored.spec:
        x, maker = before, graph.producer(before)
    if x is None or not x.dtype.is_fixed_point:
        return
    graph.remove_node(quantize)
    if x.spec == stored.spec and stored.kind is TensorKind.NATIVE:
        graph.replace_uses(stored, x)
        graph.remove_tensor(stored)
    elif x.spec == stored.spec and x.kind is TensorKind.NATIVE and maker is not None:
        graph.replace_uses(x, stored)
        graph.replace_output(maker, x, stored)
        graph.remove_tensor(x)
    else:
        add(graph, "Convert", [x], name=quantize.name, outputs=stored, sources=quantize.sources)


def _join_given(graph: Graph, stored: Tensor) -> None:
    """Let what converts the result of a Dequantize read its input, or replace it by that."""
    for dequantize in graph.consumers(stored):
        if not is_op(dequantize, "Dequantize"):
            continue
        for convert in graph.consumers(dequantize.outputs[0]):
            y = convert.outputs[0]
            if not is_op(convert, "Convert") or not y.dtype.is_fixed_point:
                continue
            if y.spec == stored.spec and y.kind is TensorKind.NATIVE:
                graph.replace_uses(y, stored)
            else:
                graph.set_inputs(convert, [stored])
