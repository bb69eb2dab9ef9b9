"""Softmax, its logarithm and its masked form against `math`, one row after the other."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.errors import OpError
from dovetail.ir import DType, Graph, ScaleOffset, Tensor, TensorKind
from dovetail_opset.build import add

Run = Callable[..., Any]


def test_softmax(run_op: Run, rng: np.random.Generator) -> None:
    x = (rng.standard_normal((2, 3, 5)) * 4).astype(np.float32)
    for axis, beta in ((0, 1.0), (1, 0.5), (2, 2.0)):
        y = run_op("Softmax", x, axis=axis, beta=beta)
        powers = np.exp(beta * x.astype(np.float64))
        # float32 exp of numbers up to 25 and a sum of 5
        np.testing.assert_allclose(y, powers / powers.sum(axis, keepdims=True), rtol=2e-5)
    np.testing.assert_array_equal(run_op("Softmax", x), run_op("Softmax", x, axis=2))


def test_softmax_of_large_and_of_no_elements(run_op: Run) -> None:
    y = run_op("Softmax", np.array([[1e4, 1e4, -np.inf]], np.float32))
    np.testing.assert_array_equal(y, [[0.5, 0.5, 0]])
    assert run_op("Softmax", np.zeros((3, 0), np.float32)).shape == (3, 0)


def test_softmax_with_a_negative_beta_does_not_overflow(run_op: Run) -> None:
    y = run_op("Softmax", np.array([[0, 1e4, 1e4]], np.float32), beta=-1.0)
    np.testing.assert_array_equal(y, [[1, 0, 0]])


@pytest.mark.parametrize(("axis", "beta"), [(0, 1.0), (1, 0.5), (2, 2.0), (1, -1.5)])
def test_log_softmax(run_op: Run, rng: np.random.Generator, axis: int, beta: float) -> None:
    x = (rng.standard_normal((2, 3, 5)) * 4).astype(np.float32)
    y = run_op("LogSoftmax", x, axis=axis, beta=beta)
    for place in np.ndindex(*x.shape):
        row = np.moveaxis(x, axis, -1)[tuple(p for i, p in enumerate(place) if i != axis)]
        total = math.fsum(math.exp(beta * v) for v in row.tolist())
        # logits up to 40 and their difference, each rounded to float32
        assert y[place] == pytest.approx(beta * float(x[place]) - math.log(total), abs=2e-5)


def test_log_softmax_far_out_and_of_no_elements(run_op: Run) -> None:
    y = run_op("LogSoftmax", np.array([[1e4, 0, -1e4]], np.float32), axis=1)
    np.testing.assert_array_equal(y, [[0, -1e4, -2e4]])  # log(softmax) would be -inf
    assert run_op("LogSoftmax", np.zeros((0, 3), np.float32), axis=0).shape == (0, 3)
    assert run_op("LogSoftmax", np.zeros((2, 3), np.float16), axis=1).dtype == np.float16


@pytest.mark.parametrize(
    ("op", "params"), [("Softmax", {}), ("LogSoftmax", {"axis": 3}), ("MaskedSoftmax", {})]
)
def test_stored_integers_need_an_encoding(op: str, params: dict[str, int]) -> None:
    shape, fixed = (1, 1, 2, 3), DType.UFIXED_POINT_8
    for encoding in (ScaleOffset(0.1), None):
        graph = Graph("net")
        ins = [graph.add_tensor(Tensor("x", fixed, shape, TensorKind.APP_WRITE, encoding=encoding))]
        if op == "MaskedSoftmax":
            ins.append(graph.add_tensor(Tensor.static("m", np.zeros((1, 3), np.float32))))
        y = Tensor("y", fixed, shape, TensorKind.APP_READ, encoding=ScaleOffset(0.1))
        if encoding is not None:
            add(graph, op, ins, name="n", outputs=y, **params)
            continue
        with pytest.raises(OpError) as caught:
            add(graph, op, ins, name="n", outputs=y, **params)
        assert "in[0] is UFIXED_POINT_8 but has no encoding" in str(caught.value)


# -- MaskedSoftmax -------------------------------------------------------------------------------


def shares(row: list[float], kept: list[int]) -> list[float]:
    """Return the softmax of a row over the kept elements, 0 for the others."""
    powers = [math.exp(v) if i in kept else 0.0 for i, v in enumerate(row)]
    return [p / math.fsum(powers) for p in powers]


def test_masked_softmax_with_a_mask_to_add(run_op: Run, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    mask = np.float32([[0, 0, -10000, 0, -10000], [-10000, 0, 0, 0, 0]])
    y = run_op("MaskedSoftmax", x, mask)
    for place in np.ndindex(2, 3, 4):
        kept = np.flatnonzero(mask[place[0]] == 0).tolist()
        # float32 powers of numbers up to 4 and a sum of 5
        np.testing.assert_allclose(y[place], shares(x[place].tolist(), kept), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.float32])
def test_masked_softmax_of_packed_sequences(
    run_op: Run, rng: np.random.Generator, dtype: type[Any]
) -> None:
    x = rng.standard_normal((2, 2, 8, 8)).astype(np.float32)
    lengths = np.array([[1, 3, 4], [2, 0, 3]], dtype)  # three elements of the second are nobody's
    blocks = [[0], [1, 2, 3], [4, 5, 6, 7]], [[0, 1], [2, 3, 4]]
    y = run_op("MaskedSoftmax", x, lengths, mode=1)
    for item, head, row in np.ndindex(2, 2, 8):
        own = next((block for block in blocks[item] if row in block), None)
        want = [0.0] * 8 if own is None else shares(x[item, head, row].tolist(), own)
        np.testing.assert_allclose(y[item, head, row], want, rtol=1e-5)


def test_masked_softmax_of_nothing(run_op: Run) -> None:
    x = np.zeros((2, 0, 3, 3), np.float32)
    assert run_op("MaskedSoftmax", x, np.zeros((2, 3), np.float32)).shape == x.shape
    assert run_op("MaskedSoftmax", x, np.zeros((2, 0), np.int32), mode=1).shape == x.shape


@pytest.mark.parametrize(
    ("shape", "mask", "mode", "said"),
    [
        ((2, 3, 4), np.zeros((2, 4), np.float32), 0, "in[0] must have rank 4"),
        ((2, 3, 4, 5), np.zeros((2, 4), np.float32), 0, "the mask in[1] must have shape (2, 5)"),
        ((2, 3, 4, 5), np.zeros((2, 1), np.int32), 1, "4 rows of 5 elements"),
        ((2, 3, 5, 5), np.zeros(2, np.int32), 1, "the lengths in[1] must have rank 2"),
        ((2, 3, 5, 5), np.zeros((3, 1), np.int32), 1, "one row for each of 2 batch items"),
        ((1, 1, 5, 5), np.array([[2, 4]], np.int32), 1, "add up to 6, but a row of in[0] has 5"),
        ((1, 1, 5, 5), np.array([[2, -1]], np.int32), 1, "integers of 0 or more"),
        ((1, 1, 5, 5), np.array([[0.5]], np.float32), 1, "integers of 0 or more"),
    ],
)
def test_masks_that_do_not_fit(
    run_op: Run, shape: tuple[int, ...], mask: Any, mode: int, said: str
) -> None:
    with pytest.raises(OpError) as caught:
        run_op("MaskedSoftmax", np.zeros(shape, np.float32), mask, mode=mode)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
def test_refusals(run_op: Run, name: str) -> None:
    for x, axis, said in (
        (np.zeros((2, 3), np.float32), 2, "axis 2 is not an axis of a tensor of rank 2"),
        (np.zeros((), np.float32), 0, "of rank 0"),
        (np.zeros((2, 3), np.int32), 0, r"in\[0\] must be float or fixed-point, but is INT_32"),
    ):
        with pytest.raises(OpError, match=said):
            run_op(name, x, axis=axis)
