"""Recurrent layers against the ops' references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.container import WeightStore
from dovetail.ir import Tensor

small = st.integers(1, 6)


def close(found: Any, wanted: Any) -> None:
    """Each step sums a dozen products in another order, and computes its exponentials by other
    polynomials, some 1e-6 apart; what is left of it goes into the next steps."""
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def layer(
    model: Any,
    op_type: str,
    x: tuple[int, ...],
    shapes: dict[int, tuple[int, ...]],
    *,
    inputs: tuple[int, ...] = (),
    outputs: tuple[tuple[int, ...], ...],
    **params: Any,
) -> None:
    """Adds a layer whose weights are known and whose outputs the application reads.

    Args:
        shapes: Of the weights and states by input.
        inputs: Those that the application writes.
        outputs: Shapes of the outputs.
    """
    ins: list[Tensor | None] = [model.input("x", *x), *[None] * 24]
    for i, shape in shapes.items():
        ins[i] = (model.input if i in inputs else model.random)(f"in{i}", *shape)
    while ins[-1] is None:
        ins.pop()
    made = [Tensor(f"out{i}", ins[0].dtype, s, KIND) for i, s in enumerate(outputs)]
