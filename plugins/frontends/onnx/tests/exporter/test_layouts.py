"""Where an exported model has Transpose nodes: as few as the graph's own order of axes needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from exported import export, run

from dovetail.ir import Array, DType, Graph, Shape, Tensor, TensorKind
from dovetail_opset.build import add, add_all, static

Evaluate = Callable[..., dict[str, Array]]
# float32 sums of some dozen products in another order
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture
def graph() -> Graph:
    """A graph with an image (1, 4, 6, 6) of the user's, and a convolution of it."""
    graph = Graph("layouts")
    image = graph.add_tensor(given("image", (1, 4, 6, 6), TensorKind.APP_WRITE))
    last = add(graph, "Transpose", [image], name="last", perm=(0, 2, 3, 1))
    drawn = np.random.default_rng(5).normal(0, 0.3, (3, 3, 4, 4)).astype(np.float32)
    weight = static(graph, "w", drawn)
    pads = [[1, 1], [1, 1]]
    add(graph, "Conv2d", [last, weight], name="conv", stride=(1, 1), pad_amount=pads)
    return graph


def given(name: str, shape: Shape, kind: TensorKind) -> Tensor:
    return Tensor(name, DType.FLOAT_32, shape, kind)


def check(
    graph: Graph, last: Tensor, tmp_path: Path, evaluate: Evaluate, *, perm: Shape
) -> Counter[str]:
    """Create a tensor, transposed, the output, compares, and return the counts of operators."""
    shape = tuple(last.shape[p] for p in perm)
    output = given("y", shape, TensorKind.APP_READ)
    add(graph, "Transpose", [last], name="out", outputs=output, perm=perm)
    model = export(graph, tmp_path / "model.onnx")
    feeds = {"image": np.random.default_rng(6).normal(0, 1, (1, 4, 6, 6)).astype(np.float32)}
    np.testing.assert_allclose(run(model, feeds)[0], evaluate(graph, feeds)["y"], **CLOSE)
    return Counter(node.op_type for node in model.graph.node)


def test_elementwise_ops_follow(graph: Graph, tmp_path: Path, evaluate: Evaluate) -> None:
    x = graph.tensor("conv")
    factor = static(graph, "factor", np.array([1, -2, 3, 4], np.float32))
    whole = static(graph, "whole", np.arange(144, dtype=np.float32).reshape(1, 6, 6, 4))
    single = static(graph, "single", np.array(0.5, np.float32))
    x = add(graph, "ElementWiseMultiply", [x, factor], name="channels")
    x = add(graph, "ElementWiseAdd", [whole, x], name="all")
    x = add(graph, "ElementWiseMaximum", [x, single], name="scalar")
    x = add(graph, "Prelu", [x, factor], name="prelu")
    x = add(graph, "Batchnorm", [x, factor], name="norm")
    x = add(graph, "ElementWiseAdd", [x, graph.tensor("conv")], name="residual")
    counts = check(graph, x, tmp_path, evaluate, perm=(0, 3, 1, 2))
    assert counts["Transpose"] == 0


def test_ops_with_axes_follow(graph: Graph, tmp_path: Path, evaluate: Evaluate) -> None:
    x = graph.tensor("conv")
    a, b = add_all(graph, "Split", [x], name="halves", outputs=["a", "b"], axis=3, split_index=[1])
    x = add(graph, "Concat", [b, a, x], name="joined", axis=3)
    x = add(graph, "ChannelShuffle", [x], name="shuffle", num_groups=2)
    x = add(graph, "Softmax", [x], name="softmax")
    x = add(graph, "Pad", [x], name="pad", scheme=0, pad_amount=[[0, 0], [1, 0], [0, 2], [3, 0]])
    ranges = [[0, 1, 1], [0, 7, 2], [7, -1, -1], [1, 11, 1]]
    x = add(graph, "StridedSlice", [x], name="slice", ranges=ranges)
    x = add(graph, "Tile", [x], name="tile", multiples=[1, 2, 1, 1])
    x = add(graph, "CumulativeSum", [x], name="sum", axis=1)
    x = add(graph, "ReduceMax", [x], name="most", axes=[2], keep_dims=True)
    counts = check(graph, x, tmp_path, evaluate, perm=(0, 3, 1, 2))
    assert counts["Transpose"] == 1  # the shuffle's own


def test_a_reduction_drops_axes_where_they_lie(
    graph: Graph, tmp_path: Path, evaluate: Evaluate
) -> None:
    x = add(graph, "ReduceMean", [graph.tensor("conv")], name="mean", axes=[1])  # (1, 6, 4)
    counts = check(graph, x, tmp_path, evaluate, perm=(0, 2, 1))
    assert counts["Transpose"] == 0


def test_a_flattened_pixel_needs_no_transpose(
    graph: Graph, tmp_path: Path, evaluate: Evaluate
) -> None:
    x = add(graph, "ReduceMean", [graph.tensor("conv")], name="mean", axes=[1, 2], keep_dims=True)
    x = add(graph, "Reshape", [x], name="flat", outputs=given("f", (1, 4), TensorKind.NATIVE))
    counts = check(graph, x, tmp_path, evaluate, perm=(0, 1))
    assert counts == {"Conv": 1, "ReduceMean": 1, "Reshape": 1}


