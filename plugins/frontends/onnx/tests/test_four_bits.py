"""Integers of 4 bits, which are bytes here: as inputs, outputs, constants and in between."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import dovetail
from dovetail.errors import BackendError, ConfigError, FrontendError, UnsupportedOpError
from dovetail.plugins import names
from dovetail_onnx import backend

pytestmark = pytest.mark.skipif(
    backend.BACKEND not in names("dovetail.backends"), reason="nothing runs the models"
)
F32 = np.float32
INT4, UINT4 = TensorProto.INT4, TensorProto.UINT4
CODES = pytest.mark.parametrize("code", [INT4, UINT4], ids=["INT4", "UINT4"])
ALL = {INT4: np.arange(-8, 8), UINT4: np.arange(16)}
PLAIN = {INT4: np.int8, UINT4: np.uint8}
ONNX_DTYPE = {code: helper.tensor_dtype_to_np_dtype(code) for code in ALL}
BFLOAT16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)


def last_bits(values, code) -> np.ndarray:
    """Return what is left of whole numbers in 4 bits: two's complement, as ONNX says of Cast."""
    low = [int(v) % 16 for v in values]
    return np.array([n - 16 if code == INT4 and n > 7 else n for n in low])


def run(model, *inputs):
    """Run a model by the backend, and checks that its outputs are of the types it declares."""
    found = backend.run_model(model, inputs)
    for values, info in zip(found, model.graph.output, strict=True):
        kind = info.type.tensor_type.elem_type
        assert values.dtype == helper.tensor_dtype_to_np_dtype(kind)
    return found


def graph_of(nodes, inputs, outputs, constants=(), *, opset=25):
    """Create a model; inputs and outputs are (name, element type, shape)."""
    made = helper.make_graph(
        nodes,
        "four bits",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
        list(constants),
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)])


def casting(source, target, count, *, like=False):
    """Create a model of one Cast or CastLike."""
    if like:
        node = helper.make_node("CastLike", ["x", "like"], ["y"])
        inputs = [("x", source, [count]), ("like", target, [1])]
    else:
        node = helper.make_node("Cast", ["x"], ["y"], to=target)
        inputs = [("x", source, [count])]
    return graph_of([node], inputs, [("y", target, [count])])


WHOLE = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


@CODES
@pytest.mark.parametrize("dtype", WHOLE)
def test_the_last_bits_of_integers_are_kept(code, dtype) -> None:
    limits = np.iinfo(dtype)
    near = [*range(limits.max - 20, limits.max + 1), *range(limits.min, limits.min + 20), 42]
    x = np.array([*near, *range(-40 if limits.min else 0, 40)], dtype)
    model = casting(helper.np_dtype_to_tensor_dtype(x.dtype), code, len(x))
    (y,) = run(model, x)
    np.testing.assert_array_equal(y.astype(int), last_bits(x, code))


@CODES
@pytest.mark.parametrize("dtype", [np.float16, F32, np.float64, BFLOAT16])
def test_floats_are_cut_towards_zero_first(code, dtype) -> None:
    """Beyond the range ONNX leaves it open; its evaluator, the peer, does as here."""
    x = np.array([-0.9, 0.9, 2.5, 3.5, 6.9, 7.5, 8.4, -1.5, -8.9, -9, 15.5, 16, 33, -40], F32)
    x = x.astype(dtype)
    model = casting(helper.np_dtype_to_tensor_dtype(x.dtype), code, len(x))
    (y,) = run(model, x)
    np.testing.assert_array_equal(y.astype(int), last_bits(x, code))
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_array_equal(y, wanted)


@CODES
def test_bools_are_0_and_1(code) -> None:
    (y,) = run(casting(TensorProto.BOOL, code, 3), np.array([True, False, True]))
    np.testing.assert_array_equal(y.astype(int), [1, 0, 1])


