"""The op against its formula, its kernels against the op, and a model that contains it."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from snake_ops import PACKAGE

import dovetail as dt
from dovetail.container import Model, Producer
from dovetail.errors import OpError, PluginError
from dovetail.ir import Array, DType, Graph, Node, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.ops import from_real, simulate, to_real
from dovetail.plugins.ops import installed_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared
from dovetail.testing import prepare
from dovetail_cpu import CpuBackend, CpuOptions
from dovetail_gpu.driver import choose_device

sys.path.insert(0, str(Path(__file__).parents[1]))
from make_model import wave_model

SNAKE = PACKAGE.schemas["Snake"]


def snake(x: float, alpha: float) -> float:
    return x if alpha == 0 else x + math.sin(alpha * x) ** 2 / alpha


def run(x: Tensor, alpha: Array, y: Tensor, given: Array) -> tuple[Array, bool]:
    """Return what the backend `cpu` makes of stored values, and whether by a kernel."""
    graph = Graph("one")
    constant = Tensor.static("alpha", alpha)
    for tensor in (x, constant, y):
        graph.add_tensor(tensor)
    graph.add_node(Node("snake", "audio.snake", "Snake", [x, constant], [y]))
    ops = installed_ops()
    prepared = prepare(CpuBackend(ops, CpuOptions()), graph, ops)
    assert isinstance(prepared, PlanPrepared)
    outputs = {"y": np.empty(y.shape, y.dtype.storage)}
    prepared.run({"x": given}, outputs, RunControl())
    (step,) = prepared.steps
    return outputs["y"], "reference" not in step.bind.__module__


@pytest.fixture
def opencl() -> None:
    try:
        choose_device(None)
    except PluginError as error:
        pytest.skip(f"{error.message}; {error.hint}")


SHAPES = [
    ((2, 5, 3), (3,)),
    ((2, 5, 3), (5, 1)),
    ((4,), ()),
    ((2, 3), (2, 3)),
    ((0, 3), (3,)),
    ((), ()),
]


@pytest.mark.parametrize(("shape", "channels"), SHAPES)
def test_floats(shape: tuple[int, ...], channels: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    given = rng.normal(0, 2, shape).astype(np.float32)
    alpha = rng.uniform(0.5, 3, channels).astype(np.float32)
    alpha.reshape(-1)[:1] = 0
    x = Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE)
    found, by_kernel = run(x, alpha, Tensor("y", x.dtype, shape, TensorKind.APP_READ), given)
    wanted = np.vectorize(snake, otypes=[float])(given, np.broadcast_to(alpha, shape))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)  # float32 against float64
    assert by_kernel


@pytest.mark.parametrize("channels", [(), (3,), (5, 1), (1, 1, 1)])
def test_quantized_has_the_bits_of_the_meaning(channels: tuple[int, ...]) -> None:
    shape = (4, 5, 3)
    rng = np.random.default_rng(1)
    given = rng.integers(0, 256, shape).astype(np.uint8)
    alpha = rng.uniform(0.5, 3, channels).astype(np.float32)
    ends = [
        Tensor(name, DType.UFIXED_POINT_8, shape, kind, encoding=ScaleOffset(scale, offset))
        for name, kind, scale, offset in (
            ("x", TensorKind.APP_WRITE, 0.03, -128),
            ("y", TensorKind.APP_READ, 0.05, -90),
        )
    ]
    x, y = ends
    found, by_kernel = run(x, alpha, y, given)
    specs = [x.spec, Spec(DType.FLOAT_32, alpha.shape)]
    (wanted,) = simulate(SNAKE, SNAKE.bind({}, specs), [given, alpha], specs, [y.spec])
    np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(found)) > 20, "one level everywhere would show nothing"
    assert by_kernel


@pytest.mark.parametrize("dtype", [DType.FLOAT_32, DType.FLOAT_16, DType.UFIXED_POINT_8])
@pytest.mark.parametrize(("shape", "channels"), SHAPES)
def test_the_kernel_for_gpu(
    shape: tuple[int, ...], channels: tuple[int, ...], dtype: DType, opencl: None
) -> None:
    rng = np.random.default_rng(2)
    alpha = rng.uniform(0.5, 3, channels).astype(np.float32)
    alpha.reshape(-1)[:1] = 0
    encoding = ScaleOffset(0.05, -100) if dtype.is_fixed_point else None
    ends = [
        Tensor(name, dtype, shape, kind, encoding=encoding)
        for name, kind in (("x", TensorKind.APP_WRITE), ("y", TensorKind.APP_READ))
    ]
    given = from_real(rng.normal(0, 2, shape).astype(np.float32), ends[0].spec)
    graph, constant = Graph("one"), Tensor.static("alpha", alpha)
    for tensor in (*ends, constant):
        graph.add_tensor(tensor)
    graph.add_node(Node("snake", "audio.snake", "Snake", [ends[0], constant], [ends[1]]))
    with dt.Session(Model({"one": graph}, Producer("test", "1"), {}), backend="gpu") as session:
        found = session.run({"x": given}, native=True)["y"]
    wide = np.asarray(to_real(given, ends[0].spec), np.float64)
    wanted = np.vectorize(snake, otypes=[float])(wide, np.broadcast_to(alpha, shape))
    step = {DType.FLOAT_32: 1e-5, DType.FLOAT_16: 4e-3}.get(dtype, 0.0501)  # one of the encoding
    np.testing.assert_allclose(to_real(found, ends[1].spec), wanted, rtol=step, atol=step)


def test_what_does_not_fit() -> None:
    specs = [Spec(DType.FLOAT_32, (2, 3)), Spec(DType.FLOAT_32, (4,))]
    with pytest.raises(OpError, match=r"alpha \(4,\) does not broadcast to x \(2, 3\)"):
        SNAKE.infer(SNAKE.bind({}, specs), specs, [None])


@pytest.mark.parametrize("log_scale", [False, True])
def test_a_model_with_it(tmp_path: Path, log_scale: bool) -> None:
    path = tmp_path / "wave.onnx"
    path.write_bytes(wave_model(log_scale=log_scale).SerializeToString())
    model = dt.convert(path)
    (graph,) = model.graphs.values()
    assert [n.op_type for n in graph.nodes if n.package == "audio.snake"] == ["Snake"]
    wave = np.sin(np.arange(64, dtype=np.float32) / 3)
    with dt.Session(model) as session:
        found = session.run({"wave": wave.reshape(1, 1, 64)})["out"]
    np.testing.assert_allclose(found.ravel(), by_hand(wave), rtol=1e-4, atol=1e-5)


def test_exported_and_imported_again(tmp_path: Path) -> None:
    first, second = tmp_path / "wave.onnx", tmp_path / "again.onnx"
    first.write_bytes(wave_model(log_scale=True).SerializeToString())
    assert dt.export(first, second) == ()
    written = onnx.load(second)
    assert [(n.domain, n.op_type) for n in written.graph.node if n.domain] == [
        ("com.example.audio", "Snake")
    ]
    assert {o.domain: o.version for o in written.opset_import}["com.example.audio"] == 1
    feeds = {"wave": np.sin(np.arange(64, dtype=np.float32) / 3).reshape(1, 1, 64)}
    with dt.Session(first) as one, dt.Session(second) as two:
        # the same float32 operations on the same values
        np.testing.assert_allclose(two.run(feeds)["out"], one.run(feeds)["out"], rtol=1e-6)


def by_hand(wave: Array) -> Array:
    constants = {t.name: t for t in wave_model().graph.initializer}
    first, alpha, last = (
        np.frombuffer(constants[n].raw_data, np.float32).reshape(constants[n].dims)
        for n in ("first.w", "alpha", "last.w")
    )
    padded = np.pad(wave, 1)
    a = sum(first[:, 0, k : k + 1] * padded[k : k + 64] for k in range(3))
    b = a + np.sin(alpha[0] * a) ** 2 / alpha[0]
    deep = np.pad(b, ((0, 0), (1, 1)))
    return sum((last[0, :, k : k + 1] * deep[:, k : k + 64]).sum(0) for k in range(3))