def test_a_tensor_that_two_orders_ask_for_is_transposed_once_for_each(
    graph: Graph, tmp_path: Path, evaluate: Evaluate
) -> None:
    x = graph.tensor("conv")
    one = add(graph, "Reshape", [x], name="one", outputs=given("r", (6, 24), TensorKind.NATIVE))
    two = add(graph, "Reshape", [x], name="two", outputs=given("s", (24, 6), TensorKind.NATIVE))
    x = add(graph, "MatMul", [one, two], name="product")
    counts = check(graph, x, tmp_path, evaluate, perm=(1, 0))
    assert counts["Transpose"] == 2  # to channels last for both, and of the output


def test_inputs_that_are_outputs_and_one_value_under_two_names(
    tmp_path: Path, evaluate: Evaluate
) -> None:
    graph = Graph("same")
    x = graph.add_tensor(given("x", (2, 3), TensorKind.APP_WRITE))
    for name, perm in (("a", (1, 0)), ("b", (1, 0)), ("c", (0, 1))):
        y = given(f"{name}.t", tuple((2, 3)[p] for p in perm), TensorKind.APP_READ)
        add(graph, "Transpose", [x], name=name, outputs=y, perm=perm)
    constant = static(graph, "k", np.ones((2, 3), np.float32))
    y = given("s", (2, 3), TensorKind.APP_READ)
    add(graph, "ElementWiseAdd", [x, constant], name="sum", outputs=y)
    model = export(graph, tmp_path / "same.onnx")
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    for name, found in zip(("a.t", "b.t", "c.t", "s"), run(model, feeds), strict=True):
        np.testing.assert_array_equal(found, evaluate(graph, feeds)[name])


@pytest.mark.parametrize(
    "shape", [(), (1,), (4,), (6, 4), (6, 1), (1, 6, 1), (6, 6, 4), (1, 1, 1, 4)]
)
def test_computed_operands_of_fewer_dimensions_are_spread(
    graph: Graph, tmp_path: Path, evaluate: Evaluate, shape: Shape
) -> None:
    values = np.random.default_rng(7).normal(0, 1, shape).astype(np.float32)
    operand = add(graph, "ElementWiseExp", [static(graph, "k", values)], name="operand")
    x = graph.tensor("conv")
    for i, inputs in enumerate(([x, operand], [operand, x])):
        x = add(graph, "ElementWiseSubtract", inputs, name=f"difference{i}")
    condition = add(graph, "ElementWiseGreater", [operand, x], name="condition")
    x = add(graph, "ElementWiseSelect", [condition, x, operand], name="chosen")
    counts = check(graph, x, tmp_path, evaluate, perm=(0, 3, 1, 2))
    assert counts["Transpose"] <= (len(shape) > 1)  # of the operand, if at all


OPS: tuple[tuple[str, dict[str, object]], ...] = (
    ("Relu", {}),
    ("ReduceMean", {"axes": [1], "keep_dims": True}),
    ("Transpose", {"perm": (0, 2, 3, 1)}),
    ("Transpose", {"perm": (0, 3, 1, 2)}),
    ("Transpose", {"perm": (2, 1, 0, 3)}),
    ("Softmax", {"axis": 1}),
    ("CumulativeSum", {"axis": 2}),
    ("Tile", {"multiples": [2, 1, 1, 1]}),
    ("L2Norm", {"axis": 3}),
    ("LayerNorm", {"axes": [1, 3]}),
    ("Moments", {"axes": [3], "keep_dims": True}),
    ("ChannelShuffle", {"num_groups": 1}),
    ("PoolMax2d", {"filter_size": (1, 1), "stride": (1, 1), "pad_amount": [[0, 0], [1, 0]]}),
)


@pytest.mark.parametrize("seed", range(40))
def test_any_chain_of_ops(graph: Graph, tmp_path: Path, evaluate: Evaluate, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tensors = [graph.tensor("conv")]
    for i in range(8):
        x = tensors[rng.integers(len(tensors))]
        kind = rng.integers(len(OPS) + 3)
        if kind == len(OPS):
            same = [t for t in tensors if t.shape == x.shape]
            y = add(graph, "ElementWiseAdd", [x, same[rng.integers(len(same))]], name=f"n{i}")
        elif kind == len(OPS) + 1:
            y = add(graph, "Concat", [x, x], name=f"n{i}", axis=int(rng.integers(4)))
        elif kind == len(OPS) + 2:
            turned = given(f"r{i}", (x.shape[0], *x.shape[:0:-1]), TensorKind.NATIVE)
            y = add(graph, "Reshape", [x], name=f"n{i}", outputs=turned)
        else:
            op_type, params = OPS[kind]
            y = add_all(graph, op_type, [x], name=f"n{i}", **params)[0]
        tensors.append(y)
    check(graph, tensors[-1], tmp_path, evaluate, perm=(0, 1, 2, 3))


def test_a_source_name_is_for_the_layout_of_the_source(tmp_path: Path) -> None:
    """A tensor may have its source's name in another layout; in ONNX the name is not given then."""
    graph = Graph("names")
    image = graph.add_tensor(given("image", (1, 6, 6, 4), TensorKind.APP_WRITE))
    inner = add(graph, "Relu", [image], name="relu", outputs="x")
    inner.source_perm = (0, 2, 3, 1)
    add(graph, "Relu", [inner], name="again", outputs="y").kind = TensorKind.APP_READ
    model = export(graph, tmp_path / "model.onnx")
    assert [n.output[0] for n in model.graph.node] == ["x/transposed", "y"]
