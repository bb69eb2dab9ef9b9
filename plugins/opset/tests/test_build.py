"""The builder: names, outputs, params and errors."""

import numpy as np
import pytest

from dovetail.errors import GraphError, OpError
from dovetail.ir import DType, Graph, Scalar, Spec, Tensor, TensorKind, find_faults
from dovetail_opset.build import add, add_all, replace_op, static
from dovetail_opset.ops.pooling import Rounding


@pytest.fixture
def graph() -> Graph:
    graph = Graph("g")
    graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 4, 4, 2), TensorKind.APP_WRITE))
    return graph


def test_makes_params_of_their_types(graph: Graph) -> None:
    pads = [[0, 1], [1, 0]]
    add(
        graph,
        "PoolAvg2d",
        [graph.tensor("x")],
        name="pool",
        filter_size=(2, 2),
        stride=(2, 2),
        pad_amount=pads,
        rounding_mode=Rounding.CEIL,
        count_pad_for_edges=None,
    )
    params = graph.node("pool").params
    assert params["rounding_mode"] == Scalar(DType.UINT_32, 1)
    assert "count_pad_for_edges" not in params
    stored = params["pad_amount"]
    assert isinstance(stored, Tensor)
    assert (stored.dtype, stored.values().tolist()) == (DType.UINT_32, pads)


def test_names(graph: Graph) -> None:
    x = graph.tensor("x")
    first = add(graph, "Relu", [x], name="r")
    second = add(graph, "Relu", [first], name="r", sources=["Relu_7"])
    named = add(graph, "Relu", [second], name="last", outputs="logits")
    assert (first.name, second.name, named.name) == ("r", "r_1", "logits")
    assert [n.sources for n in graph.nodes] == [("r",), ("Relu_7",), ("last",)]
    parts = add_all(graph, "Split", [x], name="s", axis=3, split_index=[1])
    assert [t.name for t in parts] == ["s.0", "s.1"]
    weight = static(graph, "r", np.ones(3, np.float32))
    assert (weight.name, weight.source) == ("r_2", "r")
    assert not find_faults(graph)


def test_outputs_may_be_tensors_made_already(graph: Graph) -> None:
    y = Tensor("y", DType.FLOAT_32, (1, 4, 4, 2), TensorKind.APP_READ)
    assert add(graph, "Relu", [graph.tensor("x")], name="r", outputs=y) is y
    assert graph.outputs == (y,)
    wrong = Tensor("z", DType.FLOAT_32, (1, 4, 4, 3), TensorKind.APP_READ)
    with pytest.raises(OpError, match=r"is declared as FLOAT_32 \(1, 4, 4, 3\)"):
        add(graph, "Relu", [y], name="r2", outputs=wrong)


def test_refusals_name_the_node_and_leave_nothing(graph: Graph) -> None:
    x = graph.tensor("x")
    with pytest.raises(OpError) as caught:
        add(graph, "Softmax", [x], name="n", sources=["Softmax_3"], axis=4)
    assert caught.value.where == "Softmax node 'n' (from Softmax_3)"
    with pytest.raises(OpError, match="missing required param 'max_value'"):
        add(graph, "ReluMinMax", [x], name="n", min_value=0.0)
    with pytest.raises(OpError, match=r"has 1 inputs; qti\.aisw::ElementWiseAdd takes 2"):
        add(graph, "ElementWiseAdd", [x], name="n")
    with pytest.raises(GraphError, match="duplicate tensor name 'x'"):
        add(graph, "Relu", [x], name="n", outputs="x")
    assert set(graph.tensors) == {"x"}
    assert not graph.nodes


def test_names_that_only_code_gives_are_not_the_users_fault(graph: Graph) -> None:
    with pytest.raises(LookupError, match="no op Rellu"):
        add(graph, "Rellu", [graph.tensor("x")], name="n")
    with pytest.raises(TypeError, match="has no param 'axes'"):
        add(graph, "Softmax", [graph.tensor("x")], name="n", axes=1)
    with pytest.raises(TypeError, match="use add_all"):
        add(graph, "Split", [graph.tensor("x")], name="n", axis=3, split_index=[1])


def test_declared_specs_decide(graph: Graph) -> None:
    spec = Spec(DType.FLOAT_16, (1, 4, 4, 2))
    assert add(graph, "Cast", [graph.tensor("x")], name="c", spec=spec).dtype is DType.FLOAT_16


def test_an_op_in_place_of_another_keeps_name_outputs_and_sources(graph: Graph) -> None:
    x = graph.tensor("x")
    y = add(graph, "ReluMinMax", [x], name="n", sources=["Clip_3"], min_value=0.0, max_value=6.0)
    made = replace_op(graph, graph.node("n"), "Relu")
    assert graph.nodes == (made,)
    assert (made.op_type, made.inputs, made.outputs, made.params) == ("Relu", (x,), (y,), {})
    assert (made.name, made.sources) == ("n", ("Clip_3",))
    again = replace_op(graph, made, "ElementWiseAdd", [x, x])
    assert (again.inputs, graph.producer(y)) == ((x, x), again)
    assert not find_faults(graph)
