"""LayerNorm of stored bytes on oneDNN: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from norm_cases import CASES

from dovetail.ir import Array, DType
from dovetail_onednn.quantized import layer_norm

U8 = DType.UFIXED_POINT_8


def rows_of(net: Any, kind: str, shape: Any, dtype: DType) -> Array:
    """Draw rows, many of them alike, of few levels, or with one other element."""
    low, high = dtype.stored_range()
    if kind == "all":
        return net.values(shape, dtype)  # type: ignore[no-any-return]
    rows = np.prod(shape[:-1], dtype=int)
    each = net.rng.integers(low, high, (rows, 1), endpoint=True)
    found = np.broadcast_to(each, (rows, shape[-1])).copy()
    if kind == "two levels":
        found += net.rng.integers(0, 1, found.shape, endpoint=True)
    elif kind == "one other":
        found[np.arange(rows), net.rng.integers(0, shape[-1], rows)] += 1
    elif kind == "mixed":
        found[::2] = net.rng.integers(low, high, found[::2].shape, endpoint=True)
    return np.clip(found, low, high).astype(dtype.storage).reshape(shape)


@pytest.mark.parametrize("kind", ["all", "equal", "two levels", "one other", "mixed"])
@pytest.mark.parametrize("factors", [0, 1, 2])
@pytest.mark.parametrize("epsilon", [1e-12, 1e-5])
@pytest.mark.parametrize(("shape", "grids"), CASES)
def test_layer_norm(
    new_network: Any, grids: Any, epsilon: float, factors: int, shape: Any, kind: str
) -> None:
    net, (data, result) = new_network(), grids
    y = net.add_norm("LayerNorm", shape, (data, result), epsilon=epsilon, factors=factors)
    (step,) = net.check(y, feeds={"x": rows_of(net, kind, shape, data[0])}).steps
    assert step.bind.__module__ == "dovetail_onednn.quantized.marks"


@pytest.mark.parametrize("scale", [0.02, 0.0005])
def test_few_elements_are_computed_by_the_definition(
    new_network: Any, monkeypatch: Any, scale: float
) -> None:
    counts = []

    def counted(sums: Array, squares: Array, count: int) -> Any:
        counts.append(len(sums))
        return mean_and_variance(sums, squares, count)

    mean_and_variance = layer_norm.mean_and_variance
    monkeypatch.setattr(layer_norm, "mean_and_variance", counted)
    net = new_network()
    x = net.input("x", (1024, 384), U8)
    params = {"axes": np.array([1], np.uint32), "epsilon": 1e-5}
    net.check(net.add("LayerNorm", x, name="y", scale=scale, zero=120, **params))
    (rows,) = counts
    assert 0 < rows < 400
