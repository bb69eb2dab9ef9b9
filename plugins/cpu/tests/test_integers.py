"""Which quantized nodes run on stored integers."""

import numpy as np
import pytest

from dovetail.ir import DType, Graph, ScaleOffset, Tensor, TensorKind
from dovetail_cpu import Quantized
from dovetail_opset.build import add, static

WINDOWS = {"stride": (1, 1), "pad_amount": [[1, 1], [1, 1]]}
U8, S8, U16 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.UFIXED_POINT_16


def convolution(data=U8, weights=S8, result=U8):
    """Return a graph of one convolution and stored values for it, full range."""
    graph, rng = Graph("quantized"), np.random.default_rng(5)

    def values(dtype, shape):
        low, high = dtype.stored_range()
        return rng.integers(low, high + 1, shape).astype(dtype.storage)

    shape = (1, 6, 6, 4)
    spec = Tensor("x", data, shape, TensorKind.APP_WRITE, encoding=ScaleOffset(0.05, -7))
    x = graph.add_tensor(spec)
    filters = values(weights, (3, 3, 4, 4))
    zero = ScaleOffset(0.01, -128 if weights is U8 else 0)
    w = static(graph, "w", filters, weights, encoding=zero)
    y = Tensor("y", result, shape, TensorKind.APP_READ, encoding=ScaleOffset(0.25, -20))
    add(graph, "Conv2d", [x, w], name="node", outputs=y, **WINDOWS)
    return graph, {"x": values(data, shape)}


@pytest.mark.parametrize("weights", [U8, S8])
def test_integers_are_exact(run_graph, weights):
    graph, feeds = convolution(weights=weights)
    ran = run_graph(graph, feeds)
    assert ran.on_integers == {"node"}
    x = np.pad(feeds["x"].astype(np.int64) - 7, [(0, 0), (1, 1), (1, 1), (0, 0)])
    w = graph.tensors["w"].stored().astype(np.int64) - (128 if weights is U8 else 0)
    acc = sum(x[:, i : i + 6, j : j + 6] @ w[i, j] for i in range(3) for j in range(3))
    v = acc.astype(np.float32) * np.float32(0.05 * 0.01 / 0.25)  # scales are multiplied in float64
    wanted = np.clip(np.rint(v + np.float32(20)), 0, 255)
    np.testing.assert_array_equal(ran.outputs["y"], wanted)
    assert len(np.unique(wanted)) > 50


@pytest.mark.parametrize("types", [{"data": S8}, {"data": U16}, {"weights": U16}, {"result": U16}])
def test_types_that_the_backend_does_not_have_are_simulated(run_graph, types):
    ran = run_graph(*convolution(**types))
    assert ran.on_integers == set()
    assert ran.by_float_kernel == {"node"}


def test_simulation_on_demand(run_graph):
    ran = run_graph(*convolution(), quantized=Quantized.SIMULATE)
    assert ran.by_float_kernel == {"node"}
