"""Dead code, constants, identities: what goes, what must stay, and that values do not change."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import (
    AxisScaleOffset,
    DType,
    Graph,
    ScaleOffset,
    Spec,
    Tensor,
    TensorKind,
    find_faults,
)
from dovetail_opset.build import add, add_all, static
from dovetail_opset.passes import (
    DeadCode,
    FoldConstants,
    RemoveIdentities,
    ReshapeTransposes,
)

Evaluate = Callable[..., Any]
F32 = DType.FLOAT_32


@pytest.fixture
def graph() -> Graph:
    graph = Graph("g")
    graph.add_tensor(Tensor("x", F32, (2, 3), TensorKind.APP_WRITE))
    return graph


def output(graph: Graph, tensor: Tensor) -> Tensor:
    return add(graph, "Relu", [tensor], name="out", outputs=_app_read("y", tensor.shape))


def _app_read(name: str, shape: tuple[int, ...]) -> Tensor:
    return Tensor(name, F32, shape, TensorKind.APP_READ)


def ops(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.nodes]


# -- dead code ---------------------------------------------------------------------------------


def test_dead_chains_and_their_constants_go(graph: Graph) -> None:
    x = graph.tensor("x")
    output(graph, x)
    dead = add(graph, "ElementWiseAdd", [x, static(graph, "c", np.ones(3, np.float32))], name="a")
    add(graph, "Relu", [dead], name="b")
    unused_input = graph.add_tensor(Tensor("spare", F32, (1,), TensorKind.APP_WRITE))
    tuned = static(graph, "lora", np.ones(3, np.float32))
    tuned.kind = TensorKind.UPDATEABLE_STATIC
    assert DeadCode().run(graph)
    assert set(graph.tensors) == {"x", "y", "spare", "lora"}
    assert graph.tensors["spare"] is unused_input
    assert not DeadCode().run(graph)


def test_a_node_with_one_result_in_use_stays(graph: Graph) -> None:
    first, _ = add_all(graph, "Split", [graph.tensor("x")], name="s", axis=1, split_index=[1])
    output(graph, first)
    assert not DeadCode().run(graph)


# -- constants ---------------------------------------------------------------------------------


def test_constants_fold_through_chains(graph: Graph, evaluate: Evaluate) -> None:
    base = static(graph, "base", np.array([1, 4, 9], np.float32))
    root = add(graph, "ElementWiseSquareRoot", [base], name="root")
    total = add(graph, "ReduceSum", [root], name="sum", axes=[0], keep_dims=True)
    output(graph, add(graph, "ElementWiseMultiply", [graph.tensor("x"), total], name="m"))
    feed = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    before = evaluate(graph, feed)["y"]
    assert FoldConstants().run(graph)
    assert ops(graph) == ["ElementWiseMultiply", "Relu"]
    assert (total.kind, total.values().tolist()) == (TensorKind.STATIC, [6])
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


def test_fixed_point_constants_fold_to_their_encoding(graph: Graph) -> None:
    code = ScaleOffset(0.5, -10)
    a = static(graph, "a", np.array([0, 30], np.uint8), DType.UFIXED_POINT_8, encoding=code)
    spec = Spec(DType.UFIXED_POINT_8, (2,), code)
    out = add(graph, "Relu", [a], name="r", spec=spec)
    add(graph, "Dequantize", [out], name="d", outputs=_app_read("y", (2,)))
    assert FoldConstants().run(graph)
    assert (out.values().tolist(), out.encoding) == ([10, 30], code)
    # a Dequantize of a constant would undo the saving of its few bits
    assert ops(graph) == ["Dequantize"]


def test_what_must_not_fold_does_not(graph: Graph) -> None:
    tuned = static(graph, "lora", np.ones(3, np.float32))
    tuned.kind = TensorKind.UPDATEABLE_STATIC
    plain = static(graph, "plain", np.ones(3, np.float32))
    made = add(graph, "Relu", [tuned], name="a")
    output(graph, add(graph, "ElementWiseAdd", [plain, made], name="b"))
    add(graph, "Relu", [plain], name="to_output", outputs=_app_read("z", (3,)))
    big = add(graph, "Pad", [plain], name="p", scheme=0, pad_amount=[(0, 100)])
    add(graph, "ElementWiseAdd", [big, big], name="q", outputs=_app_read("w", (103,)))
    assert not FoldConstants(max_growth_bytes=399).run(graph)
    assert FoldConstants(max_growth_bytes=400).run(graph)


# -- identities --------------------------------------------------------------------------------


def identity(graph: Graph, name: str, x: Tensor) -> Tensor:
    params: dict[str, dict[str, Any]] = {
        "Reshape": {"spec": x.spec},
        "Cast": {"spec": x.spec},
        "Convert": {"spec": x.spec},
        "Transpose": {"perm": [0, 1]},
        "Pad": {"scheme": 0, "pad_amount": [(0, 0), (0, 0)]},
        "StridedSlice": {"ranges": [(0, 2, 1), (0, 9, 1)]},
    }
    return add(graph, name, [x], name=name, **params[name])


IDENTITIES = ["Reshape", "Cast", "Convert", "Transpose", "Pad", "StridedSlice"]


@pytest.mark.parametrize("name", IDENTITIES)
def test_identities_go(graph: Graph, name: str) -> None:
    output(graph, identity(graph, name, graph.tensor("x")))
    assert RemoveIdentities().run(graph)
    assert ops(graph) == ["Relu"]
    assert set(graph.tensors) == {"x", "y"}


def test_identity_before_an_output_lets_the_maker_write_it(graph: Graph) -> None:
    inner = add(graph, "Relu", [graph.tensor("x")], name="r")
    y = add(graph, "Reshape", [inner], name="i", outputs=_app_read("y", (2, 3)))
    other = add(graph, "Relu", [inner], name="o", outputs=_app_read("z", (2, 3)))
    assert RemoveIdentities().run(graph)
    assert not find_faults(graph)
    assert graph.producer(y) is graph.node("r")
    assert graph.outputs == (y, other)


def test_an_input_never_becomes_the_output(graph: Graph) -> None:
    add(graph, "Reshape", [graph.tensor("x")], name="i", outputs=_app_read("y", (2, 3)))
    assert not RemoveIdentities().run(graph)
    assert ops(graph) == ["Reshape"]


def test_an_updateable_tensor_is_not_looked_through(graph: Graph) -> None:
    tuned = static(graph, "lora", np.ones((2, 3), np.float32))
    tuned.kind = TensorKind.UPDATEABLE_STATIC
    output(graph, identity(graph, "Reshape", tuned))
    assert not RemoveIdentities().run(graph)


def test_what_changes_something_stays(graph: Graph) -> None:
    x = graph.tensor("x")
    flipped = add(graph, "StridedSlice", [x], name="f", ranges=[(1, -1, -1), (0, 3, 1)])
    half = add(graph, "Cast", [flipped], name="h", spec=Spec(DType.FLOAT_16, (2, 3)))
    output(graph, add(graph, "Cast", [half], name="w", spec=Spec(F32, (2, 3))))
    assert not RemoveIdentities().run(graph)


def test_chains_become_one(graph: Graph, evaluate: Evaluate) -> None:
    x = graph.tensor("x")
    steps = add(graph, "Reshape", [x], name="r1", spec=Spec(F32, (6, 1)))
    steps = add(graph, "Squeeze", [steps], name="r2", axes=[1])
    steps = add(graph, "Reshape", [steps], name="r3", spec=Spec(F32, (1, 2, 3)))
    steps = add(graph, "Transpose", [steps], name="t1", perm=[2, 0, 1])
    steps = add(graph, "Transpose", [steps], name="t2", perm=[1, 2, 0])
    steps = add(graph, "Transpose", [steps], name="t3", perm=[0, 2, 1])
    output(graph, add(graph, "Relu", [steps], name="relu"))
    feed = {"x": np.arange(-2, 4, dtype=np.float32).reshape(2, 3)}
    before = evaluate(graph, feed)["y"]
    RemoveIdentities().run(graph)
    assert ops(graph) == ["Reshape", "Transpose", "Relu"]
    assert graph.node("r3").sources == ("r1", "r2", "r3")
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


def test_transposes_that_undo_each_other_go(graph: Graph) -> None:
    turned = add(graph, "Transpose", [graph.tensor("x")], name="a", perm=[1, 0])
    output(graph, add(graph, "Transpose", [turned], name="b", perm=[1, 0]))
    assert RemoveIdentities().run(graph)
    assert ops(graph) == ["Relu"]


# -- transposes of ones ------------------------------------------------------------------------


@pytest.mark.parametrize("is_read", [False, True])
def test_a_reshape_of_a_tensor_with_other_readers_reads_what_was_reshaped(
    evaluate: Evaluate, is_read: bool
) -> None:
    graph = Graph("g")
    x = graph.add_tensor(Tensor("x", F32, (2, 3), TensorKind.APP_WRITE))
    flat = _app_read("flat", (6,)) if is_read else None
    between = add(graph, "Reshape", [x], name="first", spec=Spec(F32, (6,)), outputs=flat)
    wide = add(graph, "ExpandDims", [between], name="second", axis=0)
    tall = add(graph, "Reshape", [between], name="third", spec=Spec(F32, (6, 1)))
    output(graph, add(graph, "MatMul", [tall, wide], name="both"))
    feed = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    before = evaluate(graph, feed)
    assert RemoveIdentities().run(graph)
    assert not RemoveIdentities().run(graph)
    DeadCode().run(graph)
    kept = ["Reshape"] if is_read else []
    assert ops(graph) == [*kept, "Reshape", "Reshape", "MatMul", "Relu"]
    assert not find_faults(graph)
    for name, values in evaluate(graph, feed).items():
        np.testing.assert_array_equal(values, before[name])


def test_a_transpose_of_ones_is_a_reshape(graph: Graph, evaluate: Evaluate) -> None:
    wide = add(graph, "Reshape", [graph.tensor("x")], name="r", spec=Spec(F32, (1, 2, 1, 3)))
    turned = add(graph, "Transpose", [wide], name="t", perm=[2, 1, 3, 0])
    output(graph, add(graph, "Transpose", [turned], name="real", perm=[0, 2, 1, 3]))
    feed = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    before = evaluate(graph, feed)["y"]
    assert ReshapeTransposes().run(graph)
    assert ops(graph) == ["Reshape", "Reshape", "Transpose", "Relu"]
    assert not ReshapeTransposes().run(graph)
    RemoveIdentities().run(graph)
    assert ops(graph) == ["Reshape", "Transpose", "Relu"]
    assert graph.node("t").sources == ("r", "t")
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


def test_a_transpose_of_ones_with_scales_by_axis_stays() -> None:
    graph, code = Graph("g"), AxisScaleOffset(3, np.array([0.5, 0.25, 1], np.float32))
    x = Tensor("x", DType.UFIXED_POINT_8, (2, 1, 1, 3), TensorKind.APP_WRITE, encoding=code)
    add(graph, "Transpose", [graph.add_tensor(x)], name="t", perm=[0, 3, 1, 2])
    assert not ReshapeTransposes().run(graph)
