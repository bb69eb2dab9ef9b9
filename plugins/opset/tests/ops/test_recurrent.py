"""Recurrent layers against their equations, one unit at a time, in Python's numbers."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Graph, ScaleOffset, Spec, Tensor, TensorKind, quantize
from dovetail.ops import simulate
from dovetail_opset import PACKAGE
from dovetail_opset.build import add_all
from dovetail_opset.ops.recurrent import Direction, Lstm

Run = Callable[..., Any]
# float32 against float64: a handful of steps, each of sums of a dozen products
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def squash(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def row_times(matrix: Array | None, row: int, vector: Sequence[float]) -> float:
    if matrix is None:
        return 0.0
    return sum(float(w) * v for w, v in zip(matrix[row], vector, strict=True))


def at(vector: Array | None, i: int) -> float:
    return 0.0 if vector is None else float(vector[i])


def settle(sums: list[float], norm: Array | None, bias: Array) -> list[float]:
    if norm is not None:
        mean = sum(sums) / len(sums)
        deviation = math.sqrt(sum((s - mean) ** 2 for s in sums) / len(sums) + 1e-8)
        sums = [(s - mean) / deviation * float(n) for s, n in zip(sums, norm, strict=True)]
    return [s + float(b) for s, b in zip(sums, bias, strict=True)]


def lstm_step(
    ins: Sequence[Array | None], x: Sequence[float], h: list[float], c: list[float], **clips: float
) -> tuple[list[float], list[float], dict[str, list[float]]]:
    units = range(len(c))

    def sums(w: int, r: int, cell: Sequence[float] | None = None, peephole: int = 0) -> list[float]:
        seen = [0.0 if cell is None else cell[j] * at(ins[peephole], j) for j in units]
        return [row_times(ins[w], j, x) + row_times(ins[r], j, h) + seen[j] for j in units]

    f = [squash(s) for s in settle(sums(1, 4, c, 19), ins[13], ins[7])]
    if ins[16] is None:
        i = [1 - v for v in f]
    else:
        i = [squash(s) for s in settle(sums(16, 17, c, 18), ins[12], ins[21])]
    g = [math.tanh(s) for s in settle(sums(2, 5), ins[14], ins[8])]
    c = [f[j] * c[j] + i[j] * g[j] for j in units]
    if limit := clips.get("cell_clip_threshold", 0):
        c = [max(-limit, min(limit, v)) for v in c]
    o = [squash(s) for s in settle(sums(3, 6, c, 20), ins[15], ins[9])]
    new = [o[j] * math.tanh(c[j]) for j in units]
    if ins[22] is not None:
        new = [row_times(ins[22], j, new) + at(ins[23], j) for j in range(len(ins[22]))]
        if limit := clips.get("output_clip_threshold", 0):
            new = [max(-limit, min(limit, v)) for v in new]
    return new, c, {"i": i, "f": f, "g": g, "o": o}


def lstm(
    ins: Sequence[Array | None], *, time_major: bool = True, direction: int = 0, **clips: float
) -> list[Array]:
    x = ins[0]
    steps = x[None] if x.ndim == 2 else x if time_major else x.swapaxes(0, 1)
    size, units = ins[4].shape[1], len(ins[1])
    result = np.zeros((*steps.shape[:2], size))
    last: list[list[Any]] = []
    for n in range(steps.shape[1]):
        h = [at(None if ins[10] is None else ins[10][n], j) for j in range(size)]
        c = [at(None if ins[11] is None else ins[11][n], j) for j in range(units)]
        order = range(len(steps))
        for t in reversed(order) if direction else order:
            h, c, gates = lstm_step(ins, [float(v) for v in steps[t, n]], h, c, **clips)
            result[t, n] = h
        last.append([c, h, gates["i"], gates["f"], gates["g"], gates["o"], h])
    if x.ndim == 2:
        result = result[0]
    elif not time_major:
        result = result.swapaxes(0, 1)
    return [result, *(np.array(column) for column in zip(*last, strict=True))]


def lstm_inputs(
    rng: np.random.Generator, x: tuple[int, ...], units: int, batch: int, parts: Sequence[str] = ()
) -> list[Array | None]:
    """Return inputs for a layer with some of its parts."""
    size = 2 if "projection" in parts else units
    of_x, of_h, each = (units, x[-1]), (units, size), (units,)
    shapes: dict[int, tuple[int, ...]] = {0: x}
    shapes |= dict.fromkeys((1, 2, 3), of_x) | dict.fromkeys((4, 5, 6), of_h)
    shapes |= dict.fromkeys((7, 8, 9), each)
    if "states" in parts:
        shapes |= {10: (batch, size), 11: (batch, units)}
    if "norms" in parts:
        shapes |= dict.fromkeys((13, 14, 15), each)
    if "input" in parts:
        shapes |= {16: of_x, 17: of_h, 21: each}
        shapes |= {12: each} if "norms" in parts else {}
    if "peepholes" in parts:
        shapes |= {19: each, 20: each}
        shapes |= {18: each} if "input" in parts else {}
    if "projection" in parts:
        shapes |= {22: (size, units), 23: (size,)}
    return [rng.standard_normal(shapes[i], np.float32) if i in shapes else None for i in range(24)]


ALL = ("input", "states", "norms", "peepholes", "projection")


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("shape", ["time", "batch", "step"])
@pytest.mark.parametrize(
    "parts", [(), ("input",), ("states", "norms"), ("peepholes",), ("input", "projection"), ALL]
)
def test_lstm(
    run_op: Run, rng: np.random.Generator, parts: tuple[str, ...], shape: str, direction: int
) -> None:
    x = {"time": (4, 3, 5), "batch": (3, 4, 5), "step": (3, 5)}[shape]
    ins = lstm_inputs(rng, x, 4, 3, parts)
    params = {"time_major": shape != "batch", "direction": direction}
    found, wanted = run_op("Lstm", *ins, **params), lstm(ins, **params)
    assert len(found) == 8
    for i, (have, want) in enumerate(zip(found, wanted, strict=True)):
        assert have.dtype == np.float32
        np.testing.assert_allclose(have, want, err_msg=f"out[{i}]", strict=False, **TOLERANCE)
        assert have.shape == want.shape


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("parts", [(), ("input", "projection"), ALL])
def test_states_are_the_last_ones_of_shorter_sequences(
    run_op: Run, rng: np.random.Generator, parts: tuple[str, ...], direction: Direction
) -> None:
    ins = lstm_inputs(rng, (4, 3, 5), 4, 3, parts)
    x, params = ins[0], {"direction": direction, "cell_clip_threshold": 0.7}
    found = PACKAGE.schemas["Lstm"].states(Lstm(**params), ins)
    starts = [x[4 - n :] if direction else x[:n] for n in range(4)]
    wanted = [run_op("Lstm", start, *ins[1:], **params)[1] for start in starts]
    np.testing.assert_allclose(found[1], wanted["states" not in parts :], **TOLERANCE)
    np.testing.assert_array_equal(found.get(0), ins[10])


def test_clipping(run_op: Run, rng: np.random.Generator) -> None:
    params = {"cell_clip_threshold": 0.25, "output_clip_threshold": 0.125}
    ins = lstm_inputs(rng, (5, 2, 3), 6, 2, ("input", "states", "projection"))
    found, wanted = run_op("Lstm", *ins, **params), lstm(ins, **params)
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(have, want, **TOLERANCE)
    assert np.abs(found[1]).max() == 0.25
    assert np.abs(found[0]).max() == 0.125
    # without a projection nothing but the cell is clipped
    ins = lstm_inputs(rng, (5, 2, 3), 6, 2, ("input",))
    alone = run_op("Lstm", *ins, output_clip_threshold=0.125)
    np.testing.assert_array_equal(alone[0], run_op("Lstm", *ins)[0])


def test_lstm_of_large_sums_does_not_overflow(run_op: Run, rng: np.random.Generator) -> None:
    ins = lstm_inputs(rng, (2, 1, 3), 3, 1, ("input",))
    ins[7] = np.array([1e4, -1e4, 0], np.float32)
    with np.errstate(all="raise", under="ignore"):
        found = run_op("Lstm", *ins)
    np.testing.assert_array_equal(found[4][0, :2], [1, 0])


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 2, 0)])
def test_empty_sequences(run_op: Run, rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    ins = lstm_inputs(rng, shape, 4, shape[1], ("input", "states"))
    out, c, h, *gates = run_op("Lstm", *ins)
    assert out.shape == (*shape[:2], 4)
    if not shape[0]:
        np.testing.assert_array_equal(h, ins[10])
        np.testing.assert_array_equal(c, ins[11])
        assert not any(gate.any() for gate in gates[:4])
    if not shape[2]:
        np.testing.assert_allclose(out, lstm(ins)[0], **TOLERANCE)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("op_type", ["Lstm", "Gru"])
def test_other_floats(
    run_op: Run, rng: np.random.Generator, op_type: str, dtype: type[np.generic]
) -> None:
    if op_type == "Lstm":
        ins = lstm_inputs(rng, (3, 2, 3), 4, 2, ("input", "states"))
    else:
        ins = gru_inputs(rng, (3, 2, 3), 4, 2)
    ins = [None if x is None else x.astype(dtype) for x in ins]
    wide = [None if x is None else x.astype(np.float64) for x in ins]
    found = run_op(op_type, *ins)
    wanted = lstm(wide) if op_type == "Lstm" else gru(wide)
    tolerance = 1e-12 if dtype is np.float64 else 2e-3  # half a unit of float16 at 1 is 5e-4
    for have, want in zip(found, wanted, strict=True):
        assert have.dtype == dtype
        np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)


def test_fixed_point(rng: np.random.Generator) -> None:
    schema = PACKAGE.schemas["Lstm"]
    real = lstm_inputs(rng, (3, 2, 3), 4, 2, ("input",))
    encoding = ScaleOffset(2**-5, -128)
    specs = [None if x is None else Spec(DType.UFIXED_POINT_8, x.shape, encoding) for x in real]
    stored = [None if x is None else quantize(x, encoding, DType.UFIXED_POINT_8) for x in real]
    near = [None if q is None else (q.astype(np.float64) - 128) * 2**-5 for q in stored]
    out = ScaleOffset(2**-14, 0)
    op = schema.bind({}, specs)
    declared = [Spec(DType.SFIXED_POINT_16, (3, 2, 4), out), None, None, *[None] * 5]
    outs = schema.infer(op, (*specs, None), declared)
    assert [s.dtype for s in outs[:2]] == [DType.SFIXED_POINT_16, DType.UFIXED_POINT_8]
    (found,) = simulate(schema, op, (*stored, None), (*specs, None), outs[:1])
    # half a step of the output, and float32's error
    np.testing.assert_allclose(found * 2.0**-14, lstm(near)[0], atol=2**-15 + 1e-5)


def gru(
    ins: Sequence[Array | None],
    *,
    time_major: bool = True,
    direction: int = 0,
    linear_before_reset: int = 0,
) -> list[Array]:
    steps = ins[0] if time_major else ins[0].swapaxes(0, 1)
    units = len(ins[1])
    result, last = np.zeros((*steps.shape[:2], units)), np.zeros((1, steps.shape[1], units))
    for n in range(steps.shape[1]):
        h = [at(None if ins[13] is None else ins[13][0, n], j) for j in range(units)]
        order = range(len(steps))
        for t in reversed(order) if direction else order:
            x = [float(v) for v in steps[t, n]]
            of_x = [
                [row_times(ins[1 + g], j, x) + at(ins[7 + g], j) for j in range(units)]
                for g in range(3)
            ]
            of_h = [
                [row_times(ins[4 + g], j, h) + at(ins[10 + g], j) for j in range(units)]
                for g in range(3)
            ]
            z, r = (
                [squash(a + b) for a, b in zip(of_x[g], of_h[g], strict=True)] for g in range(2)
            )
            if linear_before_reset:
                inner = [r[j] * of_h[2][j] for j in range(units)]
            else:
                dimmed = [r[j] * h[j] for j in range(units)]
                inner = [row_times(ins[6], j, dimmed) + at(ins[12], j) for j in range(units)]
            fresh = [math.tanh(of_x[2][j] + inner[j]) for j in range(units)]
            h = [(1 - z[j]) * fresh[j] + z[j] * h[j] for j in range(units)]
            result[t, n] = h
        last[0, n] = h
    return [result if time_major else result.swapaxes(0, 1), last]


def gru_inputs(
    rng: np.random.Generator,
    x: tuple[int, ...],
    units: int,
    batch: int,
    left_out: Sequence[int] = (),
) -> list[Array | None]:
    shapes = [x, *[(units, x[-1])] * 3, *[(units, units)] * 3, *[(units,)] * 6, (1, batch, units)]
    return [
        None if i in left_out else rng.standard_normal(shape, np.float32)
        for i, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize("linear", [0, 1, 7])
@pytest.mark.parametrize("left_out", [(), (7, 9, 11, 13), range(7, 14)])
def test_gru(
    run_op: Run,
    rng: np.random.Generator,
    left_out: Sequence[int],
    linear: int,
    time_major: bool,
    direction: int,
) -> None:
    ins = gru_inputs(rng, (4, 2, 3) if time_major else (2, 4, 3), 5, 2, left_out)
    params = {"direction": direction, "time_major": time_major, "linear_before_reset": linear}
    found, wanted = run_op("Gru", *ins, **params), gru(ins, **params)
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(have, want, **TOLERANCE)
        assert have.shape == want.shape


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 2, 0)])
def test_empty_gru(run_op: Run, rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    ins = gru_inputs(rng, shape, 4, shape[1])
    for have, want in zip(run_op("Gru", *ins), gru(ins), strict=True):
        np.testing.assert_allclose(
            have, want if shape[0] else np.resize(ins[13], want.shape), **TOLERANCE
        )


@pytest.mark.parametrize("op_type", ["Lstm", "Gru"])
def test_reset(rng: np.random.Generator, op_type: str) -> None:
    schema = PACKAGE.schemas[op_type]
    ins = lstm_inputs(rng, (6, 2, 3), 4, 2, ("input", "states"))
    ins = ins if op_type == "Lstm" else gru_inputs(rng, (6, 2, 3), 4, 2)

    def runner() -> Callable[[Array, bool | None], tuple[Array, ...]]:
        op = schema.bind({}, [])

        def run(x: Array, reset: bool | None) -> tuple[Array, ...]:
            flag = None if reset is None else np.array(reset)
            given = [x, *ins[1:], flag]
            specs = [None if a is None else Spec(DType.of(a.dtype), a.shape) for a in given]
            outs = schema.infer(op, specs, ())
            results = simulate(schema, op, given, specs, outs)
            kept = tuple(r.copy() for r in results)
            for result in results:
                result[...] = np.nan  # what is kept between calls is not what was given away
            return kept

        return run

    run, other = runner(), runner()
    whole = runner()(ins[0], None)[0]
    first = run(ins[0][:2], False)[0]  # nothing to go on with: the initial states
    run_on = run(ins[0][2:], False)[0]
    np.testing.assert_allclose(np.concatenate([first, run_on]), whole, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(run(ins[0][:2], True)[0], first)
    # another op, that is another prepared graph, remembers nothing of it
    np.testing.assert_array_equal(other(ins[0][:2], False)[0], first)
    assert not schema.op.is_pure


def test_outputs_may_be_left_out(rng: np.random.Generator, evaluate: Run) -> None:
    graph = Graph("few")
    ins = lstm_inputs(rng, (2, 1, 3), 4, 1)
    tensors = [None if a is None else Tensor.static(f"x{i}", a) for i, a in enumerate(ins)]
    for tensor in filter(None, tensors):
        graph.add_tensor(tensor)
    outs = add_all(graph, "Lstm", tensors, name="op", outputs=["y", "c", "h"])
    outs[0].kind = TensorKind.APP_READ
    np.testing.assert_allclose(evaluate(graph, {})["y"], lstm(ins)[0], **TOLERANCE)


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({0: zeros(2, 3, 4, 5)}, ["in[0] must have rank 2 or 3, but its shape is (2, 3, 4, 5)"]),
        ({0: np.zeros((2, 1, 3), np.int32)}, ["different types: INT_32 and FLOAT_32"]),
        ({1: zeros(4)}, ["the weights in[1] must have rank 2, but their shape is (4,)"]),
        ({2: zeros(4, 9)}, ["in[2] has shape (4, 9); it must be (4, 3)"]),
        ({5: zeros(4, 9), 9: zeros(3)}, ["in[5] has shape (4, 9)", "in[9] has shape (3,)"]),
        ({10: zeros(1, 1, 4)}, ["in[10] has shape (1, 1, 4); it must be (1, 4)"]),
        ({16: zeros(4, 3)}, ["the input gate needs all", "in[17], in[21] is left out"]),
        ({13: zeros(4)}, ["layer normalization needs all", "in[14], in[15] is left out"]),
        ({19: zeros(4)}, ["peepholes needs all of in[19], in[20]", "in[20] is left out"]),
        ({18: zeros(4)}, ["in[18] must not be given"]),
        ({23: zeros(4)}, ["in[22], the projection, is left out"]),
        (
            {4: zeros(4, 2), 5: zeros(4, 2), 6: zeros(4, 2)},
            ["4 units give 2 outputs, which needs a projection in[22]"],
        ),
        ({24: zeros()}, ["in[24]", "BOOL_8"]),
    ],
)
def test_lstm_refusals(
    run_op: Run, rng: np.random.Generator, change: dict[int, Array], said: list[str]
) -> None:
    ins = [*lstm_inputs(rng, (2, 1, 3), 4, 1), None]
    for i, array in change.items():
        ins[i] = array
    with pytest.raises(Exception) as caught:  # noqa: PT011 - what it says is checked
        run_op("Lstm", *ins)
    for text in said:
        assert text in str(caught.value)


def test_the_input_gate_with_norms_needs_its_own(run_op: Run, rng: np.random.Generator) -> None:
    ins = lstm_inputs(rng, (2, 1, 3), 4, 1, ("input", "norms"))
    ins[12] = None
    with pytest.raises(OpError, match=r"in\[12\] must be given"):
        run_op("Lstm", *ins)


def test_a_threshold_below_0(run_op: Run, rng: np.random.Generator) -> None:
    with pytest.raises(OpError, match=r"cell_clip_threshold is -1\.0; it must not be negative"):
        run_op("Lstm", *lstm_inputs(rng, (2, 1, 3), 4, 1), cell_clip_threshold=-1.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({0: zeros(2, 3)}, "in[0] must have rank 3, but its shape is (2, 3)"),
        ({3: zeros(4, 4)}, "in[3] has shape (4, 4); it must be (4, 3)"),
        ({6: zeros(4, 3)}, "in[6] has shape (4, 3); it must be (4, 4)"),
        ({12: zeros(3)}, "in[12] has shape (3,); it must be (4,)"),
        ({13: zeros(1, 4)}, "in[13] has shape (1, 4); it must be (1, 1, 4)"),
    ],
)
def test_gru_refusals(
    run_op: Run, rng: np.random.Generator, change: dict[int, Array], said: str
) -> None:
    ins = gru_inputs(rng, (2, 1, 3), 4, 1)
    for i, array in change.items():
        ins[i] = array
    with pytest.raises(OpError) as caught:
        run_op("Gru", *ins)
    assert said in str(caught.value)


def test_whole_numbers_are_no_layer(run_op: Run) -> None:
    ins = [np.zeros(s, np.int32) for s in ((2, 1, 3), *[(4, 3)] * 3, *[(4, 4)] * 3)]
    with pytest.raises(OpError, match="INT_32; it must be a float or fixed-point type"):
        run_op("Gru", *ins)
