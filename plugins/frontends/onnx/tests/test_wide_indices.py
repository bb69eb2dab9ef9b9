"""Indices of 64 bits: out of range stays out of range, wherever ops take 32 bits."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import dovetail as dt
from dovetail.errors import DovetailError, FrontendError

F32, I64 = np.float32, np.int64
WIDE = 1 << 32
DATA = np.arange(12, dtype=F32).reshape(3, 4)
ROW = np.ones((1, 4), F32)


@pytest.fixture
def session(model, tmp_path):
    """Create a session of one node; `known` are its constants, by position."""

    def make(op_type, feeds, known=(), opset=17, **attributes):
        names = [f"x{i}" for i in range(len(feeds) + len(known))]
        given = dict(
            zip([n for i, n in enumerate(names) if i not in dict(known)], feeds, strict=True)
        )
        constants = {f"x{i}": v for i, v in known}
        node = helper.make_node(op_type, names, ["y"], name="the_node", **attributes)
        (tmp_path / "model.onnx").write_bytes(
            model([node], given, ["y"], constants, opset=opset).SerializeToString()
        )
        return dt.Session(tmp_path / "model.onnx"), given

    return make


# operator, inputs with an index in range, which input the indices are, attributes
INDEXED = [
    ("Gather", [DATA, np.array([1], I64)], 1, {}),
    ("GatherElements", [DATA, np.array([[1]], I64)], 1, {}),
    ("GatherND", [DATA, np.array([[1]], I64)], 1, {}),
    ("ScatterElements", [DATA, np.array([[1]], I64), ROW[:, :1]], 1, {}),
    ("ScatterND", [DATA, np.array([[1]], I64), ROW], 1, {}),
    ("ScatterND", [DATA, np.array([[1]], I64), ROW], 1, {"reduction": "add"}),
    ("TensorScatter", [DATA[:, :, None], ROW.T[:3, :, None], np.array([1] * 3, I64)], 2, {}),
]


@pytest.mark.parametrize(("op_type", "inputs", "which", "attributes"), INDEXED)
@pytest.mark.parametrize("shift", [WIDE, -WIDE, 1 << 62, -(1 << 63), (1 << 31) - 1, -(1 << 31)])
def test_run_time_indices_out_of_range_are_refused(
    session, op_type, inputs, which, attributes, shift
) -> None:
    opset = 24 if op_type == "TensorScatter" else 17
    if op_type == "TensorScatter":
        attributes = {"axis": 1}
    with session(op_type, inputs, opset=opset, **attributes)[0] as made:
        feeds = {f"x{i}": a for i, a in enumerate(inputs)}
        before = made.run(feeds)["y"]
        # not 1 + shift: the extremes have no successor
        feeds[f"x{which}"] = np.full_like(inputs[which], shift)
        with pytest.raises(DovetailError, match="out of range"):
            made.run(feeds)
        feeds[f"x{which}"] = inputs[which]
        np.testing.assert_array_equal(made.run(feeds)["y"], before)


@pytest.mark.parametrize("index", [WIDE, WIDE + 1, -WIDE - 1])
def test_scatter_writes_nothing_then(session, index) -> None:
    with session("ScatterND", [DATA.copy(), np.array([[1]], I64), ROW])[0] as made:
        data = DATA.copy()
        with pytest.raises(DovetailError):
            made.run({"x0": data, "x1": np.array([[index]], I64), "x2": ROW})
        np.testing.assert_array_equal(data, DATA)


@pytest.mark.parametrize(("op_type", "inputs", "which", "attributes"), INDEXED[:6])
def test_constants_out_of_range_are_refused_at_conversion(
    session, op_type, inputs, which, attributes
) -> None:
    wrong = np.full_like(inputs[which], WIDE + 1)
    feeds = [a for i, a in enumerate(inputs) if i != which]
    with pytest.raises(FrontendError) as caught:
        session(op_type, feeds, [(which, wrong)], **attributes)
    (problem,) = caught.value.problems
    assert problem.where == f"{op_type} node 'the_node'"
    assert f"index {WIDE + 1} is out of range for" in problem.message


def test_negative_indices_count_from_the_end(session) -> None:
    with session("Gather", [DATA, np.array([-1, 0], I64)])[0] as made:
        found = made.run({"x0": DATA, "x1": np.array([-3, -1], I64)})["y"]
    np.testing.assert_array_equal(found, DATA[[0, 2]])


@pytest.mark.parametrize("dtype", [I64, np.int32, np.uint64, np.uint32, np.float32, np.float64])
def test_one_hot_is_off_for_what_is_out_of_range(session, dtype) -> None:
    """As ONNX says of indices outside of [-depth, depth - 1]."""
    values = [(1, np.array(3, I64)), (2, np.array([0, 1], F32))]
    indices = np.array([1, 3, 2], dtype)
    if np.dtype(dtype).itemsize == 8 or np.dtype(dtype).kind == "f":
        indices[1] = WIDE + 1
    with session("OneHot", [indices], values)[0] as made:
        found = made.run({"x0": indices})["y"]
    np.testing.assert_array_equal(found, np.array([[0, 1, 0], [0, 0, 0], [0, 0, 1]], F32))


def test_max_unpool_and_rotary_embedding(session) -> None:
    x, places = ROW.reshape(1, 1, 2, 2), np.array([0, 3, 8, 11], I64).reshape(1, 1, 2, 2)
    unpool = session("MaxUnpool", [x, places], kernel_shape=[2, 2], strides=[2, 2])[0]
    with unpool as made, pytest.raises(DovetailError, match="out of range"):
        made.run({"x0": x, "x1": places + WIDE})
    tables = [np.ones((5, 2), F32), np.zeros((5, 2), F32)]
    x, ids = np.ones((1, 1, 2, 4), F32), np.array([[1, 2]], I64)
    rotary = session("RotaryEmbedding", [x, *tables, ids], opset=23)[0]
    with rotary as made, pytest.raises(DovetailError, match=f"position {(1 << 31) - 1} "):
        made.run(dict(zip(("x0", "x1", "x2", "x3"), (x, *tables, ids + WIDE), strict=True)))


def test_a_cast_of_the_model_wraps(session) -> None:
    """ONNX discards higher bits; so does ONNX Runtime."""
    x = np.array([WIDE + 1, -WIDE - 2, 1 << 31], I64)
    with session("Cast", [x], to=6)[0] as made:
        np.testing.assert_array_equal(made.run({"x0": x})["y"], x.astype(np.int32))


def test_indices_that_were_widened_are_taken_as_they_were(model, read) -> None:
    """TopK gives INT_32, which ONNX has as int64: the Gather reads what was cast to that."""
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["v", "i"]),
        helper.make_node("Gather", ["t", "i"], ["y"]),
    ]
    graph = read(model(nodes, {"x": ROW[0], "t": DATA[0]}, ["y", "i"], {"k": np.array([2], I64)}))
    (gather,) = [n for n in graph.nodes if n.op_type == "Gather"]
    (cast,) = [n for n in graph.nodes if n.op_type == "Cast"]
    assert gather.inputs[1] is cast.inputs[0]


def test_other_constants_that_do_not_fit_are_refused(model, read) -> None:
    x = np.array([1, 2], np.int32)
    node = helper.make_node("Pow", ["x", "e"], ["y"], name="the_node")
    with pytest.raises(FrontendError) as caught:
        read(model([node], {"x": x}, ["y"], {"e": np.array([WIDE + 1], I64)}))
    (problem,) = caught.value.problems
    assert problem.message == f"constant {WIDE + 1} does not fit INT_32"
    assert problem.where == "Pow node 'the_node'"
