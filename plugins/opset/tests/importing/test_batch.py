"""Another batch for a graph whose shapes are fixed: each element is computed as it is alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind, check
from dovetail.ops import BatchAxis, In, Op, OpPackage, OpRegistry, find_op_faults, int32
from dovetail.plugins.ops import installed_ops
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, add_all, static
from dovetail_opset.importing.batch import Batch, change_batch

RNG = np.random.default_rng(11)
OPS = installed_ops()
Evaluate = Callable[..., Any]


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def spec(*shape: int) -> Spec:
    return Spec(DType.FLOAT_32, shape)


def weights(graph: Graph, *shape: int) -> Tensor:
    return static(graph, "w", draw(*shape))


def convolution(graph: Graph, x: Tensor) -> Tensor:
    """From an image to a row of scores."""
    y = add(graph, "Transpose", [x], name="last", perm=(0, 2, 3, 1))
    w = weights(graph, 3, 3, 2, 4)
    y = add(graph, "Conv2d", [y, w], name="c", stride=(1, 1), pad_amount=((1, 1), (1, 1)))
    y = add(graph, "Resize", [y], name="up", spec=spec(1, 4, 6, 4))
    pool = {"filter_size": (2, 2), "stride": (2, 2), "pad_amount": ((0, 0), (0, 0))}
    y = add(graph, "PoolMax2d", [y], name="p", **pool)
    y = add(graph, "Transpose", [y], name="first", perm=(0, 3, 1, 2))
    y = add(graph, "FullyConnected", [y, weights(graph, 5, 24)], name="f")
    return add(graph, "Softmax", [y], name="s", axis=1)


def slices(graph: Graph, x: Tensor) -> Tensor:
    """Slices of the whole batch, parts next to each other, and padding."""
    rows = ((0, 1, 1), (0, 2, 1), (0, 2, 1), (1, 3, 1))
    y = add(graph, "StridedSlice", [x], name="slice", ranges=rows)
    left, right = add_all(graph, "Split", [y], name="split", axis=1, split_index=[1])
    y = add(graph, "Concat", [right, left], name="cat", axis=3)
    y = add(graph, "Pad", [y], name="pad", scheme=0, pad_amount=((0, 0), (0, 1), (2, 0), (0, 0)))
    y = add(graph, "ReduceMean", [y], name="mean", axes=[2], keep_dims=True)
    return add(graph, "Tile", [y], name="tile", multiples=[1, 2, 1, 1])


def tokens(graph: Graph, x: Tensor) -> Tensor:
    """Attention over rows that are flattened for each product with weights."""
    rows = add(graph, "Reshape", [x], name="rows", spec=spec(4, 3))
    q, k, v = (
        add(graph, "FullyConnected", [rows, weights(graph, 4, 3)], name=name) for name in "qkv"
    )
    q, k, v = (
        add(graph, "Reshape", [t], name=f"{n}.heads", spec=spec(1, 4, 2, 2))
        for t, n in zip((q, k, v), "qkv", strict=True)
    )
    q, v = (add(graph, "Transpose", [t], name=f"{t.name}.t", perm=(0, 2, 1, 3)) for t in (q, v))
    k = add(graph, "Transpose", [k], name="k.t", perm=(0, 2, 3, 1))
    s = add(graph, "Softmax", [add(graph, "MatMul", [q, k], name="qk")], name="s", axis=3)
    y = add(
        graph, "Transpose", [add(graph, "MatMul", [s, v], name="sv")], name="o", perm=(0, 2, 1, 3)
    )
    y = add(graph, "Reshape", [y], name="joined", spec=spec(4, 4))
    gamma, beta = static(graph, "g", draw(4)), static(graph, "b", draw(4))
    y = add(graph, "LayerNorm", [y, gamma, beta], name="norm", axes=[1])
    return add(graph, "Reshape", [y], name="y3", spec=spec(1, 4, 4))


def steps(graph: Graph, x: Tensor) -> Tensor:
    """The batch as the second axis, and back."""
    y = add(graph, "Transpose", [x], name="major", perm=(1, 0, 2))
    y = add(graph, "Sigmoid", [y], name="sig")
    y, _ = add_all(graph, "TopK", [y], name="largest", k=3)
    y = add(graph, "ReduceSum", [y], name="sum", axes=[0], keep_dims=False)
    return add(graph, "ElementWiseMultiply", [y, static(graph, "row", draw(1, 3))], name="mul")


def recurrent(graph: Graph, x: Tensor) -> Tensor:
    """A layer over time as the first axis; stored models have Reshapes in place of Transposes."""
    y = add(graph, "Reshape", [x], name="major", spec=spec(4, 1, 3))
    shapes = [(2, 3)] * 3 + [(2, 2)] * 3 + [(2,)] * 6
    constants = [static(graph, f"c{i}", draw(*shape)) for i, shape in enumerate(shapes)]
    y, _ = add_all(graph, "Gru", [y, *constants], name="gru")
    return add(graph, "Reshape", [y], name="back", spec=spec(1, 4, 2))


def projected(graph: Graph, x: Tensor) -> Tensor:
    """The same with a product by rows of the layer's results, or of columns moved to the front."""
    y = add(graph, "MatMul", [recurrent(graph, x), weights(graph, 2, 5)], name="projected")
    y = add(graph, "Transpose", [y], name="columns", perm=(1, 2, 0))
    y = add(graph, "Reshape", [y], name="rows", spec=spec(1, 4, 5))
    return add(graph, "MatMul", [y, static(graph, "w2", draw(5, 3))], name="y")


