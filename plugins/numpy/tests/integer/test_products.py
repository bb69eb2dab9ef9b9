"""Products by definition, against sums in whole numbers and rounding in exact fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.ir import (
    Array,
    AxisScaleOffset,
    Block,
    BlockwiseExpansion,
    DType,
    Encoding,
    EncodingMapping,
    Mapped,
    ScaleOffset,
    Spec,
)
from dovetail.ops import NodeView
from dovetail_numpy.integer import DEFINITIONS, accumulator_bound, find_faults, passes

U4, S4 = DType.UFIXED_POINT_4, DType.SFIXED_POINT_4
U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
S32, F32 = DType.SFIXED_POINT_32, DType.FLOAT_32

Make = Callable[..., NodeView]
Run = Callable[..., list[Array]]


def rounded(x: Fraction) -> Fraction:
    """Round to float32, half to even; for normal numbers."""
    if x == 0:
        return x
    power = abs(x.numerator).bit_length() - x.denominator.bit_length()
    power -= abs(x) < Fraction(2) ** power
    last = Fraction(2) ** (power - 23)
    return round(x / last) * last


def single(x: float) -> Fraction:
    return Fraction(float(np.float32(x)))


def stored(terms: list[tuple[int, float]], bias: float, out: Spec) -> int:
    """Return a stored integer: sums with their multipliers, in order, and a bias."""
    assert isinstance(out.encoding, ScaleOffset)
    v = None
    for acc, multiplier in terms:
        term = rounded(rounded(Fraction(acc)) * single(multiplier))
        v = rounded(term + single(bias)) if v is None else rounded(v + term)
    assert v is not None
    low, high = out.dtype.stored_range()
    return min(max(round(rounded(v - out.encoding.offset)), low), high)


def random(rng: np.random.Generator, spec: Spec) -> Array:
    low, high = spec.dtype.stored_range(spec.encoding.bitwidth if spec.encoding else None)
    return rng.integers(low, high, spec.shape, np.int64, endpoint=True).astype(spec.dtype.storage)


def bytes_of(x: Array, spec: Spec) -> list[tuple[int, Array]]:
    """Return the parts of the levels as in the words of the definition."""
    assert isinstance(spec.encoding, ScaleOffset | AxisScaleOffset)
    _, offset = spec.encoding.scales_and_offsets(spec.shape)
    q = x.astype(np.int64)
    if spec.dtype.bits <= 8:
        return [(1, q + offset)]
    least = spec.dtype.stored_range()[0]
    q, z = q - least, -offset.astype(np.int64) - least
    return [(1, q % 256 - z % 256), (256, q // 256 - z // 256)]


WIDTHS = [
    (U8, ScaleOffset(0.02, -131), S8, U8),
    (S8, ScaleOffset(0.03, 5), S8, S8),
    (U8, ScaleOffset(0.02, 0), U8, U8),
    (U8, ScaleOffset(0.02, -255), S4, U8),
    (U16, ScaleOffset(0.0004, -33001), S8, U16),
    (S16, ScaleOffset(0.0004, 1234), U8, S16),
    (U16, ScaleOffset(0.0004, -33001), U4, U8),
    (U8, ScaleOffset(0.02, -3), U8, U16),
    (U16, ScaleOffset(0.0004, -100), S16, U16),
    (U16, ScaleOffset(0.0004, -32768), U16, U16),
]
OFFSETS = {U4: -9, S4: 0, U8: -117, S8: 0, U16: -31007, S16: 0}


@pytest.mark.parametrize(("x_type", "x_grid", "w_type", "y_type"), WIDTHS)
@pytest.mark.parametrize("bias", ["none", "left open", "int32", "int8", "float"])
def test_fully_connected(
    node: Make,
    run_node: Run,
    rng: np.random.Generator,
    x_type: DType,
    x_grid: ScaleOffset,
    w_type: DType,
    y_type: DType,
    bias: str,
) -> None:
    x = Spec(x_type, (3, 40), x_grid)
    w = Spec(w_type, (5, 40), ScaleOffset(0.07 / 2**w_type.bits, OFFSETS[w_type]))
    y = Spec(y_type, (3, 5), ScaleOffset(7.0 / 2**y_type.bits, -100))
    data, weights = random(rng, x), random(rng, w)
    products = x_grid.scale * w.encoding.scale  # type: ignore[union-attr]
    b, numbers, real = biases(bias, rng, products)
    view = node("FullyConnected", [x, (w, weights), *([] if b is None else [(b, numbers)])], [y])
    (found,) = run_node(view, data, weights, numbers)
    expected = np.empty((3, 5), np.int64)
    step = y.encoding.scale  # type: ignore[union-attr]
    for i, j in product(range(3), range(5)):
        terms = [
            (int(left[i] @ right[j]), float(np.float32(products / step)) * above * below)
            for (above, right), (below, left) in product(bytes_of(weights, w), bytes_of(data, x))
        ]
        expected[i, j] = stored(terms, real[j] / step, y)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) > 5


def biases(
    kind: str, rng: np.random.Generator, products: float
) -> tuple[Spec | None, Array | None, list[float]]:
    """Return the spec of a bias, its stored values and the real ones."""
    whole = rng.integers(-1000, 1000, 5)
    if kind == "none":
        return None, None, [0.0] * 5
    if kind == "float":
        numbers = (whole * products).astype(np.float32)
        return Spec(F32, (5,)), numbers, [float(n) for n in numbers]
    if kind == "int8":
        small, grid = (whole // 8).astype(np.int8), ScaleOffset(0.004, 3)
        return Spec(S8, (5,), grid), small, [(int(n) + 3) * grid.scale for n in small]
    numbers = whole.astype(np.int32)
    if kind == "int32":
        own = ScaleOffset(0.0003)
        return Spec(S32, (5,), own), numbers, [int(n) * own.scale for n in numbers]
    return Spec(DType.INT_32, (5,)), numbers, [int(n) * products for n in numbers]


def test_bias_with_scales_of_0_has_those_of_the_products(node: Make, run_node: Run) -> None:
    x, y = Spec(U8, (1, 2), ScaleOffset(0.5)), Spec(U8, (1, 2), ScaleOffset(1.0))
    w = Spec(S8, (2, 2), AxisScaleOffset(0, np.float32([0.25, 4.0])))
    b = Spec(S32, (2,), AxisScaleOffset(0, np.float32([0, 0])))
    numbers = np.int32([16, 3])
    view = node("FullyConnected", [x, w, (b, numbers)], [y])
    (found,) = run_node(view, np.uint8([[4, 8]]), np.int8([[1, 2], [3, 4]]), numbers)
    # (20 + 16) / 8, a tie, to even; (44 + 3) * 2
    np.testing.assert_array_equal(found, [[4, 94]])


def test_sums_beyond_24_bits_are_rounded_half_to_even(node: Make, run_node: Run) -> None:
    # subtracting 2**24 shows the rounding: 2**24 + 1 has become 2**24
    size = 65794
    x = Spec(U8, (1, size), ScaleOffset(1.0))
    signed = Spec(S8, (1, size), ScaleOffset(1.0))
    y = Spec(U16, (1, 1), ScaleOffset(1.0, 0))
    b = Spec(F32, (1,))
    for extra, expected in ((0, 0), (1, 0), (2, 2), (3, 4), (4, 4)):
        signs = np.ones((1, size), np.int8)
        q = np.zeros((1, size), np.uint8)
        q[0, :65793] = 255
        q[0, 65793] = 2**24 - 255 * 65793 + extra
        numbers = np.float32([-(2**24)])
        view = node("FullyConnected", [x, signed, (b, numbers)], [y])
        (found,) = run_node(view, q, signs, numbers)
        assert found[0, 0] == expected


def convolved(
    data: Array, weights: Array, groups: int, pad: int, stride: int, dilation: int
) -> Array:
    """Return a convolution of whole numbers along two axes, written out."""
    n, h, w, _ = data.shape
    fh, fw, taken, made = weights.shape
    oh = (h + 2 * pad - (fh - 1) * dilation - 1) // stride + 1
    ow = (w + 2 * pad - (fw - 1) * dilation - 1) // stride + 1
    result = np.zeros((n, oh, ow, made), np.int64)
    for i, j, k, a, b, t in product(
        range(oh), range(ow), range(made), range(fh), range(fw), range(taken)
    ):
        row, column = i * stride + a * dilation - pad, j * stride + b * dilation - pad
        if 0 <= row < h and 0 <= column < w:
            channel = k // (made // groups) * taken + t
            result[:, i, j, k] += data[:, row, column, channel] * weights[a, b, t, k]
    return result


def transposed(data: Array, weights: Array, groups: int, pad: int, stride: int) -> Array:
    n, h, w, c = data.shape
    fh, fw, _, each = weights.shape
    size = [stride * (s - 1) + f for s, f in ((h, fh), (w, fw))]
    result = np.zeros((n, *size, each * groups), np.int64)
    for i, j, k, a, b, m in product(
        range(h), range(w), range(c), range(fh), range(fw), range(each)
    ):
        target = k // (c // groups) * each + m
        result[:, i * stride + a, j * stride + b, target] += data[:, i, j, k] * weights[a, b, k, m]
    return result[:, pad : size[0] - pad, pad : size[1] - pad]


CONVOLUTIONS = [
    ("Conv2d", (3, 3, 2, 6), 2, {"stride": (2, 2), "dilation": (1, 1)}),
    ("Conv2d", (2, 2, 4, 3), 1, {"stride": (1, 1), "dilation": (2, 2)}),
    ("DepthWiseConv2d", (3, 3, 1, 8), 4, {"stride": (1, 1), "dilation": (1, 1)}),
    ("TransposeConv2d", (3, 3, 4, 3), 2, {"stride": (2, 2)}),
]


@pytest.mark.parametrize(("op", "filters", "groups", "params"), CONVOLUTIONS)
@pytest.mark.parametrize(("x_type", "w_type"), [(U8, U8), (S8, S8), (U16, S8), (U16, S16)])
def test_convolution(
    node: Make,
    run_node: Run,
    rng: np.random.Generator,
    op: str,
    filters: tuple[int, ...],
    groups: int,
    params: dict[str, Any],
    x_type: DType,
    w_type: DType,
) -> None:
    channels = filters[-1]
    scales = rng.uniform(0.5, 2.0, channels).astype(np.float32) / 2**w_type.bits
    offsets = rng.integers(-99, 99, channels, np.int32) if w_type is U8 else None
    if offsets is not None:
        offsets = np.abs(offsets) * np.int32(-1)
    grid = ScaleOffset(3.0 / 2**x_type.bits, -(sum(x_type.stored_range()) // 3))
    x = Spec(x_type, (2, 5, 6, 4), grid)
    w = Spec(w_type, filters, AxisScaleOffset(3, scales, offsets))
    data, weights = random(rng, x), random(rng, w)
    compute: Callable[[Array, Array], Array]
    if op == "TransposeConv2d":
        plan = {**params, "group": groups}
        compute = lambda d, f: transposed(d, f, groups, 1, 2)  # noqa: E731
        scales = np.tile(scales, groups)
    else:
        plan = {**params, "group": groups} if op == "Conv2d" else params
        size, step = params["dilation"][0], params["stride"][0]
        compute = lambda d, f: convolved(d, f, groups, 1, step, size)  # noqa: E731
    parts = list(product(bytes_of(weights, w), bytes_of(data, x)))
    sums = [compute(left, right) for (_, right), (_, left) in parts]
    step_size = 12.0 / 2**x_type.bits
    y = Spec(x_type, sums[0].shape, ScaleOffset(step_size, -7))
    made = y.shape[-1]
    b = Spec(DType.INT_32, (made,))
    numbers = rng.integers(-500, 500, made, np.int32)
    inputs = [x, (w, weights), (b, numbers)]
    view = node(op, inputs, [y], pad_amount=((1, 1), (1, 1)), **plan)
    (found,) = run_node(view, data, weights, numbers)
    expected = np.empty(y.shape, np.int64)
    out_step = float(np.float32(step_size))
    for index in np.ndindex(y.shape):
        products = grid.scale * float(scales[index[-1]])
        m = float(np.float32(products / out_step))
        terms = [
            (int(s[index]), m * above * below)
            for s, ((above, _), (below, _)) in zip(sums, parts, strict=True)
        ]
        expected[index] = stored(terms, int(numbers[index[-1]]) * products / out_step, y)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) > 20


@pytest.mark.parametrize("turned", list(product([False, True], repeat=2)))
@pytest.mark.parametrize(("a_type", "b_type"), [(U8, U8), (U8, S8), (U16, U16), (U16, S16)])
def test_product_of_activations(
    node: Make,
    run_node: Run,
    rng: np.random.Generator,
    turned: tuple[bool, bool],
    a_type: DType,
    b_type: DType,
) -> None:
    shapes = [(2, 1, 3, 7), (1, 4, 7, 5)]
    lefts, rights = (
        s if not t else (*s[:2], s[3], s[2]) for s, t in zip(shapes, turned, strict=True)
    )
    a = Spec(a_type, lefts, ScaleOffset(4 / 2**a_type.bits, -(2 ** (a_type.bits - 1)) - 1))
    b = Spec(b_type, rights, ScaleOffset(3 / 2**b_type.bits, OFFSETS[b_type]))
    y = Spec(a_type, (2, 4, 3, 5), ScaleOffset(9 / 2**a_type.bits, -(2 ** (a_type.bits - 1))))
    left, right = random(rng, a), random(rng, b)
    params = {"transpose_in0": turned[0], "transpose_in1": turned[1]}
    view = node("MatMul", [a, b], [y], **params)
    (found,) = run_node(view, left, right)
    expected = np.empty(y.shape, np.int64)
    m = a.encoding.scale * b.encoding.scale / y.encoding.scale  # type: ignore[union-attr]
    parts = list(product(bytes_of(right, b), bytes_of(left, a)))
    for n, h, i, j in np.ndindex(y.shape):
        terms = []
        for (above, r), (below, q) in parts:
            row = q[n, 0, :, i] if turned[0] else q[n, 0, i]
            column = r[0, h, j] if turned[1] else r[0, h, :, j]
            terms.append((int(row @ column), float(np.float32(m)) * above * below))
        expected[n, h, i, j] = stored(terms, 0.0, y)
    np.testing.assert_array_equal(found, expected)


def test_matmul_with_a_scale_per_column(node: Make, run_node: Run) -> None:
    scales = np.float32([0.5, 2.0])
    x, y = Spec(U8, (1, 2), ScaleOffset(1.0)), Spec(U8, (1, 2), ScaleOffset(1.0))
    data, weights = np.uint8([[2, 4]]), np.int8([[1, 3], [5, 7]])
    for turned in (False, True):
        w = Spec(S8, (2, 2), AxisScaleOffset(0 if turned else 1, scales))
        view = node("MatMul", [x, w], [y], transpose_in1=turned)
        (found,) = run_node(view, data, weights.T.copy() if turned else weights)
        np.testing.assert_array_equal(found, [[11, 68]])


@pytest.mark.parametrize("bias", [Spec(U8, (3,), ScaleOffset(0.1, -50)), Spec(DType.INT_32, (3,))])
def test_batchnorm(node: Make, run_node: Run, rng: np.random.Generator, bias: Spec) -> None:
    x = Spec(U8, (2, 4, 3), ScaleOffset(0.05, -40))
    w = Spec(U8, (3,), ScaleOffset(0.01, -128))
    y = Spec(U8, (2, 4, 3), ScaleOffset(0.1, -90))
    data, weights = random(rng, x), random(rng, w)
    numbers = rng.integers(0, 200, 3).astype(bias.dtype.storage)
    (found,) = run_node(node("Batchnorm", [x, w, bias], [y]), data, weights, numbers)
    sx, sw, sy = (s.encoding.scale for s in (x, w, y))  # type: ignore[union-attr]
    for index in np.ndindex(y.shape):
        q, z = int(numbers[index[-1]]), bias.encoding
        real = q * sx * sw if z is None else (q + z.offset) * z.scale  # type: ignore[attr-defined]
        acc = (int(data[index]) - 40) * (int(weights[index[-1]]) - 128)
        assert found[index] == stored([(acc, sx * sw / sy)], real / sy, y)


def test_blocks_of_weights_are_added_one_by_one(
    node: Make, run_node: Run, rng: np.random.Generator
) -> None:
    grid = Block((2, 4), rng.uniform(0.1, 0.2, (2, 3)).astype(np.float32))
    x = Spec(U8, (2, 12), ScaleOffset(0.03, -99))
    w, y = Spec(S4, (4, 12), grid), Spec(U8, (2, 4), ScaleOffset(0.2, -100))
    data, weights = random(rng, x), random(rng, w)
    b, numbers = Spec(F32, (4,)), rng.standard_normal(4, np.float32)
    view = node("FullyConnected", [x, w, (b, numbers)], [y])
    assert [p.block for p in passes(view)] == [(slice(None), slice(i, i + 4)) for i in (0, 4, 8)]
    (found,) = run_node(view, data, weights, numbers)
    sx, sy = float(np.float32(0.03)), float(np.float32(0.2))
    for i, j in np.ndindex(2, 4):
        terms = []
        for block in range(3):
            at = slice(4 * block, 4 * block + 4)
            acc = (data[i, at].astype(int) - 99) @ weights[j, at].astype(int)
            terms.append((int(acc), sx * float(grid.scales[j // 2, block]) / sy))
        assert found[i, j] == stored(terms, float(numbers[j]) / sy, y)


def test_blocks_of_a_convolution(node: Make, run_node: Run, rng: np.random.Generator) -> None:
    grid = Block((1, 1, 2, 1), rng.uniform(0.1, 0.2, (1, 1, 2, 3)).astype(np.float32))
    x = Spec(U8, (1, 3, 3, 4), ScaleOffset(0.03, -99))
    w, y = Spec(S8, (1, 1, 4, 3), grid), Spec(U8, (1, 3, 3, 3), ScaleOffset(4.0, -100))
    data, weights = random(rng, x), random(rng, w)
    params: dict[str, Any] = {"stride": (1, 1), "pad_amount": ((0, 0), (0, 0))}
    (found,) = run_node(node("Conv2d", [x, w], [y], **params), data, weights)
    sx = float(np.float32(0.03))
    for n, i, j, k in np.ndindex(y.shape):
        terms = []
        for block in range(2):
            at = slice(2 * block, 2 * block + 2)
            acc = (data[n, i, j, at].astype(int) - 99) @ weights[0, 0, at, k].astype(int)
            terms.append((int(acc), sx * float(grid.scales[0, 0, block, k]) / 4.0))
        assert found[n, i, j, k] == stored(terms, 0.0, y)


def test_low_power_blocks_have_whole_factors(
    node: Make, run_node: Run, rng: np.random.Generator
) -> None:
    scales = np.float32([0.011, 0.007])
    factors = rng.integers(1, 15, (2, 3), np.uint8, endpoint=True)
    w = Spec(S8, (2, 6), BlockwiseExpansion(0, scales, factors))
    x, y = Spec(U8, (3, 6), ScaleOffset(0.03, -9)), Spec(U8, (3, 2), ScaleOffset(0.05, -128))
    data, weights = random(rng, x), random(rng, w)
    b, numbers = Spec(DType.INT_32, (2,)), np.int32([77, -500])
    (found,) = run_node(node("FullyConnected", [x, w, (b, numbers)], [y]), data, weights, numbers)
    sx, sy = float(np.float32(0.03)), float(np.float32(0.05))
    for i, j in np.ndindex(3, 2):
        whole = weights[j].astype(int) * np.repeat(factors[j].astype(int), 2)
        acc = int((data[i].astype(int) - 9) @ whole)
        products = sx * float(scales[j])
        assert found[i, j] == stored([(acc, products / sy)], int(numbers[j]) * products / sy, y)


def test_levels_without_zero(node: Make, run_node: Run) -> None:
    odd = Mapped(
        AxisScaleOffset(0, np.float32([2.0]), bitwidth=2),
        EncodingMapping.LINEAR_SYMMETRIC_EXCLUDE_ZERO,
    )
    x, w = Spec(U8, (1, 4), ScaleOffset(1.0)), Spec(S8, (1, 4), odd)
    y = Spec(U8, (1, 1), ScaleOffset(1.0))
    view = node("FullyConnected", [x, w], [y])
    (found,) = run_node(view, np.uint8([[1, 2, 3, 40]]), np.int8([[-2, -1, 0, 1]]))
    assert found[0, 0] == -3 - 2 + 3 + 120


# the fixtures are functions without state
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_scales(node: Make, run_node: Run, data: st.DataObject) -> None:
    numbers = st.floats(2.0**-20, 2.0**4, width=32)
    sx, sw, sy = (data.draw(numbers) for _ in range(3))
    zx, zy = data.draw(st.integers(0, 255)), data.draw(st.integers(0, 255))
    count = data.draw(st.integers(1, 40))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x, w = Spec(U8, (1, count), ScaleOffset(sx, -zx)), Spec(S8, (1, count), ScaleOffset(sw))
    y, b = Spec(U8, (1, 1), ScaleOffset(sy, -zy)), Spec(DType.INT_32, (1,))
    q, k, n = random(rng, x), random(rng, w), rng.integers(-(2**20), 2**20, 1, np.int32)
    acc = int((q[0].astype(int) - zx) @ k[0].astype(int))
    view = node("FullyConnected", [x, w, b], [y])
    (found,) = run_node(view, q, k, n)
    assert found[0, 0] == stored([(acc, sx * sw / sy)], int(n[0]) * (sx * sw) / sy, y)


def encodings_that_are_wrong() -> list[tuple[str, Spec, Spec, Spec, str, str]]:
    grid = ScaleOffset(0.1, -3)
    x, w, y = Spec(U8, (1, 8), grid), Spec(S8, (2, 8), ScaleOffset(0.1)), Spec(U8, (1, 2), grid)
    across: Encoding = AxisScaleOffset(1, np.ones(8, np.float32))
    return [
        ("no scale", x, w, Spec(U8, (1, 2), ScaleOffset(0.0)), "scale", "out[0].encoding"),
        ("offset", Spec(U8, (1, 8), ScaleOffset(1.0, -256)), w, y, "offset", "in[0].encoding"),
        ("signed", Spec(S8, (1, 8), ScaleOffset(1.0, -128)), w, y, "offset", "in[0].encoding"),
        ("summed axis", x, Spec(S8, (2, 8), across), y, "encoding", "in[1].encoding"),
        ("data per axis", Spec(U8, (1, 8), across), w, y, "encoding", "in[0].encoding"),
        ("wide weights", x, Spec(S32, (2, 8), ScaleOffset(0.1)), y, "width", "in[1]"),
        ("bare", x, Spec(S8, (2, 8)), y, "encoding", "in[1].encoding"),
        (
            "huge scale",
            Spec(U8, (1, 8), ScaleOffset(1e30)),
            w,
            Spec(U8, (1, 2), ScaleOffset(1e-6)),
            "multiplier",
            "out[0].encoding",
        ),
    ]


@pytest.mark.parametrize("case", encodings_that_are_wrong(), ids=lambda c: str(c[0]))
def test_faults(node: Make, case: tuple[str, Spec, Spec, Spec, str, str]) -> None:
    _, x, w, y, rule, field = case
    view = node("FullyConnected", [x, w], [y])
    found = find_faults(view)
    assert [(f.rule, f.field) for f in found] == [(rule, field)]
    assert all(f.found and f.allowed for f in found)


def test_all_faults_are_found_at_once(node: Make) -> None:
    x, y = Spec(U8, (1, 8), ScaleOffset(0.0, 5)), Spec(U8, (1, 2), ScaleOffset(0.0, -3))
    w = Spec(S8, (2, 8), ScaleOffset(0.1, bitwidth=4))
    view = node("FullyConnected", [x, (w, np.full((2, 8), 9, np.int8))], [y])
    assert {(f.rule, f.field) for f in find_faults(view)} == {
        ("scale", "in[0].encoding"),
        ("offset", "in[0].encoding"),
        ("width", "in[1]"),
        ("scale", "out[0].encoding"),
    }
    assert DEFINITIONS.of(view) is None


def test_accumulators_are_bounded_by_the_weights(node: Make) -> None:
    grid = ScaleOffset(0.1, -100)
    x, w = Spec(U8, (1, 70000), grid), Spec(S8, (2, 70000), ScaleOffset(0.1))
    y = Spec(U8, (1, 2), grid)
    any_weights = node("FullyConnected", [x, w], [y])
    assert accumulator_bound(any_weights) == 70000 * 128 * 155
    assert find_faults(any_weights) == []
    weights = np.full((2, 70000), 127, np.int8)
    weights[0] = -1
    assert accumulator_bound(node("FullyConnected", [x, (w, weights)], [y])) == 70000 * 127 * 155
    far = Spec(U8, (1, 70000), ScaleOffset(0.1, 0))
    (fault,) = find_faults(node("FullyConnected", [far, (w, weights)], [y]))
    assert (fault.rule, fault.field) == ("accumulator", "in[1]")
    assert str(70000 * 127 * 255) in fault.found
    assert str(2**31 - 1) in fault.allowed
    weights[1] //= 2
    assert find_faults(node("FullyConnected", [far, (w, weights)], [y])) == []


@pytest.mark.parametrize("shift", [0, 8])
def test_bounds_hold(node: Make, run_node: Run, shift: int) -> None:
    """The bound of each width is attained by some data."""
    x = Spec(U16, (1, 4), ScaleOffset(0.1, -(77 << shift)))
    w = Spec(S16, (1, 4), ScaleOffset(0.1))
    y = Spec(U16, (1, 1), ScaleOffset(0.1))
    view = node("FullyConnected", [x, w], [y])
    every = np.arange(65536)
    most = max(
        np.abs(bytes_of(every, x)[i][1]).max() * np.abs(bytes_of(every - 32768, w)[j][1]).max()
        for i, j in product(range(2), repeat=2)
    )
    assert accumulator_bound(view) == 4 * most
