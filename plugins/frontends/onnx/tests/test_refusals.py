"""Files and models that are wrong: one clear error, with everything that is wrong in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto, helper

from dovetail.errors import ConfigError, ExitCode, FrontendError, UnsupportedOpError
from dovetail.ir import to_text
from dovetail.ops.frontend import Frontend
from dovetail_onnx import OnnxFrontend, OnnxOptions

F32 = np.float32
N = helper.make_node
X = np.ones((2, 3), F32)


@pytest.fixture
def relu(model):
    return model([N("Relu", ["x"], ["y"], name="r")], {"x": X}, ["y"])


def read_bytes(path: Path, data: bytes):
    path.write_bytes(data)
    return OnnxFrontend().read(path)


def test_it_is_a_frontend() -> None:
    assert isinstance(OnnxFrontend(), Frontend)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"hello, this is a text\n" * 20, "not an ONNX file"),
        (b"PK\x03\x04" + bytes(60), "a zip archive"),
        (b"\x89HDF\r\n\x1a\n" + bytes(60), "an HDF5 file"),
        (b"<!DOCTYPE html><html></html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        (b'{"irVersion": 8}', "JSON"),
        (b"\x08\x08", "not an ONNX file, or cut short: the graph is missing"),
        (bytes(100), "not an ONNX file"),
    ],
)
def test_other_files(tmp_path, data, message) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(FrontendError, match=message) as caught:
        read_bytes(path, data)
    assert caught.value.where == str(path)
    assert caught.value.exit_code is ExitCode.BAD_MODEL


def test_a_missing_file_and_a_folder(tmp_path) -> None:
    for path in (tmp_path / "none.onnx", tmp_path):
        with pytest.raises(FrontendError) as caught:
            OnnxFrontend().read(path)
        assert caught.value.code == "FILE_UNREADABLE"


def test_a_file_cut_anywhere(tmp_path, model) -> None:
    known = {"w": np.arange(40, dtype=F32).reshape(10, 4)}
    made = model([N("MatMul", ["x", "w"], ["y"])], {"x": np.ones((1, 10), F32)}, ["y"], known)
    data = made.SerializeToString()
    for end in range(1, len(data)):
        with pytest.raises(FrontendError):
            read_bytes(tmp_path / "model.onnx", data[:end])


def test_a_file_too_large_for_its_format(tmp_path) -> None:
    path = tmp_path / "model.onnx"
    with path.open("wb") as file:
        file.truncate(2**31)  # sparse: takes no room
    with pytest.raises(FrontendError, match="external data"):
        OnnxFrontend().read(path)


def test_what_it_recognises(tmp_path, relu) -> None:
    frontend = OnnxFrontend()
    assert frontend.recognises(Path("anything.onnx"))
    assert frontend.recognises(Path("ANYTHING.ONNX"))
    assert not frontend.recognises(tmp_path / "missing.pb")
    unnamed = tmp_path / "model"
    unnamed.write_bytes(relu.SerializeToString())
    assert frontend.recognises(unnamed)
    unnamed.write_bytes(b"DOVETAIL something else")
    assert not frontend.recognises(unnamed)


def test_a_cycle(model, read) -> None:
    nodes = [
        N("Add", ["x", "c"], ["a"], name="first"),
        N("Relu", ["a"], ["b"], name="second"),
        N("Neg", ["b"], ["c"], name="third"),
        N("Abs", ["x"], ["y"], name="apart"),
    ]
    with pytest.raises(FrontendError, match="cycle") as caught:
        read(model(nodes, {"x": X}, ["y"]))
    assert "'first', 'second', 'third'" in caught.value.problems[0].message


def test_nodes_in_another_order_are_sorted(agree, model, read) -> None:
    nodes = [N("Relu", ["a"], ["y"], name="r"), N("Neg", ["x"], ["a"], name="n")]
    # ONNX Runtime refuses this order, so it gets the other one
    graph = agree(model(nodes[::-1], {"x": X}, ["y"]), {"x": X})
    assert [n.op_type for n in graph.nodes] == ["ElementWiseNeg", "Relu"]
    assert to_text(read(model(nodes, {"x": X}, ["y"]))) == to_text(graph)


def test_names_that_are_given_twice(model, read) -> None:
    nodes = [
        N("Relu", ["x"], ["y"], name="one"),
        N("Neg", ["x"], ["y"], name="two"),
        N("Abs", ["x"], ["w"], name="three"),
        N("Abs", ["y"], ["x"], name="four"),
    ]
    made = model(nodes, {"x": X}, ["y"], {"w": X})
    made.graph.initializer.append(made.graph.initializer[0])
    with pytest.raises(FrontendError) as caught:
        read(made)
    texts = [str(p) for p in caught.value.problems]
    assert len(texts) == 4
    assert "duplicate name, used 2 times" in texts[0]
    assert "output 'y' is also an output of Relu node 'one'" in texts[1]
    assert "Abs node 'three': output 'w' is also an initializer" in texts[2]
    assert "Abs node 'four': output 'x' is also an input of the model" in texts[3]


def test_names_that_nothing_gives(model, read) -> None:
    nodes = [N("Add", ["x", "lost"], ["y"], name="one"), N("Relu", ["gone"], ["z"], name="two")]
    with pytest.raises(FrontendError) as caught:
        read(model(nodes, {"x": X}, ["y", "z", "never"]))
    texts = [p.message for p in caught.value.problems]
    assert texts[0] == "input 'lost' is not defined in the model"
    assert texts[1] == "input 'gone' is not defined in the model"
    assert caught.value.problems[2].where == "output 'never'"


def test_all_that_cannot_be_converted_is_reported_at_once(model, read) -> None:
    nodes = [
        N("Relu", ["x"], ["a"]),
        N("NonZero", ["a"], ["b"], name="sparse"),
        N("Multinomial", ["a"], ["c"], name="draw"),
        N("Softmax", ["c"], ["d"], name="after"),
        N("Frobnicate", ["a"], ["e"], name="wild"),
        N("Wobble", ["a"], ["f"], name="foreign", domain="com.example"),
        N("MaxPool", ["a"], ["g", "h"], name="pool", kernel_shape=[8, 8]),
    ]
    made = model(nodes, {"x": np.ones((1, 1, 8, 8), F32)}, ["b", "d", "e", "f", "g", "h"])
    made.opset_import.append(helper.make_opsetid("com.example", 3))
    with pytest.raises(UnsupportedOpError, match="5 nodes") as caught:
        read(made)
    assert caught.value.exit_code is ExitCode.UNSUPPORTED_OP
    texts = [str(p) for p in caught.value.problems]
    assert "NonZero node 'sparse': the shape of its output depends on the data" in texts[0]
    assert "Multinomial node 'draw': no version of this operator can be converted" in texts[1]
    assert "Frobnicate node 'wild': operator set 17 has no operator 'Frobnicate'" in texts[2]
    assert "plugin 'onnx:com.example'" in texts[3]
    assert "MaxPool node 'pool': the indices of the maxima" in texts[4]


def hard(model, count):
    nodes = [N("Multinomial", ["x"], [f"y{i}"], name=f"draw_{i}") for i in range(count)]
    return model(nodes, {"x": X}, [f"y{i}" for i in range(count)])


@pytest.mark.parametrize(
    ("count", "nodes", "where"),
    [
        (1, "1 node", "Multinomial node 'draw_0'"),
        (2, "2 nodes", "Multinomial (version 7): 2 nodes, draw_0, draw_1"),
        (3, "3 nodes", "Multinomial (version 7): 3 nodes, draw_0, draw_1, draw_2"),
        (12, "12 nodes", "Multinomial (version 7): 12 nodes, draw_0, draw_1, draw_2 and 9 more"),
    ],
)
def test_nodes_refused_for_one_reason_are_told_together(model, read, count, nodes, where) -> None:
    with pytest.raises(UnsupportedOpError) as caught:
        read(hard(model, count))
    assert caught.value.message == f"{nodes} of the model cannot be converted"
    (problem,) = caught.value.problems
    assert problem.where == where


def test_other_reasons_stay_apart(model, read) -> None:
    def pool(i, kernel):
        outs = [f"y{i}", f"i{i}"]
        return N("MaxPool", ["x"], outs, name=f"pool_{i}", kernel_shape=kernel)

    nodes = [pool(0, [8, 8]), pool(1, [8, 8]), N("Multinomial", ["x"], ["z"], name="draw")]
    outs = ["y0", "i0", "y1", "i1", "z"]
    with pytest.raises(UnsupportedOpError, match="3 nodes of the model") as caught:
        read(model(nodes, {"x": np.ones((1, 1, 8, 8), F32)}, outs))
    wheres = {p.where for p in caught.value.problems}
    assert wheres == {"Multinomial node 'draw'", "MaxPool (version 12): 2 nodes, pool_0, pool_1"}


def test_control_flow_says_why(model, read) -> None:
    branch = helper.make_graph(
        [N("Relu", ["x"], ["b"])], "branch", [], [helper.make_tensor_value_info("b", 1, None)]
    )
    node = N("If", ["c"], ["y"], name="choice", then_branch=branch, else_branch=branch)
    made = model([node], {"c": np.array(True), "x": X}, ["y"])
    with pytest.raises(UnsupportedOpError, match="control flow") as caught:
        read(made)
    assert caught.value.problems[0].where == "If node 'choice'"


def test_nodes_that_contradict_their_operator(model, read) -> None:
    nodes = [
        N("Relu", ["x"], ["a"], name="odd", sharpness=3),
        N("Add", ["x"], ["b"], name="short"),
        N("Concat", ["x", "x"], ["c"], name="missing"),
    ]
    with pytest.raises(FrontendError) as caught:
        read(model(nodes, {"x": X}, ["a", "b", "c"]))
    found = {p.where: p.message for p in caught.value.problems}
    assert "sharpness" in found["Relu node 'odd'"]
    assert "input size 1" in found["Add node 'short'"]
    assert "axis" in found["Concat node 'missing'"]


def test_an_attribute_of_a_wrong_type(model, read) -> None:
    node = N("Elu", ["x"], ["y"], name="elu")
    node.attribute.append(AttributeProto(name="alpha", type=AttributeProto.INT, i=1))
    with pytest.raises(FrontendError, match="alpha"):
        read(model([node], {"x": X}, ["y"]))


def test_shapes_that_do_not_go_together(model, read) -> None:
    with pytest.raises(FrontendError, match="do not broadcast") as caught:
        read(model([N("Add", ["x", "z"], ["y"], name="s")], {"x": X, "z": np.ones(2, F32)}, ["y"]))
    assert caught.value.problems[0].where == "Add node 's'"


@pytest.mark.parametrize(
    ("dims", "raw", "message"),
    [
        (
            [2, 3],
            bytes(20),
            "expected 24 of data for FLOAT (2, 3), got 20 bytes",
        ),
        ([2**31, 2**20], bytes(4), "expected"),
        (
            [2**31, 2**31, 2**31],
            bytes(4),
            "is too large for any memory",
        ),
        (
            [0, 2**31, 2**31, 2**31],
            b"",
            "is too large for any memory",
        ),
        ([-1, 3], bytes(12), "the shape (-1, 3) has a negative size"),
    ],
)
def test_tensors_whose_data_do_not_fit(model, read, dims, raw, message) -> None:
    made = model([N("Add", ["x", "w"], ["y"])], {"x": X}, ["y"])
    made.graph.initializer.append(TensorProto(name="w", dims=dims, data_type=1, raw_data=raw))
    with pytest.raises(FrontendError) as caught:
        read(made)
    assert message in str(caught.value)
    assert "tensor 'w'" in str(caught.value)


def test_typed_fields_of_a_wrong_length(model, read) -> None:
    made = model([N("Add", ["x", "w"], ["y"])], {"x": X}, ["y"])
    made.graph.initializer.append(TensorProto(name="w", dims=[3], data_type=1, float_data=[1, 2]))
    with pytest.raises(FrontendError, match=r"of data for FLOAT \(3,\), got 2 elements"):
        read(made)


@pytest.mark.parametrize(
    "kind", [TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.FLOAT4E2M1, 99]
)
def test_element_types_that_cannot_be_converted(model, read, kind) -> None:
    made = model([N("Add", ["x", "w"], ["y"], name="s")], {"x": X}, ["y"])
    made.graph.initializer.append(TensorProto(name="w", dims=[1], data_type=kind))
    with pytest.raises(UnsupportedOpError, match="element type"):
        read(made)


def test_inputs_that_are_no_tensors(model, read) -> None:
    made = model([N("Identity", ["s"], ["y"])], {"x": X}, ["y"])
    made.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("s", 1, [2]))
    with pytest.raises(UnsupportedOpError, match="inputs that cannot be converted"):
        read(made)


def test_names_that_are_no_text(tmp_path, relu) -> None:
    data = relu.SerializeToString().replace(b"Relu", b"R\xff\xfeu")
    with pytest.raises(FrontendError, match="not UTF-8"):
        read_bytes(tmp_path / "model.onnx", data)


def test_places_and_extents_that_are_no_text(tmp_path, model) -> None:
    made = model([N("Add", ["x", "w"], ["y"], name="s")], {"x": X}, ["y"])
    weight = TensorProto(name="w", dims=[1], data_type=TensorProto.FLOAT, data_location=1)
    weight.external_data.add(key="location", value="where.bin")
    made.graph.initializer.append(weight)
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "extent"
    data = made.SerializeToString()
    for text in (b"where", b"extent"):
        wrong = b"\xff" + text[1:]
        with pytest.raises(FrontendError, match="not UTF-8"):
            read_bytes(tmp_path / "model.onnx", data.replace(text, wrong))


def test_functions_whose_names_are_no_text(tmp_path, relu) -> None:
    body = [N("Relu", ["inner"], ["outer"])]
    function = helper.make_function(
        "here", "Mine", ["inner"], ["outer"], body, [helper.make_opsetid("", 17)]
    )
    relu.functions.append(function)
    relu.opset_import.append(helper.make_opsetid("here", 1))
    data = relu.SerializeToString()
    for text in (b"Mine", b"inner"):
        with pytest.raises(FrontendError, match="not UTF-8"):
            read_bytes(tmp_path / "model.onnx", data.replace(text, b"\xff" + text[1:]))


@pytest.mark.parametrize(
    ("attributes", "said"),
    [({"strides": [2**40, 1]}, "32 bits"), ({"pads": [2**40, 0, 0, 0]}, "must not exceed 1048576")],
)
def test_attributes_that_do_not_fit_32_bits(model, read, attributes, said) -> None:
    node = N("AveragePool", ["x"], ["y"], name="p", kernel_shape=[1, 1], **attributes)
    with pytest.raises(FrontendError, match=said) as caught:
        read(model([node], {"x": np.ones((1, 1, 4, 4), F32)}, ["y"]))
    assert caught.value.problems[0].where == "AveragePool node 'p'"


def test_an_output_that_no_memory_holds(model, read) -> None:
    node = N("Expand", ["x", "s"], ["y"], name="e")
    with pytest.raises(FrontendError, match="too large"):
        read(model([node], {"x": np.ones(1, F32)}, ["y"], {"s": np.array([2**40])}))


def test_more_dimensions_than_there_can_be(model, read) -> None:
    made = model([N("Add", ["x", "w"], ["y"])], {"x": X}, ["y"])
    made.graph.initializer.append(TensorProto(name="w", dims=[1] * 65, data_type=1, float_data=[1]))
    with pytest.raises(FrontendError, match="unsupported rank 65"):
        read(made)


# -- cutting and the dry run ---------------------------------------------------------------------


def test_cutting_at_named_tensors(model, read) -> None:
    nodes = [
        N("Relu", ["x"], ["a"]),
        N("Add", ["a", "z"], ["b"]),
        N("NonZero", ["b"], ["y"]),
    ]
    made = model(nodes, {"x": X, "z": X}, ["y"])
    graph = read(made, OnnxOptions(out_names=("a",)))
    assert [t.name for t in graph.outputs] == ["a"]
    assert [t.name for t in graph.inputs] == ["x"]
    assert [t.name for t in read(made, OnnxOptions(out_names=("b", "a"))).outputs] == ["b", "a"]
    with pytest.raises(
        ConfigError, match="--out-name bb: tensor 'bb' not found in the model"
    ) as caught:
        read(made, OnnxOptions(out_names=("bb",)))
    assert caught.value.problems[0].hint == "did you mean 'b'?"
    made.graph.node[1].name = "sum"
    with pytest.raises(ConfigError) as caught:
        read(made, OnnxOptions(out_names=("sum",)))
    assert caught.value.problems[0].hint == (
        "a node has this name; name a tensor that it writes: 'b'"
    )


def test_dry_run(model, tmp_path) -> None:
    nodes = [
        N("Shape", ["x"], ["s"]),
        N("Relu", ["x"], ["a"]),
        N("Relu", ["a"], ["b"]),
        N("Multinomial", ["b"], ["h"], name="draw"),
        N("Reshape", ["h", "s"], ["y"]),
    ]
    path = tmp_path / "model.onnx"
    path.write_bytes(model(nodes, {"x": X, "idle": X}, ["y"]).SerializeToString())
    report = OnnxFrontend().dry_run(path)
    found = {use.op_type: use for use in report.operators}
    assert (found["Relu"].count, found["Relu"].version, found["Relu"].supported) == (2, 14, True)
    assert (found["Shape"].folded, found["Multinomial"].supported) == (1, False)
    assert report.unused_inputs == ("idle",)
    (problem,) = report.problems
    assert problem.where == "Multinomial node 'draw'"


def test_dry_run_without_shapes(model, tmp_path) -> None:
    path = tmp_path / "model.onnx"
    made = model([N("Multinomial", ["x"], ["y"])], {"x": (1, [1, "width"])}, ["y"])
    path.write_bytes(made.SerializeToString())
    texts = [str(p) for p in OnnxFrontend().dry_run(path).problems]
    assert any("Multinomial" in text for text in texts)
    assert any("'width'" in text for text in texts)


def test_the_first_opset_of_an_operator_is_named(model, read) -> None:
    x = np.zeros(3, np.float32)
    with pytest.raises(
        UnsupportedOpError, match="operator set 17 has no operator 'Mish'"
    ) as caught:
        read(model([N("Mish", ["x"], ["y"])], {"x": x}, ["y"]))
    assert "export the model for opset 18 or later" in str(caught.value)


def test_an_operator_of_another_framework_is_said_once(model, read) -> None:
    """Exporters leave operators as they are for which the operator set has none."""
    node = helper.make_node("ReverseV2", ["x"], ["y"], name="back")
    with pytest.raises(UnsupportedOpError) as caught:
        read(model([node], {"x": np.ones(3, np.float32)}, ["y"], opset=9))
    (problem,) = caught.value.problems
    assert problem.message == "operator set 9 has no operator 'ReverseV2'"
    assert problem.hint.endswith("export the model for a later opset")