def network(body: Callable[[Graph, Tensor], Tensor], *shape: int) -> Graph:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE))
    y = body(graph, x)
    y.kind = TensorKind.APP_READ
    return graph


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (convolution, (1, 2, 2, 3)),
        (slices, (1, 2, 2, 3)),
        (tokens, (1, 4, 3)),
        (steps, (1, 4, 3)),
        (recurrent, (1, 4, 3)),
        (projected, (1, 4, 3)),
    ],
)
@pytest.mark.parametrize("batch", [3, 4])
def test_each_element_is_computed_alone(
    body: Callable[[Graph, Tensor], Tensor],
    shape: tuple[int, ...],
    batch: int,
    evaluate: Evaluate,
) -> None:
    graph = network(body, *shape)
    (output,) = graph.outputs
    x = draw(batch, *shape[1:])
    wanted = np.concatenate([evaluate(graph, {"x": row[np.newaxis]})[output.name] for row in x])
    assert change_batch(graph, Batch(1, batch), graph.inputs, OPS) == []
    check(graph)
    assert find_op_faults(graph, OPS) == []
    found = evaluate(graph, {"x": x})[output.name]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)  # sums in another order
    # and back, from a batch of several
    assert change_batch(graph, Batch(batch, 1), graph.inputs, OPS) == []
    alone = evaluate(graph, {"x": x[:1]})[output.name]
    np.testing.assert_allclose(alone, wanted[:1], rtol=1e-6, atol=1e-6)


def test_stated_encodings_have_the_new_shape() -> None:
    graph = network(convolution, 1, 2, 2, 3)
    graph.tensor("c").source_perm = (0, 2, 3, 1)
    encoding = ScaleOffset(0.5, -3)
    for name, shape in (("x", (1, 2, 2, 3)), ("c", (1, 4, 2, 3))):
        graph.source_encodings[name] = Spec(DType.UFIXED_POINT_8, shape, encoding)
    assert change_batch(graph, Batch(1, 5), graph.inputs, OPS) == []
    assert {n: s.shape for n, s in graph.source_encodings.items()} == {
        "x": (5, 2, 2, 3),
        "c": (5, 4, 2, 3),
    }


def op(op_type: str, *others: Callable[[Graph], Tensor], **params: Any) -> Any:
    def body(graph: Graph, x: Tensor) -> Tensor:
        inputs = [x, *(other(graph) for other in others)]
        return add(graph, op_type, inputs, name="op", **params)

    return body


def largest(graph: Graph, x: Tensor) -> Tensor:
    rows = add(graph, "Transpose", [x], name="rows", perm=(1, 2, 0))
    return add_all(graph, "TopK", [rows], name="op", k=1)[0]


def merged_softmax(graph: Graph, x: Tensor) -> Tensor:
    rows = add(graph, "Reshape", [x], name="rows", spec=spec(4, 3))
    return add(graph, "Softmax", [rows], name="op", axis=0)


