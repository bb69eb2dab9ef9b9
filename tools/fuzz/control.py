"""Small models with subgraphs and functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from fuzz.models import F32, I64, N, model

_FLOAT, _BOOL, _INT = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


def models() -> Iterator[tuple[str, ModelProto]]:
    """Yield names and models."""
    yield "if", _branches()
    yield "loop", _loop()
    yield "scan", _scan()
    yield "nested", _nested()
    yield "functions", _functions()
    yield "defined", _defined()


def graph(
    name: str, nodes: Sequence[NodeProto], inputs: Sequence[tuple[str, int]], outputs: Sequence[str]
) -> GraphProto:
    """Create a subgraph; inputs are names and element types."""
    return helper.make_graph(
        list(nodes),
        name,
        [helper.make_tensor_value_info(n, kind, None) for n, kind in inputs],
        [helper.make_tensor_value_info(n, _FLOAT, None) for n in outputs],
    )


def _branch(condition: str, read: str, written: str) -> NodeProto:
    then = graph("then", [N("Add", [read, read], ["t"])], [], ["t"])
    other = graph("else", [N("Neg", [read], ["e"])], [], ["e"])
    return N("If", [condition], [written], f"if_{written}", then_branch=then, else_branch=other)


def _branches() -> ModelProto:
    return model([_branch("c", "x", "y")], {"x": [3]}, ["y"], {"c": np.array(True)})


def _loop() -> ModelProto:
    nodes = [
        N("Add", ["s", "x"], ["t"]),
        N("Cast", ["i"], ["f"], to=1),
        N("Mul", ["t", "f"], ["row"]),
        N("Identity", ["again"], ["on"]),
    ]
    inputs = [("i", _INT), ("again", _BOOL), ("s", _FLOAT)]
    body = graph("body", nodes, inputs, ["on", "t", "row"])
    loop = N("Loop", ["n", "go", "x"], ["y", "rows"], "loop", body=body)
    constants = {"n": np.array(3, I64), "go": np.array(True)}
    return model([loop], {"x": [2]}, ["y", "rows"], constants)


def _scan() -> ModelProto:
    nodes = [N("Add", ["s", "v"], ["t"]), N("Mul", ["t", "t"], ["row"])]
    body = graph("body", nodes, [("s", _FLOAT), ("v", _FLOAT)], ["t", "row"])
    scan = N(
        "Scan",
        ["zero", "x"],
        ["sum", "rows"],
        "scan",
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[0],
        scan_output_directions=[1],
    )
    return model([scan], {"x": [4, 2]}, ["sum", "rows"], {"zero": np.zeros(2, F32)})


def _nested() -> ModelProto:
    """An If in a Loop in an If."""
    nodes = [_branch("again", "s", "t"), N("Identity", ["again"], ["on"])]
    inputs = [("i", _INT), ("again", _BOOL), ("s", _FLOAT)]
    loop = N("Loop", ["n", "", "x"], ["z"], "loop", body=graph("body", nodes, inputs, ["on", "t"]))
    then = graph("then", [loop], [], ["z"])
    other = graph("else", [N("Identity", ["x"], ["z"])], [], ["z"])
    node = N("If", ["c"], ["y"], "outer", then_branch=then, else_branch=other)
    return model([node], {"x": [2]}, ["y"], {"c": np.array(True), "n": np.array(2, I64)})


def _function(name: str, nodes: Sequence[NodeProto]) -> FunctionProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, ["a"], ["b"], list(nodes), opsets)


def _functions() -> ModelProto:
    inner = _function("Inner", [N("Relu", ["a"], ["r"]), N("Neg", ["r"], ["b"])])
    call = N("Inner", ["a"], ["t"], domain="local")
    outer = _function("Outer", [call, N("Inner", ["t"], ["b"], domain="local")])
    nodes = [N("Outer", ["x"], ["m"], "call", domain="local"), N("Inner", ["m"], ["y"])]
    nodes[1].domain = "local"
    return model(nodes, {"x": [3]}, ["y"], domains=["local"], functions=[inner, outer])


def _defined() -> ModelProto:
    """Operators that ONNX defines as functions of others."""
    nodes = [
        N("MeanVarianceNormalization", ["x"], ["a"]),
        N("Celu", ["a"], ["b"], alpha=2.0),
        N("HardSwish", ["b"], ["c"]),
        N("SoftmaxCrossEntropyLoss", ["x", "labels"], ["d"], reduction="mean"),
        N("Add", ["c", "d"], ["y"]),
    ]
    return model(nodes, {"x": [2, 3, 2, 2]}, ["y"], {"labels": np.zeros((2, 2, 2), I64)})
