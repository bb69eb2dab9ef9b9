"""Encodings of a model get types that a target backend takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backend_verdicts import rejected

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.container import Model, Producer
from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.plugins.ops import installed_ops
from dovetail_opset.build import add, add_all, static


def given(graph: Graph, x: Tensor, dtype: DType, scale: float, offset: int = 0) -> Tensor:
    """x behind a Quantize and a Dequantize."""
    spec = Spec(dtype, x.shape, ScaleOffset(scale, offset))
    stored = add(graph, "Quantize", [x], name=f"{x.name}.stored", spec=spec)
    return add(graph, "Dequantize", [stored], name=f"{x.name}.real")


S8, U8 = DType.SFIXED_POINT_8, DType.UFIXED_POINT_8
S16, U16 = DType.SFIXED_POINT_16, DType.UFIXED_POINT_16


def prelu(graph: Graph, x: Tensor) -> Tensor:
    slopes = static(graph, "slopes", np.array([-0.25, 0.5, 0.25, 0.125], np.float32))
    return given(graph, add(graph, "Prelu", [x, slopes], name="y"), U8, 0.02, -50)


def softmax(graph: Graph, x: Tensor) -> Tensor:
    scores = given(graph, add(graph, "ElementWiseNeg", [x], name="scores"), S8, 0.025)
    return given(graph, add(graph, "Softmax", [scores], name="y"), U8, 1 / 256)


def layer_norm(graph: Graph, x: Tensor) -> Tensor:
    gain = static(graph, "gain", np.array([0.5, 1, 1.5, 1], np.float32))
    return given(graph, add(graph, "LayerNorm", [x, gain], name="y", axes=[1]), S8, 0.025)


def wide_sum(graph: Graph, x: Tensor) -> Tensor:
    fine = given(graph, add(graph, "ElementWiseNeg", [x], name="fine"), U16, 0.0001, -32768)
    coarse = given(graph, add(graph, "ElementWiseAbs", [x], name="coarse"), U8, 0.015)
    return given(graph, add(graph, "ElementWiseAdd", [fine, coarse], name="y"), U8, 0.025)


def sigmoid(graph: Graph, x: Tensor) -> Tensor:
    x = given(graph, add(graph, "ElementWiseNeg", [x], name="x16"), U16, 0.0001, -32768)
    y = given(graph, add(graph, "Sigmoid", [x], name="sigmoid"), U16, 1 / 65535)
    return given(graph, add(graph, "ElementWiseMultiply", [x, y], name="y"), U16, 0.0001, -32768)


def dense(graph: Graph, x: Tensor) -> Tensor:
    """Integers that an HTP does not convert, moved and then multiplied."""
    x = given(graph, add(graph, "ElementWiseNeg", [x], name="x16"), S16, 0.0001)
    x = given(graph, add(graph, "Transpose", [x], name="turned", perm=[1, 0]), S16, 0.0001)
    x = given(graph, add(graph, "Transpose", [x], name="again", perm=[1, 0]), S16, 0.0001)
    weight = static(graph, "weight", np.eye(4, dtype=np.float32))
    y = add(graph, "FullyConnected", [x, weight], name="y")
    return given(graph, y, U16, 0.0001, -32768)


def clipped(graph: Graph, x: Tensor) -> Tensor:
    x = given(graph, add(graph, "ElementWiseNeg", [x], name="x16"), S16, 0.0001)
    return given(graph, add(graph, "Relu", [x], name="y"), U8, 0.015)


def joined(graph: Graph, x: Tensor) -> Tensor:
    """The inputs are first converted to the signed type of the result, which then changes."""
    x = given(graph, add(graph, "Concat", [x, x], name="both", axis=1), S16, 0.0001)
    x = given(graph, x, U8, 0.02, -120)
    return given(graph, add(graph, "ElementWiseNeg", [x], name="y"), U8, 0.02, -136)


def split(graph: Graph, x: Tensor) -> Tensor:
    """Two results with unlike encodings: the input has neither."""
    x = given(graph, add(graph, "ElementWiseNeg", [x], name="x16"), U16, 0.0001, -32768)
    a, b = add_all(graph, "Split", [x], name="parts", axis=1, split_index=[2])
    given(graph, a, U8, 0.01).kind = TensorKind.APP_READ
    return given(graph, b, U8, 0.025, -128)


def gathered(graph: Graph, x: Tensor) -> Tensor:
    """The HTP gathers elements with one encoding, and the model gives two."""
    indices = static(graph, "indices", np.array([3, 0, 2], np.int32))
    x = given(graph, add(graph, "Gather", [x, indices], name="rows", axis=1), U8, 0.02, -120)
    return given(graph, add(graph, "ElementWiseNeg", [x], name="y"), U8, 0.02, -136)


def scaled_in_two_widths(graph: Graph, x: Tensor) -> Tensor:
    """A constant that the model stores in 8 bits is a factor of 8-bit and of 16-bit numbers."""
    gain = static(graph, "gain", (np.array([255, 128, 7, 0]) / 255).astype(np.float32))
    graph.source_encodings["gain"] = Spec(U8, (4,), ScaleOffset(1 / 255, 0))
    x = given(graph, add(graph, "ElementWiseMultiply", [x, gain], name="narrow"), U8, 0.02, -120)
    x = given(graph, add(graph, "ElementWiseNeg", [x], name="x16"), U16, 0.0001, -32768)
    y = add(graph, "ElementWiseMultiply", [x, gain], name="y")
    return given(graph, y, U16, 0.0001, -32768)


def masked(graph: Graph, x: Tensor) -> Tensor:
    """The lowest point of a symmetric mask is beyond float32, and its type changes twice."""
    lowest = np.finfo(np.float32).min
    kept = static(graph, "kept", np.array([[True, True, True, False]]), DType.BOOL_8)
    ends = [static(graph, f"end{i}", np.array([e], np.float32)) for i, e in enumerate((0, lowest))]
    mask = add(graph, "ElementWiseSelect", [kept, *ends], name="mask")
    mask = given(graph, mask, S8, -float(lowest) / 127)
    x = given(graph, add(graph, "ElementWiseNeg", [x], name="scores"), S8, 0.025)
    x = given(graph, add(graph, "ElementWiseAdd", [x, mask], name="sum"), S8, -float(lowest) / 127)
    return given(graph, add(graph, "Softmax", [x], name="y"), S8, 1 / 127)


def moved_then_given(graph: Graph, x: Tensor) -> Tensor:
    """The result of Gelu has the encoding of its rows, whose type changes."""
    weight = static(graph, "weight", np.eye(4, dtype=np.float32))
    graph.source_encodings["weight"] = Spec(U8, (4, 4), ScaleOffset(1 / 128, -100))
    x = given(graph, add(graph, "FullyConnected", [x, weight], name="before"), S8, 0.02)
    x = add(graph, "Gelu", [x], name="gelu")
    rows = Spec(DType.FLOAT_32, (4, 2))
    x = given(graph, add(graph, "Reshape", [x], name="rows", spec=rows), S8, 0.015)
    narrow = static(graph, "narrow", np.eye(2, dtype=np.float32))
    return given(graph, add(graph, "FullyConnected", [x, narrow], name="y"), U8, 0.025, -20)


NETS = [
    prelu, softmax, layer_norm, wide_sum, sigmoid, dense, clipped, joined, split, gathered,
    scaled_in_two_widths, masked, moved_then_given,
]  # fmt: skip


@pytest.mark.parametrize("net", NETS)
def test_given_encodings_get_types_of_the_htp(net: Any) -> None:
    """Constants and results are counted otherwise; other inputs of a node are converted."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 4), TensorKind.APP_WRITE))
    made = net(graph, given(graph, x, U8, 0.025, -128))
    made.kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    quantized = quantize_with_report(model, None, target_backend="htp")
    assert rejected(quantize_with_report(model, None), "htp")
    assert not rejected(quantized, "htp")
    rng = np.random.default_rng(8)
    sample = {"x": rng.normal(0, 1, (2, 4)).astype(np.float32)}
    found = []
    for each, backend in ((model, "cpu"), (quantized.model, "htp")):
        with dt.Session(each, backend=backend) as session:
            found.append(session.run(sample))
    for name, values in found[0].items():
        # one step of the result, which is 0.025 at most, for sums that are rounded otherwise
        np.testing.assert_allclose(found[1][name], values, atol=0.026)


def test_types_follow_a_long_chain_of_nodes() -> None:
    """Each Tanh of 16 bits needs a result of 16 bits, which the next one reads."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 4), TensorKind.APP_WRITE))
    made = given(graph, x, U16, 0.0001, -32768)
    for i in range(12):
        made = add(graph, "Tanh", [made], name=f"tanh{i}")
    made.kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())
    samples = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 1, 4)
    assert not rejected(quantize_with_report(model, samples, target_backend="htp"), "htp")
