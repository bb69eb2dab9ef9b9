"""Det against NumPy's, which decomposes matrices, in float64."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32 = np.float32


@pytest.fixture
def determinants(model, read, evaluate):
    """Convert and runs."""

    def run(x, opset=17):
        node = helper.make_node("Det", ["x"], ["y"])
        graph = read(model([node], {"x": x}, ["y"], opset=opset))
        return evaluate(graph, {"x": x})["y"]

    return run


@pytest.mark.parametrize("opset", [11, 22])
@pytest.mark.parametrize("rows", range(9))
@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (0,)])
def test_matrices(determinants, rng, batch, rows, opset) -> None:
    x = rng.standard_normal((*batch, rows, rows)).astype(F32)
    found = determinants(x, opset)
    assert found.dtype == F32
    assert found.shape == batch
    # Each product has `rows` roundings, and the sums as many: this is about their sum's size,
    # that of the permanent of absolute values, which is below the product of the rows' sums.
    size = np.abs(x.astype(np.float64)).sum(-1).prod(-1)
    error = np.abs(found - np.linalg.det(x.astype(np.float64)))
    assert (error <= 2 * max(rows, 1) * np.finfo(F32).eps * size).all()


def test_whole_numbers_are_exact(determinants) -> None:
    rows = [[2, 0, 1, 3], [1, 1, 0, 2], [0, 4, 1, 1], [3, 1, 2, 0]]
    # 2 * minor of column 0, and so on, by hand
    x = np.array([rows, rows[::-1], np.eye(4)], F32)
    assert determinants(x).tolist() == [round(np.linalg.det(m)) for m in x]
    # two rows are exchanged twice
    assert determinants(x)[0] == determinants(x)[1]


@pytest.mark.parametrize(
    ("shape", "kind", "message"),
    [
        ((3,), FrontendError, "must be"),
        ((2, 3), FrontendError, r"got shape \(2, 3\)"),
        (
            (2, 9, 9),
            UnsupportedOpError,
            "unsupported matrices of 9 rows; the maximum is 8, since every row more",
        ),
    ],
)
def test_refusals(determinants, shape, kind, message) -> None:
    with pytest.raises(kind, match=message):
        determinants(np.zeros(shape, F32))
