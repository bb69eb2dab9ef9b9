"""Choices of mutations: parts of a model, and values that valid models do not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TypeVar

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

T = TypeVar("T")
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
EXTENTS = (0, 1, 2, 3, 5, 7, 64, -1, -2, 10_000, 10**6, 2**31 - 1, 2**31, 2**32, 2**40, INT_MAX)
INTEGERS = (*EXTENTS, -3, 4, 8, 100, -(2**31), INT_MIN, INT_MIN + 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, 3.4e38, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "",
    "x",
    "linear",
    "NOTSET",
    "SAME_UPPER",
    "ij,jk->ik",
    "é" * 5,
    "a" * 10_000,
    "\0",
    "%s{}",
)


def some(random: Random, items: Sequence[T]) -> T | None:
    """Return a random item; None if there is none."""
    return random.choice(items) if len(items) else None


def graphs(model: ModelProto) -> list[GraphProto]:
    """Return the main graph and all subgraphs of nodes, also in functions."""
    found, waiting = [], [model.graph]
    for function in model.functions:
        waiting += _carried(function.node)
    while waiting:
        graph = waiting.pop()
        found.append(graph)
        waiting += _carried(graph.node)
    return found


def _carried(nodes: Sequence[NodeProto]) -> Iterator[GraphProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g
            yield from attribute.graphs


def nodes(model: ModelProto) -> list[NodeProto]:
    """Return all nodes, including those of functions and subgraphs."""
    found = [node for graph in graphs(model) for node in graph.node]
    return found + [node for function in model.functions for node in function.node]


def attributes(model: ModelProto) -> list[AttributeProto]:
    """Return all attributes of nodes."""
    return [attribute for node in nodes(model) for attribute in node.attribute]


def tensors(model: ModelProto) -> list[TensorProto]:
    """Return all tensors of initializers and attributes."""
    found = [tensor for graph in graphs(model) for tensor in graph.initializer]
    return found + [a.t for a in attributes(model) if a.HasField("t")]


def infos(model: ModelProto) -> list[ValueInfoProto]:
    """Return all declarations of inputs, outputs and intermediate values."""
    return [i for g in graphs(model) for i in (*g.input, *g.output, *g.value_info)]


def names(model: ModelProto) -> list[str]:
    """Return the names of all tensors that nodes read or write."""
    found = {name for node in nodes(model) for name in (*node.input, *node.output)}
    return sorted(found | {info.name for info in infos(model)})
