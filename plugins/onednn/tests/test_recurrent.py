"""Recurrent layers against the ops' references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.container import WeightStore
from dovetail.ir import Tensor
from dovetail_opset.build import add_all

Shapes = dict[int, tuple[int, ...]]
small = st.integers(1, 6)


def close(found: Any, wanted: Any) -> None:
    """The library's exponentials are other polynomials, some 1e-6 apart, as are sums of a dozen
    products in another order; what is left of both goes into the next steps. Results are below 1,
    cells a few units."""
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def add_layer(model: Any, op_type: str, x: tuple[int, ...], shapes: Shapes, **params: Any) -> None:
    """Adds a layer with known weights whose outputs the application reads; x and states vary."""
    ins: list[Tensor | None] = [model.input("x", *x), *[None] * max(shapes)]
    for i, shape in shapes.items():
        is_state = i in ((10, 11) if op_type == "Lstm" else (13,))
        ins[i] = (model.input if is_state else model.random)(f"in{i}", *shape)
    names = ["out", "c", "h"] if op_type == "Lstm" else ["out", "h"]
    for out in add_all(model.graph, op_type, ins, name="layer", outputs=names, **params):
        model.output(out)


def is_engine(model: Any) -> bool:
    """Whether oneDNN runs the layer."""
    (step,) = model.prepare().steps
    return any(value.name == "layer.constant" for value in step.reads)


def agrees(model: Any) -> None:
    assert is_engine(model)
    feeds = model.feeds()
    wanted = model.expected(feeds)
    for name, found in model.run(model.prepare(), feeds).items():
        close(found, wanted[name])


def lstm_shapes(features: int, batch: int, units: int, states: set[int] = frozenset()) -> Shapes:
    shapes: Shapes = dict.fromkeys((1, 2, 3, 16), (units, features))
    shapes |= dict.fromkeys((4, 5, 6, 17), (units, units)) | dict.fromkeys((7, 8, 9, 21), (units,))
    return shapes | dict.fromkeys(states, (batch, units))


def gru_shapes(features: int, batch: int, units: int, left_out: set[int] = frozenset()) -> Shapes:
    shapes: Shapes = dict.fromkeys((1, 2, 3), (units, features))
    shapes |= dict.fromkeys((4, 5, 6), (units, units)) | dict.fromkeys(range(7, 13), (units,))
    shapes[13] = (1, batch, units)
    return {i: shape for i, shape in shapes.items() if i not in left_out}


# each example compiles a primitive, for which no deadline is known
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    extents=st.tuples(small, small, small, st.integers(1, 40)),
    form=st.sampled_from(["time", "batch", "step"]),
    direction=st.integers(0, 1),
    states=st.sets(st.sampled_from([10, 11])),
)
def test_lstm(
    new_model: Any,
    extents: tuple[int, int, int, int],
    form: str,
    direction: int,
    states: set[int],
) -> None:
    steps, batch, features, units = extents
    lead = {"time": (steps, batch), "batch": (batch, steps), "step": (batch,)}[form]
    model, shapes = new_model(), lstm_shapes(features, batch, units, states)
    params = {"time_major": form != "batch", "direction": direction}
    add_layer(model, "Lstm", (*lead, features), shapes, **params)
    agrees(model)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    extents=st.tuples(small, small, small, st.integers(1, 40)),
    time_major=st.booleans(),
    direction=st.integers(0, 1),
    linear=st.integers(0, 1),
    left_out=st.sets(st.integers(7, 13)),
)
def test_gru(
    new_model: Any,
    extents: tuple[int, int, int, int],
    time_major: bool,
    direction: int,
    linear: int,
    left_out: set[int],
) -> None:
    steps, batch, features, units = extents
    x = (steps, batch, features) if time_major else (batch, steps, features)
    model, shapes = new_model(), gru_shapes(features, batch, units, left_out)
    params = {"time_major": time_major, "direction": direction, "linear_before_reset": linear}
    add_layer(model, "Gru", x, shapes, **params)
    agrees(model)