def moved_convolution(graph: Graph, x: Tensor) -> Tensor:
    y = add(graph, "Reshape", [x], name="image", spec=spec(1, 1, 4, 3))
    y = add(graph, "Transpose", [y], name="moved", perm=(1, 0, 2, 3))
    w = weights(graph, 3, 3, 3, 4)
    return add(graph, "Conv2d", [y, w], name="op", stride=(1, 1), pad_amount=((1, 1), (1, 1)))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (op("Softmax", axis=0), "along the batch, axis 0"),
        (op("ReduceMean", axes=[0, 1], keep_dims=True), "along the batch, axis 0"),
        (op("Concat", lambda g: static(g, "c", draw(1, 4, 3)), axis=0), "along the batch, axis 0"),
        (op("Tile", multiples=[2, 1, 1]), "repeats the batch"),
        (
            op("StridedSlice", ranges=((0, 1, 1), (0, 4, 1), (0, 3, 1)), shrink_axes=1),
            "does not keep the batch",
        ),
        (largest, "along the batch, axis 2"),
        (
            op(
                "ScatterElements",
                lambda g: static(g, "i", np.zeros((1, 2, 3), np.int32)),
                lambda g: static(g, "u", draw(1, 2, 3)),
                axis=1,
            ),
            "indices or updates have no batch",
        ),
        (op("BatchPermutation", lambda g: static(g, "i", np.zeros(1, np.int32))), "is not known"),
        (merged_softmax, "along the batch, axis 0"),
        (moved_convolution, "the batch is not the first axis"),
        (op("ElementWiseAdd", lambda g: static(g, "c", draw(2, 4, 3))), "do not broadcast"),
    ],
)
def test_nodes_that_mix_the_batch_are_named(
    body: Callable[[Graph, Tensor], Tensor], said: str
) -> None:
    def whole(graph: Graph, x: Tensor) -> Tensor:
        return add(graph, "Relu", [body(graph, x)], name="after")

    graph = network(whole, 1, 4, 3)
    (problem,) = change_batch(graph, Batch(1, 5), graph.inputs, OPS)
    assert "'op'" in problem.where
    assert said in problem.message


def first_rows(graph: Graph, x: Tensor) -> Tensor:
    """Fewer axes: a size of the batch that is that of another axis broadcasts with it."""
    return add(graph, "ReduceMax", [x], name="first", axes=[1], keep_dims=False)


def where_positive(graph: Graph, x: Tensor, *shape: int) -> Tensor:
    zero = static(graph, "zero", np.zeros(1, np.float32))
    found = add(graph, "ElementWiseGreater", [x, zero], name="where")
    return add(graph, "Cast", [found], name="index", spec=Spec(DType.INT_32, shape))


def with_fewer_axes(graph: Graph, x: Tensor) -> Tensor:
    return add(graph, "ElementWiseAdd", [x, first_rows(graph, x)], name="op")


def select_with_fewer_axes(graph: Graph, x: Tensor) -> Tensor:
    is_nan = add(graph, "IsNan", [x], name="where")
    return add(graph, "ElementWiseSelect", [is_nan, x, first_rows(graph, x)], name="op")


def slopes(graph: Graph, x: Tensor) -> Tensor:
    return add(graph, "Prelu", [x, first_rows(graph, x)], name="op")


def products(graph: Graph, x: Tensor) -> Tensor:
    heads = add(graph, "Reshape", [x], name="heads", spec=spec(1, 4, 1, 3))
    columns = add(graph, "Reshape", [x], name="columns", spec=spec(1, 3, 4))
    return add(graph, "MatMul", [heads, columns], name="op")


def rows_of_data(graph: Graph, x: Tensor) -> Tensor:
    """Data with more first rows than the indices have."""
    data = static(graph, "data", draw(6, 4, 3))
    index = where_positive(graph, x, 1, 4, 3)
    return add(graph, "GatherElements", [data, index], name="op", axis=2)