@CODES
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64, np.uint8, np.float16, F32, bool])
@pytest.mark.parametrize("like", [False, True])
def test_they_become_other_numbers(code, dtype, like) -> None:
    x = ALL[code]
    model = casting(code, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), 16, like=like)
    more = [np.ones(1, dtype)] if like else []
    (y,) = run(model, x.astype(ONNX_DTYPE[code]), *more)
    # two's complement: an unsigned type of more bits gets -1 as its greatest number
    np.testing.assert_array_equal(y, x.astype(dtype))


@CODES
@pytest.mark.parametrize("like", [False, True])
def test_they_become_each_other(code, like) -> None:
    other = UINT4 if code == INT4 else INT4
    x = ALL[code].astype(ONNX_DTYPE[code])
    more = [np.ones(1, ONNX_DTYPE[other])] if like else []
    (y,) = run(casting(code, other, 16, like=like), x, *more)
    np.testing.assert_array_equal(y.astype(int), last_bits(ALL[code], other))
    (same,) = run(casting(code, code, 16), x)
    np.testing.assert_array_equal(same, x)


@pytest.mark.parametrize(
    ("op_type", "known", "shape", "attributes"),
    [
        ("Identity", (), (3, 1, 5), {}),
        ("Transpose", (), (5, 1, 3), {}),
        ("Reshape", ([5, 3],), (5, 3), {}),
        ("Reshape", ([0, 1, -1],), (3, 1, 5), {}),
        ("Squeeze", ([1],), (3, 5), {}),
        ("Unsqueeze", ([0],), (1, 3, 1, 5), {}),
        ("Flatten", (), (3, 5), {}),
        ("Pad", ([0, 0, 1, 0, 1, 2],), (3, 2, 8), {}),
        ("Pad", ([0] * 6,), (3, 1, 5), {}),
    ],
)
@CODES
@pytest.mark.parametrize("is_known", [False, True])
def test_they_are_moved(code, op_type, known, shape, attributes, is_known) -> None:
    """As an input and an output, and as a constant that becomes real afterwards."""
    x = np.resize(ALL[code], (3, 1, 5)).astype(ONNX_DTYPE[code])
    constants = [onnx.numpy_helper.from_array(np.array(k), f"k{i}") for i, k in enumerate(known)]
    feeds = {} if is_known else {"x": x}
    if is_known:
        constants.append(helper.make_tensor("x", code, x.shape, x.astype(int).reshape(-1)))
    names = ["x", *(f"k{i}" for i in range(len(known)))]
    nodes = [
        helper.make_node(op_type, names, ["y"], **attributes),
        helper.make_node("DequantizeLinear", ["y", "s"], ["real"]),
    ]
    constants.append(onnx.numpy_helper.from_array(F32(0.5), "s"))
    model = graph_of(
        nodes,
        [("x", code, x.shape)] if feeds else [],
        [("y", code, shape), ("real", TensorProto.FLOAT, shape)],
        constants,
    )
    plain, real = run(model, *feeds.values())
    # ONNX's evaluator, on the same elements as int64
    wide = graph_of(nodes[:1], [("x", TensorProto.INT64, x.shape)], [("y", 7, shape)], constants)
    del wide.graph.initializer[len(known) :]
    (wanted,) = ReferenceEvaluator(wide).run(None, {"x": x.astype(np.int64)})
    np.testing.assert_array_equal(plain.astype(int), wanted)
    np.testing.assert_array_equal(real, wanted * F32(0.5))


@CODES
def test_shapes_and_sizes(code) -> None:
    nodes = [helper.make_node("Shape", ["x"], ["a"]), helper.make_node("Size", ["x"], ["b"])]
    outputs = [("a", TensorProto.INT64, [2]), ("b", TensorProto.INT64, [])]
    x = np.ones((3, 5), ONNX_DTYPE[code])
    shape, size = run(graph_of(nodes, [("x", code, [3, 5])], outputs), x)
    assert (shape.tolist(), size) == ([3, 5], 15)


