"""Cases of what is stored as integers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dovetail.ir import Array
from microsoft_cases._case import F32, Case, Known, case

RNG = np.random.default_rng(9)
TYPES = (np.uint8, np.int8)
# A mean that is nearly half way between two steps goes to either: sums and scales round otherwise.
_OFF = 0.03


def cases() -> Iterator[Case]:
    """Return the cases."""
    yield from _linear()
    yield from _dynamic()
    for dtype in TYPES:
        yield from _of_two(dtype)
        yield from _of_one(dtype)
        yield from _pools(dtype)
    yield from _joined()
    yield from _products()
    yield from _gemms()
    yield from _convolutions()
    yield from _attention()
    yield from _recurrent()


def stored(*shape: int, dtype: type = np.uint8) -> Array:
    """Return integers of all sizes."""
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def real(*shape: int) -> Array:
    """Return numbers around 0."""
    return RNG.normal(size=shape).astype(F32)


def coding(scale: float, point: int, dtype: type) -> tuple[Known, Known]:
    """Return a scale and a zero point."""
    return Known(np.array(scale, F32)), Known(np.array(point, dtype))


def _linear() -> Iterator[Case]:
    for dtype in (np.uint8, np.int8, np.uint16, np.int16):
        name = np.dtype(dtype).name
        scale, point = coding(0.013, 7, dtype)
        x = stored(3, 4, dtype=dtype)
        yield case("DequantizeLinear", name, [x, scale, point])
        yield case("DequantizeLinear", f"{name}, no zero point", [x, scale])
        y = (real(3, 4) * F32(30)).astype(F32)
        yield case("QuantizeLinear", name, [y, scale, point])
        yield case("QuantizeLinear", f"{name}, fed", [y, scale.values, point.values])
        scales = Known(RNG.uniform(0.01, 0.1, 4).astype(F32))
        points = Known(stored(4, dtype=dtype))
        yield case("DequantizeLinear", f"{name}, by axis", [x, scales, points], axis=1)
        yield case("QuantizeLinear", f"{name}, by axis", [y, scales, points], axis=-1)
    weights = Known(stored(3, 4))
    yield case("DequantizeLinear", "known weights", [weights, *coding(0.5, 3, np.uint8)])
    sums = RNG.integers(-9999, 9999, (3, 4), np.int32)
    yield case("DequantizeLinear", "int32", [sums, Known(np.array(0.01, F32))])


def _dynamic() -> Iterator[Case]:
    op, onnx = "DynamicQuantizeLinear", {"domain": "", "outputs": 3}
    x = real(2, 3, 4)
    for opset in (11, 17, 21):
        yield case(op, f"opset {opset}", [x], opset_import=opset, **onnx)
    yield case(op, "all above 0", [np.abs(x) + F32(2)], **onnx)
    yield case(op, "all below 0", [-np.abs(x) - F32(2)], **onnx)
    yield case(op, "all 0", [np.zeros_like(x)], **onnx)


def _recurrent() -> Iterator[Case]:
    op = "DynamicQuantizeLSTM"
    # there, inputs and states are rounded to 8 bits of their range in each step
    how = {"rtol": 0.0, "atol": 0.03, "outputs": 3, "hidden_size": 6}
    x = real(5, 2, 4)
    for dtype in TYPES:
        for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            weights = Known(stored(count, 4, 24, dtype=dtype))
            recurrent = Known(stored(count, 6, 24, dtype=dtype))
            zero = Known(np.full(count, 9, dtype))
            scale = Known(RNG.uniform(0.001, 0.003, count).astype(F32))
            inputs = [x, weights, recurrent, Known(real(count, 48)), None, None, None, None]
            about = f"{np.dtype(dtype).name}, {direction}"
            yield case(op, about, [*inputs, scale, zero, scale, zero], direction=direction, **how)
    columns = Known(RNG.uniform(0.001, 0.003, (1, 24)).astype(F32))
    zeros = Known(np.zeros((1, 24), np.int8))
    stored_w, stored_r = (Known(stored(1, k, 24, dtype=np.int8)) for k in (4, 6))
    states = [real(1, 2, 6), real(1, 2, 6)]
    inputs = [x, stored_w, stored_r, Known(real(1, 48)), None, *states, None]
    yield case(op, "by column, with states", [*inputs, columns, zeros, columns, zeros], **how)


def _of_two(dtype: type) -> Iterator[Case]:
    name = np.dtype(dtype).name
    codes = coding(0.0213, 5, dtype), coding(0.0347, 9, dtype), coding(0.0517, 11, dtype)
    for op in ("QLinearAdd", "QLinearMul"):
        a, b = stored(2, 3, 5, dtype=dtype), stored(2, 3, 5, dtype=dtype)
        yield case(op, f"{name}", [a, *codes[0], b, *codes[1], *codes[2]])
        known = Known(stored(3, 1, dtype=dtype))
        yield case(op, f"{name}, broadcast", [a, *codes[0], known, *codes[1], *codes[2]])


def _of_one(dtype: type) -> Iterator[Case]:
    name = np.dtype(dtype).name
    x, code = stored(2, 3, 5, dtype=dtype), coding(0.0213, 5, dtype)
    unit = coding(1 / 256, 0 if dtype is np.uint8 else -128, dtype)
    yield case("QLinearSigmoid", name, [x, *code, *unit])
    result = coding(0.0417, 3, dtype)
    yield case("QLinearLeakyRelu", name, [x, *code, *result], alpha=0.1)
    yield case("QLinearLeakyRelu", f"{name}, the default slope", [x, *code, *result])
    yield case("QLinearSoftmax", name, [x, *code, *unit], axis=-1, opset=13)
    yield case("QLinearSoftmax", f"{name}, another axis", [x, *code, *unit], axis=1, opset=13)
    yield case("QLinearSoftmax", f"{name}, as before", [x, *code, *unit], axis=1, opset=11)


def _pools(dtype: type) -> Iterator[Case]:
    name = np.dtype(dtype).name
    code, result = coding(0.0213, 5, dtype), coding(0.0187, 3, dtype)
    x, last = stored(2, 3, 6, 7, dtype=dtype), stored(2, 6, 7, 3, dtype=dtype)
    op = "QLinearGlobalAveragePool"
    yield case(op, name, [x, *code, *result])
    yield case(op, f"{name}, channels last", [last, *code, *result], channels_last=1)
    window: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1]}
    op = "NhwcMaxPool"
    yield case(op, name, [last], **window)
    yield case(op, f"{name}, padded", [last], pads=[1, 0, 1, 1], **window)
    yield case(op, f"{name}, rounded up", [last], ceil_mode=1, **window)
    yield case(op, f"{name}, dilations", [last], dilations=[2, 3], **window)
    op = "QLinearAveragePool"
    window = {"off": _OFF, "kernel_shape": [3, 2], "strides": [2, 2]}
    yield case(op, name, [x, *code, *result], **window)
    padded = {"pads": [1, 0, 1, 1], **window}
    yield case(op, f"{name}, padded", [x, *code, *result], **padded)
    counted = {"count_include_pad": 1, **padded}
    yield case(op, f"{name}, padding counted", [x, *code, *result], **counted)
    yield case(op, f"{name}, rounded up", [x, *code, *result], ceil_mode=1, **window)
    yield case(op, f"{name}, channels last", [last, *code, *result], channels_last=1, **padded)


def _joined() -> Iterator[Case]:
    codes = [coding(scale, point, np.uint8) for scale, point in ((0.02, 5), (0.03, 7), (0.05, 9))]
    parts = [stored(2, 3, 4), stored(2, 5, 4), stored(2, 1, 4)]
    threes = [v for part, code in zip(parts, codes, strict=True) for v in (part, *code)]
    yield case("QLinearConcat", "three parts", [*coding(0.041, 11, np.uint8), *threes], axis=1)
    same = [*codes[0], parts[0], *codes[0]]
    yield case("QLinearConcat", "one part as it is", same, axis=-1)
    where = RNG.random((2, 3, 4)) < 0.5
    both = [where, *threes[:3], stored(2, 3, 4), *codes[1], *codes[2]]
    yield case("QLinearWhere", "two parts", both)


def _products() -> Iterator[Case]:
    op = "MatMulIntegerToFloat"
    scale, other = Known(np.array(0.021, F32)), Known(RNG.uniform(0.01, 0.1, 6).astype(F32))
    for a_type in TYPES:
        # ONNX Runtime has no kernel for int8 times uint8
        for b_type in TYPES if a_type is np.uint8 else [np.int8]:
            about = f"{np.dtype(a_type).name} times {np.dtype(b_type).name}"
            a, b = stored(2, 3, 4, dtype=a_type), Known(stored(4, 6, dtype=b_type))
            zeros = Known(np.array(7, a_type)), Known(np.array(9, b_type))
            yield case(op, about, [a, b, scale, scale, *zeros])
            columns = Known(stored(6, dtype=b_type))
            bias = Known(real(6))
            many = [a, b, scale, other, zeros[0], columns, bias]
            yield case(op, f"{about}, by column, a bias", many)
    yield case(op, "no zero points", [stored(3, 4), Known(stored(4, 6)), scale, other])
    two, by_matrix = Known(stored(2, 4, 6)), Known(RNG.uniform(0.01, 0.1, (2, 1, 6)).astype(F32))
    yield case(op, "scales of two matrices", [stored(2, 3, 4), two, scale, by_matrix])
    op, x = "DynamicQuantizeMatMul", real(2, 3, 4)
    for dtype in TYPES:
        about, b = np.dtype(dtype).name, Known(stored(4, 6, dtype=dtype))
        zero, columns = Known(np.array(9, dtype)), Known(stored(6, dtype=dtype))
        yield case(op, about, [x, b, scale, zero])
        yield case(op, f"{about}, by column, a bias", [x, b, other, columns, Known(real(6))])
        yield case(op, f"{about}, no zero point", [x, b, scale])
    bytes_ = Known(stored(4, 6))
    yield case(op, "all above 0", [np.abs(x) + F32(2), bytes_, scale])
    yield case(op, "all 0", [np.zeros_like(x), bytes_, scale])


def _gemms() -> Iterator[Case]:
    op = "QGemm"
    a, b = stored(3, 4), Known(stored(4, 6, dtype=np.int8))
    code, weights = coding(0.021, 120, np.uint8), coding(0.013, 3, np.int8)
    result, c = coding(0.11, 128, np.uint8), Known(RNG.integers(-900, 900, 6, np.int32))
    yield case(op, "stored", [a, *code, b, *weights, c, *result])
    yield case(op, "real", [a, *code, b, *weights, c])
    yield case(op, "real, a scale", [a, *code, b, *weights, c, result[0]])
    yield case(op, "no addend", [a, *code, b, *weights, None, *result])
    columns = Known(RNG.uniform(0.01, 0.1, 6).astype(F32)), Known(stored(6, dtype=np.int8))
    yield case(op, "by column", [a, *code, b, *columns, c], alpha=0.5)
    yield case(op, "by column, stored", [a, *code, b, *columns, c, *result])
    rows = Known(RNG.integers(-900, 900, (3, 1), np.int32))
    yield case(op, "by column, an addend by row", [a, *code, b, *columns, rows, *result])
    turned = [stored(4, 3), *code, Known(stored(6, 4, dtype=np.int8)), *weights, c, *result]
    yield case(op, "transposed, a factor", turned, transA=1, transB=1, alpha=0.5)


def _convolutions() -> Iterator[Case]:
    code, result = coding(0.021, 120, np.uint8), coding(0.21, 128, np.uint8)
    weights = Known(stored(6, 3, 3, 3, dtype=np.int8))
    scales = Known(RNG.uniform(0.01, 0.1, 6).astype(F32)), Known(np.zeros(6, np.int8))
    bias = Known(RNG.integers(-900, 900, 6, np.int32))
    window = {"pads": [1, 1, 1, 1], "strides": [2, 2]}
    given = [*code, weights, *scales, *result, bias]
    yield case("QLinearConv", "channels first", [stored(2, 3, 6, 7), *given], **window)
    last = {"channels_last": 1, **window}
    yield case("QLinearConv", "channels last", [stored(2, 6, 7, 3), *given], **last)


def _attention() -> Iterator[Case]:
    op, heads = "QAttention", {"num_heads": 2}
    x, w = stored(2, 5, 6), Known(stored(6, 24, dtype=np.int8))
    scales = Known(np.array(0.007, F32)), Known(np.array(0.008, F32))
    zeros = Known(np.array(128, np.uint8)), Known(np.array(3, np.int8))
    bias, ends = Known(real(24)), np.array([5, 2], np.int32)
    yield case(op, "no mask", [x, w, bias, *scales, None, *zeros], **heads)
    yield case(op, "ends", [x, w, bias, *scales, ends, *zeros], **heads)
    columns = Known(RNG.uniform(0.005, 0.01, 24).astype(F32)), Known(np.zeros(24, np.int8))
    by_column = [x, w, bias, scales[0], columns[0], ends, zeros[0], columns[1]]
    yield case(op, "by column", by_column, unidirectional=1, **heads)
    past = [x, w, bias, *scales, None, *zeros, real(2, 2, 2, 3, 4)]
    yield case(op, "a past", past, outputs=2, unidirectional=1, **heads)
