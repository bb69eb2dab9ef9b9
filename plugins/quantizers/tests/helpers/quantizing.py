"""Small float graphs, and quantizing them."""

from __future__ import annotations

from typing import Any

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.container import Model, Producer
from dovetail.ir import (
    Array,
    DType,
    Encoding,
    Graph,
    ScaleOffset,
    Tensor,
    TensorKind,
    dequantize,
    quantize,
)
from dovetail.plugins.ops import installed_ops
from dovetail.quantization import TensorDecision
from dovetail_opset.build import add, static


def model_of(graph: Graph) -> Model:
    """Return the model of one graph."""
    return Model.of(graph, producer=Producer("test", "0"), registry=installed_ops())


def new_graph(shape: tuple[int, ...], dtype: DType = DType.FLOAT_32) -> tuple[Graph, Tensor]:
    """Return a graph `net` with the input `x`."""
    graph = Graph("net")
    return graph, graph.add_tensor(Tensor("x", dtype, shape, TensorKind.APP_WRITE))


def output(tensor: Tensor) -> Tensor:
    """Create a tensor an output of its graph."""
    tensor.kind = TensorKind.APP_READ
    return tensor


def dense(weight: Array, bias: Array | None, relu: bool = True) -> Graph:
    """x (1, k) through FullyConnected `fc`, and Relu `y` unless that is left out."""
    graph, x = new_graph((1, weight.shape[1]))
    inputs = [x, static(graph, "w", weight)]
    if bias is not None:
        inputs.append(static(graph, "b", bias))
    made = add(graph, "FullyConnected", inputs, name="fc")
    output(add(graph, "Relu", [made], name="y") if relu else made)
    return graph


def quantized(graph: Graph, samples: Any, **options: Any) -> Graph:
    """Return the quantized graph."""
    return dt.quantize(model_of(graph), samples, **options).graphs[graph.name]


def fake_quantize(x: Array, encoding: Encoding, dtype: DType) -> Array:
    """Return real values of any shape, quantized and dequantized."""
    return dequantize(quantize(x, encoding, dtype), encoding)


def decisions(graph: Graph, samples: Any, **options: Any) -> dict[str, TensorDecision]:
    """Return what was decided, by the names of tensors in the user's model."""
    made = quantize_with_report(model_of(graph), samples, **options)
    return {d.tensor: d for d in made.report.tensors[graph.name]}


def encoding(graph: Graph, name: str) -> ScaleOffset:
    """Return the encoding of a tensor that has one scale."""
    found = graph.tensor(name).encoding
    assert isinstance(found, ScaleOffset)
    return found
