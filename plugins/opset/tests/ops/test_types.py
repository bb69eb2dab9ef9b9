"""Changes of type: numbers as stored, and real values as near as a type allows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Encoding, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_opset.build import add

Evaluate = Callable[..., Any]
U8, S8, S16, F32 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.SFIXED_POINT_16, DType.FLOAT_32
CODE = ScaleOffset(0.5, -10)


def convert(
    evaluate: Evaluate,
    op_type: str,
    stored: Array,
    dtype: DType,
    encoding: Encoding | None,
    out: Spec | None,
) -> Array:
    graph = Graph("g")
    x = Tensor("x", dtype, stored.shape, TensorKind.APP_WRITE, encoding=encoding)
    graph.add_tensor(x)
    add(graph, op_type, [x], name="y", spec=out)
    found: Array = evaluate(graph, {"x": stored})["y"]
    return found


def test_quantize(evaluate: Evaluate) -> None:
    x = np.array([-9, -5, 0, 0.25, 0.75, 1, 1000], np.float32)
    y = convert(evaluate, "Quantize", x, F32, None, Spec(U8, x.shape, CODE))
    # round half to even on the grid, then the zero point 10, then the ends of the type
    np.testing.assert_array_equal(y, [0, 0, 10, 10, 12, 12, 255])
    assert y.dtype == np.uint8


def test_dequantize(evaluate: Evaluate) -> None:
    y = convert(evaluate, "Dequantize", np.array([0, 10, 255], np.uint8), U8, CODE, None)
    np.testing.assert_array_equal(y, np.array([-5, 0, 122.5], np.float32))


def test_convert_keeps_real_values(evaluate: Evaluate) -> None:
    stored = np.array([0, 10, 11, 255], np.uint8)
    out = Spec(S16, stored.shape, ScaleOffset(0.25, 3))
    y = convert(evaluate, "Convert", stored, U8, CODE, out)
    np.testing.assert_array_equal((y.astype(int) + 3) * 0.25, [-5, 0, 0.5, 122.5])
    half = convert(evaluate, "Convert", stored, U8, CODE, Spec(DType.FLOAT_16, stored.shape))
    assert half.dtype == np.float16


def test_cast_looks_at_stored_numbers(evaluate: Evaluate) -> None:
    stored = np.array([0, 10, 255], np.uint8)
    as_float = convert(evaluate, "Cast", stored, U8, CODE, Spec(F32, stored.shape))
    np.testing.assert_array_equal(as_float, [0, 10, 255])  # not -5, 0, 122.5
    x = np.array([-1.9, 1.9, 0, 3], np.float32)
    as_int = convert(evaluate, "Cast", x, F32, None, Spec(DType.INT_32, x.shape))
    np.testing.assert_array_equal(as_int, [-1, 1, 0, 3])
    as_bool = convert(evaluate, "Cast", x, F32, None, Spec(DType.BOOL_8, x.shape))
    np.testing.assert_array_equal(as_bool, [True, True, False, True])
    nibbles = convert(
        evaluate, "Cast", x * 5, F32, None, Spec(DType.SFIXED_POINT_4, x.shape, ScaleOffset(1.0))
    )
    np.testing.assert_array_equal(nibbles, [-8, 7, 0, 7])


INTEGERS = [d for d in DType if (d.is_int or d.is_fixed_point) and not d.is_packed]


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64])
def test_floats_out_of_range_are_clamped_and_nan_is_zero(
    evaluate: Evaluate, dtype: DType, source: type
) -> None:
    low, high = (int(v) for v in dtype.stored_range())
    x = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, -0.9, 7.9, low, high], np.float64)
    with np.errstate(over="ignore"):
        x = x.astype(source)
    encoding = ScaleOffset(1.0) if dtype.is_fixed_point else None
    y = convert(evaluate, "Cast", x, DType.of(x.dtype), None, Spec(dtype, x.shape, encoding))
    exact = [min(max(int(v), low), high) for v in x[5:].astype(float).clip(-1e30, 1e30).tolist()]
    assert y.tolist() == [0, high, low, high, low, *exact]


def test_integers_wrap_in_cast_and_are_clamped_in_convert(evaluate: Evaluate) -> None:
    x = np.array([2**32 + 1, -(2**32), 2**31, -1, 5], np.int64)
    cast = convert(evaluate, "Cast", x, DType.INT_64, None, Spec(DType.INT_32, x.shape))
    assert cast.tolist() == [1, 0, -(2**31), -1, 5]
    near = convert(evaluate, "Convert", x, DType.INT_64, None, Spec(DType.INT_32, x.shape))
    assert near.tolist() == [2**31 - 1, -(2**31), 2**31 - 1, -1, 5]
    whole = convert(evaluate, "Convert", x, DType.INT_64, None, Spec(DType.UINT_64, x.shape))
    assert whole.tolist() == [2**32 + 1, 0, 2**31, 0, 5]


def test_convert_of_floats_to_integers(evaluate: Evaluate) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3.7], np.float32)
    y = convert(evaluate, "Convert", x, F32, None, Spec(DType.INT_32, x.shape))
    assert y.tolist() == [0, 2**31 - 1, -(2**31), 2**31 - 1, -3]


@pytest.mark.parametrize(
    ("op_type", "dtype", "encoding", "out", "said"),
    [
        ("Cast", F32, None, None, "must declare the new type"),
        ("Cast", F32, None, Spec(DType.BFLOAT_16, (2,)), "use Convert"),
        ("Quantize", F32, None, Spec(U8, (2,)), "out[0] is UFIXED_POINT_8 but has no encoding"),
        ("Dequantize", U8, None, None, "in[0] is UFIXED_POINT_8 but has no encoding"),
        ("Dequantize", U8, CODE, Spec(DType.INT_32, (2,)), "must be a float type"),
        ("Convert", F32, None, Spec(F32, (3,)), "is declared as FLOAT_32 (3,), but"),
    ],
)
def test_refusals(
    evaluate: Evaluate,
    op_type: str,
    dtype: DType,
    encoding: Encoding | None,
    out: Spec | None,
    said: str,
) -> None:
    with pytest.raises(OpError) as caught:
        convert(evaluate, op_type, np.zeros(2, dtype.storage), dtype, encoding, out)
    assert said in str(caught.value)
