"""The import library without any format: a node by hand, shapes of inputs, windows, outputs."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import pytest

from dovetail.errors import ConfigError, FrontendError, UnsupportedOpError
from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail.ops.frontend import FrontendOptions
from dovetail_opset.importing.budget import MAX_STEPS, Budget
from dovetail_opset.importing.constant import Constant, as_value
from dovetail_opset.importing.context import ImportContext
from dovetail_opset.importing.indices import indices_tensor
from dovetail_opset.importing.inputs import bind_shapes
from dovetail_opset.importing.layout import aligned
from dovetail_opset.importing.options import option_problems
from dovetail_opset.importing.outputs import finish_graph, warn_of_shapes
from dovetail_opset.importing.problems import ValueNeededError, grouped, unsupported_nodes
from dovetail_opset.importing.values import Values
from dovetail_opset.importing.windows import Window, same_pads


@dataclass(frozen=True)
class Part:
    """A node of a made-up format."""

    name: str
    full_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def where(self) -> str:
        return f"{self.full_type} node '{self.name}'"


W = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def values() -> Values:
    graph = Graph("net")
    made = Values(
        graph,
        Budget(),
        lambda name: Constant(W, DType.FLOAT_32, "w") if name == "w" else None,
        ["x", "w", "y", "z"],
        ["y", "z"],
    )
    x = Tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE)
    made.set("x", graph.add_tensor(x))
    return made


def context(values: Values, node: Part) -> ImportContext:
    return ImportContext(node, values, {"y", "z"}, set())


def test_a_node_becomes_ops_and_its_constants_static_tensors(values: Values) -> None:
    op = context(values, Part("n", "Plus", ("x", "w", ""), ("y",)))
    assert (op.has(1), op.has(2), op.spec(1).shape) == (True, False, (2, 3))
    np.testing.assert_array_equal(op.constant(1), W)
    assert op.constant(0) is None
    assert op.tensor(1) is op.tensor(1)
    values.set("y", op.emit("ElementWiseAdd", [op.tensor(0), op.tensor(1)]))
    values.set("z", values.get("y"))  # the same under a second name
    values.derived("unread", W, DType.FLOAT_32)
    assert finish_graph(values, ["x"], ["y", "z"]) == {"y": (2, 3), "z": (2, 3)}
    assert [t.name for t in values.graph.outputs] == ["y", "z"]
    assert [node.op_type for node in values.graph.nodes] == ["ElementWiseAdd", "Reshape"]
    assert values.graph.nodes[0].sources == ("n",)
    assert "unread" not in values.graph.tensors
    np.testing.assert_array_equal(values.graph.tensor("w").values(), W)


def test_an_unknown_value_that_must_be_known_is_a_refusal(values: Values) -> None:
    node = Part("n", "Take", ("x",), ("y",))
    with pytest.raises(ValueNeededError) as caught:
        context(values, node).need_ints(0, "shape")
    found = unsupported_nodes(node, 3, caught.value)
    assert [(each.version, each.needs) for each in found] == [(3, "x")]
    other = Part("m", "Take", ("x",), ("z",))
    with pytest.raises(ValueNeededError) as again:
        context(values, other).need_ints(0, "shape")
    (problem,) = grouped([*found, *unsupported_nodes(other, 3, again.value)])
    assert problem.where == "Take (version 3): 2 nodes, n, m"


def test_constant_indices_are_checked_and_computed_ones_saturate(values: Values) -> None:
    op = context(values, Part("n", "Take", ("x", "i"), ("y",)))
    values.set("i", as_value(np.array([-1, 2]), "i"))
    assert indices_tensor(op, 1, 3).values().tolist() == [2, 2]
    with pytest.raises(FrontendError, match="index 2 is out of range for 2 elements"):
        indices_tensor(op, 1, 2)
    i = values.graph.add_tensor(Tensor("i", DType.INT_64, (2,), TensorKind.APP_WRITE))
    values.set("i", i)
    assert indices_tensor(op, 1, 3).dtype is DType.INT_32
    kinds = [node.op_type for node in values.graph.nodes]
    assert kinds == ["ElementWiseMaximum", "ElementWiseMinimum", "Cast"]


def test_alignment_to_an_axis(values: Values) -> None:
    op = context(values, Part("n", "Plus", ("x", "b"), ("y",)))
    values.set("b", as_value(np.ones(2, np.float32), "b"))
    assert aligned(op, op.tensor(0), op.tensor(1), 0).shape == (2, 1)
    for axis in (2, -3):
        with pytest.raises(FrontendError, match="cannot be broadcast"):
            aligned(op, op.tensor(0), op.tensor(1), axis)


def test_ops_and_steps_have_limits() -> None:
    budget = Budget(nodes=0)
    assert not budget.has_steps(MAX_STEPS + 1)
    assert [budget.has_steps(MAX_STEPS) for _ in range(5)] == [True] * 4 + [False]
    assert sum(budget.has_op() for _ in range(budget.most_ops + 5)) == budget.most_ops


def test_shapes_of_inputs(caplog: pytest.LogCaptureFixture) -> None:
    dims = {"x": ("n", 3, "h"), "y": ("h",), "z": None}
    options = FrontendOptions(input_dims={"y": (7,)})
    with caplog.at_level(logging.WARNING):
        assert bind_shapes(dims, options, optional=["z"]) == {"x": (1, 3, 7), "y": (7,)}
    assert "'n' is open and becomes 1" in caplog.text
    with pytest.raises(FrontendError) as caught:
        bind_shapes(dims, options, file="net.toy")
    assert caught.value.code == "MODEL_SHAPE_UNKNOWN"
    assert "--input-dim z SHAPE" in caught.value.hint
    with pytest.raises(ConfigError, match="would be 7 here, but 5 elsewhere"):
        bind_shapes(dims, options, {"h": 5}, optional=["z"])


def test_the_batch_is_not_the_layers_of_a_state(caplog: pytest.LogCaptureFixture) -> None:
    dims = {"x": ("n", 9), "state": (2, "n", 128), "rate": (), "mask": (2, 9)}
    options = FrontendOptions(batch=4, input_dims={"mask": (2, 9)})
    with caplog.at_level(logging.WARNING):
        assert bind_shapes(dims, options) == {
            "x": (4, 9),
            "state": (2, 4, 128),
            "rate": (),
            "mask": (2, 9),
        }
    assert not caplog.records
    lengths = {"x": ("n", "t"), "mask": ("t",)}
    given = FrontendOptions(batch=4, input_dims={"mask": (9,)})
    assert bind_shapes(lengths, given) == {"x": (4, 9), "mask": (9,)}
    # where only positions tell, the change is said
    unnamed = {"x": (None, 9), "state": (2, 4, 128), "one": (4,)}
    with caplog.at_level(logging.WARNING):
        found = bind_shapes(unnamed, FrontendOptions(batch=4))
    assert found == {"x": (4, 9), "state": (4, 4, 128), "one": (4,)}
    (warning,) = caplog.messages
    assert "input 'state': --batch changes its first dimension from 2 to 4" in warning
    assert "--input-dim state 2,4,128 keeps it" in warning
    # a model of one fixed size has nothing to be told apart
    caplog.clear()
    assert bind_shapes({"x": (1, 9)}, FrontendOptions(batch=4)) == {"x": (4, 9)}
    assert not caplog.records


def test_every_option_that_does_not_match_is_named() -> None:
    options = FrontendOptions(input_dims={"x": (1,), "xx": (2,)}, batch=0, out_names=("yy",))
    found = option_problems({"x": (1, "n")}, ["x", "y"], options, {"m": 3})
    assert [problem.message for problem in found] == [
        "expected rank 2, got 1",
        "input 'xx' not found in the model",
        "symbolic dimension 'm' not found in the model",
        "impossible value 0: the batch must be 1 to 2147483647",
        "tensor 'yy' not found in the model",
    ]


def test_declared_shapes_that_contradict(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        warn_of_shapes({"x": ((1, 2), (3, 2))}, {"y": ((1, 4), (1, 5))})
        assert not caplog.text  # the user chose another shape
        warn_of_shapes({"x": (("n", 2), (3, 2))}, {"y": ((1, 4), (1, 5)), "z": (None, (1,))})
    assert "'y' is declared as (1, 4) in the model, but its shape is (1, 5)" in caplog.text
    assert "'z'" not in caplog.text


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize(("size", "kernel", "stride"), [(7, 3, 2), (8, 3, 2), (5, 2, 1), (4, 1, 3)])
def test_same_padding_gives_a_window_for_each_stride(
    size: int, kernel: int, stride: int, *, upper: bool
) -> None:
    pads = same_pads((size,) * 2, (kernel,) * 2, (stride,) * 2, upper=upper)
    window = Window((kernel,) * 2, (stride,) * 2, (1, 1), pads)
    assert window.counts((size, size)) == (-(-size // stride),) * 2
    (before, after), _ = pads
    assert 0 <= (after - before if upper else before - after) <= 1


def test_unsupported_and_invalid_nodes_name_the_node(values: Values) -> None:
    op = context(values, Part("n", "Take", ("",), ("y",)))
    with pytest.raises(FrontendError, match="missing required input 0") as caught:
        op.value(0)
    assert caught.value.where == "Take node 'n'"
    assert isinstance(op.unsupported("why"), UnsupportedOpError)


def test_a_transpose_that_undoes_the_one_before_is_left_out(values: Values) -> None:
    first = context(values, Part("first", "Turn", ("x",), ("y",)))
    turned = first.emit("Transpose", [first.tensor(0)], perm=(1, 0))
    values.set("y", turned)
    second = context(values, Part("second", "Turn", ("y",), ("z",)))
    assert second.arranged(0, (1, 0)) is first.tensor(0)
    again = second.arranged(0, (0, 1))
    assert values.graph.producer(again) is values.graph.node("second.input0")
