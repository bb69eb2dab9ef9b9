"""Small networks for tests of the backend itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail.container import Model, Producer
from dovetail.ir import Array, DType, Graph, Tensor, TensorKind
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, static


def chain(shape: tuple[int, ...] = (2, 5, 13), dtype: DType = DType.FLOAT_32) -> Graph:
    """Return x -> x * sigmoid(x + b) -> clipped: four nodes, which fuse."""
    graph = Graph("chain")
    x = graph.add_tensor(Tensor("x", dtype, shape, TensorKind.APP_WRITE))
    bias = np.linspace(-1, 1, shape[-1], dtype=np.float32).astype(dtype.storage)
    moved = add(graph, "ElementWiseAdd", [x, static(graph, "b", bias)], name="moved")
    gate = add(graph, "Sigmoid", [moved], name="gate")
    product = add(graph, "ElementWiseMultiply", [x, gate], name="product")
    y = add(graph, "ReluMinMax", [product], name="y", min_value=-0.5, max_value=2.5)
    y.kind = TensorKind.APP_READ
    return graph


def expected(x: np.ndarray) -> np.ndarray:
    """Return what `chain` computes, in float64."""
    wide = x.astype(np.float64)
    bias = np.linspace(-1, 1, x.shape[-1], dtype=np.float32).astype(x.dtype).astype(np.float64)
    return np.clip(wide / (1 + np.exp(-(wide + bias))), -0.5, 2.5)


def some(shape: tuple[int, ...] = (2, 5, 13), seed: int = 0) -> np.ndarray:
    """Return normal random numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def real(*shape: int, seed: int = 1, scale: float = 1.0) -> Array:
    """Return normal random numbers, float32."""
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * scale, np.float32)


def numbered(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """Return an array of which all elements differ, as far as the type allows."""
    return (np.arange(np.prod(shape, dtype=int)) % 251).reshape(shape).astype(dtype)


def model_of(graph: Graph) -> Model:
    """Return a model of one graph."""
    return Model({graph.name: graph}, Producer("tests", "1"), {PACKAGE.name: "1.0"})
