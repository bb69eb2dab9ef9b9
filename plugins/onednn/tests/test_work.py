"""The estimated work of a graph, which decides whether one thread computes it."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.ops import OpRegistry, checked_node
from dovetail_onednn.work import is_for_one_thread, products
from dovetail_opset import PACKAGE


def last(model: Any) -> int:
    """Return the products of the node added last."""
    view, _ = checked_node(model.graph.nodes[-1], OpRegistry.of(PACKAGE))
    assert view is not None
    return products(view)


def test_products_of_each_kind(model: Any) -> None:
    x = model.input("x", 1, 8, 8, 32)
    y = model.conv(x, "conv", 48)
    assert last(model) == 64 * 9 * 32 * 48
    y = model.conv(y, "grouped", 48, group=4)
    assert last(model) == 64 * 9 * 12 * 48
    y = model.add("Relu", y, name="relu")
    assert last(model) == 64 * 48 * 8  # an element takes as long as 8 products
    rows = model.input("rows", 5, 7, 64)
    model.add("MatMul", rows, model.random("w", 64, 10), name="static")
    assert last(model) == 35 * 64 * 10
    model.add("MatMul", rows, model.input("v", 5, 64, 7), name="dynamic")
    assert last(model) == 35 * 64 * 7
    model.add("FullyConnected", model.input("f", 3, 64), model.random("u", 20, 64), name="fc")
    assert last(model) == 3 * 64 * 20


@pytest.mark.parametrize(("size", "is_small"), [(8, True), (32, False)])
def test_a_small_network_is_for_one_thread(model: Any, size: int, is_small: bool) -> None:
    """Three convolutions over 32 channels, like those of the digits example."""
    y = model.input("x", 1, size, size, 32)
    for index in range(3):
        y = model.conv(y, f"conv{index}", 32)
    assert is_for_one_thread(model.checked()) is is_small
