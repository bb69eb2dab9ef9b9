"""Recurrent layers against the references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.container import WeightStore
from dovetail.ops import OpRegistry
from dovetail.runtime.contract import RunControl
from dovetail.testing import prepare as prepare_on
from dovetail_cpu import CpuBackend, CpuOptions, EngineChoice
from dovetail_opset import PACKAGE

# a few steps, whose sums are of up to a dozen products in another order, and another tanh
TOLERANCE = {"rtol": 1e-4, "atol": 2e-6}
small = st.integers(1, 4)


def lstm_inputs(rng, x, batch, units, parts):
    """Return 24 inputs for a layer with these parts, None for missing ones."""
    size = 2 if "projection" in parts else units
    of_x, of_h, each = (units, x[-1]), (units, size), (units,)
    shapes = {0: x} | dict.fromkeys((1, 2, 3), of_x) | dict.fromkeys((4, 5, 6), of_h)
    shapes |= dict.fromkeys((7, 8, 9), each)
    if "h" in parts:
        shapes[10] = (batch, size)
    if "c" in parts:
        shapes[11] = (batch, units)
    if "input" in parts:
        shapes |= {16: of_x, 17: of_h, 21: each}
    if "peepholes" in parts:
        shapes |= {19: each, 20: each} | ({18: each} if "input" in parts else {})
    if "norms" in parts:
        shapes |= {13: each, 14: each, 15: each} | ({12: each} if "input" in parts else {})
    if "projection" in parts:
        shapes |= {22: (size, units)} | ({23: (size,)} if "bias" in parts else {})
    return [rng.standard_normal(shapes[i], np.float32) if i in shapes else None for i in range(24)]


# The weights are constant; the sequence and the states are inputs. Only required outputs.
LSTM = {"static": (*range(1, 10), *range(12, 24)), "outputs": ["out", "c", "h"], **TOLERANCE}
GRU = {"static": range(1, 13), **TOLERANCE}


@settings(max_examples=120)
@given(
    st.tuples(small, small, small, small),
    st.sampled_from(["time", "batch", "step"]),
    st.sets(st.sampled_from(["h", "c", "input", "peepholes", "projection", "bias"])),
    st.integers(0, 1),
    st.tuples(st.sampled_from([0.0, 0.5]), st.sampled_from([0.0, 0.25])),
    st.integers(0, 99),
)
def test_lstm(check_op, extents, form, parts, direction, limits, seed):
    steps, batch, features, units = extents
    lead = {"time": (steps, batch), "batch": (batch, steps), "step": (batch,)}[form]
    ins = lstm_inputs(np.random.default_rng(seed), (*lead, features), batch, units, parts)
    check_op(
        "Lstm",
        *ins,
        **LSTM,
        time_major=form != "batch",
        direction=direction,
        cell_clip_threshold=limits[0],
        output_clip_threshold=limits[1],
    )


def gru_inputs(rng, x, batch, units, left_out=()):
    shapes = [x, *[(units, x[-1])] * 3, *[(units, units)] * 3, *[(units,)] * 6, (1, batch, units)]
    return [
        None if i in left_out else rng.standard_normal(shape, np.float32)
        for i, shape in enumerate(shapes)
    ]


@settings(max_examples=100)
@given(
    st.tuples(small, small, small, small),
    st.booleans(),
    st.sets(st.integers(7, 13)),
    st.integers(0, 1),
    st.integers(0, 1),
    st.integers(0, 99),
)
def test_gru(check_op, extents, time_major, left_out, direction, linear, seed):
    steps, batch, features, units = extents
    x = (steps, batch, features) if time_major else (batch, steps, features)
    ins = gru_inputs(np.random.default_rng(seed), x, batch, units, left_out)
    params = {"direction": direction, "time_major": time_major, "linear_before_reset": linear}
    check_op("Gru", *ins, **GRU, **params)


def test_gates_that_are_wide_open_and_shut(check_op):
    ins = lstm_inputs(np.random.default_rng(1), (3, 2, 3), 2, 4, {"input", "c"})
    ins[7], ins[21] = np.float32([200, -200, 1e4, -1e4]), np.float32([-1e4, 200, 0, 1e30])
    check_op("Lstm", *ins, **LSTM)


@pytest.mark.parametrize("parts", [{"norms"}, {"input", "norms"}])
def test_norms_are_left_to_the_reference(check_op, parts):
    ins = lstm_inputs(np.random.default_rng(1), (3, 2, 3), 2, 4, parts)
    check_op("Lstm", *ins, **LSTM, kernel=False)


def test_what_else_is_left_to_the_reference(check_op):
    rng = np.random.default_rng(1)
    ins = lstm_inputs(rng, (3, 2, 3), 2, 4, {"input"})
    check_op("Lstm", *ins, static=LSTM["static"], kernel=False)  # all eight outputs
    check_op("Lstm", *ins, static=(1, 2), outputs=LSTM["outputs"], kernel=False)
    gru = gru_inputs(rng, (3, 2, 3), 2, 4)
    check_op("Gru", *gru, kernel=False)
    check_op("Gru", *gru[:13], gru[13], np.array(True), static=GRU["static"], kernel=False)
    check_op("Gru", *(None if x is None else x.astype(np.float64) for x in gru), kernel=False)
    empty = gru_inputs(rng, (0, 2, 3), 2, 4)
    check_op("Gru", *empty, static=GRU["static"], kernel=False)


@pytest.mark.parametrize("op_type", ["Lstm", "Gru"])
def test_weights_are_packed_once_for_equal_ones_only(op_graph, op_type):
    rng = np.random.default_rng(1)
    if op_type == "Lstm":
        first, params = lstm_inputs(rng, (3, 2, 3), 2, 4, {"input"}), LSTM
    else:
        first, params = gru_inputs(rng, (3, 2, 3), 2, 4), GRU
    second = list(first)
    second[5] = first[5] + 1  # the store identifies packed weights by in[1]
    given = {k: v for k, v in params.items() if k not in TOLERANCE}
    ops, store = OpRegistry.of(PACKAGE), WeightStore()
    backend = CpuBackend(ops, CpuOptions(engine=EngineChoice.NUMPY))

    def forms(ins, **more):
        graph, _ = op_graph(op_type, ins, **given, **more)
        prepare_on(backend, graph, ops, weights=store)
        return len(store.forms)

    one = forms(first)
    assert forms(first, direction=1) == one
    assert forms(second) == 2 * one
    if op_type == "Gru":
        assert forms(second, linear_before_reset=1) == 3 * one


@pytest.mark.parametrize(("op_type", "states"), [("Lstm", (10, 11)), ("Gru", (13,))])
def test_runs_do_not_hang_together(op_graph, prepare, op_type, states):
    """Without given states each run starts from 0."""
    rng = np.random.default_rng(1)
    if op_type == "Lstm":
        ins = lstm_inputs(rng, (3, 2, 3), 2, 4, {"input"})
        graph, feeds = op_graph(op_type, ins, static=LSTM["static"], outputs=LSTM["outputs"])
    else:
        ins = gru_inputs(rng, (3, 2, 3), 2, 4, states)
        graph, feeds = op_graph(op_type, ins, static=GRU["static"])
    prepared = prepare(graph)
    found = []
    for scale in (1, 3, 1):
        outputs = {t.name: np.empty(t.shape, np.float32) for t in graph.outputs}
        prepared.run({"x0": feeds["x0"] * np.float32(scale)}, outputs, RunControl())
        found.append(outputs)
    for name, out in found[0].items():
        assert not np.array_equal(out, found[1][name])
        np.testing.assert_array_equal(out, found[2][name])
