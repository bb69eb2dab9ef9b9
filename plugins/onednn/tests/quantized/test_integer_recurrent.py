"""Recurrent layers on stored integers with products on oneDNN: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from instruction_limits import examples
from recurrent_layers import GRU, LSTM, S8, S16, U8, Net, both_directions, gru, lstm

from dovetail.ir import DType
from dovetail_numpy import KERNELS
from dovetail_onednn import onednn_kernels, reorder
from dovetail_onednn.quantized import recurrent

TYPES = st.sampled_from([U8, S8])
SIZES = st.sampled_from([(1, 1, 3, 4), (5, 1, 24, 32), (4, 3, 5, 6), (2, 14, 70, 130)])
FORMS = st.sampled_from([{}, {"direction": 1}, {"time_major": False, "direction": 1}])
STATES = st.tuples(TYPES, st.sampled_from([(1 / 128, 128), (0.003, 17), (0.05, -128), (0.02, 255)]))
CELL = (S16, 0.0003, 0)


def check(net: Net, module: str) -> None:
    kernels = onednn_kernels("test").with_fallback(KERNELS.for_backend("test"))
    net.check([module], kernels, reorder=reorder)


@pytest.fixture(autouse=True)
def only_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no product run on NumPy."""

    def refuse(*_: object) -> None:
        raise AssertionError("a product on NumPy")

    for name in ("StepProducts", "InputProducts"):
        monkeypatch.setattr(recurrent, name, refuse)


@pytest.mark.parametrize("op_type", ["Lstm", "Gru", "linear Gru"])
@given(
    size=SIZES,
    data=st.tuples(TYPES, st.sampled_from([(0.02, 123), (0.7, 0), (0.004, 255)])),
    weights=TYPES,
    h=STATES,
    form=FORMS,
    states=st.booleans(),
    is_extreme=st.booleans(),
    seed=st.integers(0, 9),
)
@examples(100)
def test_layers(
    op_type: str,
    size: Any,
    data: Any,
    weights: DType,
    h: Any,
    form: dict[str, Any],
    states: bool,
    is_extreme: bool,
    seed: int,
) -> None:
    net, (steps, batch, features, units) = Net(seed, is_extreme=is_extreme), size
    first = (steps, batch) if form.get("time_major", True) else (batch, steps)
    x = net.input("x", (*first, features), *data)
    options = {"weights": weights, "h": h, "last": h, "states": states} | form
    if op_type == "Lstm":
        lstm(net, "n", x, units, cell=CELL, **options)
    else:
        gru(net, "n", x, units, linear_before_reset=int(op_type != "Gru"), **options)
    check(net, LSTM if op_type == "Lstm" else GRU)


@pytest.mark.parametrize("shape", [(6, 1, 9), (6, 3, 9), (3, 6, 9)])
@pytest.mark.parametrize("op_type", ["Lstm", "Gru", "linear Gru"])
@pytest.mark.parametrize("is_extreme", [False, True])
def test_both_directions(shape: Any, op_type: str, is_extreme: bool) -> None:
    net, h = Net(3, is_extreme=is_extreme), (U8, (0.006, 120))
    if op_type == "Lstm":
        options: dict[str, Any] = {"cells": [CELL, (U8, 0.007, 109)], "time_major": shape[0] == 6}
    else:
        options = {"linear_before_reset": int(op_type != "Gru")}
    both_directions(net, op_type.split()[-1], shape, 5, h=h, **options)
    check(net, LSTM if op_type == "Lstm" else GRU)


@pytest.mark.parametrize(
    "options", [{"coupled": True}, {"projection": 3}, {"reset": True}, {"states": True}]
)
@pytest.mark.parametrize("batch", [1, 3])
def test_rare_inputs(options: dict[str, Any], batch: int) -> None:
    net = Net(8)
    x = net.input("x", (4, batch, 7), U8, (0.02, 100))
    lstm(net, "n", x, 6, weights=S8, h=(U8, (0.003, 17)), cell=CELL, **options)
    check(net, LSTM)


@pytest.mark.parametrize("op_type", ["Lstm", "Gru", "linear Gru"])
@pytest.mark.parametrize("scale", [30.0, 1000.0, 60000.0])
def test_arguments_beyond_32_bits(op_type: str, scale: float) -> None:
    """Sums saturate, of either sign, however large they are."""
    net = Net(2)
    options: dict[str, Any] = {"weights": S8, "h": (U8, (scale / 128, 128)), "states": True}
    x = net.input("x", (6, 2, 24), U8, (scale, 128))
    if op_type == "Lstm":
        lstm(net, "n", x, 32, cell=CELL, **options)
    else:
        linear = int(op_type != "Gru")
        gru(net, "n", x, 32, last=options["h"], linear_before_reset=linear, **options)
    check(net, LSTM if op_type == "Lstm" else GRU)
