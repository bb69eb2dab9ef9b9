"""Differences between a model that was quantized before and the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dovetail.ir import Tensor, TensorKind
from dovetail.quantization import Difference
from dovetail_opset import PACKAGE
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.plan import Plan

_SUMMARY = {
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


def differences_of(
    plan: Plan, decisions: Mapping[Tensor, EncodingDecision]
) -> Iterator[Difference]:
    """Return the differences in quantization between a graph and the model.

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
        if node.package == PACKAGE.name and node.op_type == "Convert" and not node.sources:
            read = node.inputs[0]
            kinds = "" if read is None else f"{read.dtype.name} to {node.outputs[0].dtype.name}"
            text = f"{kinds}, for {_readers(plan, node.outputs[0])}"
            yield Difference(tensor=node.outputs[0].source, kind="convert", text=text)


def dropped(changes: Sequence[Difference]) -> list[Difference]:
    """Return the changes for ignored quantization of the model."""
    left_out = ("encoding", "weight", "bias", "constant")
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
    return f"graph '{graph}' was quantized before: {', '.join(parts)}; the report lists each"


def _readers(plan: Plan, tensor: Tensor) -> str:
    readers = [node.where for node in plan.graph.consumers(tensor)]
    if tensor.kind is not TensorKind.NATIVE:
        readers.append("the application")
    return " and ".join(readers)
