"""Recurrent layers on stored integers: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recurrent_layers import (
    GRU,
    LSTM,
    S8,
    S16,
    S32,
    U8,
    U16,
    Net,
    both_directions,
    gru,
    lstm,
)

from dovetail.ir import DType, ScaleOffset, Spec, Tensor
from dovetail_numpy import KERNELS
from dovetail_numpy.integer.gates import UNIT, rounded
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels.integer_layer import Grids

REGISTRY = KERNELS.for_backend("test")
TYPES = st.sampled_from([U8, S8])
CELLS = st.sampled_from([(S16, 2.0**-12, 0), (S16, 0.0003, 77), (U8, 0.007, 109), (S8, 0.03, -128)])
SIZES = st.sampled_from([(1, 1, 3, 4), (20, 1, 24, 32), (7, 3, 5, 6), (3, 16, 70, 130)])
GRIDS = st.sampled_from([(0.02, 123), (0.7, 0), (0.004, 255), (3.0, 128)])
SEEDS = st.integers(0, 9)


@given(
    size=SIZES,
    data=st.tuples(TYPES, GRIDS),
    weights=TYPES,
    h=st.tuples(TYPES, st.sampled_from([(1 / 128, 128), (0.003, 17), (0.05, 0)])),
    last=st.tuples(TYPES, st.sampled_from([(1 / 128, 128), (0.01, 30)])),
    cell=CELLS,
    form=st.sampled_from([{}, {"direction": 1}, {"time_major": False, "direction": 1}]),
    limit=st.sampled_from([0.0, 0.0, 0.4]),
    states=st.booleans(),
    is_extreme=st.booleans(),
    seed=SEEDS,
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_lstm(
    size: Any,
    data: Any,
    weights: DType,
    h: Any,
    last: Any,
    cell: Any,
    form: dict[str, Any],
    limit: float,
    states: bool,
    is_extreme: bool,
    seed: int,
) -> None:
    net, (steps, batch, features, units) = Net(seed, is_extreme=is_extreme), size
    first = (steps, batch) if form.get("time_major", True) else (batch, steps)
    x = net.input("x", (*first, features), *data)
    options = {"weights": weights, "h": h, "last": last, "cell": cell, "states": states}
    lstm(net, "n", x, units, cell_clip_threshold=limit, **options, **form)
    net.check([LSTM], REGISTRY)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("is_major", [True, False])
@pytest.mark.parametrize("cells", [[(S16, 2.0**-12, 0)] * 2, [(U8, 0.007, 109), (S8, 0.01, 3)]])
@pytest.mark.parametrize("batch", [1, 3])
def test_both_directions(order: Any, is_major: bool, cells: Any, batch: int) -> None:
    net, shape = Net(3), (6, batch, 9) if is_major else (batch, 6, 9)
    options = {"h": (U8, (0.006, 120)), "time_major": is_major}
    both_directions(net, "Lstm", shape, 5, cells=cells, order=order, **options)
    net.check([LSTM], REGISTRY)


def test_sums_beyond_float32() -> None:
    net = Net(1, is_extreme=True)
    x = net.input("x", (2, 1, 700), U8, (0.0001, 0))
    options = {"weights": S8, "h": (U8, (1 / 128, 255)), "cell": (S16, 2.0**-12, 0)}
    lstm(net, "n", x, 600, **options)
    net.check([LSTM], REGISTRY)


@given(
    size=SIZES,
    data=st.tuples(TYPES, GRIDS),
    weights=TYPES,
    h=st.tuples(TYPES, st.sampled_from([(1 / 128, 128), (0.003, 17), (0.05, 0)])),
    last=st.tuples(TYPES, st.sampled_from([(1 / 128, 128), (0.01, 30)])),
    form=st.sampled_from([{}, {"direction": 1}, {"time_major": False, "direction": 1}]),
    linear=st.integers(0, 1),
    states=st.booleans(),
    is_extreme=st.booleans(),
    seed=SEEDS,
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_gru(
    size: Any,
    data: Any,
    weights: DType,
    h: Any,
    last: Any,
    form: dict[str, Any],
    linear: int,
    states: bool,
    is_extreme: bool,
    seed: int,
) -> None:
    net, (steps, batch, features, units) = Net(seed, is_extreme=is_extreme), size
    first = (steps, batch) if form.get("time_major", True) else (batch, steps)
    x = net.input("x", (*first, features), *data)
    options = {"weights": weights, "h": h, "last": last, "states": states}
    gru(net, "n", x, units, linear_before_reset=linear, **options, **form)
    net.check([GRU], REGISTRY)


@pytest.mark.parametrize("linear", [0, 1])
@pytest.mark.parametrize("batch", [1, 3])
def test_both_directions_of_gru(linear: int, batch: int) -> None:
    net = Net(3)
    options = {"h": (U8, (0.006, 120)), "linear_before_reset": linear}
    both_directions(net, "Gru", (6, batch, 9), 5, **options)
    net.check([GRU], REGISTRY)


RARE = [
    {"coupled": True},
    {"coupled": True, "states": True, "peepholes": S16, "projection": 3},
    {"peepholes": S16, "states": True},
    {"peepholes": U8, "direction": 1},
    {"projection": 3, "output_clip_threshold": 0.4, "states": True},
    {"projection": 9, "hidden_state_qscale": 1 / 127, "hidden_state_offset": -128.0},
    {"projection": 3, "peepholes": S16, "cell_clip_threshold": 0.8},
    {"norms": True, "input_gate_qscale": 0.001, "cell_gate_qscale": 0.0007},
    {"norms": True, "peepholes": S16, "coupled": True, "projection": 3, "output_gate_qscale": 0.01},
    {"norms": True, "peepholes": S16, "states": True, "reset": True, "output_gate_qscale": 0.003},
    {"reset": True, "states": True},
    {"reset": True, "peepholes": S16, "projection": 4},
]


@pytest.mark.parametrize("options", RARE)
@pytest.mark.parametrize("h", [(U8, (1 / 128, 128)), (S8, (0.003, 17)), (S16, (2.0**-15, 0))])
@pytest.mark.parametrize("cell", [(S16, 2.0**-12, 0), (S16, 0.0003, 77), (U8, 0.007, 109)])
@pytest.mark.parametrize("is_extreme", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_rare_inputs(options: Any, h: Any, cell: Any, is_extreme: bool, batch: int) -> None:
    net = Net(8, is_extreme=is_extreme)
    if options.get("hidden_state_offset") and h[0] is not U8:
        options = {**options, "hidden_state_offset": 0.0}
    x = net.input("x", (4, batch, 7), U8, (0.02, 100))
    lstm(net, "n", x, 6, weights=S8, h=h, cell=cell, **options)
    net.check([LSTM], REGISTRY)


WIDE_GRIDS = [(2.0**-15, 0), (0.00004, 30000), (0.0001, -5)]


@pytest.mark.parametrize("types", [(U16, U16), (S16, S16), (U8, S16), (U16, U8)])
@pytest.mark.parametrize("grid", WIDE_GRIDS)
@pytest.mark.parametrize(
    ("op_type", "form"), [("Lstm", {}), *(("Gru", {"linear_before_reset": i}) for i in (0, 1))]
)
@pytest.mark.parametrize("is_extreme", [False, True])
def test_words(types: Any, grid: Any, op_type: str, form: Any, is_extreme: bool) -> None:
    net = Net(5, is_extreme=is_extreme)
    x, h = net.input("x", (4, 3, 7), types[0], (0.0001, 200)), (types[1], grid)
    options = {"weights": S8, "h": h, "last": h, "states": True} | form
    if op_type == "Lstm":
        lstm(net, "n", x, 6, cell=(S16, 2.0**-12, 0), **options)
    else:
        gru(net, "n", x, 6, **options)
    net.check([LSTM if op_type == "Lstm" else GRU], REGISTRY)


@pytest.mark.parametrize(
    ("scale", "is_apart"),
    [
        (2.0**-7, True),
        (2.0**-8, True),
        (0.003, True),
        (0.0051, True),
        (0.0078, False),
        (0.02, False),
    ],
)
@pytest.mark.parametrize("zero", [0, 127, 128])
def test_products_next_to_ties(scale: float, is_apart: bool, zero: int) -> None:
    spec = Spec(U8, (), ScaleOffset(scale, -zero))
    step, _, limits = grid_of(spec)
    ties = np.arange(limits[0], limits[1]) + 0.5 - zero
    numbers = np.add.outer(np.rint(ties * step * 2.0**30), np.arange(-1, 2)).astype(np.int64)
    found = [(d, int(n) // d) for n in numbers.ravel() if (d := _factor(int(n)))]
    assert len(found) > 3
    gate, value = np.array(found, np.float64).T[:, None, None] / 2.0**15
    grids, index = Grids([spec], gate.shape), np.empty(gate.shape, np.int64)
    assert grids.is_apart is is_apart
    steps = gate * (value / step) if grids.is_apart else gate * value * grids.per_unit
    for call in grids.rounding(steps, is_any_order=grids.is_apart)(index):
        call()
    expected = rounded(gate * value * 2.0**30 * (UNIT * UNIT / step), spec)
    np.testing.assert_array_equal(index.clip(*limits), expected)


def _factor(number: int) -> int:
    """Return a factor such that it and the other one are at most 2**15, or 0."""
    factors = np.arange(1, 2**15 + 1)
    fitting = factors[(number % factors == 0) & (abs(number) <= factors << 15)]
    return int(fitting[0]) if fitting.size else 0


def test_a_sum_that_loses_a_fraction_to_its_zero_point() -> None:
    """The definition adds the zero point first: half a step and a little become a tie."""
    net, step = Net(1), 2.0**16
    x = net.input("x", (1, 1, 2), U8, (0.02, 100))
    lstm(net, "n", x, 1, weights=S8, h=(U8, (0.01, 100)), cell=(U16, step, 40000), states=True)
    tensors = net.graph.tensors
    tensors["n.c"].encoding = ScaleOffset(step, 0)
    net.feeds |= {name: np.full_like(net.feeds[name], 100) for name in ("x", "n.h")}  # 0, real
    net.feeds["n.c"] = np.ones((1, 1), np.int16)
    # forgetting half of it; the new value is far below a step: sigmoid(-8) * tanh(2**-12)
    for bias, argument in (("n.7", 0.0), ("n.8", 2.0**-12), ("n.21", -8.0)):
        tensors[bias].data = Tensor.static(bias, np.array([argument * 1e6], np.int32), S32).data
    net.check([LSTM], REGISTRY)
