"""Tables of functions: against formulas on real values, at the edges of types and encodings."""

import math

import numpy as np
import pytest

from dovetail.ir import AxisScaleOffset, DType, ScaleOffset, Spec
from dovetail_numpy.integer.tables import HardSwish, look_up

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
S4 = DType.SFIXED_POINT_4


def every(dtype):
    low, high = dtype.stored_range()
    return np.arange(low, high + 1).astype(dtype.storage)


# plain Python, which has its own library of functions
FUNCTIONS = {
    "Relu": lambda x: max(x, 0.0),
    "Relu6": lambda x: min(max(x, 0.0), 6.0),
    "Sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "Tanh": math.tanh,
    "Gelu": lambda x: x / 2 * math.erfc(-x / math.sqrt(2)),
    "HardSwish": lambda x: x * min(max(x + 3, 0), 6) / 6,
    "ElementWiseAbs": abs,
    "ElementWiseCos": math.cos,
    "ElementWiseExp": math.exp,
    "ElementWiseNeg": lambda x: -x,
    "ElementWiseSin": math.sin,
    "ElementWiseAtan": math.atan,
}
TYPES = [
    (U8, ScaleOffset(0.05, -128), U8, ScaleOffset(0.02, -100)),
    (S8, ScaleOffset(0.05, 3), S8, ScaleOffset(0.04, 10)),
    (U16, ScaleOffset(2e-4, -32768), U16, ScaleOffset(1e-4, -30000)),
    (S16, ScaleOffset(2e-4), S16, ScaleOffset(1e-4)),
    (U8, ScaleOffset(0.05, -128), U16, ScaleOffset(1e-4, -30000)),
    (S4, ScaleOffset(0.5, 1), S8, ScaleOffset(0.04, 10)),
]


@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.parametrize("types", TYPES, ids=lambda t: f"{t[0].name}-{t[2].name}")
def test_entry_is_nearest_to_real_function(node, run_node, op, types):
    dtype, grid, kind, target = types
    x = every(dtype)
    view = node(op, [Spec(dtype, x.shape, grid)], [Spec(kind, x.shape, target)])
    (y,) = run_node(view, x)
    assert distance(op, view, x, y) <= 0.5 + (1e-2 if HardSwish.of(view) else 1e-5)


def distance(op, view, x, y):
    """Return the largest distance of stored results from the real function, in steps."""
    source, target = view.ins[0].encoding, view.outs[0].encoding
    low, high = view.outs[0].dtype.stored_range()
    distances = []
    for stored, found in zip(x.tolist(), y.tolist(), strict=True):
        real = FUNCTIONS[op]((stored + source.offset) * source.scale)
        wanted = min(max(real / target.scale - target.offset, low), high)
        distances.append(abs(found - wanted))
    return max(distances)


@pytest.mark.parametrize("zero", [0, 30000, 65535, 131072])
@pytest.mark.parametrize("target_zero", [0, 20000, 65535, 131072])
@pytest.mark.parametrize("scale", [1e-7, 6 * 2**-22, 1e-4, 3.0])
@pytest.mark.parametrize("factor", [1e-5, 1, 15.9, 16.1])
def test_hard_swish_of_16_bits(node, run_node, zero, target_zero, scale, factor):
    x = every(U16)[::7]
    source = Spec(U16, x.shape, ScaleOffset(np.float32(scale * factor), -zero))
    target = Spec(U16, x.shape, ScaleOffset(np.float32(scale), -target_zero))
    view = node("HardSwish", [source], [target])
    is_single = scale >= 1e-6 and factor < 16
    assert (HardSwish.of(view) is not None) == is_single
    assert distance("HardSwish", view, x, *run_node(view, x)) <= 0.5 + (
        1 / 8 if is_single else 1e-5
    )


def test_hard_swish_of_bytes_is_a_table_in_float64(node):
    grid = ScaleOffset(0.05, -128)
    (byte, word), op = (Spec(dtype, (1,), grid) for dtype in (U8, U16)), "HardSwish"
    assert HardSwish.of(node(op, [byte], [byte])) is None
    assert HardSwish.of(node(op, [byte], [word]))
    assert HardSwish.of(node(op, [word], [byte]))
    assert HardSwish.of(node("Relu6", [word], [word])) is None


def test_hard_swish_of_large_numbers_warns_of_nothing(node, run_node):
    grid, x = ScaleOffset(3e38, 0), every(U16)
    (y,) = run_node(node("HardSwish", [Spec(U16, x.shape, grid)], [Spec(U16, x.shape, grid)]), x)
    np.testing.assert_array_equal(y, x)


