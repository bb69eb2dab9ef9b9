"""Functions of two tensors: against fractions, and against the float32 formula written out."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ir import DType, ScaleOffset, Spec
from dovetail_numpy.integer.binary import product_rescale, sum_rescale

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16

SCALES = st.floats(2**-10, 2**4, width=32)


def grids(dtype):
    low, high = dtype.stored_range()
    return st.builds(lambda s, z: ScaleOffset(s, -z), SCALES, st.integers(low, high))


@st.composite
def cases(draw):
    dtype = draw(st.sampled_from([U8, S8, U16, S16]))
    encodings = [draw(grids(dtype)) for _ in range(3)]
    low, high = dtype.stored_range()
    numbers = st.lists(st.integers(low, high), min_size=1, max_size=8)
    a = np.array(draw(numbers), dtype.storage)
    b = np.array([draw(st.integers(low, high)) for _ in a], dtype.storage)
    return dtype, encodings, a, b


def real(stored, grid):
    return [(int(q) + grid.offset) * Fraction(grid.scale) for q in stored]


OPS = {
    "ElementWiseAdd": lambda a, b: a + b,
    "ElementWiseSubtract": lambda a, b: a - b,
    "ElementWiseMultiply": lambda a, b: a * b,
    "ElementWiseMaximum": max,
    "ElementWiseMinimum": min,
    "ElementWiseSquaredDifference": lambda a, b: (a - b) ** 2,
    "ElementWiseDivide": lambda a, b: a / b if b else None,
}


@pytest.mark.parametrize("op", OPS)
@given(case=cases())
@settings(max_examples=60, deadline=None)
def test_result_is_within_a_step_of_exact(node, run_node, op, case):
    dtype, (ga, gb, gy), a, b = case
    shape = a.shape
    ins = [Spec(dtype, shape, ga), Spec(dtype, shape, gb)]
    (found,) = run_node(node(op, ins, [Spec(dtype, shape, gy)]), a, b)
    low, high = dtype.stored_range()
    for x, y, q in zip(real(a, ga), real(b, gb), found.tolist(), strict=True):
        exact = OPS[op](x, y)
        if exact is None:
            continue
        wanted = min(max(exact / Fraction(gy.scale) - gy.offset, low), high)
        allowed = Fraction(1, 2) + Fraction(1, 1 << 20)
        if op == "ElementWiseMultiply":
            allowed += Fraction(1, 1 << (14 if dtype.bits == 8 else 6))
        elif dtype.bits == 16 and op in ("ElementWiseAdd", "ElementWiseSubtract"):
            allowed += Fraction(9, 16)  # four roundings of terms, two of their small sum
        assert abs(q - wanted) <= allowed


def test_zero_stays_zero_whatever_scales(node, run_node):
    a = b = np.uint8([100])
    for scale in (1e-3, 0.7, 13.0):
        ins = [Spec(U8, (1,), ScaleOffset(s, -100)) for s in (scale, 0.3)]
        for op in ("ElementWiseAdd", "ElementWiseSubtract", "ElementWiseMultiply"):
            view = node(op, ins, [Spec(U8, (1,), ScaleOffset(0.11, -37))])
            assert run_node(view, a, b)[0].tolist() == [37]


@pytest.mark.parametrize("scale", [1e-38, 1e-20, 1e20, 3e38])
@pytest.mark.parametrize("op", ["ElementWiseAdd", "ElementWiseMultiply", "ElementWiseDivide"])
def test_extreme_scales_are_finite(node, run_node, op, scale):
    a = np.uint8([0, 127, 128, 129, 255])
    specs = [Spec(U8, (5,), ScaleOffset(s, -128)) for s in (scale, 1.0, 1e-10)]
    (y,) = run_node(node(op, specs[:2], specs[2:]), a, a)
    if op == "ElementWiseAdd":
        assert y.tolist() == [0, 0, 128, 255, 255]
    elif op == "ElementWiseMultiply":
        assert y[2] == 128
    else:
        assert y[2] == 128  # 0 / 0


@pytest.mark.parametrize("op", ["ElementWiseAdd", "ElementWiseSubtract", "ElementWiseMultiply"])
def test_formulas_of_16_bits_written_out(node, run_node, rng, op):
    a, b = rng.integers(0, 1 << 16, (2, 5000)).astype(np.uint16)
    ga, gb, gy = ScaleOffset(0.0031, -300), ScaleOffset(0.0017, -40000), ScaleOffset(0.0041, -511)
    specs = [Spec(U16, a.shape, grid) for grid in (ga, gb, gy)]
    (found,) = run_node(node(op, specs[:2], specs[2:]), a, b)
    la, lb = (x.astype(np.float32) + np.float32(g.offset) for x, g in ((a, ga), (b, gb)))
    if op == "ElementWiseMultiply":
        v = la * lb * np.float32(ga.scale * gb.scale / gy.scale)
    else:
        terms = la * np.float32(ga.scale / gy.scale), lb * np.float32(gb.scale / gy.scale)
        v = terms[0] + (terms[1] if op == "ElementWiseAdd" else -terms[1])
    wanted = np.clip(np.rint(v - np.float32(gy.offset)), 0, 65535)
    assert v.dtype == np.float32
    np.testing.assert_array_equal(found, wanted)


def test_products_of_extreme_scales_do_not_overflow(node, run_node):
    grids = ScaleOffset(1e-45), ScaleOffset(3.4e38, -131072), ScaleOffset(1e-45)
    specs = [Spec(U16, (3,), grid) for grid in grids]
    view = node("ElementWiseMultiply", specs[:2], specs[2:])
    (found,) = run_node(view, np.uint16([0, 1, 65535]), np.uint16([0, 65535, 0]))
    assert found.tolist() == [0, 0, 0]  # levels of the second are below 0


def test_sums_in_float64(node):
    """Those of bytes, of far zero points, and of terms that float32 rounds too much."""

    def rescale(dtype, scale=1.0, offset=-3):
        specs = [Spec(dtype, (2,), ScaleOffset(s, offset)) for s in (scale, 1.0, 1.0)]
        return sum_rescale(node("ElementWiseAdd", specs[:2], specs[2:]))

    assert rescale(U16) is not None
    assert rescale(U16, scale=16.0) is not None
    assert rescale(U16, scale=16.1) is None
    assert rescale(U16, offset=-(1 << 18)) is None
    assert rescale(U8) is None


def test_offsets_beyond_type_are_computed_in_float64(node, run_node):
    far = ScaleOffset(1.0, -(1 << 18))
    specs = [Spec(U8, (2,), far), Spec(U8, (2,), ScaleOffset(1.0)), Spec(U8, (2,), far)]
    view = node("ElementWiseAdd", specs[:2], specs[2:])
    assert run_node(view, np.uint8([3, 250]), np.uint8([4, 7]))[0].tolist() == [7, 255]
    assert product_rescale(node("ElementWiseMultiply", specs[:2], specs[2:])) is None


COMPARISONS = {
    "ElementWiseEqual": np.equal,
    "ElementWiseNotEqual": np.not_equal,
    "ElementWiseGreater": np.greater,
    "ElementWiseLessEqual": np.less_equal,
}


@pytest.mark.parametrize("op", COMPARISONS)
@pytest.mark.parametrize("kind", [DType.BOOL_8, U8])
def test_comparisons_read_float32(node, run_node, rng, op, kind):
    a, b = rng.integers(0, 256, (2, 500)).astype(np.uint8)
    # 3 times float32(0.1) and float32(0.3) are equal as float32 only
    ga, gb = ScaleOffset(0.1, -20), ScaleOffset(0.3, -7)
    out = Spec(kind, (500,), ScaleOffset(0.5, -3) if kind is U8 else None)
    (found,) = run_node(node(op, [Spec(U8, (500,), ga), Spec(U8, (500,), gb)], [out]), a, b)
    reals = [(x.astype(np.float32) + g.offset) * np.float32(g.scale) for x, g in ((a, ga), (b, gb))]
    wanted = COMPARISONS[op](*reals)
    np.testing.assert_array_equal(found, wanted if kind is not U8 else 3 + 2 * wanted)


def test_floor_division_is_of_float32_quotient(node, run_node):
    a, b = np.uint8([1, 7]), np.uint8([1, 3])
    specs = [Spec(U8, (2,), ScaleOffset(s)) for s in (1.0, 0.1, 1.0)]
    view = node("ElementWiseFloorDiv", specs[:2], specs[2:])
    assert run_node(view, a, b)[0].tolist() == [10, 23]


@pytest.mark.parametrize("bits", [8, 16])
def test_constant_exponent(node, run_node, bits):
    dtype = DType.fixed(bits, signed=False)
    x = np.arange(1 << bits).astype(dtype.storage)
    grid, target = ScaleOffset(2.0**-bits), ScaleOffset(2.0**-bits)
    exponent = Spec(dtype, (), ScaleOffset(0.5)), np.array(5, dtype.storage)
    outs = [Spec(dtype, x.shape, target)]
    (y,) = run_node(
        node("ElementWisePower", [Spec(dtype, x.shape, grid), exponent], outs), x, exponent[1]
    )
    wanted = np.clip(np.rint((x * 2.0**-bits) ** 2.5 * 2.0**bits), 0, (1 << bits) - 1)
    np.testing.assert_array_equal(y, wanted)


def test_power_of_two_tensors_of_bytes(node, run_node, rng):
    a, b = rng.integers(0, 256, (2, 300)).astype(np.uint8)
    specs = [Spec(U8, (300,), ScaleOffset(s)) for s in (2**-6, 2**-6, 2**-3)]
    (y,) = run_node(node("ElementWisePower", specs[:2], specs[2:]), a, b)
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    wanted = [min(round((p / 64) ** (q / 64) * 8), 255) for p, q in pairs]
    assert y.tolist() == wanted


def test_slopes_by_channel(node, run_node):
    x = np.int8([[-10, -10], [10, -128]])
    slope = Spec(S8, (2,), ScaleOffset(0.25)), np.int8([1, 2])
    grid = Spec(S8, (2, 2), ScaleOffset(0.5))
    (y,) = run_node(node("Prelu", [grid, slope], [grid]), x, slope[1])
    assert y.tolist() == [[-2, -5], [10, -64]]


@pytest.mark.parametrize(
    ("op", "name"), [(0, "Add"), (13, "Multiply"), (16, "Power"), (3, "Equal")]
)
def test_param_selects_same_function(node, run_node, rng, op, name):
    a, b = rng.integers(0, 256, (2, 400)).astype(np.uint8)
    ins = [Spec(U8, (400,), ScaleOffset(s, -3)) for s in (0.013, 0.7)]
    outs = [Spec(U8, (400,), ScaleOffset(0.9, -17))]
    (one,) = run_node(node(f"ElementWise{name}", ins, outs), a, b)
    (two,) = run_node(node("ElementWiseBinary", ins, outs, operation=op), a, b)
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", [DType.INT_32, DType.FLOAT_32])
def test_exponents_of_other_types(node, run_node, kind):
    x = np.arange(256).astype(np.uint8)
    grid = Spec(U8, x.shape, ScaleOffset(2**-4))
    exponent = Spec(kind, (1,)), np.array([2], kind.storage)
    (y,) = run_node(node("ElementWisePower", [grid, exponent], [grid]), x, exponent[1])
    np.testing.assert_array_equal(y, np.minimum(np.rint(x.astype(float) ** 2 / 16), 255))


def test_varying_powers_of_words(node, run_node, rng):
    a, b = rng.integers(0, 65536, (2, 500)).astype(np.uint16)
    b[:250] = 64 * rng.integers(-4, 5, 250) + 1024  # whole exponents
    specs = [
        Spec(U16, (500,), ScaleOffset(2**-12, -20000)),
        Spec(U16, (500,), ScaleOffset(2**-6, -1024)),
        Spec(U16, (500,), ScaleOffset(2**-8, -30000)),
    ]
    a[:3] = 20000
    b[:3] = 1024, 1088, 960  # powers 0, 1 and -1 of 0
    (y,) = run_node(node("ElementWisePower", specs[:2], specs[2:]), a, b)
    assert y[:3].tolist() == [30256, 30000, 65535]
    for p, q, found in zip(a[3:].tolist(), b[3:].tolist(), y[3:].tolist(), strict=True):
        base, exponent = (p - 20000) * 2.0**-12, (q - 1024) * 2.0**-6
        if base < 0 and exponent % 1:
            assert found == 30000
            continue
        try:
            wanted = base**exponent * 256 + 30000
        except OverflowError:
            wanted = 65535 if base > 0 or exponent % 2 == 0 else 0
        assert abs(found - min(max(wanted, 0), 65535)) <= 0.5 + 1e-5