@CODES
@pytest.mark.parametrize("has_zero", [True, False])
@pytest.mark.parametrize(
    ("scales", "attributes"),
    [
        ((), {}),
        ((4,), {"axis": 0}),
        ((6,), {"axis": -1}),
        ((4, 2), {"axis": 1, "block_size": 3}),
    ],
)
def test_quantized_and_real_again(rng, code, has_zero, scales, attributes) -> None:
    """What is stored is an output, or an input and as such the peer's."""
    x = rng.normal(0, 9, (4, 6)).astype(F32)
    scale = rng.uniform(0.5, 2, scales).astype(F32)
    zero = rng.choice(ALL[code], scales).astype(ONNX_DTYPE[code])
    ins = ["s", "z"] if has_zero else ["s"]
    said = {} if has_zero else {"output_dtype": code}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *ins], ["stored"], **attributes, **said),
        helper.make_node("DequantizeLinear", ["stored", *ins], ["y"], **attributes),
    ]
    inputs = [("x", TensorProto.FLOAT, [4, 6]), ("s", TensorProto.FLOAT, scales)]
    inputs += [("z", code, scales)] if has_zero else []
    real = ("y", TensorProto.FLOAT, [4, 6])
    stored = ("stored", code, [4, 6])
    feeds = [x, scale, *([zero] if has_zero else [])]
    whole = graph_of(nodes, inputs, [stored, real])
    found = run(whole, *feeds)
    wanted = ReferenceEvaluator(whole).run(None, dict(zip("xsz", feeds, strict=False)))
    np.testing.assert_array_equal(found[0], wanted[0])
    assert {-8, 7} <= set(found[0].astype(int).flat) or code == UINT4
    # one product, which may be fused or rounded in another place
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-6)
    half = graph_of(nodes[1:], [stored, *inputs[1:]], [real])
    (again,) = run(half, wanted[0], *feeds[1:])
    np.testing.assert_array_equal(again, found[1])


@CODES
def test_constants(code) -> None:
    """Made, read, given as they are, and cast to bytes, which are bytes from then on."""
    values = last_bits([9, 3, 15, 0, 8], code)
    tensor = helper.make_tensor("w", code, [5], values)
    fill = helper.make_tensor("fill", code, [1], [5])
    plain = helper.np_dtype_to_tensor_dtype(np.dtype(PLAIN[code]))
    nodes = [
        helper.make_node("Constant", [], ["c"], value=tensor),
        helper.make_node("Identity", ["c"], ["same"]),
        helper.make_node("ConstantOfShape", ["shape"], ["filled"], value=fill),
        helper.make_node("Cast", ["same"], ["bytes"], to=plain),
        helper.make_node("Add", ["bytes", "x"], ["sum"]),
        helper.make_node("Cast", ["numbers"], ["cut"], to=code),
    ]
    outputs = [(name, code, [5]) for name in ("c", "w", "same", "cut")]
    outputs += [("filled", code, [2, 3]), ("sum", plain, [5])]
    numbers = np.array([9.5, 3, 15, 16, 24], F32)
    constants = [
        tensor,
        onnx.numpy_helper.from_array(np.array([2, 3]), "shape"),
        onnx.numpy_helper.from_array(numbers, "numbers"),
    ]
    model = graph_of(nodes, [("x", plain, [5])], outputs, constants)
    *same, filled, total = run(model, np.full(5, 100, PLAIN[code]))
    for each in same:
        np.testing.assert_array_equal(each.astype(int), values)
    np.testing.assert_array_equal(filled.astype(int), np.full((2, 3), 5))
    np.testing.assert_array_equal(total, values + 100)


@CODES
def test_no_more_of_a_constant_than_its_model_explains(code) -> None:
    fill = helper.make_tensor("fill", code, [1], [5])
    node = helper.make_node("ConstantOfShape", ["shape"], ["y"], value=fill)
    shape = onnx.numpy_helper.from_array(np.array([2**20, 2**11]), "shape")
    with pytest.raises(FrontendError, match="too large"):
        backend.prepare(graph_of([node], [], [("y", code, [2**20, 2**11])], [shape]))


