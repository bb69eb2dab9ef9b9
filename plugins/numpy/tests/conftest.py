"""Fixtures: nodes of one op on fixed-point tensors, and what their definition returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dovetail.ir import Array, Graph, Spec, Tensor, TensorKind
from dovetail.ops import NodeView, OpRegistry, checked_node
from dovetail_numpy.integer import DEFINITIONS
from dovetail_opset import PACKAGE
from dovetail_opset.build import add_all

REGISTRY = OpRegistry.of(PACKAGE)


def node(
    op: str,
    ins: Sequence[Spec | Array | tuple[Spec, Array] | None],
    outs: Sequence[Spec],
    **params: Any,
) -> NodeView:
    """Return the view of one node.

    Args:
        op: Name of the op.
        ins: Specs of its inputs; with stored values for constants; None for omitted ones.
        outs: Specs of its outputs.
        params: Its params.
    """
    graph = Graph("net")
    tensors: list[Tensor | None] = []
    for i, given in enumerate(ins):
        if given is None:
            tensors.append(None)
        elif isinstance(given, Spec):
            kind = TensorKind.APP_WRITE
            tensor = Tensor(f"x{i}", given.dtype, given.shape, kind, encoding=given.encoding)
            tensors.append(graph.add_tensor(tensor))
        else:
            of, values = given
            tensor = Tensor.static(f"x{i}", values, of.dtype, encoding=of.encoding)
            tensors.append(graph.add_tensor(tensor))
    declared = [
        Tensor(f"y{i}", s.dtype, s.shape, TensorKind.APP_READ, encoding=s.encoding)
        for i, s in enumerate(outs)
    ]
    add_all(graph, op, tensors, name="n", outputs=declared, **params)
    view, faults = checked_node(graph.nodes[0], REGISTRY)
    assert view is not None, faults
    return view


def run_node(view: NodeView, *stored: Array | None) -> list[Array]:
    """Return the stored outputs of a node, by its definition."""
    definition = DEFINITIONS.of(view)
    assert definition is not None, f"{view.op_type} has no definition for these types"
    found = list(definition.compute(view, stored))
    for array, out in zip(found, view.outs, strict=True):
        assert array.shape == out.shape
        assert array.dtype == out.dtype.storage
    return found


Make = Callable[..., NodeView]
Run = Callable[..., list[Array]]


@pytest.fixture(name="node", scope="session")
def node_fixture() -> Make:
    return node


@pytest.fixture(name="run_node", scope="session")
def run_fixture() -> Run:
    return run_node


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(15)
