"""Chains of nodes on few elements, which the library runs as one primitive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

X = np.array(
    [[np.nan, np.inf, -np.inf, 3e38, 0.2, 7.5], [0.1, -0.0, -0.2, 1e-40, -7.3, -0.3]], np.float32
)
CHAINS = [
    [f"ElementWise{name}" for name in ("Multiply", "Add", "Subtract", "Divide", "Multiply")],
    ["ElementWiseRound", "ElementWiseAbs", "ElementWiseSubtract"],
]
ALONE = ("ElementWiseAbs", "ElementWiseRound", "Relu", "Sigmoid", "Tanh")


def chain(model: Any, *op_types: str) -> Any:
    """Multiply x by 1, and add nodes, with one more constant each where they take one."""
    y = model.add(
        "ElementWiseMultiply", model.input("x", *X.shape), model.static("c", [1.0]), name="one"
    )
    for i, op_type in enumerate(op_types):
        others = [] if op_type in ALONE else [model.static(f"c{i}", [0.7 + i % 3])]
        y = model.add(op_type, y, *others, name=f"y{i}")
    model.output(y)
    return y


@pytest.mark.parametrize("op_types", CHAINS)
def test_results_have_the_bits_of_the_ops(model: Any, op_types: list[str]) -> None:
    y = chain(model, *op_types)
    prepared = model.prepare()
    assert len(prepared.steps) == 1
    (found,) = model.run(prepared, {"x": X}).values()
    wanted = model.expected({"x": X})[y.name]
    numbers = ~np.isnan(wanted)
    assert found[numbers].tobytes() == wanted[numbers].tobytes()
    assert np.isnan(found[~numbers]).all()


@pytest.mark.parametrize("function", ["Relu", "Tanh", "Sigmoid"])
def test_functions_of_other_bits_end_a_chain(model: Any, function: str) -> None:
    y = chain(model, *CHAINS[0][:2], function, *CHAINS[1][:1])
    prepared = model.prepare()
    assert [step.nodes for step in prepared.steps] == [("one", "y0", "y1"), ("y2",), ("y3",)]
    (found,) = model.run(prepared, {"x": X}).values()
    np.testing.assert_array_equal(found, model.expected({"x": X})[y.name])


@pytest.mark.parametrize("function", ["", "Relu", "Tanh"])
def test_two_nodes_and_functions_of_other_bits_stay_apart(model: Any, function: str) -> None:
    op_types = ["ElementWiseMultiply", *([function] if function else [])]
    chain(model, *op_types)
    assert len(model.prepare().steps) == 1 + len(op_types)
