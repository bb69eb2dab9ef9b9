"""Constants, folding, casts and nodes that do nothing."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from dovetail.errors import FrontendError, UnsupportedOpError
from dovetail.ir import DType
from dovetail_onnx import _fold
from dovetail_opset.importing import budget

F32, I64 = np.float32, np.int64
N = helper.make_node


@pytest.mark.parametrize("opset", [7, 9, 11, 12, 13, 19, 21, 23, 24, 25])
def test_constant_tensors(agree, model, opset) -> None:
    x, c = np.ones((2, 3), F32), np.arange(3, dtype=F32)
    nodes = [
        N("Constant", [], ["c"], value=numpy_helper.from_array(c)),
        N("Add", ["x", "c"], ["y"]),
    ]
    agree(model(nodes, {"x": x}, ["y"], opset=opset), {"x": x})


@pytest.mark.parametrize(
    "value",
    [{"value_float": 2.5}, {"value_floats": [1.0, 2.0]}, {"value_int": 3}, {"value_ints": [1, 2]}],
)
def test_constant_numbers(agree, model, value) -> None:
    dtype = F32 if "float" in next(iter(value)) else I64
    x = np.ones((3, 2), dtype)
    nodes = [N("Constant", [], ["c"], **value), N("Add", ["x", "c"], ["y"])]
    agree(model(nodes, {"x": x}, ["y"]), {"x": x})


def test_constant_text_is_refused(model, read) -> None:
    nodes = [N("Constant", [], ["c"], name="words", value_string="hi"), N("Identity", ["c"], ["y"])]
    with pytest.raises(UnsupportedOpError, match="text or sparse"):
        read(model(nodes, {}, ["y"]))


def test_shape_arithmetic_folds_away(agree, model) -> None:
    # flatten all but the first dimension, the way tracing exporters spell it
    nodes = [
        N("Shape", ["x"], ["s"]),
        N("Gather", ["s", "zero"], ["n"]),
        N("Unsqueeze", ["n", "axes"], ["n1"]),
        N("Concat", ["n1", "rest"], ["t"], axis=0),
        N("Cast", ["t"], ["t32"], to=TensorProto.INT32),
        N("Cast", ["t32"], ["t64"], to=TensorProto.INT64),
        N("Reshape", ["x", "t64"], ["y"]),
    ]
    known = {"zero": np.array(0, I64), "axes": np.array([0], I64), "rest": np.array([-1], I64)}
    x = np.arange(24, dtype=F32).reshape(2, 3, 4)
    graph = agree(model(nodes, {"x": x}, ["y"], known), {"x": x})
    assert [n.op_type for n in graph.nodes] == ["Reshape"]
    assert all(t.data is None for t in graph.tensors.values())


def test_what_is_computed_alike_is_computed_once(agree, model, monkeypatch) -> None:
    calls = []
    evaluated = _fold._evaluated
    monkeypatch.setattr(_fold, "_evaluated", lambda *args: calls.append(1) or evaluated(*args))
    nodes, last = [N("Shape", ["x"], ["s"])], "x"
    for i in range(20):  # nodes alike but for their names, and some with another attribute or value
        nodes += [
            N("Gather", ["s", "one" if i % 2 else "zero"], [f"n{i}"], axis=0),
            N("Unsqueeze", [f"n{i}", "axes"], [f"u{i}"]),
            N("Cast", [f"u{i}"], [f"c{i}"], to=TensorProto.FLOAT if i % 5 else TensorProto.FLOAT16),
            N("Cast", [f"c{i}"], [f"f{i}"], to=TensorProto.FLOAT),
            N("Add", [last, f"f{i}"], [f"y{i}"]),
        ]
        last = f"y{i}"
    known = {"zero": np.array(0, I64), "one": np.array(1, I64), "axes": np.array([0], I64)}
    x = np.arange(6, dtype=F32).reshape(2, 3)
    graph = agree(model(nodes, {"x": x}, [last], known), {"x": x})
    assert [n.op_type for n in graph.nodes] == ["ElementWiseAdd"] * 20
    assert len(calls) == 2 + 2 + 4 + 4  # of 80; the shape has no result that is computed


@pytest.mark.parametrize("opset", [9, 12])
def test_folding_follows_the_models_opset(agree, model, opset) -> None:
    # axes was an attribute then; what the operator means today would not do
    nodes = [N("Unsqueeze", ["c"], ["u"], axes=[0]), N("Add", ["x", "u"], ["y"])]
    x = np.ones((2, 3), F32)
    graph = agree(
        model(nodes, {"x": x}, ["y"], {"c": np.arange(3, dtype=F32)}, opset=opset), {"x": x}
    )
    assert graph.tensor("u").shape == (1, 3)


@pytest.mark.parametrize("opset", [15, 19, 21, 23, 24, 25])
@pytest.mark.parametrize("bounds", [{}, {"start": 1}, {"start": -2, "end": 10}, {"end": -1}])
def test_shape_of_a_part(agree, model, opset, bounds) -> None:
    # added to the input, so that something is left to compute
    nodes = [
        N("Shape", ["x"], ["s"], **bounds),
        N("ReduceProd", ["s"], ["p"], keepdims=0),
        N("Size", ["x"], ["n"]),
        N("Add", ["x", "p"], ["xp"]),
        N("Add", ["xp", "n"], ["y"]),
    ]
    x = np.ones((2, 3, 4), I64)
    graph = agree(model(nodes, {"x": x}, ["y"], opset=opset), {"x": x})
    assert len(graph.nodes) == 2


@pytest.mark.parametrize("opset", [9, 20, 21, 23, 24, 25])
def test_constant_of_shape(agree, model, opset) -> None:
    value = numpy_helper.from_array(np.array([2.5], F32))
    nodes = [N("ConstantOfShape", ["s"], ["c"], value=value), N("Add", ["x", "c"], ["y"])]
    x = np.ones((1, 3), F32)
    agree(model(nodes, {"x": x}, ["y"], {"s": np.array([2, 3], I64)}, opset=opset), {"x": x})


@pytest.mark.parametrize("shape", [(), (1,)])
def test_an_axis_may_have_one_element(agree, model, shape) -> None:
    nodes = [
        helper.make_node("CumSum", ["c", "axis"], ["sums"]),
        helper.make_node("Add", ["x", "sums"], ["y"]),
    ]
    known = {"c": np.arange(6, dtype=np.float32).reshape(2, 3), "axis": np.full(shape, 1, np.int64)}
    x = np.ones((2, 3), np.float32)
    graph = agree(model(nodes, {"x": x}, ["y"], known), {"x": x})
    assert [node.op_type for node in graph.nodes] == ["ElementWiseAdd"]


@pytest.mark.parametrize(
    "nodes",
    [
        [N("ConstantOfShape", ["big"], ["c"], name="huge"), N("ReduceSum", ["c"], ["r"])],
        [N("Expand", ["one", "big"], ["c"], name="huge"), N("ReduceSum", ["c"], ["r"])],
        [N("Tile", ["one", "big"], ["c"], name="huge"), N("ReduceSum", ["c"], ["r"])],
    ],
)
def test_a_hostile_constant_is_not_made(model, read, nodes) -> None:
    nodes = [*nodes, N("Add", ["x", "r"], ["y"])]
    known = {"big": np.array([2**20, 2**20], I64), "one": np.ones((1, 1), F32)}
    with pytest.raises(FrontendError, match="constant output would have 1099511627776 elements"):
        read(model(nodes, {"x": np.ones(1, F32)}, ["y"], known))


def test_a_constant_that_cannot_be_computed_names_its_node(model, read) -> None:
    nodes = [N("Reshape", ["c", "s"], ["r"], name="impossible"), N("Add", ["x", "r"], ["y"])]
    known = {"c": np.ones(4, F32), "s": np.array([3, 3], I64)}
    with pytest.raises(FrontendError, match="cannot compute") as caught:
        read(model(nodes, {"x": np.ones(1, F32)}, ["y"], known))
    assert caught.value.problems[0].where == "Reshape node 'impossible'"


@pytest.mark.parametrize("opset", [7, 13, 14, 16, 19, 21, 23, 24, 25])
def test_identity_leaves_nothing(agree, model, opset) -> None:
    nodes = [N("Identity", ["x"], ["i"]), N("Relu", ["i"], ["y"])]
    x = np.array([-1, 1], F32)
    graph = agree(model(nodes, {"x": x}, ["y"], opset=opset), {"x": x})
    assert [n.op_type for n in graph.nodes] == ["Relu"]


@pytest.mark.parametrize("opset", [7, 10, 12, 13, 22])
def test_dropout_leaves_nothing(agree, model, opset) -> None:
    nodes = [N("Dropout", ["x"], ["d"]), N("Relu", ["d"], ["y"])]
    x = np.array([-1, 1], F32)
    graph = agree(model(nodes, {"x": x}, ["y"], opset=opset), {"x": x})
    assert [n.op_type for n in graph.nodes] == ["Relu"]


def test_the_mask_of_a_dropout_keeps_everything(agree, model) -> None:
    nodes = [N("Dropout", ["x"], ["d", "m"]), N("Relu", ["d"], ["y"])]
    x = np.array([-1, 1], F32)
    agree(model(nodes, {"x": x}, ["y", "m"], opset=13), {"x": x})


def test_dropout_in_training_is_refused(model, read) -> None:
    nodes = [N("Dropout", ["x", "r", "t"], ["y"])]
    known = {"r": np.array(0.5, F32), "t": np.array(True)}
    with pytest.raises(UnsupportedOpError, match="training mode"):
        read(model(nodes, {"x": np.ones(2, F32)}, ["y"], known, opset=13))


def test_outputs_that_are_inputs_constants_or_each_other(agree, model) -> None:
    nodes = [
        N("Identity", ["x"], ["a"]),
        N("Relu", ["x"], ["b"]),
        N("Identity", ["b"], ["c"]),
        N("Identity", ["k"], ["d"]),
        N("Add", ["x", "k"], ["e"]),
    ]
    x, k = np.array([-1, 1], F32), np.array([5, 6], F32)
    agree(model(nodes, {"x": x}, ["a", "b", "c", "d", "e"], {"k": k}), {"x": x})


def test_a_constant_that_is_an_output_and_used(agree, model) -> None:
    nodes = [N("Constant", [], ["k"], value=numpy_helper.from_array(np.ones(2, F32))),
             N("Add", ["x", "k"], ["y"])]  # fmt: skip
    x = np.array([-1, 1], F32)
    agree(model(nodes, {"x": x}, ["k", "y"]), {"x": x})


@pytest.mark.parametrize("opset", [7, 9, 13, 19, 21, 23, 24, 25, 28])
@pytest.mark.parametrize("to", [np.int32, I64, np.float64, np.float16, np.bool_, np.uint8, F32])
def test_cast(check, opset, to) -> None:
    x = np.array([0, 1.5, 2.5, 100], F32)
    check("Cast", [x], opset=opset, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))


@pytest.mark.parametrize("opset", [15, 19, 21, 23, 24, 25])
def test_cast_like(check, opset) -> None:
    check("CastLike", [np.array([1.5, 2], F32)], known=[np.array(1, np.int32)], opset=opset)


def test_bfloat16(read, model) -> None:
    nodes = [N("Cast", ["x"], ["b"], to=TensorProto.BFLOAT16), N("Mul", ["b", "k"], ["y"])]
    made = model(nodes, {"x": np.ones(2, F32)}, ["y"])
    # 1.5 and -2 in bfloat16, as bit patterns
    made.graph.initializer.append(
        helper.make_tensor(
            "k", TensorProto.BFLOAT16, [2], np.array([0x3FC0, 0xC000], "<u2").tobytes(), raw=True
        )
    )
    graph = read(made)
    assert graph.tensor("b").dtype is DType.BFLOAT_16
    np.testing.assert_array_equal(graph.tensor("k").values(), np.array([1.5, -2], F32))
    assert [n.op_type for n in graph.nodes] == ["Convert", "ElementWiseMultiply"]


def test_bfloat16_constants_fold(read, model) -> None:
    nodes = [
        N("Neg", ["k"], ["m"]),
        N("Cast", ["m"], ["f"], to=TensorProto.FLOAT),
        N("Add", ["x", "f"], ["y"]),
    ]
    made = model(nodes, {"x": np.ones(1, F32)}, ["y"])
    made.graph.initializer.append(helper.make_tensor("k", TensorProto.BFLOAT16, [1], [1.5]))
    np.testing.assert_array_equal(read(made).tensor("f").values(), np.array([-1.5], F32))


@pytest.mark.parametrize(
    "dtype", [F32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.uint16, np.int32,
              np.uint32, I64, np.uint64, np.bool_],
)  # fmt: skip
@pytest.mark.parametrize("raw", [True, False])
def test_initializers_of_every_type(read, model, dtype, raw) -> None:
    values = np.array([[0, 1, 2], [3, 100, 1]]).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    made = model([N("Gather", ["k", "i"], ["y"])], {"i": np.zeros(1, I64)}, ["y"])
    data = values.tobytes() if raw else values.reshape(-1)
    made.graph.initializer.append(helper.make_tensor("k", kind, [2, 3], data, raw=raw))
    found = read(made).tensor("k")
    assert found.dtype.storage == values.dtype
    np.testing.assert_array_equal(found.values(), values)


@pytest.fixture
def small_budget(monkeypatch) -> None:
    """What little files may have made of them, in tests: 1 MiB."""
    monkeypatch.setattr(budget, "_FREE_BYTES", 1 << 20)


@pytest.mark.usefixtures("small_budget")
def test_constants_of_several_nodes_are_too_large_together(model, read) -> None:
    def identities(count):
        nodes = [N("EyeLike", ["x"], [f"y{i}"], f"eye{i}") for i in range(count)]
        return model(nodes, {"x": np.zeros((400, 400), F32)}, [f"y{i}" for i in range(count)])

    read(identities(1))
    with pytest.raises(FrontendError) as caught:
        read(identities(3))
    wheres = [problem.where for problem in caught.value.problems]
    assert wheres == ["EyeLike node 'eye1'", "EyeLike node 'eye2'"]
    assert "the node becomes a constant of shape (400, 400), which is too large" in str(
        caught.value
    )


@pytest.mark.usefixtures("small_budget")
def test_parts_of_operators_are_folded_within_the_same_budget(model, read) -> None:
    nodes = [N("FusedMatMul", ["a", "b"], [f"y{i}"], domain="com.microsoft") for i in range(3)]
    known = {"a": np.ones((400, 1), F32), "b": np.ones((1, 400), F32)}
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made = model(nodes, {}, ["y0", "y1", "y2"], known, opset_imports=opsets)
    # one product has room; the others are made when the model runs
    found = sorted(node.op_type for node in read(made).nodes)
    assert found == ["FullyConnected", "FullyConnected", "Reshape"]