def test_tie_is_half_even_whatever_last_bits_say(node, run_node):
    # sigmoid(0) = 1/2 is 4.5 steps, and tanh(0) = 0 half a step below 1
    x = np.uint8([128])
    grid = ScaleOffset(0.1, -128)
    ninth = Spec(U8, (1,), ScaleOffset(2**-3, 0))
    (y,) = run_node(node("Sigmoid", [Spec(U8, (1,), grid)], [ninth]), x)
    assert y.tolist() == [4]
    # 1/9 is no float32: 0.5 / float32(1/9) is not quite a tie
    almost = Spec(U8, (1,), ScaleOffset(1 / 9, 0))
    (y,) = run_node(node("Sigmoid", [Spec(U8, (1,), grid)], [almost]), x)
    assert y.tolist() == [4 if 0.5 / almost.encoding.scale <= 4.5 else 5]


def test_last_bits_of_library_do_not_reach_table(node, run_node, monkeypatch):
    # exp off by 4 units in the last place, as other processors' may be
    x = every(U16)
    grid, target = ScaleOffset(2**-13, -32768), ScaleOffset(2**-10, 0)
    outs = [Spec(U16, x.shape, target)]
    (before,) = run_node(node("Sigmoid", [Spec(U16, x.shape, grid)], outs), x)
    exp = np.exp
    for units in (-4, 4):
        monkeypatch.setattr(np, "exp", lambda v, u=units: exp(v) * (1 + u * 2.0**-52))
        # another encoding of the same grid: nothing is found among the tables made before
        other = Spec(U16, x.shape, ScaleOffset(grid.scale, grid.offset, 16 if units < 0 else 15))
        (after,) = run_node(node("Sigmoid", [other], outs), x)
        np.testing.assert_array_equal(after, before)


def test_floor_reads_float32(node, run_node):
    tenth = ScaleOffset(0.1, 0)  # a little above 1/10
    x = np.uint8([5, 10, 15])
    one = Spec(U8, (3,), ScaleOffset(1.0))
    views = [node(op, [Spec(U8, (3,), tenth)], [one]) for op in ("ElementWiseRound",)]
    assert run_node(views[0], x)[0].tolist() == [0, 1, 2]  # halves to even


@pytest.mark.parametrize(
    ("op", "params", "function"),
    [
        ("ReluMinMax", {"min_value": -1.0, "max_value": 2.5}, lambda x: np.clip(x, -1, 2.5)),
        ("Elu", {"alpha": 2.0}, lambda x: np.where(x > 0, x, 2 * np.expm1(x))),
        (
            "ElementWiseNeuron",
            {"operation": 2, "alpha": 0.25, "beta": 0.5},
            lambda x: np.clip(0.25 * x + 0.5, 0, 1),
        ),
        ("ElementWiseUnary", {"operation": 0}, np.abs),
        ("ElementWiseSoftplus", {}, lambda x: np.log1p(np.exp(x))),
    ],
)
def test_params_take_part(node, run_node, op, params, function):
    x = every(S8)
    grid = ScaleOffset(2**-5)
    view = node(op, [Spec(S8, x.shape, grid)], [Spec(S8, x.shape, grid)], **params)
    wanted = np.clip(np.rint(function(x * 2**-5) * 2**5), -128, 127)
    np.testing.assert_array_equal(run_node(view, x)[0], wanted)


def test_not_a_number_is_zero_point(node, run_node):
    x = np.int8([-1, 0, 1])
    target = ScaleOffset(0.5, -7)
    view = node("ElementWiseLog", [Spec(S8, (3,), ScaleOffset(1.0))], [Spec(U8, (3,), target)])
    assert run_node(view, x)[0].tolist() == [7, 0, 7]


@pytest.mark.parametrize("scale", [1e-38, 3e38, 0.0])
def test_extreme_scales_saturate(node, run_node, scale):
    x = every(U8)
    grid = ScaleOffset(1.0, -128)
    view = node("Relu", [Spec(U8, x.shape, grid)], [Spec(U8, x.shape, ScaleOffset(scale, -3))])
    wanted = np.where((x > 128) & (scale == 1e-38), 255, 3)
    np.testing.assert_array_equal(run_node(view, x)[0], wanted)


def test_several_scales_are_computed(node, run_node):
    x = np.int8([[-100, 50], [4, -128]])
    grid = AxisScaleOffset(1, np.float32([0.5, 0.25]), np.int32([0, 10]))
    view = node("Relu", [Spec(S8, (2, 2), grid)], [Spec(S8, (2, 2), grid)])
    assert run_node(view, x)[0].tolist() == [[0, 50], [4, -10]]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)])
def test_scalars_and_empty_tensors(node, run_node, shape):
    x = np.full(shape, 200, np.uint8)
    grid = ScaleOffset(1.0, -128)
    view = node("Relu", [Spec(U8, shape, grid)], [Spec(U8, shape, grid)])
    np.testing.assert_array_equal(run_node(view, x)[0], x)


def test_look_up_of_views():
    table = np.arange(256, dtype=np.uint8)[::-1]
    x = np.arange(-8, 8, dtype=np.int8).reshape(4, 4).T[:, ::2]
    np.testing.assert_array_equal(look_up(table, x), 255 - x.astype(int) % 256)