def part_of_merged_rows(graph: Graph, x: Tensor) -> Tensor:
    """Every fifth of 12 rows, from the third: 2 of 12, and 4 of 24."""
    rows = add(graph, "Reshape", [x], name="rows", spec=spec(12))
    return add(graph, "StridedSlice", [rows], name="op", ranges=((3, 48, 5),))


def reversed_batch(graph: Graph, x: Tensor) -> Tensor:
    rows = ((0, 0, -1), (0, 4, 1), (0, 3, 1))
    return add(graph, "StridedSlice", [x], name="op", ranges=rows, begin_mask=1, end_mask=1)


def scalar_of_each(graph: Graph, x: Tensor) -> Tensor:
    return add(graph, "ReduceMax", [x], name="scalar", axes=[1, 2], keep_dims=False)


def transformed_batch(graph: Graph, x: Tensor) -> Tensor:
    return add(graph, "HadamardTransform", [scalar_of_each(graph, x)], name="op")


def normalized_batch(graph: Graph, x: Tensor) -> Tensor:
    return add(graph, "Lrn", [scalar_of_each(graph, x)], name="op", radius=1)


def rotated_by_a_table(graph: Graph, x: Tensor) -> Tensor:
    """The batch as the rows of a table, of which each element reads the first one."""
    vectors = add(graph, "Reshape", [x], name="vectors", spec=spec(1, 1, 6, 2))
    pairs = add(graph, "Reshape", [x], name="pairs", spec=spec(1, 6, 2))
    largest = add(graph, "ReduceMax", [pairs], name="largest", axes=[2], keep_dims=False)
    table = add(graph, "ReduceMax", [largest], name="table", axes=[1], keep_dims=True)
    positions = where_positive(graph, largest, 1, 6)
    return add(graph, "RotaryEmbedding", [vectors, table, table, positions], name="op")


def convolved_with_itself(graph: Graph, x: Tensor) -> Tensor:
    """The batch as the rows of a filter: a stride of 4 has one result for 1 to 4 rows."""
    image = add(graph, "Reshape", [x], name="image", spec=spec(1, 4, 3, 1))
    filters = add(graph, "Reshape", [x], name="filters", spec=spec(1, 3, 1, 4))
    pads = ((0, 0), (0, 0))
    return add(graph, "Conv2d", [image, filters], name="op", stride=(4, 1), pad_amount=pads)


def squared(graph: Graph, x: Tensor) -> Tensor:
    image = add(graph, "Reshape", [x], name="image", spec=spec(1, 3, 2, 2))
    pads = ((0, 3), (0, 1))
    return add(graph, "Conv2d", [image, image], name="op", stride=(4, 4), pad_amount=pads)


@pytest.mark.parametrize(
    ("body", "batch", "said"),
    [
        (with_fewer_axes, 4, "on different axes"),
        (select_with_fewer_axes, 4, "on different axes"),
        (slopes, 4, "on different axes"),
        (products, 4, "on different axes"),
        (rows_of_data, 3, "data have no batch"),
        (part_of_merged_rows, 2, "slices the batch"),
        (reversed_batch, 3, "slices the batch"),
        (transformed_batch, 2, "not the first axis"),
        (normalized_batch, 3, "not the first axis"),
        (rotated_by_a_table, 3, "tables have the batch"),
        (convolved_with_itself, 4, "have the batch"),
        (squared, 2, "have the batch"),
    ],
)
def test_nodes_whose_shapes_fit_by_chance_are_named(
    body: Callable[[Graph, Tensor], Tensor], batch: int, said: str
) -> None:
    graph = network(body, 1, 4, 3)
    problems = change_batch(graph, Batch(1, batch), graph.inputs, OPS)
    assert [said in problem.message for problem in problems] == [True]
    assert "'op'" in problems[0].where


@pytest.mark.parametrize("batch", [2**30, 2**31, 2**70])
def test_impossible_sizes_are_named(batch: int) -> None:
    def body(graph: Graph, x: Tensor) -> Tensor:
        rows = add(graph, "Reshape", [x], name="rows", spec=spec(4, 3))
        return add(graph, "StridedSlice", [rows], name="op", ranges=((0, 4, 1), (0, 3, 1)))

    graph = network(body, 1, 4, 3)
    (problem,) = change_batch(graph, Batch(1, batch), graph.inputs, OPS)
    assert "impossible shape" in problem.message


