"""Cases: how their types settle, and when an output counts as the answer."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.ir import DType, ScaleOffset, Spec
from dovetail.testing import Call, Encoded, OpCase, bind, encoding_of, typed
from dovetail.testing.comparison import difference

X = np.array([[-1.0, 0.25, 3.0]], np.float32)


def case(**changes: object) -> OpCase:
    return OpCase("Double", (X,), lambda x: x * 2, **changes)  # type: ignore[arg-type]


def test_a_float_answer_takes_the_type_of_the_float_input() -> None:
    wide = OpCase("Double", (X,), lambda x: x.astype(np.float64) * 2)
    half = OpCase("Double", (X.astype(np.float16),), lambda x: x * 2)
    for made, dtype in ((wide, DType.FLOAT_32), (half, DType.FLOAT_16)):
        (expected,) = bind(made).expected
        assert expected.dtype is dtype
        assert expected.values.dtype == dtype.storage
        np.testing.assert_array_equal(expected.values, [[-2.0, 0.5, 6.0]])


def test_other_answers_keep_their_type() -> None:
    (places,) = bind(OpCase("Argmax", (X,), np.array([2], np.int32))).expected
    assert (places.dtype, places.encoding) == (DType.INT_32, None)
    (truth,) = bind(OpCase("IsNan", (X,), lambda x: x != x)).expected
    assert truth.dtype is DType.BOOL_8


def test_a_fixed_point_case_answers_for_the_values_as_they_are_stored() -> None:
    (quantized,) = typed(case(), DType.UFIXED_POINT_8)
    bound = bind(quantized)
    (given,), (expected,) = bound.inputs, bound.expected
    assert given is not None
    assert isinstance(given.encoding, ScaleOffset)
    assert isinstance(expected.encoding, ScaleOffset)
    assert given.values.dtype == np.uint8
    real = (given.values.astype(int) + given.encoding.offset) * given.encoding.scale
    assert np.abs(real - X).max() <= given.encoding.scale  # a step, with zero on the grid
    again = (expected.values.astype(int) + expected.encoding.offset) * expected.encoding.scale
    assert np.abs(again - real * 2).max() <= expected.encoding.scale


@pytest.mark.parametrize("dtype", [DType.UFIXED_POINT_8, DType.SFIXED_POINT_16])
@pytest.mark.parametrize(
    "values", [[-1.0, 2.0], [1.0, 2.0], [-2.0, -1.0], [0.0, 0.0], [np.inf, np.nan, 1.0], []]
)
def test_encodings_hold_every_finite_value_and_zero(dtype: DType, values: list[float]) -> None:
    array = np.array(values, np.float32)
    encoding = encoding_of(array, dtype)
    assert not encoding.faults(array.shape, dtype)
    least, greatest = ((q + encoding.offset) * encoding.scale for q in dtype.stored_range())
    finite = [0.0, *array[np.isfinite(array)]]
    assert least - encoding.scale <= min(finite)
    assert max(finite) <= greatest + encoding.scale
    assert 0 in (np.arange(dtype.stored_range()[0], dtype.stored_range()[1] + 1) + encoding.offset)


def test_scalars_are_tensors_of_rank_0() -> None:
    bound = bind(OpCase("Double", (np.float32(2.0),), lambda x: x * 2))  # type: ignore[arg-type]
    assert bound.expected[0].spec == Spec(DType.FLOAT_32, ())


def test_inputs_of_the_graph_are_not_fed() -> None:
    bound = bind(OpCase("Add", (X, X, None), lambda a, b, _: a + b, static=(1,)))
    assert list(bound.feeds()) == ["x0"]
    assert not bound.feeds()["x0"].flags.writeable


def test_a_case_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match=r"2 outputs, 1 expected"):
        bind(case(outputs=(Spec(DType.FLOAT_32, (1, 3)),) * 2))
    with pytest.raises(ValueError, match=r"declared \(3,\), expected \(1, 3\)"):
        bind(case(outputs=(Spec(DType.FLOAT_32, (3,)),)))
    with pytest.raises(TypeError, match="not a function"):
        typed(OpCase("Double", (X,), X * 2), DType.FLOAT_16)


def test_a_later_call_is_of_the_same_form() -> None:
    bound = bind(case(later_calls=(Call((X + 1,), lambda x: x * 2),)))
    np.testing.assert_array_equal(bound.later_calls[0].expected[0].values, X * 2 + 2)
    with pytest.raises(ValueError, match="later call has other types"):
        bind(case(later_calls=(Call((X.astype(np.float64),), X),)))


def judge(found: list[object], expected: list[object], dtype: DType, **changes: object) -> str:
    stored = [np.array(a, dtype.storage) for a in (found, expected)]
    encoding = ScaleOffset(1.0) if dtype.is_fixed_point else None
    return difference(stored[0], Encoded(stored[1], dtype, encoding), case(**changes))


@pytest.mark.parametrize(
    ("dtype", "found", "expected"),
    [
        (DType.FLOAT_32, [1.0, np.nan, np.inf], [1.000001, np.nan, np.inf]),
        (DType.FLOAT_32, [], []),
        (DType.INT_64, [2**62 + 1], [2**62 + 1]),
        (DType.UFIXED_POINT_8, [255, 0], [254, 1]),
        (DType.BOOL_8, [True], [True]),
    ],
)
def test_what_counts_as_equal(dtype: DType, found: list[object], expected: list[object]) -> None:
    assert judge(found, expected, dtype, steps=1) == ""


@pytest.mark.parametrize(
    ("dtype", "found", "expected"),
    [
        (DType.FLOAT_32, [1.0, 2.0], [1.0, 2.001]),
        (DType.FLOAT_32, [np.nan], [1.0]),
        (DType.FLOAT_32, [1.0], [np.nan]),
        (DType.FLOAT_32, [np.inf], [-np.inf]),
        (DType.FLOAT_32, [3e38], [np.inf]),
        (DType.INT_64, [2**62 + 1], [2**62]),  # equal as float64
        (DType.UFIXED_POINT_8, [255], [253]),
        (DType.BOOL_8, [True], [False]),
    ],
)
def test_what_counts_as_different(
    dtype: DType, found: list[object], expected: list[object]
) -> None:
    assert "elements differ" in judge(found, expected, dtype, steps=1)


def test_the_worst_place_is_named() -> None:
    text = judge([1.0, 2.5, 3.1], [1.0, 2.0, 3.0], DType.FLOAT_32)
    assert text.startswith("2 of 3 elements differ; the worst is 2.5 at (1,)")


def test_another_form_is_no_answer() -> None:
    expected = Encoded(X, DType.FLOAT_32)
    assert "(3,)" in difference(X[0], expected, case())
    assert "float64" in difference(X.astype(np.float64), expected, case())
