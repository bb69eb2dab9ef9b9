"""Results of float16 nodes are rounded to float16 from step to step."""

from __future__ import annotations

import numpy as np
import pytest

import dovetail as dt
from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.ir import Array, DType, Graph, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail.plugins.ops import installed_ops
from dovetail_htp import HtpBackend, HtpOptions
from dovetail_opset.build import add, static

HALF = DType.FLOAT_16
# With fewer elements, a function like Sigmoid is a step of its own.
X = np.random.default_rng(4).standard_normal((1, 16, 16, 4)).astype(np.float16)


def network(*op_types: str) -> Graph:
    """A convolution and functions of its result, all of float16."""
    graph, rng = Graph("net"), np.random.default_rng(6)
    y = graph.add_tensor(Tensor("x", HALF, X.shape, TensorKind.APP_WRITE))
    weights = static(graph, "w", rng.standard_normal((3, 3, 4, 8)).astype(np.float16))
    pads = {"stride": [1, 1], "pad_amount": [[1, 1], [1, 1]]}
    y = add(graph, "Conv2d", [y, weights], name="conv", **pads)
    for op_type in op_types:
        inputs = [y, y] if op_type == "ElementWiseMultiply" else [y]
        y = add(graph, op_type, inputs, name=op_type)
    y.kind = TensorKind.APP_READ
    return graph


def run(graph: Graph, backend: str = "htp") -> Array:
    (out,) = graph.outputs
    model = Model.of(graph, producer=Producer("test", "1"), registry=installed_ops())
    with dt.Session(model, backend) as session:
        return session.run({"x": X})[out.name]


def test_each_step_rounds_once(ops: OpRegistry) -> None:
    graph = network("Relu", "ElementWiseMultiply", "Sigmoid")
    made = HtpBackend(ops, HtpOptions()).adapted(check_ops(graph, ops))
    names = [view.node.name for view in made.nodes]
    # the Relu is part of the convolution, the Sigmoid of the product
    assert [name for name in names if name.endswith(".half.cast")] == ["Relu.float32.half.cast"]
    assert names[-2:] == ["Sigmoid", "Sigmoid.cast"]


def test_results_differ_from_those_of_float32_by_roundings() -> None:
    graph = network("Relu", "ElementWiseMultiply")
    found, wide = run(graph), run(graph, "cpu")
    np.testing.assert_allclose(found, wide, rtol=3 * np.finfo(np.float16).eps, atol=1e-6)
    assert not np.array_equal(found, wide)


def test_numbers_beyond_float16_become_infinite() -> None:
    graph = Graph("large")
    x = graph.add_tensor(Tensor("x", HALF, (1, 4), TensorKind.APP_WRITE))
    square = add(graph, "ElementWiseMultiply", [x, x], name="square")
    add(graph, "ElementWiseAbs", [square], name="abs").kind = TensorKind.APP_READ
    add(graph, "ElementWiseDivide", [square, x], name="y").kind = TensorKind.APP_READ
    model = Model.of(graph, producer=Producer("test", "1"), registry=installed_ops())
    values = np.array([[200, 255, 256, 300]], np.float16)
    found = {}
    for backend in ("htp", "cpu"):
        with dt.Session(model, backend) as session:
            found[backend] = session.run({"x": values})["y"]
    np.testing.assert_array_equal(found["htp"], [[200, 255, np.inf, np.inf]])
    np.testing.assert_array_equal(found["cpu"], values)


def test_estimates_are_those_of_float16() -> None:
    graph = network("Relu")
    with runtime.Backend.create("htp") as made:
        context = made.create_context(made.create_device({}))
        (composed,) = context.compose(Model({graph.name: graph}, Producer("test", "1"), {}))
        composed.finalize()
        detail = made.create_profile(runtime.ProfileLevel.DETAILED)
        composed.execute({"x": X}, profile=detail)
        nodes = [part for event in detail.events for part in event.children if part.counters]
    counters = {part.identifier: {c.name: c.value for c in part.counters} for part in nodes}
    (step,) = (name for name in counters if "conv" in name)
    assert counters[step]["estimated_cycles"] > 0
    # three rows of the image and the result, and all filters, of two bytes each
    assert counters[step]["tile_bytes"] == 2 * (3 * 16 * (4 + 8) + 3 * 3 * 4 * 8)


@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_contexts_restore_them(tmp_path, engine) -> None:
    graph = network("Relu", "ElementWiseMultiply", "Sigmoid")
    model = Model.of(graph, producer=Producer("test", "1"), registry=installed_ops())
    model.save(tmp_path / "net.dvt")
    with dt.Session(tmp_path / "net.dvt", "htp", options={"engine": engine}) as session:
        (wanted,) = session.run({"x": X}).values()
        session.save_context(tmp_path / "net.bin")
    with dt.Session.from_context(tmp_path / "net.bin", options={"engine": engine}) as session:
        (found,) = session.run({"x": X}).values()
    np.testing.assert_array_equal(found, wanted)
