"""Sessions of several kinds of calls, to record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dovetail as dt
from dovetail.errors import BackendError
from dovetail.ir import AxisScaleOffset, Blob, DType, Scalar, ScaleOffset, Tensor, TensorKind
from dovetail.runtime import Backend, Context, Graph

F32 = DType.FLOAT_32
SHAPE = (4,)


def chain(context: Context, name: str, ops: list[str], **config: Any) -> Graph:
    """Return a finalized graph of ops one after another; `+` adds a constant."""
    graph = context.create_graph(name, config or None)
    last = graph.create_tensor("x", F32, SHAPE, TensorKind.APP_WRITE)
    for i, op in enumerate(ops):
        kind = TensorKind.APP_READ if i == len(ops) - 1 else TensorKind.NATIVE
        out = graph.create_tensor(f"t{i}", F32, SHAPE, kind)
        inputs = [last]
        if op == "+":
            data = np.full(SHAPE, i, np.float32)
            inputs.append(graph.create_tensor(f"c{i}", F32, SHAPE, TensorKind.STATIC, data=data))
        graph.add_node(f"n{i}", "qti.aisw", "ElementWiseAdd" if op == "+" else op, inputs, [out])
        last = out
    graph.finalize()
    return graph


def given(i: int) -> dict[str, Any]:
    return {"x": np.arange(4, dtype=np.float32) - i}


def record(folder: Path, session: Callable[[Context], None]) -> Path:
    with dt.record(folder), Backend.create("cpu") as backend:
        session(backend.create_context())
    return folder


LONG = ["Sigmoid", "+", "Relu", "Sigmoid", "+", "ElementWiseSquareRoot", "Tanh", "+", "Sigmoid"]


def several_graphs(context: Context) -> None:
    graphs = [chain(context, f"g{i}", LONG[i:]) for i in range(4)]
    for i in range(10):
        for graph in graphs:
            graph.execute(given(i))


def with_profiles(context: Context) -> None:
    profile = context.backend.create_profile(1)
    graph = chain(context, "g", LONG, graph_priority="high")
    for i in range(20):
        graph.execute(given(i), profile=profile)
        profile.get_events()


def asynchronous(context: Context) -> None:
    graph = chain(context, "g", LONG)
    for i in range(10):
        graph.execute_async(given(i), {f"t{len(LONG) - 1}": np.zeros(SHAPE, np.float32)}).wait()


def with_updates(context: Context) -> None:
    graph = context.create_graph("g")
    x = graph.create_tensor("x", F32, SHAPE, TensorKind.APP_WRITE)
    c = graph.create_tensor("c", F32, SHAPE, TensorKind.UPDATEABLE_STATIC, data=given(0)["x"])
    a = graph.create_tensor("a", F32, SHAPE, TensorKind.NATIVE)
    b = graph.create_tensor("b", F32, SHAPE, TensorKind.NATIVE)
    y = graph.create_tensor("y", F32, SHAPE, TensorKind.APP_READ)
    graph.add_node("add", "qti.aisw", "ElementWiseAdd", [x, c], [a])
    graph.add_node("relu", "qti.aisw", "Relu", [a], [b])
    graph.add_node("tanh", "qti.aisw", "Tanh", [b], [y])
    graph.finalize()
    for i in range(8):
        graph.execute(given(i))
        graph.update_tensor(c, data=given(i)["x"])
        graph.finalize()


def with_state(context: Context) -> None:
    state = context.create_tensor("state", F32, SHAPE, data=given(1)["x"])
    write = context.create_graph("write")
    z = write.create_tensor("z", F32, SHAPE, TensorKind.APP_WRITE)
    write.add_node("sigmoid", "qti.aisw", "Sigmoid", [z], [state])
    write.finalize()
    read = context.create_graph("read")
    a = read.create_tensor("a", F32, SHAPE, TensorKind.NATIVE)
    y = read.create_tensor("y", F32, SHAPE, TensorKind.APP_READ)
    read.add_node("tanh", "qti.aisw", "Tanh", [state], [a])
    read.add_node("relu", "qti.aisw", "Relu", [a], [y])
    read.finalize()
    for i in range(6):
        write.execute({"z": given(i)["x"]})
        read.execute({})


def with_memory(context: Context) -> None:
    graph = chain(context, "g", ["Relu"])
    given, taken = np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.float32)
    x = context.register_memory(given, F32)
    y = context.register_memory(taken, F32, SHAPE)
    for i in range(3):
        given[:] = np.arange(4) - i
        graph.execute({"x": x}, {"t0": y})
    y.deregister()


def quantized(context: Context) -> None:
    """Per-axis weights, tensor params, scalars, and a call that fails."""
    graph = context.create_graph("a graph/with: odd 'names'")
    u8, coded = DType.UFIXED_POINT_8, ScaleOffset(0.5, -3)
    x = graph.create_tensor("x", u8, (1, 4, 4, 2), TensorKind.APP_WRITE, coded)
    weights = np.random.default_rng(3).integers(-8, 8, (3, 3, 2, 3)).astype(np.int8)
    axis = AxisScaleOffset(3, np.array([0.1, 0.2, 0.3], np.float32))
    w = graph.create_tensor(
        "w", DType.SFIXED_POINT_8, (3, 3, 2, 3), TensorKind.STATIC, axis, weights
    )
    y = graph.create_tensor("y", u8, (1, 4, 4, 3), TensorKind.APP_READ, ScaleOffset(1.0, -128))
    params = {
        "stride": _param("stride", [1, 1]),
        "pad_amount": _param("pad", [[1, 1], [1, 1]]),
        "group": Scalar(DType.UINT_32, 1),
    }
    graph.add_node("conv", "qti.aisw", "Conv2d", [x, w], [y], params)
    graph.finalize()
    with pytest.raises(BackendError):
        graph.finalize()
    graph.execute({"x": np.arange(32, dtype=np.uint8).reshape(1, 4, 4, 2)})


def _param(name: str, value: Any) -> Tensor:
    array = np.array(value, np.uint32)
    return Tensor(name, DType.UINT_32, array.shape, TensorKind.STATIC, data=Blob(array))
