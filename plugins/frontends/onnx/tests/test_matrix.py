"""Matrix products against the peer."""

from __future__ import annotations

import numpy as np
import pytest

F32 = np.float32


def data(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


@pytest.mark.parametrize("opset", [7, 9, 13])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (3, 4, 2)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((2, 3, 4), (4,)),
        ((4,), (2, 4, 5)),
    ],
)
def test_matmul(check, rng, a, b, opset) -> None:
    x, y = data(rng, *a), data(rng, *b)
    check("MatMul", [x, y], opset=opset)
    check("MatMul", [x], known=[y], opset=opset)


def test_known_weights_make_a_fully_connected_layer(check, rng) -> None:
    y = data(rng, 4, 5)
    graph = check("MatMul", [data(rng, 3, 4)], known=[y])
    (node,) = graph.nodes
    assert node.op_type == "FullyConnected"
    weights = graph.tensor("c0")
    assert weights.source_perm == (1, 0)
    np.testing.assert_array_equal(weights.values(), y.T)


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("factors", [{}, {"alpha": 0.5, "beta": 2.0}, {"beta": 0.0}])
@pytest.mark.parametrize("known", [True, False])
def test_gemm(check, rng, opset, trans_a, trans_b, factors, known) -> None:
    a = data(rng, *((4, 3) if trans_a else (3, 4)))
    b = data(rng, *((5, 4) if trans_b else (4, 5)))
    inputs = ([a], [b, data(rng, 5)]) if known else ([a, b, data(rng, 5)], [])
    check(
        "Gemm", inputs[0], known=inputs[1], opset=opset, transA=trans_a, transB=trans_b, **factors
    )


@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 5), (3, 1), (3, 5)])
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_gemm_adds_what_broadcasts(check, rng, shape, beta) -> None:
    a, b, c = data(rng, 3, 4), data(rng, 4, 5), data(rng, *shape)
    check("Gemm", [a], known=[b, c], beta=beta)
    check("Gemm", [a, b, c], beta=beta)


def test_gemm_without_addend(check, rng) -> None:
    check("Gemm", [data(rng, 3, 4)], known=[data(rng, 4, 5)], alpha=2.0)
    check("Gemm", [data(rng, 3, 4), data(rng, 4, 5)])
