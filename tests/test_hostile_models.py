"""Small hostile models, one for each finding of the fuzzer; each error names the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

import dovetail
from dovetail.errors import FrontendError, UnsupportedOpError

N = helper.make_node
F32, I64 = np.float32, np.int64
INT_MAX, INT_MIN = 2**63 - 1, -(2**63)


def model(
    nodes: Sequence[NodeProto],
    constants: Mapping[str, Any] | None = None,
    *,
    shape: Sequence[int] = (2, 3),
    outputs: Sequence[str] = ("y",),
    opset: int = 18,
    **fields: Any,
) -> ModelProto:
    """Create a model from x; constants are arrays, or lists of 64-bit integers."""
    arrays = {
        name: np.array(values, I64) if isinstance(values, list | int) else values
        for name, values in (constants or {}).items()
    }
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items()],
    )
    opsets = fields.pop("opset_imports", [helper.make_opsetid("", opset)])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **fields)


def refused(
    path: Path, made: ModelProto, kind: type[FrontendError | UnsupportedOpError] = FrontendError
) -> str:
    """Convert, and return the error that comes of it."""
    path.write_bytes(made.SerializeToString())
    with pytest.raises(kind) as caught:
        dovetail.convert(path)
    assert type(caught.value) is kind
    return str(caught.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.onnx"


@pytest.mark.parametrize("version", [2**31, INT_MAX, -1, INT_MIN])
def test_versions_that_there_are_not(path: Path, version: int) -> None:
    made = model([N("Relu", ["x"], ["y"])], opset=version)
    made.ir_version = 2**31 + 5
    said = refused(path, made)
    assert f"operator set '' is {version}" in said
    assert f"ir_version is {2**31 + 5}" in said


def test_extents_beyond_what_a_tensor_can_have(path: Path) -> None:
    said = refused(path, model([N("Relu", ["x"], ["y"])], shape=(INT_MAX, 5)))
    assert "input 'x'" in said
    assert str(INT_MAX) in said


# Node by what the error says of it: (node, constants, shape of x).
HOSTILE: dict[str, tuple[NodeProto, Mapping[str, Any], tuple[int, ...]]] = {
    "would have 1000000000000 elements": (
        N("Range", ["a", "b", "c"], ["r"], "n"), {"a": 0, "b": 10**12, "c": 1}, (1,)),
    "shape (1000000, 1000000)": (N("Expand", ["a", "b"], ["r"], "n"),
                                 {"a": np.ones((1, 1), F32), "b": [10**6, 10**6]}, (1,)),
    "has unsupported type": (N("Relu", ["a"], ["r"], "n"), {"a": np.array([True])}, (1,)),
    f"num_outputs is {INT_MAX}": (
        N("Split", ["x"], ["r", "s"], "n", num_outputs=INT_MAX), {}, (4,)),
    f"num_outputs is {2**40}": (
        N("Split", ["a"], ["r", "s"], "n", num_outputs=2**40), {"a": np.ones(4, F32)}, (4,)),
    "batch_dims must not be negative, got -10000000": (
        N("GatherND", ["a", "b"], ["r"], "n", batch_dims=-(10**7)),
        {"a": np.ones((2, 2), F32), "b": [[0], [1]]}, (1,)),
    f"from 0 to {INT_MAX}, but there are 2 elements": (
        N("GatherElements", ["a", "b"], ["r"], "n"),
        {"a": np.ones((2, 1), F32), "b": [[0], [INT_MAX]]}, (1,)),
    "diagonal must be a single number, got 2 elements": (
        N("Trilu", ["x", "a"], ["r"], "n"), {"a": [0, 1]}, (2, 2)),
    "has an empty string": (N("Pad", ["x", ""], ["r"], "n"), {}, (2, 2)),
    "must not exceed 1048576": (
        N("AveragePool", ["x"], ["r"], "n", kernel_shape=[2, 2**31 - 1], auto_pad="SAME_UPPER"),
        {}, (1, 1, 8, 8)),
    "the maximum is 1048576": (N("Resize", ["x", "", "", "a"], ["r"], "n"), {"a": [1, 1, 10**7, 2]},
                              (1, 1, 8, 8)),
    "(60, 1000000000), which is too large": (N("DFT", ["x", "a"], ["r"], "n", axis=0),
                                             {"a": 10**9}, (4, 1)),
}  # fmt: skip


@pytest.mark.parametrize("said", HOSTILE)
def test_a_hostile_node_is_named(path: Path, said: str) -> None:
    node, constants, shape = HOSTILE[said]
    last = N("Identity", ["r"], ["y"])
    found = refused(path, model([node, last], constants, shape=shape))
    assert f"{node.op_type} node 'n'" in found
    if said.startswith("("):
        said = "too large"
    assert said in found


def test_a_node_of_fewer_inputs_than_a_pattern_has(path: Path) -> None:
    # the patterns of GELU are looked for before the nodes are checked
    nodes = [
        N("Div", ["x", "root"], ["s"]),
        N("Erf", ["s"], ["e"]),
        N("Add", ["e", "one"], ["a"]),
        N("Mul", ["x", "a", "half"], ["y"], "three"),
    ]
    constants = {"root": np.sqrt(F32(2)), "one": F32(1), "half": F32(0.5)}
    assert "'three'" in refused(path, model(nodes, constants))
    nodes = [N("Erf", [], ["e"], "none"), N("Mul", ["x", "e"], ["y"])]
    assert "'none'" in refused(path, model(nodes))


def test_an_attribute_that_is_no_text_or_does_not_fit(path: Path) -> None:
    node = N("Pad", ["a", "b"], ["c"], "pad")
    node.attribute.add(name="mode", type=AttributeProto.STRING, s=b"\xff\xfe")
    constants = {"a": np.ones(2, F32), "b": [1, 1]}
    assert "'pad'" in refused(
        path, model([node, N("Add", ["x", "c"], ["y"])], constants, shape=[4])
    )
    filled = TensorProto(data_type=TensorProto.FLOAT, dims=[1], float_data=[1] * 5)
    fill = N("ConstantOfShape", ["n"], ["c"], "fill", value=filled)
    assert "'fill'" in refused(path, model([fill, N("Add", ["x", "c"], ["y"])], {"n": [3]}))


def branches(*, then: Sequence[NodeProto], outputs: Sequence[str]) -> NodeProto:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(list(then), "then", [], infos)
    return N("If", ["c"], ["y"], "choice", then_branch=graph, else_branch=graph)


def test_what_carried_graphs_say_is_checked_too(path: Path) -> None:
    true = {"c": np.array(True)}
    for then, outputs, said in (
        ([], [], "the node has 1 outputs, but its graph has 0"),
        ([N("Add", ["x"], ["t"], "sum")], ["t"], "sum"),
        (
            [N("Relu", ["x"], ["t"]), N("Neg", ["x"], ["t"], "again")],
            ["t"],
            "output 'choice.then.t' is defined already",
        ),
        ([N("Pad", ["x"], ["t"], "pad")], ["t"], "pad"),
    ):
        node = branches(then=then, outputs=outputs)
        assert said in refused(path, model([node], true))
    node = branches(then=[N("Relu", ["x"], ["t"])], outputs=["t"])
    for attribute in node.attribute:
        attribute.type = AttributeProto.STRING
    refused(path, model([node], true))


def test_outputs_that_no_operator_gives(path: Path) -> None:
    made = model([N("Flatten", ["x"], ["y", "z"], "flat")], outputs=["y", "z"])
    assert "'flat'" in refused(path, made)
    assert "no name" in refused(path, model([N("Relu", ["x"], ["y"])], outputs=["y", ""]))


def test_names_that_are_no_text_anywhere(path: Path) -> None:
    node = branches(then=[N("Relu", ["x"], ["marked"])], outputs=["marked"])
    data = model([node], {"c": np.array(True)}).SerializeToString()
    for mark in (b"mark\xff\xfe", b"mark\0\0"):
        path.write_bytes(data.replace(b"marked", mark))
        with pytest.raises(FrontendError, match="not UTF-8 or contain a zero byte"):
            dovetail.convert(path)


def function(name: str, nodes: Sequence[NodeProto]) -> Any:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    return helper.make_function("f", name, ["a"], ["b"], list(nodes), opsets)


def with_functions(functions: Sequence[Any], called: str) -> ModelProto:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    node = N(called, ["x"], ["y"], domain="f")
    return model([node], opset_imports=opsets, functions=functions)


def test_functions_of_one_name(path: Path) -> None:
    twice = [function("F", [N("Relu", ["a"], ["b"])])] * 2
    assert "duplicate name, used 2 times" in refused(path, with_functions(twice, "F"))


def test_functions_that_multiply_within_what_memory_holds(path: Path) -> None:
    functions = [function("F0", [N("Neg", ["a"], ["b"])])]
    for i in range(1, 19):  # 2 ** 18 nodes, of a file of three kilobytes
        calls = [N(f"F{i - 1}", [s], [t], domain="f") for s, t in ("ac", "cb")]
        functions.append(function(f"F{i}", calls))
    said = refused(path, with_functions(functions, "F18"))
    assert f"more than {20_000 + 10 * (1 + 1 + 36)} nodes" in said


def test_functions_that_multiply_bytes(path: Path) -> None:
    weight = numpy_helper.from_array(np.ones(2**16, F32))
    held = [N("Constant", [], ["w"], value=weight), N("ReduceSum", ["w"], ["s"], keepdims=0)]
    functions = [function("F0", [*held, N("Add", ["a", "s"], ["b"])])]
    for i in range(1, 11):
        calls = [N(f"F{i - 1}", [s], [t], domain="f") for s, t in ("ac", "cb")]
        functions.append(function(f"F{i}", calls))
    assert "bytes" in refused(path, with_functions(functions, "F10"))


def test_an_operator_whose_definition_needs_types_that_nothing_gives(path: Path) -> None:
    body = helper.make_graph([N("Shape", ["s"], ["t"])], "body", [
        helper.make_tensor_value_info("s", TensorProto.FLOAT, None)], [
        helper.make_tensor_value_info("t", TensorProto.INT64, None)])  # fmt: skip
    node = N("SequenceMap", ["nothing"], ["y"], "map", body=body)
    assert "'nothing'" in refused(path, model([node]))  # ONNX's own code crashes on it


@pytest.mark.parametrize(
    ("key", "value"), [("offset", "9" * 5000), ("length", "9" * 20), ("location", "a" * 5000)]
)
def test_external_data_of_impossible_places(path: Path, key: str, value: str) -> None:
    made = model([N("Add", ["x", "w"], ["y"])])
    weight = made.graph.initializer.add(name="w", dims=[3], data_type=1, data_location=1)
    for name, text in ({"location": "w.bin", "offset": "0"} | {key: value}).items():
        weight.external_data.add(key=name, value=text)
    (path.parent / "w.bin").write_bytes(bytes(12))
    assert len(refused(path, made)) < 20_000


def test_loops_of_evaluation_are_left_to_the_model(path: Path) -> None:
    # ONNX's evaluator takes half a minute for it; converted, it is an op
    nodes = [N("Resize", ["a", "", "b"], ["c"], "large"), N("Add", ["x", "c"], ["y"])]
    constants = {"a": np.ones((1, 1, 8, 8), F32), "b": np.array([1, 1, 100, 100], F32)}
    path.write_bytes(model(nodes, constants, shape=(1, 1, 800, 800)).SerializeToString())
    graph = dovetail.convert(path, optimize=False).graphs["model"]
    assert "large" in {node.name for node in graph.nodes}


def test_a_layer_of_very_many_channels_without_weights(path: Path) -> None:
    # the pass that folds scales made a bias of zeros for them, 8 bytes a channel
    nodes = [N("MatMul", ["x", "x"], ["a"]), N("Mul", ["a", "two"], ["y"])]
    made = model(nodes, {"two": np.array(2, F32)}, shape=(2**31, 2**31))
    path.write_bytes(made.SerializeToString())
    assert dovetail.convert(path).graphs["model"].nodes


def test_long_axes_of_several_nodes_take_too_long_together(path: Path) -> None:
    # each takes a second to be compared with what the resizing ops do
    sizes = {"s": [1, 1, 3, 3]}
    nodes = [N("Resize", ["x", "", "", "s"], [f"y{i}"], f"n{i}", antialias=1) for i in range(4)]
    made = model(nodes, sizes, shape=(1, 1, 10**6, 4), outputs=[f"y{i}" for i in range(4)])
    for node in made.graph.node:
        node.attribute.append(helper.make_attribute("mode", "linear"))
    said = refused(path, made)
    assert "'n0'" not in said
    assert "resizing (1, 1, 1000000, 4) to (1, 1, 3, 3) takes too long to convert" in said
