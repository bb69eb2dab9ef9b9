"""Chains of nodes on few elements, which the library runs as one primitive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

X = np.array([[np.nan, np.inf, -np.inf, 3e38], [0.1, -0.0, 1e-40, -7.3]], np.float32)


def chain(model: Any, *op_types: str) -> Any:
    """Add x + 0.3, and then nodes with one more constant each."""
    y = model.add("ElementWiseAdd", model.input("x", *X.shape), model.static("c", [0.3]), name="y0")
    for i, op_type in enumerate(op_types, 1):
        others = [] if op_type == "Tanh" else [model.static(f"c{i}", [0.1 * i + 0.7])]
        y = model.add(op_type, y, *others, name=f"y{i}")
    return y


def test_results_have_the_bits_of_the_ops(model: Any) -> None:
    op_types = ("Multiply", "Add", "Subtract", "Divide", "Multiply")
    model.output(chain(model, *(f"ElementWise{op_type}" for op_type in op_types)))
    prepared = model.prepare()
    assert len(prepared.steps) == 1
    (found,) = model.run(prepared, {"x": X}).values()
    wanted = model.expected({"x": X})["y5"]
    numbers = ~np.isnan(wanted)
    assert found[numbers].tobytes() == wanted[numbers].tobytes()
    assert np.isnan(found[~numbers]).all()


@pytest.mark.parametrize("op_types", [["ElementWiseMultiply"], ["ElementWiseMultiply", "Tanh"]])
def test_two_nodes_and_inexact_functions_stay_apart(model: Any, op_types: list[str]) -> None:
    model.output(chain(model, *op_types))
    assert len(model.prepare().steps) == 1 + len(op_types)
