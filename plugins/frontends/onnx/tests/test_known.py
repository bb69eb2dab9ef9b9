"""Inputs whose values are given: they are constants, and what is wrong with them is said."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from dovetail.errors import ConfigError, UnsupportedOpError
from dovetail.ops.frontend import InputsNeededError
from dovetail_onnx import OnnxFrontend, OnnxOptions

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def int64(*values):
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("op_type", "values", "outputs", "opset"),
    [
        ("Reshape", [int64(4, -1)], 1, 17),
        ("Expand", [int64(5, 1, 1, 1)], 1, 17),
        ("TopK", [int64(2)], 2, 17),
        ("Slice", [int64(1, 3), int64(3, 0), int64(1, 2), int64(1, -1)], 1, 17),
        ("Tile", [int64(1, 2, 3)], 1, 17),
        ("Pad", [int64(0, 1, 0, 2, 0, 0)], 1, 17),
        ("ReduceSum", [int64(0, -1)], 1, 17),
        ("ReduceMax", [int64(1)], 1, 18),
        ("Unsqueeze", [int64(0, 4)], 1, 17),
        ("Gather", [int64(1, -2)], 1, 17),
    ],
)
def test_values_are_constants(model, read, run, run_peer, op_type, values, outputs, opset) -> None:
    names = [f"v{i}" for i in range(len(values))]
    given = dict(zip(names, values, strict=True))
    outs = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, ["x", *names], outs)
    made = model([node], {"x": X, **given}, outs, opset=opset)
    graph = read(made, OnnxOptions(input_values=given))
    assert [t.name for t in graph.inputs] == ["x"]
    found, wanted = run(graph, {"x": X}), run_peer(made, {"x": X, **given})
    for name in outs:
        assert found[name].dtype == wanted[name].dtype
        np.testing.assert_array_equal(found[name], wanted[name])


def reshaping(model, **fields):
    """Return a model that reshapes x to 'shape' plus 'zero'."""
    nodes = [
        helper.make_node("Add", ["shape", "zero"], ["to"]),
        helper.make_node("Reshape", ["x", "to"], ["y"], name="here"),
        *fields.pop("more", ()),
    ]
    inputs = {"x": X, "shape": (TensorProto.INT64, ["R"]), "zero": int64(0)}
    return model(nodes, inputs, ["y"], **fields)


def test_the_inputs_that_decide_are_named(model, read) -> None:
    with pytest.raises(InputsNeededError) as caught:
        read(reshaping(model))
    error = caught.value
    assert error.inputs == ("shape", "zero")
    assert (error.code, error.exit_code) == ("MODEL_VALUES_UNKNOWN", 4)
    assert "specialize=['shape', 'zero']" in error.hint
    assert "--input-value shape VALUE --input-value zero VALUE" in error.hint
    assert "'here'" in str(error)
    with pytest.raises(InputsNeededError) as caught:
        read(reshaping(model), OnnxOptions(input_values={"shape": int64(4, 6)}))
    assert caught.value.inputs == ("zero",)


def test_what_is_unsupported_too_weighs_more(model, read) -> None:
    det = helper.make_node("Nope", ["x"], ["z"], name="det", domain="com.none")
    made = reshaping(model, more=[det])
    made.graph.output.append(helper.make_empty_tensor_value_info("z"))
    with pytest.raises(InputsNeededError) as caught:
        read(made)
    assert caught.value.code == "OP_UNSUPPORTED"
    values = {"shape": int64(6, 4), "zero": int64(0)}
    with pytest.raises(UnsupportedOpError) as caught:
        read(made, OnnxOptions(input_values=values))
    assert not isinstance(caught.value, InputsNeededError)


def test_shapes_of_values_bind_symbols_of_other_inputs(model, read, run) -> None:
    nodes = [helper.make_node("Tile", ["x", "times"], ["y"])]
    inputs = {"x": (TensorProto.FLOAT, [1] * 2), "times": (TensorProto.INT64, ["R"])}
    inputs["z"] = TensorProto.FLOAT, [3, "R"]
    nodes.append(helper.make_node("Relu", ["z"], ["a"]))
    options = OnnxOptions(input_values={"times": int64(2, 2)})
    graph = read(model(nodes, inputs, ["y", "a"]), options)
    assert [t.shape for t in graph.inputs] == [(1, 1), (3, 2)]


@pytest.mark.parametrize(
    ("kind", "values", "holds"),
    [
        (TensorProto.INT32, [2.0, 3.0], np.array([2, 3], np.int32)),
        (TensorProto.FLOAT, int64(2, 3), np.array([2, 3], np.float32)),
        (TensorProto.FLOAT16, np.array([0.1, 1e9]), np.array([0.1, np.inf], np.float16)),
        (TensorProto.BOOL, int64(0, 1), np.array([False, True])),
        (TensorProto.BFLOAT16, np.array([1.5, -2.0]), np.array([1.5, -2.0], np.float32)),
        (
            TensorProto.BFLOAT16,
            np.array([1.5, -2.0], helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)),
            np.array([1.5, -2.0], np.float32),
        ),
        (TensorProto.INT64, [], np.zeros(0, np.int64)),
    ],
)
def test_values_take_the_input_s_type(model, read, kind, values, holds) -> None:
    nodes = [helper.make_node("Identity", ["v"], ["y"]), helper.make_node("Relu", ["x"], ["z"])]
    made = model(nodes, {"x": X, "v": (kind, [len(values)])}, ["y", "z"])
    graph = read(made, OnnxOptions(input_values={"v": values}))
    (found,) = [t for t in graph.tensors.values() if t.data is not None]
    np.testing.assert_array_equal(found.values(), holds)
    assert found.values().dtype == holds.dtype


def test_scalars_and_values_that_no_output_needs(model, read, run) -> None:
    nodes = [helper.make_node("CumSum", ["x", "axis"], ["y"])]
    made = model(nodes, {"x": X, "axis": np.int64(0), "unused": X}, ["y"])
    options = OnnxOptions(input_values={"axis": np.int64(2), "unused": X})
    graph = read(made, options)
    np.testing.assert_array_equal(run(graph, {"x": X})["y"], X.cumsum(2))


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("shpae", int64(1), "did you mean 'shape'"),
        ("zero", int64(1, 2), "shape is (2,), but the model declares (1)"),
        ("shape", np.int64(24), "shape is (), but the model declares (R)"),
        ("shape", np.array([2.5, 1]), "element (0,) is 2.5, which INT64 cannot hold"),
        ("shape", np.array([2.0**70]), "which INT64 cannot hold"),
        ("shape", np.array(["2"]), "expected real numbers, got type <U1"),
        ("shape", np.array([None]), "expected real numbers, got type object"),
        ("shape", np.array([2j]), "expected real numbers, got type complex128"),
    ],
)
def test_values_that_do_not_fit(model, read, name, values, said) -> None:
    with pytest.raises(ConfigError) as caught:
        read(reshaping(model), OnnxOptions(input_values={name: values}))
    assert said in str(caught.value)
    assert caught.value.code == "USAGE"


def test_a_value_and_a_shape_of_one_input(model, read) -> None:
    options = OnnxOptions(input_dims={"zero": (1,)}, input_values={"zero": int64(0)})
    with pytest.raises(
        ConfigError,
        match="--input-dim cannot be given for an input with values, whose shape is known",
    ):
        read(reshaping(model), options)


def test_a_dry_run_knows_the_values(model, tmp_path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(reshaping(model).SerializeToString())
    assert "must be known" in str(OnnxFrontend().dry_run(path).problems)
    options = OnnxOptions(input_values={"shape": int64(2, 12), "zero": int64(0)})
    found = OnnxFrontend().dry_run(path, options)
    assert found.problems == ()
    assert found.unused_inputs == ()