@CODES
def test_loops_and_branches(code) -> None:
    """A scan of rows, of which each is chosen of two and moved."""
    x = np.resize(ALL[code], (3, 4)).astype(ONNX_DTYPE[code])
    info = helper.make_tensor_value_info
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node("Identity", [of], [name])], name, [], [info(name, code, [4])]
        )
        for name, of in (("then", "state"), ("else", "row"))
    }
    body = helper.make_graph(
        [
            helper.make_node("If", ["no"], ["chosen"], **branches),
            helper.make_node("Unsqueeze", ["chosen", "axes"], ["out"]),
            helper.make_node("Identity", ["row"], ["next"]),
        ],
        "body",
        [info("state", code, [4]), info("row", code, [4])],
        [info("next", code, [4]), info("out", code, [1, 4])],
    )
    node = helper.make_node("Scan", ["first", "x"], ["last", "all"], body=body, num_scan_inputs=1)
    known = {"no": np.array(False), "axes": np.array([0])}
    model = graph_of(
        [node],
        [("first", code, [4]), ("x", code, [3, 4])],
        [("last", code, [4]), ("all", code, [3, 1, 4])],
        [onnx.numpy_helper.from_array(v, k) for k, v in known.items()],
    )
    last, rows = run(model, x[0], x)
    np.testing.assert_array_equal(last, x[2])
    np.testing.assert_array_equal(rows, x[:, None])


@CODES
def test_a_session_is_fed_bytes(code, tmp_path) -> None:
    """Also where their values decide: five of them, so that the last byte is half empty."""
    inputs = [("x", code, [1, 3]), ("n", code, [5])]
    nodes = [
        helper.make_node("Cast", ["n"], ["counts"], to=TensorProto.INT64),
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Expand", ["wide", "counts"], ["spread"]),
        helper.make_node("Cast", ["spread"], ["y"], to=code),
    ]
    path = tmp_path / "net.onnx"
    path.write_bytes(graph_of(nodes, inputs, [("y", code, None)]).SerializeToString())
    x = last_bits([13, 2, 7], code).astype(PLAIN[code])[None]
    with dovetail.Session(path, specialize=["n"]) as net:
        for n in ([1, 2, 1, 1, 1], np.array([1, 1, 1, 5, 3], ONNX_DTYPE[code])):
            y = net.run({"x": x, "n": n})["y"]
            assert y.dtype == PLAIN[code]
            np.testing.assert_array_equal(y, np.broadcast_to(x, (*map(int, n[:-1]), 3)))
        with pytest.raises(ConfigError, match=r"is 16, which U?INT4 cannot hold"):
            net.run({"x": x, "n": [1, 1, 1, 1, 16]})
        with pytest.raises(BackendError):
            net.run({"x": x + 0.5, "n": [1, 2, 1, 1, 1]})


@CODES
@pytest.mark.parametrize("is_known", [False, True])
def test_nothing_else_takes_them(code, is_known, read) -> None:
    tensor = helper.make_tensor("x", code, [3], [1, 2, 3])
    model = graph_of(
        [helper.make_node("Abs", ["x"], ["y"], name="reader")],
        [] if is_known else [("x", code, [3])],
        [("y", code, [3])],
        [tensor] if is_known else [],
    )
    with pytest.raises(
        UnsupportedOpError, match=r"unsupported element type U?INT4 of 'x'"
    ) as caught:
        read(model)
    assert "node 'reader'" in str(caught.value)
    assert "DequantizeLinear" in str(caught.value)


def test_one_node_tells_its_outputs_types() -> None:
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=INT4)
    (y,) = backend.run_node(node, [np.array([-99, 3], F32), F32(1)])
    assert y.dtype == ONNX_DTYPE[INT4]
    assert y.astype(int).tolist() == [-8, 3]
