"""Ops written out in others: the same results, and only where these are the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import TensorKind, find_faults
from dovetail_opset.passes import WriteOut, can_write_out

Evaluate = Callable[..., Any]
CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("ReduceSumSquare", {"axes": [1, 2], "keep_dims": True}, ["ElementWiseMultiply", "ReduceSum"]),
    ("ReduceSumSquare", {"axes": [3]}, ["ElementWiseMultiply", "ReduceSum"]),
    (
        "ElementWiseSoftplus",
        {},
        [
            *(f"ElementWise{name}" for name in ("Abs", "Neg", "Exp", "Add", "Log")),
            "Relu",
            "ElementWiseAdd",
        ],
    ),
    ("ElementWiseSoftplus", {"threshold": 20.0}, []),
]


@pytest.mark.parametrize(("op_type", "params", "ops"), CASES)
def test_results_are_the_same(
    net: Any, evaluate: Evaluate, op_type: str, params: dict[str, Any], ops: list[str]
) -> None:
    y = net.step(op_type, net.x, **params)
    y.kind = TensorKind.APP_READ
    feed = {"x": np.linspace(-60, 60, 120, dtype=np.float32).reshape(net.x.shape)}
    before = evaluate(net.graph, feed)[y.name]
    assert WriteOut([op_type]).run(net.graph)
    assert not WriteOut([op_type]).run(net.graph)
    assert not find_faults(net.graph)
    assert sorted(net.ops()) == sorted(ops or CASES[2][2])
    assert net.graph.nodes[-1].name == "step"
    np.testing.assert_allclose(evaluate(net.graph, feed)[y.name], before, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("params", [{"beta": 2.0}, {"threshold": 1.0}, {"threshold": 0.0}])
def test_another_softplus_stays(net: Any, params: dict[str, float]) -> None:
    net.step("ElementWiseSoftplus", net.x, **params)
    assert not can_write_out(net.graph.nodes[0])
    net.untouched(WriteOut(["ElementWiseSoftplus"]))


def test_only_the_named_ops_are_written_out(net: Any) -> None:
    net.step("ElementWiseSoftplus", net.x)
    net.untouched(WriteOut(["ReduceSumSquare"]))
