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


NETS = [prelu, softmax, layer_norm, wide_sum, sigmoid, dense, clipped, joined, split, gathered]


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
