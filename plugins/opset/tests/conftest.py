"""Helpers of the tests: running one op by its reference, and a whole graph op by op."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from reference_values import values_of

from dovetail.ir import Array, DType, Graph, Spec, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail_opset import PACKAGE
from dovetail_opset.build import add_all

REGISTRY = OpRegistry.of(PACKAGE)


def evaluate(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Check a graph, and return the stored values of all its tensors by name."""
    check_ops(graph, REGISTRY)
    return values_of(graph, feeds, REGISTRY)


def run_op(
    op_type: str, *inputs: Array | None, specs: tuple[Spec | None, ...] = (), **params: Any
) -> Any:
    """Run one op on plain arrays; give its output, or a tuple of several."""
    graph = Graph("one")
    tensors: list[Tensor | None] = []
    for i, x in enumerate(inputs):
        made = None if x is None else Tensor(f"x{i}", DType.of(x.dtype), x.shape)
        if made is not None:
            made.kind = TensorKind.APP_WRITE
            graph.add_tensor(made)
        tensors.append(made)
    outs = add_all(graph, op_type, tensors, name="op", specs=specs, **params)
    feeds = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
    values = evaluate(graph, feeds)
    found = tuple(values[t.name] for t in outs)
    return found[0] if len(found) == 1 else found


@pytest.fixture(name="run_op", scope="session")
def fixture_run_op() -> Callable[..., Any]:
    return run_op


@pytest.fixture(name="evaluate", scope="session")
def fixture_evaluate() -> Callable[[Graph, Mapping[str, Array]], dict[str, Array]]:
    return evaluate


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)
