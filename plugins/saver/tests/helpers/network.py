"""A session of a small network, to record."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, DType, TensorKind
from dovetail.runtime import Backend

SHAPE = (2, 3)


def run_network(backend_name: str = "cpu", executes: int = 3, relu: str = "Relu") -> list[Array]:
    """Run x -> Relu -> a -> ElementWiseAdd(c) -> b -> Tanh -> y, and return each y."""
    float32, found = DType.FLOAT_32, []
    with Backend.create(backend_name) as backend:
        context = backend.create_context(config={"context_priority": "high"})
        graph = context.create_graph("net")
        x = graph.create_tensor("x", float32, SHAPE, TensorKind.APP_WRITE)
        c = graph.create_tensor(
            "c", float32, SHAPE, TensorKind.STATIC, data=np.full(SHAPE, 0.5, np.float32)
        )
        a, b = (graph.create_tensor(n, float32, SHAPE, TensorKind.NATIVE) for n in "ab")
        y = graph.create_tensor("y", float32, SHAPE, TensorKind.APP_READ)
        graph.add_node("relu", "qti.aisw", relu, [x], [a])
        graph.add_node("add", "qti.aisw", "ElementWiseAdd", [a, c], [b])
        graph.add_node("tanh", "qti.aisw", "Tanh", [b], [y])
        graph.finalize()
        for i in range(executes):
            given = (np.arange(6, dtype=np.float32).reshape(SHAPE) - 3) * (i + 1)
            found.append(np.array(graph.execute({"x": given})["y"]))
        context.free()
    return found
