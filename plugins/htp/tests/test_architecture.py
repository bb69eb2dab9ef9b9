"""Rules of the architecture checker, and their changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.api.architecture import Issue
from dovetail.ir import (
    DType,
    Graph,
    ScaleOffset,
    Tensor,
    TensorKind,
    dequantize,
    find_faults,
    quantize,
)
from dovetail_htp.architecture import (
    Divisions,
    FewChannels,
    LimitedParams,
    PaddedChannels,
    Prelus,
    SlowActivations,
    WideActivations,
)
from dovetail_opset.build import add, add_all, static

STEP = ScaleOffset(2**-5, -100)


def graph_of(channels: int = 4, dtype: DType = DType.FLOAT_32, **more: Any) -> tuple[Graph, Tensor]:
    graph = Graph("net")
    x = Tensor("x", dtype, (1, 4, 4, channels), TensorKind.APP_WRITE, **more)
    return graph, graph.add_tensor(x)


def conv(graph: Graph, x: Tensor, channels: int, name: str = "conv") -> Tensor:
    w = static(graph, f"{name}.w", np.ones((1, 1, x.shape[-1], channels), np.float32))
    pad = np.zeros((2, 2), np.uint32)
    return add(graph, "Conv2d", [x, w], name=name, stride=np.ones(2, np.uint32), pad_amount=pad)


def found(rule: Any, graph: Graph) -> list[Issue]:
    return list(rule().issues(graph))


def changes(rule: Any, graph: Graph) -> bool:
    """Run the change of a rule; return whether it says that it changed the graph."""
    changed: bool = rule.change.run(graph)
    return changed


@pytest.mark.parametrize(
    ("inputs", "outputs", "few", "padded"),
    [
        (3, 64, "3 in 'x'", ""),
        (3, 16, "3 in 'x' and 16 in 'conv'", ""),
        (32, 64, "", ""),
        (64, 40, "", "40 channels are stored as 64, 60% more"),
        (96, 72, "", "72 channels are stored as 96, 33% more"),
        (128, 120, "", ""),  # 7 % more
    ],
)
def test_channels_of_convolutions(inputs: int, outputs: int, few: str, padded: str) -> None:
    graph, x = graph_of(inputs)
    conv(graph, x, outputs)
    assert [few in issue.text for issue in found(FewChannels, graph)] == [True] * bool(few)
    assert [padded in issue.text for issue in found(PaddedChannels, graph)] == [True] * bool(padded)


def test_activations_that_cannot_be_fused_follow_a_convolution() -> None:
    graph, x = graph_of(32)
    y = conv(graph, x, 32)
    add(graph, "Sigmoid", [y], name="slow")
    add(graph, "Sigmoid", [add(graph, "Relu", [y], name="fused")], name="later")
    issues = found(SlowActivations, graph)
    assert [issue.node and issue.node.name for issue in issues] == ["slow"]


def test_wide_activations_are_an_issue_of_the_graph() -> None:
    graph, x = graph_of(4, DType.UFIXED_POINT_16, encoding=STEP)
    add(graph, "Relu", [x], name="y")
    (issue,) = found(WideActivations, graph)
    assert (issue.node, issue.text[:24]) == (None, "1 of 1 activations have ")
    narrow, x = graph_of(4, DType.UFIXED_POINT_8, encoding=STEP)
    add(narrow, "Relu", [x], name="y")
    assert not found(WideActivations, narrow)


def divided(divisor: Any, dtype: DType = DType.FLOAT_32, **more: Any) -> Graph:
    graph, x = graph_of(dtype=dtype, encoding=more.get("encoding"))
    d = static(graph, "d", divisor, dtype, **more)
    add(graph, "ElementWiseDivide", [x, d], name="y", spec=x.spec)
    return graph


@given(st.lists(st.floats(0.0625, 100, width=32), min_size=4, max_size=4), st.booleans())
def test_a_division_becomes_a_multiplication(values: list[float], is_negative: bool) -> None:
    divisor = np.array(values, np.float32) * (-1 if is_negative else 1)
    graph = divided(divisor)
    (issue,) = found(Divisions, graph)
    assert issue.modification
    assert changes(Divisions, graph) is True
    (node,) = graph.nodes
    assert (node.name, node.op_type, node.sources) == ("y", "ElementWiseMultiply", ("y",))
    factor = node.inputs[1]
    assert factor is not None
    assert "d" not in graph.tensors
    np.testing.assert_allclose(factor.values() * divisor, 1, rtol=1e-6)
    assert not find_faults(graph)
    assert not found(Divisions, graph)


@pytest.mark.parametrize("dtype", [DType.UFIXED_POINT_8, DType.SFIXED_POINT_16])
@pytest.mark.parametrize("values", [[2.0], [-3.0], [1.0, 3.0, -2.0, 0.5]])
def test_a_quantized_divisor_gets_an_encoding_of_its_own(dtype: DType, values: list[float]) -> None:
    encoding = STEP if not dtype.is_signed else ScaleOffset(2**-10)
    stored = quantize(np.array(values, np.float32), encoding, dtype)
    graph = divided(stored, dtype, encoding=encoding)
    assert changes(Divisions, graph) is True
    factor = graph.nodes[0].inputs[1]
    assert factor is not None
    assert isinstance(factor.encoding, ScaleOffset)
    assert not find_faults(graph)
    exact = 1 / dequantize(stored, encoding)
    error = np.abs(dequantize(factor.values(), factor.encoding) - exact)
    assert error.max() <= factor.encoding.scale * 0.501


@pytest.mark.parametrize(
    ("divisor", "dtype"),
    [
        (np.array([1, 0, 1, 1], np.float32), DType.FLOAT_32),
        (np.array([1e-39], np.float32), DType.FLOAT_32),  # its reciprocal is beyond the type
        (np.array([1e-5], np.float16), DType.FLOAT_16),
        (np.array([2], np.int32), DType.INT_32),
    ],
)
def test_divisions_without_a_reciprocal_stay(divisor: Any, dtype: DType) -> None:
    graph = divided(divisor, dtype)
    (issue,) = found(Divisions, graph)
    assert not issue.modification
    assert changes(Divisions, graph) is False
    assert graph.nodes[0].op_type == "ElementWiseDivide"


def test_a_divisor_with_other_readers_stays() -> None:
    graph = divided(np.array([2], np.float32))
    add(graph, "ElementWiseAdd", [graph.tensor("x"), graph.tensor("d")], name="z")
    assert changes(Divisions, graph) is True
    assert "d" in graph.tensors
    assert not find_faults(graph)


@pytest.mark.parametrize(
    ("op_type", "params", "text"),
    [
        ("Softmax", {}, ""),
        ("Softmax", {"axis": 3}, ""),
        ("Softmax", {"axis": 1}, "axis is 1; an HTP takes the last axis"),
        ("LogSoftmax", {"axis": 2}, "axis is 2; an HTP takes the last axis"),
        ("LayerNorm", {"axes": [3]}, ""),
        ("LayerNorm", {"axes": [2, 3]}, "axes is [2, 3]; an HTP takes the last axis alone"),
        ("TopK", {"k": 2}, ""),
        ("TopK", {"k": 2, "largest": False}, "largest is False; an HTP takes True"),
    ],
)
def test_params_that_an_htp_does_not_take(op_type: str, params: dict[str, Any], text: str) -> None:
    graph, x = graph_of()
    add_all(graph, op_type, [x], name="y", **params)
    assert [issue.text for issue in found(LimitedParams, graph)] == [text] * bool(text)


@pytest.mark.parametrize("kept", [False, True])
def test_a_fully_connected_layer_that_keeps_axes_is_an_issue(kept: bool) -> None:
    graph, x = graph_of()
    w = static(graph, "w", np.ones((2, 4), np.float32))
    add(graph, "FullyConnected", [x, w], name="y", keep_dims=kept)
    issues = found(LimitedParams, graph)
    assert [i.text for i in issues] == ["keep_dims is True; an HTP takes False"] * kept


def test_a_prelu_becomes_a_relu() -> None:
    graph, x = graph_of()
    slope = static(graph, "slope", np.full(4, 0.25, np.float32))
    add(graph, "Prelu", [x, slope], name="y")
    (issue,) = found(Prelus, graph)
    assert issue.modification
    assert changes(Prelus, graph) is True
    (node,) = graph.nodes
    assert (node.op_type, node.name) == ("Relu", "y")
    assert "slope" not in graph.tensors
    assert not find_faults(graph)
