"""Recurrent layers by definition: step by step in whole numbers, and close to real numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dovetail.ir import Array, AxisScaleOffset, DType, ScaleOffset, Spec
from dovetail.ops import NodeView
from dovetail_numpy.integer import DEFINITIONS, find_faults

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
S32 = DType.SFIXED_POINT_32

Make = Callable[..., NodeView]
Run = Callable[..., list[Array]]

STEPS, BATCH, FEATURES, UNITS, OUTPUTS = 5, 2, 6, 4, 3


def random(rng: np.random.Generator, spec: Spec) -> Array:
    low, high = spec.dtype.stored_range()
    if spec.dtype is S32:
        low, high = -3000, 3000
    return rng.integers(low, high, spec.shape, np.int64, endpoint=True).astype(spec.dtype.storage)


def real(stored: Array, spec: Spec) -> Array:
    assert spec.encoding is not None
    scale, offset = spec.encoding.scales_and_offsets(spec.shape)
    return (stored.astype(np.float64) + offset) * scale.astype(np.float64)


def symmetric(dtype: DType, limit: float, *shape: int) -> Spec:
    """Return the spec of a range around 0."""
    low, high = dtype.stored_range()
    return Spec(dtype, shape, ScaleOffset(2 * limit / (high - low), -((low + high + 1) // 2)))


def lstm_specs(
    x: DType, w: DType, h: DType, *, kinds: tuple[str, ...]
) -> tuple[list[Spec | None], list[Spec]]:
    size = OUTPUTS if "projection" in kinds else UNITS
    state = symmetric(h, 1.0, BATCH, size)
    specs: list[Spec | None] = [None] * 24
    specs[0] = symmetric(x, 2.0, STEPS, BATCH, FEATURES)
    gates = [(1, 4, 7, 13, 19), (2, 5, 8, 14, None), (3, 6, 9, 15, 20)]
    gates += [] if "coupled" in kinds else [(16, 17, 21, 12, 18)]
    for weights, recurrent, bias, norm, peephole in gates:
        specs[weights] = symmetric(w, 0.9, UNITS, FEATURES)
        specs[recurrent] = symmetric(w, 0.9, UNITS, size)
        specs[bias] = Spec(S32, (UNITS,), ScaleOffset(1e-4))
        if "norm" in kinds:
            specs[norm] = symmetric(S16, 1.5, UNITS)
        if "peephole" in kinds and peephole is not None:
            specs[peephole] = symmetric(S16, 0.7, UNITS)
    if "state" in kinds:
        specs[10] = symmetric(x, 0.9, BATCH, size)
        specs[11] = symmetric(S16, 2.0, BATCH, UNITS)
    if "projection" in kinds:
        specs[22] = symmetric(w, 0.9, OUTPUTS, UNITS)
        specs[23] = Spec(S32, (OUTPUTS,), ScaleOffset(1e-4))
    if "axis" in kinds:
        scales = np.linspace(0.004, 0.008, UNITS, dtype=np.float32)
        specs[1] = Spec(S8, (UNITS, FEATURES), AxisScaleOffset(0, scales))
    cell = Spec(S16, (BATCH, UNITS), ScaleOffset(2.0**-12))
    outs = [symmetric(h, 1.0, STEPS, BATCH, size), cell, state]
    return specs, outs


VARIANTS: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    ((), {}),
    (("coupled", "state"), {"direction": 1}),
    (("peephole", "axis"), {"cell_clip_threshold": 0.8}),
    (("projection",), {"output_clip_threshold": 0.4}),
    (("projection",), {"hidden_state_qscale": 1 / 127, "hidden_state_offset": -128}),
    (("norm", "state"), {"input_gate_qscale": 0.001, "cell_gate_qscale": 0.0007}),
    (("norm", "peephole", "coupled", "projection"), {}),
]


@pytest.mark.parametrize(("kinds", "params"), VARIANTS)
@pytest.mark.parametrize(("x", "w", "h"), [(U8, U8, U8), (U8, S8, U8), (U16, S8, U16)])
def test_lstm_is_close_to_real_numbers(
    node: Make,
    run_node: Run,
    rng: np.random.Generator,
    kinds: tuple[str, ...],
    params: dict[str, Any],
    x: DType,
    w: DType,
    h: DType,
) -> None:
    if params.get("hidden_state_offset") and h is U16:
        params = {**params, "hidden_state_qscale": 2.0**-15, "hidden_state_offset": -32768}
    specs, outs = lstm_specs(x, w, h, kinds=kinds)
    extra = [symmetric(S16, 1.0, *s) for s in [(BATCH, UNITS)] * 4 + [outs[2].shape]]
    outs = [*outs, *extra]
    stored = [None if s is None else random(rng, s) for s in specs]
    view = node("Lstm", specs, outs, **params)
    found = run_node(view, *stored)
    schema, op = view.definition
    numbers = [
        None if q is None or s is None else real(q, s) for q, s in zip(stored, specs, strict=True)
    ]
    wanted = schema.reference(op, numbers, outs)
    for q, expected, spec in zip(found, wanted, outs, strict=True):
        error = np.abs(real(q, spec) - expected)
        # h is on a grid of 8 bits in each step, and a norm divides by a deviation that may be small
        assert error.max() < (0.03 if h is U8 else 0.004), spec
    assert len(np.unique(found[0])) > 20


def single(x: float) -> Fraction:
    return Fraction(float(np.float32(x)))


def rounded(x: Fraction) -> Fraction:
    return Fraction(float(np.float32(float(x))))


def test_lstm_in_whole_numbers(node: Make, run_node: Run, rng: np.random.Generator) -> None:
    specs, outs = lstm_specs(U8, U8, U8, kinds=())
    stored = [None if s is None else random(rng, s) for s in specs]
    found = run_node(node("Lstm", specs, outs), *stored)

    def level(port: int) -> Array:
        spec, q = specs[port], stored[port]
        assert q is not None
        assert spec is not None
        assert isinstance(spec.encoding, ScaleOffset)
        return q.astype(np.int64) + spec.encoding.offset

    def scale(spec: Spec | None) -> float:
        assert spec is not None
        assert isinstance(spec.encoding, ScaleOffset)
        return spec.encoding.scale

    def argument(gate: tuple[int, int, int], row: int, unit: int, h: Array) -> int:
        weights, recurrent, bias = gate
        accs = [level(0)[time, row] @ level(weights)[unit], h[row] @ level(recurrent)[unit]]
        steps = [
            scale(specs[0]) * scale(specs[weights]) * 4096,
            scale(outs[0]) * scale(specs[recurrent]) * 4096,
        ]
        v = rounded(Fraction(int(accs[0])) * single(steps[0]))
        v = rounded(v + single(int(level(bias)[unit]) * scale(specs[bias]) * 4096))
        v = rounded(v + rounded(Fraction(int(accs[1])) * single(steps[1])))
        return min(max(round(v), -32768), 32767)

    h, c = np.zeros((BATCH, UNITS), np.int64), np.zeros((BATCH, UNITS), np.int64)
    expected = np.empty(outs[0].shape, np.int64)
    for time in range(STEPS):
        before = h.copy()
        for row, unit in np.ndindex(BATCH, UNITS):
            i, f, g, o = (
                argument(gate, row, unit, before)
                for gate in ((16, 17, 21), (1, 4, 7), (2, 5, 8), (3, 6, 9))
            )
            i, f, o = (round(32768 / (1 + math.exp(-a / 4096))) for a in (i, f, o))
            g = round(32768 * math.tanh(g / 4096))
            exact = Fraction(f * int(c[row, unit]), 2**15) + Fraction(i * g, 2**30) * 4096
            c[row, unit] = min(max(round(exact), -32768), 32767)
            t = round(32768 * math.tanh(c[row, unit] / 4096))
            h[row, unit] = min(max(round(o * t / 2**30 / scale(outs[0])), -128), 127)
        expected[time] = h + 128
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], c)
    np.testing.assert_array_equal(found[2], expected[-1])


@pytest.mark.parametrize("linear", [0, 1])
@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize(("x", "w", "h"), [(U8, U8, U8), (S16, S8, S16)])
def test_gru_is_close_to_real_numbers(
    node: Make,
    run_node: Run,
    rng: np.random.Generator,
    linear: int,
    direction: int,
    x: DType,
    w: DType,
    h: DType,
) -> None:
    specs: list[Spec] = [symmetric(x, 2.0, BATCH, STEPS, FEATURES)]
    specs += [symmetric(w, 0.9, UNITS, FEATURES)] * 3 + [symmetric(w, 0.9, UNITS, UNITS)] * 3
    specs += [Spec(S32, (UNITS,), ScaleOffset(1e-4))] * 6 + [symmetric(x, 1.0, 1, BATCH, UNITS)]
    outs = [symmetric(h, 1.0, BATCH, STEPS, UNITS), symmetric(h, 1.0, 1, BATCH, UNITS)]
    stored = [random(rng, s) for s in specs]
    params = {"linear_before_reset": linear, "direction": direction, "time_major": False}
    view = node("Gru", specs, outs, **params)
    found = run_node(view, *stored)
    schema, op = view.definition
    numbers = [real(q, s) for q, s in zip(stored, specs, strict=True)]
    wanted = schema.reference(op, numbers, outs)
    for q, expected, spec in zip(found, wanted, outs, strict=True):
        assert np.abs(real(q, spec) - expected).max() < (0.02 if h is U8 else 0.001)
    np.testing.assert_array_equal(found[1][0], found[0][:, 0 if direction else -1])


def test_state_is_kept_until_reset(node: Make, rng: np.random.Generator) -> None:
    specs, outs = lstm_specs(U8, S8, U8, kinds=())
    stored = [None if s is None else random(rng, s) for s in specs]
    flag = Spec(DType.BOOL_8, ())
    view = node("Lstm", [*specs, flag], outs)
    definition = DEFINITIONS.of(view)
    assert definition is not None
    run = definition.prepare(view)
    first, again, on, fresh = (
        run([*stored, np.array(reset)])[0].copy() for reset in (False, True, False, True)
    )
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, fresh)
    assert (on != first).any()
    # two runs of half the steps are one run of all
    half = list(specs)
    half[0] = symmetric(U8, 2.0, 2, BATCH, FEATURES)
    short = node("Lstm", [*half, flag], [symmetric(U8, 1.0, 2, BATCH, UNITS), *outs[1:]])
    definition = DEFINITIONS.of(short)
    assert definition is not None
    assert stored[0] is not None
    run = definition.prepare(short)
    parts = [run([stored[0][i : i + 2], *stored[1:], np.array(i == 0)])[0].copy() for i in (0, 2)]
    np.testing.assert_array_equal(np.concatenate(parts), first[:4])


@pytest.mark.parametrize(
    "params",
    [
        {"hidden_state_offset": float("nan")},
        {"hidden_state_offset": 0.5},
        {"input_gate_qscale": 1e-30},
    ],
)
def test_impossible_grids_are_not_defined(node: Make, params: dict[str, Any]) -> None:
    specs, outs = lstm_specs(U8, S8, U8, kinds=("projection",))
    assert DEFINITIONS.of(node("Lstm", specs, outs, **params)) is None


def test_sums_that_may_overflow_are_found(node: Make) -> None:
    specs, outs = lstm_specs(U8, S8, U8, kinds=())
    assert find_faults(node("Lstm", specs, outs)) == []
    count = 2**17
    wide = list(specs)
    wide[0] = symmetric(U8, 2.0, STEPS, BATCH, count)
    for i in (1, 2, 3, 16):
        wide[i] = symmetric(S8, 0.9, UNITS, count)
    inputs: list[Any] = [*wide[:3], (wide[3], np.ones((UNITS, count), np.int8)), *wide[4:]]
    faults = find_faults(node("Lstm", inputs, outs))
    assert [(f.rule, f.field) for f in faults] == [("accumulator", f"in[{i}]") for i in (1, 2, 16)]
    assert str(128 * 128 * count) in faults[0].found
