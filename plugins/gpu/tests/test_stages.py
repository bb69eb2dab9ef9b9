"""Elementwise nodes that run as stages of one kernel, against `cpu`."""

import functools

import numpy as np
import pytest
import small_nets

from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail_opset.build import add, static

real = functools.partial(small_nets.real, scale=2.0)


@pytest.mark.parametrize("shape", [(5,), (2, 3, 8), (4, 3), (1, 2, 2, 16)])
@pytest.mark.parametrize("is_half", [False, True])
def test_slopes_and_scales_by_channel(check_op, shape, is_half):
    x, w, b = real(*shape), real(shape[-1], seed=2), real(shape[-1], seed=3)
    check_op("Prelu", x, w, is_half=is_half)
    check_op("Batchnorm", x, w, b, is_half=is_half)
    check_op("Batchnorm", x, w, None, is_half=is_half)


def chain(*nodes, shape=(2, 3, 8), dtype=DType.FLOAT_32):
    """Create a graph of nodes: an op, and its operands besides the result before, `...`."""
    graph = Graph("chain")
    y = graph.add_tensor(Tensor("x", dtype, shape, TensorKind.APP_WRITE))
    for i, (op_type, *operands, params) in enumerate(nodes):
        inputs = [y]
        if operands:
            inputs = [
                y if array is ... else static(graph, f"c{i}.{j}", array.astype(dtype.storage))
                for j, array in enumerate(operands)
            ]
        y = add(graph, op_type, inputs, name=f"n{i}", **params)
    y.kind = TensorKind.APP_READ
    return graph


CHAINS = {
    "either side": (
        ("ElementWiseSubtract", real(8, seed=2), ..., {}),
        ("ElementWiseDivide", ..., 1 + np.abs(real(2, 3, 8, seed=3)), {}),
        ("ElementWiseMaximum", np.float32(0.25).reshape(1), ..., {}),
        ("ElementWisePower", ..., np.float32(2).reshape(1), {}),
    ),
    "by channel": (
        ("Prelu", ..., real(8, seed=2), {}),
        ("Batchnorm", ..., real(8, seed=3), real(8, seed=4), {}),
        ("ElementWiseUnary", {"operation": 0}),
        ("ElementWiseNeuron", {"operation": 5, "min_value": 0.5, "max_value": 3.0}),
    ),
    "after a broadcast": (
        ("ElementWiseAdd", ..., real(2, 1, 8, seed=2), {}),
        ("ElementWiseMultiply", ..., real(8, seed=3), {}),
        ("Sigmoid", {}),
    ),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("dtype", [DType.FLOAT_32, DType.FLOAT_16])
def test_chains_are_one_step(same_as_cpu, steps_of, name, dtype):
    graph = chain(*CHAINS[name], dtype=dtype)
    assert len(steps_of(graph)) == 1
    x = real(2, 3, 8).astype(dtype.storage)
    same_as_cpu(graph, {"x": x}, 1e-4 if dtype is DType.FLOAT_32 else 2e-2)


@pytest.mark.parametrize(
    ("op_type", "is_first"), [("ElementWiseMultiply", True), ("ElementWiseSubtract", False)]
)
def test_gates_run_with_the_chain(same_as_cpu, steps_of, op_type, is_first):
    graph = chain(("Batchnorm", ..., real(8, seed=3), real(8, seed=4), {}))
    y = graph.tensor("n0")
    y.kind = TensorKind.NATIVE
    gate = add(graph, "Sigmoid", [y], name="gate")
    pair = [y, gate] if is_first else [gate, y]
    y = add(graph, op_type, pair, name="joint")
    add(graph, "Relu", [y], name="last").kind = TensorKind.APP_READ
    assert len(steps_of(graph)) == 1
    same_as_cpu(graph, {"x": real(2, 3, 8)})


def test_a_gate_that_is_read_again_stays_alone(same_as_cpu, steps_of):
    graph = chain(("ElementWiseAbs", {}))
    y = graph.tensor("n0")
    y.kind = TensorKind.NATIVE
    gate = add(graph, "Sigmoid", [y], name="gate")
    add(graph, "ElementWiseMultiply", [y, gate], name="joint").kind = TensorKind.APP_READ
    add(graph, "Relu", [gate], name="other").kind = TensorKind.APP_READ
    assert len(steps_of(graph)) == 4
    same_as_cpu(graph, {"x": real(2, 3, 8)})
