"""Matrix products against sums written out by einsum in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dovetail.errors import OpError

Run = Callable[..., Any]
# float32 sums of a dozen products of numbers near 1
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
extents = st.integers(0, 4)


@given(
    hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3),
    st.tuples(extents, extents, extents),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.integers(0, 99),
)
def test_matmul(
    run_op: Run,
    batch: hnp.BroadcastableShapes,
    mkn: tuple[int, int, int],
    flags: tuple[bool, bool, bool],
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    (m, k, n), (flip_a, flip_b, biased) = mkn, flags
    a = rng.standard_normal((*batch.input_shapes[0], *((k, m) if flip_a else (m, k))), np.float32)
    b = rng.standard_normal((*batch.input_shapes[1], *((n, k) if flip_b else (k, n))), np.float32)
    bias = rng.standard_normal(n, np.float32) if biased else None
    y = run_op("MatMul", a, b, bias, transpose_in0=flip_a, transpose_in1=flip_b)
    path = f"...{'km' if flip_a else 'mk'},...{'nk' if flip_b else 'kn'}->...mn"
    want = np.einsum(path, a.astype(np.float64), b.astype(np.float64))
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, want if bias is None else want + bias, **TOLERANCE)


@pytest.mark.parametrize(
    ("x", "keep_dims", "shape"),
    [
        ((6,), False, (5,)),
        ((4, 6), False, (4, 5)),
        ((2, 3, 4), False, (4, 5)),
        ((2, 4, 6), True, (2, 4, 5)),
        ((0, 6), False, (0, 5)),
        ((1, 2, 3, 1), False, (1, 5)),
    ],
)
def test_fully_connected(
    run_op: Run, rng: np.random.Generator, x: tuple[int, ...], keep_dims: bool, shape: tuple[int]
) -> None:
    values = rng.standard_normal(x, np.float32)
    w, b = rng.standard_normal((5, 6), np.float32), rng.standard_normal(5, np.float32)
    y = run_op("FullyConnected", values, w, b, keep_dims=keep_dims)
    rows = values.astype(np.float64).reshape(-1, 6)
    want = (np.einsum("bk,uk->bu", rows, w.astype(np.float64)) + b).reshape(shape)
    np.testing.assert_allclose(y, want, **TOLERANCE)
    assert y.shape == shape


@pytest.mark.parametrize(
    ("name", "a", "b", "params", "said"),
    [
        ("MatMul", (2, 3), (4, 5), {}, "rows of 3 with columns of 4"),
        ("MatMul", (3, 2), (5, 4), {"transpose_in0": True, "transpose_in1": True}, "rows of 3"),
        ("MatMul", (3,), (3, 2), {}, "rank 2 or more"),
        ("MatMul", (2, 1, 3), (4, 3, 1), {}, "do not broadcast"),
        ("FullyConnected", (2, 5), (7, 6), {}, "10 elements of in[0] (2, 5) do not divide"),
        ("FullyConnected", (3, 4), (7, 6), {"keep_dims": True}, "have 4 elements"),
        ("FullyConnected", (), (7, 6), {}, "it is a scalar"),
    ],
)
def test_refusals(
    run_op: Run, name: str, a: tuple[int], b: tuple[int], params: dict[str, Any], said: str
) -> None:
    with pytest.raises(OpError) as caught:
        run_op(name, np.zeros(a, np.float32), np.zeros(b, np.float32), **params)
    assert said in str(caught.value)
