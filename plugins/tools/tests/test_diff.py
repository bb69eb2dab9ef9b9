"""`dovetail diff`: structure and weights of two models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dovetail as dt
from dovetail.container import Model, Producer, compare_values
from dovetail.ir import DType, Graph, ScaleOffset, Tensor, TensorKind
from dovetail.ops import OpRegistry
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, static
from dovetail_tools._model_diff.matching import Way, match_nodes

REGISTRY = OpRegistry.of(PACKAGE)
W = np.arange(12, dtype=np.float32).reshape(4, 3) / 8


def net(name: str = "net", prefix: str = "") -> Graph:
    """y = relu(x @ w) + b."""
    graph = Graph(name)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 4), TensorKind.APP_WRITE))
    w = static(graph, f"{prefix}w", W)
    m = add(graph, "MatMul", [x, w], name=f"{prefix}m_node", outputs=f"{prefix}m")
    r = add(graph, "Relu", [m], name=f"{prefix}r_node", outputs=f"{prefix}r")
    b = static(graph, f"{prefix}b", np.ones(3, np.float32))
    y = add(graph, "ElementWiseAdd", [r, b], name="y_node", outputs="y")
    y.kind = TensorKind.APP_READ
    return graph


def save(path: str, *graphs: Graph) -> str:
    Model.of(*graphs, producer=Producer("tests", "1"), registry=REGISTRY).save(path)
    return path


@pytest.fixture
def first() -> str:
    return save("first.dvt", net())


def changed(run: Any, first: str, graph: Graph, *options: str) -> Any:
    """Return the differences of the only graph from the first model."""
    done = run("--json", "diff", first, save("second.dvt", graph), *options)
    assert done.code == (0 if done.data["equal"] else 1)
    (found,) = done.data["graphs"]
    return found


def facts(found: Any) -> dict[str, list[str]]:
    return {
        node["first"]: [d["fact"] for d in node["differences"]]
        for node in found["structure"]["nodes"]
    }


def test_a_model_equals_itself(first: str, run: Any) -> None:
    done = run("diff", first, save("copy.dvt", net("other")))
    assert done.code == 0
    assert "first.dvt and copy.dvt are equal\n" in done.out
    assert "weights: 2 compared, 2 identical" in done.out


def test_a_converted_model_equals_its_source(run: Any) -> None:
    source = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
    dt.convert(source).save("digits.dvt")
    done = run("--json", "diff", "digits.dvt", source)
    assert done.code == 0
    assert done.data["graphs"][0]["structure"] == {
        "interface": [],
        "nodes": [],
        "only_first": [],
        "only_second": [],
    }


def test_renamed_nodes_are_matched_by_their_position(first: str, run: Any) -> None:
    found = changed(run, first, net(prefix="new_"))
    assert found["matched"] == {"name": 1, "position": 2}
    assert found["structure"]["nodes"] == []
    assert (found["weights"]["compared"], found["weights"]["identical"]) == (2, 2)


def test_sources_come_before_positions_and_other_ops_of_a_name(first: str, run: Any) -> None:
    graph = net()
    relu = graph.node("r_node")
    graph.rename({}, {relu: "moved"})
    relu.sources = ("r_node",)
    add(graph, "Tanh", [relu.outputs[0]], name="r_node")
    found = changed(run, first, graph)
    assert found["matched"] == {"name": 2, "source": 1}
    assert found["structure"]["nodes"] == []
    assert found["structure"]["only_second"] == ["r_node"]


def test_another_op_and_another_param(first: str, run: Any) -> None:
    graph = net()
    graph.node("r_node").op_type = "Tanh"
    graph.node("m_node").params["transpose_in0"] = (
        PACKAGE.schemas["MatMul"].params["transpose_in0"].param_of(False, "m_node")
    )
    found = changed(run, first, graph)
    assert facts(found) == {"r_node": ["op"], "m_node": ["param transpose_in0"]}
    assert found["matched"] == {"name": 3}


def test_other_connections(first: str, run: Any) -> None:
    graph = net()
    graph.set_inputs(graph.node("y_node"), [graph.tensor("m"), graph.tensor("b")])
    found = changed(run, first, graph)
    (node,) = found["structure"]["nodes"]
    (difference,) = node["differences"]
    assert difference == {
        "fact": "in[0]",
        "first": "out[0] of r_node",
        "second": "out[0] of m_node",
    }


def test_types_encodings_and_the_interface(first: str, run: Any) -> None:
    graph = net()
    for name in ("m", "r"):
        graph.tensor(name).dtype = DType.UFIXED_POINT_8
        graph.tensor(name).encoding = ScaleOffset(0.5, -3)
    graph.rename({graph.tensor("x"): "x2"}, {})
    found = changed(run, first, graph)
    wanted = ["out[0] dtype", "out[0] encoding", "out[0] bitwidth", "out[0] symmetry"]
    assert facts(found)["m_node"][:4] == wanted
    assert [d["fact"] for d in found["structure"]["interface"]] == ["input x name"]
    # an input under another name is the same input to the nodes
    assert not any(fact == "in[0]" for fact in facts(found)["m_node"])


def test_inputs_and_outputs_of_one_source_are_compared(first: str, run: Any) -> None:
    graph = net()
    x, y = graph.tensor("x"), graph.tensor("y")
    graph.rename({x: "x_0", y: "x"}, {})  # a name of the first model that means another one here
    x.source, x.dtype = "x", DType.FLOAT_16
    found = changed(run, first, graph)
    told = [(d["fact"], d["second"]) for d in found["structure"]["interface"]]
    assert told == [("input x name", "x_0"), ("input x dtype", "FLOAT_16"), ("output y name", "x")]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 1),
        (["--atol", "0.24"], 1),
        (["--atol", "0.25"], 0),
        (["--rtol", "0.2"], 0),  # 0.25 of 1.25 + 0.25
        (["--rtol", "0.1"], 1),
        (["--structure-only"], 0),
        (["--weights-only"], 1),
        (["--structure-only", "--weights-only"], 2),
        (["--atol", "-1"], 2),
    ],
)
def test_weights_are_compared_within_a_tolerance(
    options: list[str], code: int, first: str, run: Any
) -> None:
    graph = net()
    values = W.copy()
    values[3, 1] += 0.25
    graph.tensor("w").data = Tensor.static("w", values).data
    save("second.dvt", graph)
    done = run("--json", "diff", first, "second.dvt", *options)
    assert done.code == code, done.err
    if code != 2 and "--structure-only" not in options:
        (weight,) = done.data["graphs"][0]["weights"]["different"]
        assert (weight["first"], weight["max_abs"]) == ("w", 0.25)
        cosine = float((W * values).sum() / np.sqrt((W**2).sum() * (values**2).sum()))
        assert weight["cosine"] == pytest.approx(cosine, rel=1e-6)  # summed in float32 here
        assert weight["is_close"] == (code == 0)


@pytest.mark.parametrize(
    ("ours", "theirs", "max_abs", "is_close"),
    [
        ([np.nan, 1], [np.nan, 1.5], 0.5, True),
        ([np.nan, 1], [1, 1], np.nan, False),
        ([np.inf, 1], [np.inf, 1], 0, True),
        ([1, 1], [np.inf, 1], np.inf, False),
    ],
)
def test_values_that_are_no_numbers(
    ours: list[float], theirs: list[float], max_abs: float, is_close: bool
) -> None:
    pair = [Tensor.static("w", np.array(each, np.float32)) for each in (ours, theirs)]
    found = compare_values(*pair, rtol=1, atol=1)
    assert found is not None
    assert (found.is_close, np.array_equal(found.max_abs, max_abs, equal_nan=True)) == (
        is_close,
        True,
    )


def test_shapes_of_weights(first: str, run: Any) -> None:
    graph = net()
    old = graph.tensor("b")
    new = graph.add_tensor(Tensor.static("c", np.ones((1, 3), np.float32)))
    graph.set_inputs(graph.node("y_node"), [graph.tensor("r"), new])
    graph.remove_tensor(old)
    found = changed(run, first, graph)
    assert facts(found) == {"y_node": ["in[1] shape"]}
    (weight,) = found["weights"]["different"]
    assert (weight["first"], weight["second"], weight["max_abs"]) == ("b", "c", None)


def test_nodes_and_graphs_in_one_model_only(run: Any) -> None:
    bigger = net("a")
    add(bigger, "Tanh", [bigger.tensor("m")], name="extra")
    save("one.dvt", net("a"), net("b"))
    save("two.dvt", bigger, net("c"))
    done = run("--json", "diff", "one.dvt", "two.dvt")
    assert done.code == 1
    assert (done.data["only_first"], done.data["only_second"]) == (["b"], ["c"])
    assert done.data["graphs"][0]["structure"]["only_second"] == ["extra"]
    text = run("diff", "one.dvt", "two.dvt").out
    assert "graphs only in one.dvt: 1\n  b\n" in text
    assert "nodes only in the second: 1\n  extra\n" in text


def test_damaged_weights_are_an_error(first: str, run: Any) -> None:
    data = bytearray(Path(first).read_bytes())
    data[data.index(W.tobytes())] ^= 1
    Path("damaged.dvt").write_bytes(data)
    assert run("diff", first, "damaged.dvt", "--structure-only").code == 0
    done = run("diff", first, "damaged.dvt")
    assert (done.code, "damaged" in done.err) == (3, True)


OPS = st.tuples(
    st.sampled_from(["Relu", "Tanh", "ElementWiseAdd"]), st.integers(0, 5), st.integers(0, 5)
)


# the fixture is the folder, which this test does not use
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(OPS, min_size=1, max_size=20))
def test_a_renamed_graph_is_matched_with_the_same_ops(ops: list[tuple[str, int, int]]) -> None:
    first, second = (random_graph(ops, prefix) for prefix in "ab")
    found = match_nodes(first, second)
    # every node can be reached from the input
    assert len(found.nodes) == len(ops) == len(found.used)
    assert set(found.ways.values()) == {Way.POSITION}
    assert all(node.op_type == other.op_type for node, other in found.nodes.items())


def random_graph(ops: list[tuple[str, int, int]], prefix: str) -> Graph:
    graph = Graph("net")
    x = Tensor(f"{prefix}x", DType.FLOAT_32, (2, 2), TensorKind.APP_WRITE)
    tensors = [graph.add_tensor(x)]
    for i, (op, *back) in enumerate(ops):
        inputs = [tensors[-1 - n % len(tensors)] for n in back]
        arity = 2 if op == "ElementWiseAdd" else 1
        tensors.append(add(graph, op, inputs[:arity], name=f"{prefix}{i}"))
    return graph
