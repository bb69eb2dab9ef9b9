"""Simulated nodes on oneDNN: float kernels between conversions by its kernels."""

import numpy as np
import pytest

from dovetail import testing
from dovetail.ir import AxisScaleOffset, DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.plugins.ops import installed_ops
from dovetail.runtime.contract import RunControl
from dovetail_cpu import CpuBackend, CpuOptions
from dovetail_onednn import EngineChoice
from dovetail_opset.build import add, static

U8, S8, U16 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.UFIXED_POINT_16
S16, S32 = DType.SFIXED_POINT_16, DType.SFIXED_POINT_32
RNG = np.random.default_rng(4)


def grid(dtype, shape, span=8.0):
    """A grid of values from about -3 to 5."""
    low, high = dtype.stored_range()
    return Spec(dtype, shape, ScaleOffset(span / (high - low), -(low + (high - low) * 3 // 8)))


def convolutions(graph, x, dtype):
    """Two, of which the second has the bias and the weights of the first."""
    scales = RNG.uniform(1e-3, 4e-3, 8).astype(np.float32)
    filters = RNG.integers(-127, 128, (1, 1, 8, 8)).astype(np.int8)
    w = static(graph, "w", filters, S8, encoding=AxisScaleOffset(3, scales))
    b = static(graph, "b", RNG.integers(-400, 400, 8).astype(np.int32), S32)
    params = {"stride": [1, 1], "pad_amount": [[0, 0], [0, 0]]}
    for name in ("first", "second"):
        spec = grid(dtype, x.shape)
        x = add(graph, "Conv2d", [x, w, b], name=name, spec=spec, **params)
    return x


def square(graph, x, dtype):
    """One tensor is read twice by a node, and by another one."""
    spec = grid(dtype, x.shape)
    y = add(graph, "ElementWiseMultiply", [x, x], name="square", spec=spec)
    return add(graph, "ElementWiseAdd", [x, y], name="sum", spec=spec)


def relu(graph, x, dtype):
    return add(graph, "Relu", [x], name="relu", spec=grid(dtype, x.shape))


def ran(graph, feeds, engine):
    """Return results, and the modules of the steps."""
    ops = installed_ops()
    backend = CpuBackend(ops, CpuOptions(engine=engine))
    prepared = testing.prepare(backend, graph, ops)
    outputs = {t.name: np.zeros(t.shape, t.dtype.storage) for t in graph.outputs}
    prepared.run(feeds, outputs, RunControl())
    return outputs, {step.bind.__module__ for step in prepared.steps}


@pytest.mark.parametrize("dtype", [S8, U16, S16])
@pytest.mark.parametrize("net", [convolutions, square, relu])
def test_the_engine_converts_what_is_simulated(net, dtype, onednn):
    graph = Graph("net")
    spec = grid(dtype, (1, 6, 7, 8))
    x = graph.add_tensor(
        Tensor("x", dtype, spec.shape, TensorKind.APP_WRITE, encoding=spec.encoding)
    )
    y = net(graph, x, dtype)
    y.kind = TensorKind.APP_READ
    feeds = {"x": RNG.integers(*dtype.stored_range(), x.shape).astype(dtype.storage)}
    (wanted, by_numpy), (found, modules) = (
        ran(graph, feeds, engine) for engine in (EngineChoice.NUMPY, EngineChoice.ONEDNN)
    )
    assert "dovetail.runtime.plan.dequantized" in by_numpy
    assert not modules & {"dovetail.runtime.plan.dequantized", "dovetail.runtime.plan.reference"}
    apart = np.abs(found[y.name].astype(int) - wanted[y.name].astype(int))
    # a sum in another order may be rounded otherwise, and so may what follows it
    assert apart.max() <= (2 if net is convolutions else 0)
    assert len(np.unique(found[y.name])) > 20


@pytest.mark.parametrize("kind", [TensorKind.STATIC, TensorKind.UPDATEABLE_STATIC])
def test_an_update_of_weights_takes_effect(kind, onednn):
    graph, spec = Graph("net"), grid(U8, (5, 16))
    x = graph.add_tensor(Tensor("x", U8, spec.shape, TensorKind.APP_WRITE, encoding=spec.encoding))
    weights = RNG.integers(-127, 128, (2, 4, 16)).astype(np.int8)
    w = static(graph, "w", weights[0], S8, encoding=ScaleOffset(0.002))
    w.kind = kind
    y = add(graph, "FullyConnected", [x, w], name="y", spec=grid(U8, (5, 4)))
    y.kind = TensorKind.APP_READ
    ops = installed_ops()
    prepared = testing.prepare(CpuBackend(ops, CpuOptions(engine=EngineChoice.ONEDNN)), graph, ops)
    stored = RNG.integers(0, 256, x.shape).astype(np.uint8)
    is_updated = kind.is_updateable
    if is_updated:
        new = Tensor.static("w", weights[1], S8, encoding=w.encoding)
        new.kind = kind
        prepared.update([new])
    found = np.zeros(y.shape, np.uint8)
    prepared.run({"x": stored}, {"y": found}, RunControl())
    real = (stored.astype(int) + x.encoding.offset) @ weights[int(is_updated)].T.astype(int)
    wanted = np.rint(real * x.encoding.scale * 0.002 / y.encoding.scale) - y.encoding.offset
    assert np.abs(found - np.clip(wanted, 0, 255)).max() <= 1  # sums are of floats
    assert len(np.unique(found)) > 5


def test_names_of_new_tensors_differ_whatever_the_user_chose(onednn):
    """The bias has no scale of its own, and would be named as the sums are."""
    graph, spec = Graph("net"), grid(S8, (2, 4))
    x = graph.add_tensor(Tensor("x", S8, spec.shape, TensorKind.APP_WRITE, encoding=spec.encoding))
    w = static(
        graph, "w", RNG.integers(-9, 9, (4, 4)).astype(np.int8), S8, encoding=ScaleOffset(0.02)
    )
    b = static(graph, "b", np.arange(4, dtype=np.int32), S32)
    y = Tensor("b.c", S8, spec.shape, TensorKind.APP_READ, encoding=spec.encoding)
    add(graph, "FullyConnected", [x, w, b], name="c.result", outputs=graph.add_tensor(y), spec=None)
    feeds = {"x": RNG.integers(-128, 128, x.shape).astype(np.int8)}
    wanted, found = (
        ran(graph, feeds, engine)[0] for engine in (EngineChoice.NUMPY, EngineChoice.ONEDNN)
    )
    np.testing.assert_array_equal(found["b.c"], wanted["b.c"])