def test_an_output_that_would_not_begin_with_the_batch_is_named() -> None:
    def body(graph: Graph, x: Tensor) -> Tensor:
        y = add(graph, "Transpose", [x], name="major", perm=(1, 0, 2))
        return add(graph, "Reshape", [y], name="y", spec=spec(1, 4, 3, 1))

    graph = network(body, 1, 4, 3)
    (problem,) = change_batch(graph, Batch(1, 5), graph.inputs, OPS)
    assert problem.where == "output 'y'"
    assert "instead of the first one" in problem.message


OTHERS = OpPackage("other.ops")


class OtherOp(Op):
    inputs = (In("in[0]"), In("in[1]"))

    def infer(self, x: Spec, y: Spec, out: Spec | None) -> Spec:
        return Spec(x.dtype, np.broadcast_shapes(x.shape, y.shape))

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x + y


@OTHERS.op("Elementwise")
class Elementwise(OtherOp):
    is_elementwise = True


@OTHERS.op("Offset")
class Offset(OtherOp):
    batch_axis = BatchAxis.FIRST


@OTHERS.op("Paired")
class Paired(OtherOp):
    batch_axis = BatchAxis.FIRST
    batch_inputs = (0, 1)


@OTHERS.op("Along")
class Along(OtherOp):
    axis = int32()
    batch_axis = BatchAxis.ANY


@OTHERS.op("Unknown")
class Unknown(OtherOp):
    pass


def change_with_other(op_type: str, y_shape: tuple[int, ...], **params: int) -> tuple[Any, Graph]:
    """Change the batch of x, and of y if its first axis is 1, from 1 to 3."""
    graph = Graph("net")
    x, y = (
        graph.add_tensor(Tensor(name, DType.FLOAT_32, shape, TensorKind.APP_WRITE))
        for name, shape in (("x", (1, 4, 3)), ("y", y_shape))
    )
    added = add(graph, op_type, [x, y], name="op", package=OTHERS, **params)
    added.kind = TensorKind.APP_READ
    inputs = [t for t in (x, y) if t.shape[0] == 1]
    return change_batch(graph, Batch(1, 3), inputs, OpRegistry.of(PACKAGE, OTHERS)), graph


@pytest.mark.parametrize(
    ("op_type", "y_shape", "params"),
    [
        ("Elementwise", (1, 4, 3), {}),
        ("Elementwise", (4, 1), {}),
        ("Offset", (4, 3), {}),
        ("Paired", (1, 4, 3), {}),
        ("Along", (1, 4, 3), {"axis": 1}),
    ],
)
def test_ops_of_other_packages_state_the_axis_of_the_batch(
    op_type: str, y_shape: tuple[int, ...], params: dict[str, int]
) -> None:
    problems, graph = change_with_other(op_type, y_shape, **params)
    assert problems == []
    assert graph.tensor("op").shape == (3, 4, 3)


@pytest.mark.parametrize(
    ("op_type", "y_shape", "params", "said"),
    [
        ("Offset", (1, 4, 3), {}, "weights or tables have the batch"),
        ("Along", (1, 4, 3), {"axis": 0}, "along the batch, axis 0"),
        ("Along", (1, 4, 3), {"axis": -3}, "along the batch, axis 0"),
        ("Unknown", (4, 3), {}, "is not known to compute each element of the batch alone"),
    ],
)
def test_ops_of_other_packages_that_mix_the_batch_are_named(
    op_type: str, y_shape: tuple[int, ...], params: dict[str, int], said: str
) -> None:
    (problem,), _ = change_with_other(op_type, y_shape, **params)
    assert said in problem.message
    assert ("batch_axis" in problem.hint) == (op_type == "Unknown")


def test_axes_of_other_packages_count_those_of_the_largest_input() -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 1, 3), TensorKind.STATIC))
    y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (1, 3), TensorKind.APP_WRITE))
    add(graph, "Along", [x, y], name="op", package=OTHERS, axis=1).kind = TensorKind.APP_READ
    (problem,) = change_batch(graph, Batch(1, 3), [y], OpRegistry.of(PACKAGE, OTHERS))
    assert "along the batch, axis 0" in problem.message
