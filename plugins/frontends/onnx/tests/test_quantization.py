"""Quantized operators, against ONNX Runtime and ONNX's own evaluator; scales known or not."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto, helper

from dovetail.errors import FrontendError

F32 = np.float32


def byte(rng, *shape, dtype=np.uint8):
    """Return bytes of all sizes."""
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def scalar(value, dtype=F32):
    """Return one number."""
    return np.array(value, dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("known", [True, False])
def test_quantize_saturates_and_rounds_to_even(check, rng, dtype, known) -> None:
    x = np.concatenate([rng.normal(0, 40, 60), np.arange(-6, 6) * 0.25]).astype(F32)
    factors = [scalar(0.5), scalar(3, dtype)]
    if known:
        check("QuantizeLinear", [x], known=factors, opset=13)
    else:
        check("QuantizeLinear", [x, *factors], opset=13)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("step", [1 / 255, 0.0235])
def test_quotients_that_only_float32_rounds_to_halves(check, known, step) -> None:
    """Twice the step of the data is a common scale; half to even of a float64 quotient differs."""
    x = np.arange(256, dtype=F32) * F32(step)
    factors = [scalar(2 * step), scalar(10, np.uint8)]
    exact = np.rint(x.astype(np.float64) / np.float64(factors[0]))
    assert (np.rint(x / factors[0]) != exact).any()
    if known:
        check("QuantizeLinear", [x], known=factors, opset=13)
    else:
        check("QuantizeLinear", [x, *factors], opset=13)


@pytest.mark.parametrize("real", [F32, np.float16])
@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("code", ["UINT8", "INT8", "UINT16", "INT16", "UINT4", "INT4"])
def test_known_scales_give_the_integers_of_onnxruntime(model, agree, rng, code, axis, real) -> None:
    """Exactly, on values at and near the middle between two steps, and out of range."""
    element = getattr(TensorProto, code)
    bits, low = int(code.removeprefix("U").removeprefix("INT")), 0
    if not code.startswith("U"):
        low = -(1 << (bits - 1))
    shape = () if axis is None else (5,)
    scale = np.asarray(2 / 255 * rng.integers(1, 9, shape), real)
    zero = rng.integers(low, low + (1 << bits), shape)
    steps = rng.integers(2 * low - 9, 2 * (low + (1 << bits)) + 9, (4, 5, 200)) / 2
    spread = (1,) if axis is None else (5, 1)
    x = ((steps - zero.reshape(spread)) * scale.astype(F32).reshape(spread)).astype(real)
    x[0] = rng.integers(-256, 256, x.shape[1:]) / 255
    how = {} if axis is None else {"axis": axis}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **how),
        helper.make_node("Cast", ["q"], ["wide"], to=TensorProto.INT32),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **how),
    ]
    made = model(nodes, {"x": x}, ["wide", "y"], {"s": scale}, opset=21)
    made.graph.initializer.append(helper.make_tensor("z", element, shape, zero.reshape(-1)))
    graph = agree(made, {"x": x}, rtol=0, atol=0)
    assert [n.op_type for n in graph.nodes] == ["Quantize", "Cast", "Cast", "Dequantize"]


def test_a_scale_that_is_no_encoding_stays_arithmetic(check) -> None:
    x = np.linspace(-2, 2, 9, dtype=F32)
    graph = check("QuantizeLinear", [x], known=[scalar(1e-40), scalar(3, np.uint8)], opset=13)
    assert "Quantize" not in {node.op_type for node in graph.nodes}


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_quantize_and_dequantize_along_an_axis(check, rng, axis) -> None:
    x = rng.normal(0, 20, (3, 4, 2)).astype(F32)
    count = x.shape[axis]
    scale, zero = rng.uniform(0.1, 1, count).astype(F32), byte(rng, count)
    check("QuantizeLinear", [x, scale, zero], opset=13, axis=axis)
    check("DequantizeLinear", [byte(rng, 3, 4, 2), scale, zero], opset=13, axis=axis)


@pytest.mark.parametrize("block", [2, 3])
def test_blocks_share_a_scale_and_the_last_may_be_short(check, rng, block) -> None:
    x = rng.normal(0, 20, (2, 6, 3)).astype(F32)
    shape = (2, -(-6 // block), 3)
    scale, zero = rng.uniform(0.1, 1, shape).astype(F32), byte(rng, *shape, dtype=np.int8)
    attributes = {"axis": 1, "block_size": block}
    check("QuantizeLinear", [x, scale, zero], opset=21, **attributes)
    stored = byte(rng, 2, 6, 3, dtype=np.int8)
    check("DequantizeLinear", [stored, scale, zero], opset=21, **attributes)


def four_bits(rng, name, code, shape, *, raw=False):
    """Return an initializer of integers of 4 bits, in either way to write them."""
    low = -8 if code == TensorProto.INT4 else 0
    values = rng.integers(low, low + 16, shape)
    values.reshape(-1)[:2] = low, low + 15
    made = helper.make_tensor(name, code, shape, values.reshape(-1).tolist())
    if raw:
        data = bytes(byte & 255 for byte in made.int32_data)
        made.ClearField("int32_data")
        made.raw_data = data
    return made


@pytest.mark.parametrize("code", [TensorProto.INT4, TensorProto.UINT4])
@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize(
    ("scales", "attributes"),
    [
        ((), {}),
        ((3,), {"axis": 0}),
        ((5,), {"axis": -1}),
        ((3, 2), {"axis": 1, "block_size": 3}),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_constants_of_four_bits(agree, model, rng, code, raw, scales, attributes, known) -> None:
    """15 of them, so that the last byte is half empty; by tensor, axis and block."""
    node = helper.make_node("DequantizeLinear", ["w", "s", "z"], ["y"], **attributes)
    scale = rng.uniform(0.1, 1, scales).astype(F32)
    if known:  # what is computed is folded, and added to something that is not
        one = np.ones((), F32)
        nodes = [helper.make_node("Add", ["x", "y"], ["sum"]), node]
        made = model(nodes[::-1], {"x": one}, ["sum"], {"s": scale}, opset=21)
        feeds = {"x": one}
    else:
        made = model([node], {"s": scale}, ["y"], opset=21)
        feeds = {"s": scale}
    zero = four_bits(rng, "z", code, scales) if scales else helper.make_tensor("z", code, (), [3])
    made.graph.initializer.extend([four_bits(rng, "w", code, (3, 5), raw=raw), zero])
    agree(made, feeds)


def test_an_empty_constant_of_four_bits(agree, model) -> None:
    node = helper.make_node("DequantizeLinear", ["w", "s"], ["y"])
    made = model([node], {"s": scalar(0.5)}, ["y"], opset=21)
    made.graph.initializer.append(helper.make_tensor("w", TensorProto.INT4, (0, 3), []))
    agree(made, {"s": scalar(0.5)})


@pytest.mark.parametrize("size", [7, 9, 15])
def test_four_bits_that_do_not_fill_their_shape(model, read, size) -> None:
    node = helper.make_node("DequantizeLinear", ["w", "s"], ["y"])
    made = model([node], {"s": scalar(0.5)}, ["y"], opset=21)
    made.graph.initializer.add(
        name="w", data_type=TensorProto.INT4, dims=(3, 5), raw_data=bytes(size)
    )
    with pytest.raises(FrontendError, match=rf"of data for INT4 \(3, 5\), got {size} bytes"):
        read(made)


@pytest.mark.parametrize("shape", [(1, 6), (6, 1)])
def test_a_row_with_a_scale_for_each_element(model, read, run, rng, shape) -> None:
    """onnxruntime's quantizer names axis 0 for biases of one row, which its fused Gemm takes."""
    stored, scales = rng.integers(-99, 99, shape).astype(np.int32), rng.random(6, np.float32)
    axis = shape.index(1)
    node = helper.make_node("DequantizeLinear", ["b", "s"], ["y"], axis=axis)
    found = run(read(model([node], {"b": stored}, ["y"], {"s": scales}, opset=21)), {"b": stored})[
        "y"
    ]
    np.testing.assert_array_equal(found, stored.astype(F32) * scales.reshape(shape))


def test_a_scale_that_does_not_fit(model, read) -> None:
    node = helper.make_node("DequantizeLinear", ["x", "s"], ["y"])
    feeds = {"x": np.zeros((2, 3), np.int8), "s": np.ones(4, F32)}
    with pytest.raises(
        FrontendError, match=r"input 1 of shape \(4,\) does not match the input \(2, 3\)"
    ):
        read(model([node], feeds, ["y"], opset=13))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shape", [(8, 2), (3, 2), (4, 3), (2,)])
def test_scales_of_blocks_that_do_not_fit(model, read, shape, known) -> None:
    node = helper.make_node("DequantizeLinear", ["w", "s"], ["r"], axis=1, block_size=3)
    numbers = {"w": np.zeros((4, 6), np.int8), "s": np.ones(shape, F32)}
    x = {"x": np.zeros((4, 6), F32)}
    feeds, constants = (x, numbers) if known else (x | numbers, {})
    nodes = [node, helper.make_node("Add", ["r", "x"], ["y"])]
    with pytest.raises(FrontendError, match=r"input 1 of shape .* does not match the input"):
        read(model(nodes, feeds, ["y"], constants, opset=21))


def test_dynamic_quantization_is_written_out(check, rng) -> None:
    check("DynamicQuantizeLinear", [rng.normal(3, 9, (4, 5)).astype(F32)], outputs=3, opset=11)


@pytest.mark.parametrize(("depth", "parts"), [(5, 1), (258, 1), (259, 2), (1000, 4)])
@pytest.mark.parametrize("shapes", ["matrices", "stacks", "rows", "vectors"])
def test_integer_products_are_exact(check, rng, depth, parts, shapes) -> None:
    # float32 holds the sums of 258 products of bytes; those of parts are added as integers
    left, right = {
        "matrices": ((2, 3, depth), (depth, 4)),
        "stacks": ((2, 3, depth), (2, depth, 4)),
        "rows": ((3, depth), (depth,)),
        "vectors": ((depth,), (depth,)),
    }[shapes]
    a, b = byte(rng, *left), byte(rng, *right)
    a[..., ::2], b.reshape(-1)[::2] = 255, 255  # sums that float32 does not hold
    zeros = [scalar(0, np.uint8), scalar(1, np.uint8)]
    graph = check("MatMulInteger", [a, b, *zeros], opset=10, rtol=0, atol=0)
    products = [n for n in graph.nodes if n.op_type == "MatMul"]
    assert [n.inputs[0].dtype.name for n in products] == ["FLOAT_32"] * parts


@pytest.mark.parametrize("depth", [22188, 22189, 33025])
def test_no_part_of_a_product_has_a_term_too_many(check, depth) -> None:
    # 22189 are 86.0039 times 258 terms: 86 parts have one of 259, and such a sum is odd
    a, b = np.full((1, depth), 255, np.uint8), np.full((depth, 1), 255, np.uint8)
    check("MatMulInteger", [a, b], opset=10, rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(300,), (300, 4), (2, 300, 4)])
@pytest.mark.parametrize(("most", "parts"), [(60, 1), (255, 2)])
def test_products_by_small_weights_have_one_part(model, read, run, rng, shape, most, parts) -> None:
    a = byte(rng, 2, 3, 300)
    b = rng.integers(0, most, shape, np.uint8, endpoint=True)
    b.reshape(-1)[:] = most  # the greatest sum that is possible
    known = {"b": b, "zb": scalar(0, np.uint8)}
    node = helper.make_node("MatMulInteger", ["a", "b", "za", "zb"], ["y"])
    feeds = {"a": a, "za": scalar(255, np.uint8)}
    graph = read(model([node], feeds, ["y"], known, opset=10))
    assert len([n for n in graph.nodes if n.op_type == "MatMul"]) == parts
    wanted = np.matmul(a.astype(np.int32) - 255, b.astype(np.int32))
    np.testing.assert_array_equal(run(graph, feeds)["y"], wanted)


def test_quantized_products(check, rng) -> None:
    a, b = byte(rng, 4, 6), byte(rng, 6, 5)
    zeros = [scalar(v, np.uint8) for v in (120, 130, 118)]
    check(
        "QLinearMatMul",
        [a, scalar(0.02), zeros[0], b, scalar(0.03), zeros[1], scalar(0.05), zeros[2]],
        opset=10,
    )


@pytest.mark.parametrize("group", [1, 2])
def test_integer_convolutions(check, rng, group) -> None:
    x, w = byte(rng, 1, 4, 6, 5), byte(rng, 4, 4 // group, 3, 2)
    zeros = [scalar(130, np.uint8), scalar(100, np.uint8)]
    check("ConvInteger", [x, w, *zeros], opset=10, group=group, pads=[1, 0, 1, 2])


@pytest.mark.parametrize("rank", [3, 4])
def test_quantized_convolutions_scale_by_filter(model, read, run, rng, rank) -> None:
    """Compared with exact sums: ONNX Runtime's kernels saturate without VNNI."""
    spatial, kernel = (7, 6)[: rank - 2], (3, 2)[: rank - 2]
    x, w = byte(rng, 2, 3, *spatial), byte(rng, 4, 3, *kernel, dtype=np.int8)
    inputs = [
        x,
        scalar(0.02),
        scalar(120, np.uint8),
        w,
        rng.uniform(0.01, 0.03, 4).astype(F32),
        np.zeros(4, np.int8),
        scalar(0.4),
        scalar(110, np.uint8),
        rng.integers(-500, 500, 4, np.int32),
    ]
    feeds = {f"x{i}": array for i, array in enumerate(inputs)}
    node = helper.make_node("QLinearConv", [*feeds], ["y"], strides=[2] * (rank - 2))
    found = run(read(model([node], feeds, ["y"], opset=10)), feeds)["y"]
    axes = range(2, rank)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64) - 120, kernel, axes)
    windows = windows[:, :, *[slice(None, None, 2)] * len(axes)]
    sums = np.tensordot(windows, w, ([1, *range(rank, 2 * rank - 2)], [1, *axes])) + inputs[8]
    wanted = np.rint(sums * (0.02 * inputs[4] / 0.4)) + 110
    np.testing.assert_array_equal(found, np.moveaxis(wanted.clip(0, 255), -1, 1))


def test_a_type_that_is_not_known(model, read) -> None:
    node = helper.make_node(
        "QuantizeLinear", ["x", "s"], ["y"], output_dtype=TensorProto.FLOAT8E5M2
    )
    feeds = {"x": np.zeros(3, F32), "s": scalar(1)}
    with pytest.raises(Exception, match="unsupported output type FLOAT8E5M2"):
        read(model([node], feeds, ["y"], opset=21))


@pytest.mark.parametrize(
    ("dtype", "stored", "scale"),
    [(np.float16, np.int8(127), 60000), (F32, np.int32(1 << 30), 1e38)],
)
def test_what_a_type_cannot_hold_is_infinite(model, read, run, dtype, stored, scale) -> None:
    known = {"w": np.full(3, stored), "s": np.array(scale, dtype)}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["r"]),
        helper.make_node("Max", ["r", "x"], ["y"]),
    ]
    feeds = {"x": np.ones(3, dtype)}
    found = run(read(model(nodes, feeds, ["y"], known, opset=21)), feeds)["y"]
    np.testing.assert_array_equal(found, np.full(3, np.inf))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("dtype", [F32, np.bool_, np.int32, np.int64])
def test_zero_points_of_types_that_nothing_is_quantized_to(model, read, dtype, known) -> None:
    numbers = {"w": np.full(3, 1e30, F32), "s": scalar(1), "z": np.zeros((), dtype)}
    nodes = [
        helper.make_node("QuantizeLinear", ["w" if known else "x", "s", "z"], ["q"]),
        helper.make_node("Cast", ["q"], ["r"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["r", "x"], ["y"]),
    ]
    with pytest.raises(
        FrontendError,
        match=r"unsupported target type .*; expected integers of at most 16 bits",
    ):
        read(model(nodes, {"x": np.ones(3, F32)}, ["y"], numbers, opset=21))


def test_scales_whose_product_float32_cannot_hold(model, read, rng) -> None:
    known = {"w": byte(rng, 3, 2, 1, 1), "s": scalar(1e38), "z": scalar(0, np.uint8)}
    known |= {"b": np.ones(3, np.int32), "ys": scalar(1)}
    names = ["x", "s", "z", "w", "s", "z", "ys", "z", "b"]
    node = helper.make_node("QLinearConv", names, ["y"])
    graph = read(model([node], {"x": np.ones((1, 2, 4, 4), np.uint8)}, ["y"], known))
    assert "b" not in graph.source_encodings


def stored_convolution(model, **attributes):
    """Create a QLinearConv of filters (3, 2, 2, 2), all else in one piece."""
    known = {"w": byte(np.random.default_rng(3), 3, 2, 2, 2), "s": scalar(0.5)}
    known |= {"z": scalar(0, np.uint8), "ys": scalar(64)}
    node = helper.make_node("QLinearConv", ["x", "s", "z", "w", "s", "z", "ys", "z"], ["y"])
    for name, values in attributes.items():
        node.attribute.add(name=name, type=AttributeProto.INTS, ints=values)
    return model([node], {"x": (TensorProto.UINT8, [1, 2, 4, 4])}, ["y"], known)


def test_empty_lists_of_a_stored_convolution_are_none(model, read, run, rng) -> None:
    feeds = {"x": byte(rng, 1, 2, 4, 4)}
    with_lists = run(read(stored_convolution(model, pads=[], strides=[])), feeds)
    np.testing.assert_array_equal(with_lists["y"], run(read(stored_convolution(model)), feeds)["y"])


def test_an_attribute_of_a_function_that_is_not_there(model, read) -> None:
    made = stored_convolution(model, pads=[1, 1, 1, 1])
    made.graph.node[0].attribute[0].ref_attr_name = "other"
    with pytest.raises(FrontendError, match="other"):
        read(made)


def dynamic(model, op_type, x, weights, scale, zero):
    """Create a product of integers as dynamic quantization has it: cast, and times both scales."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
        helper.make_node(op_type, ["q", "w", "qz", "wz"], ["i"]),
        helper.make_node("Cast", ["i"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["qs", "ws"], ["s"]),
        helper.make_node("Mul", ["c", "s"], ["y"]),
    ]
    return model(nodes, {"x": x}, ["y"], {"w": weights, "ws": scale, "wz": zero})


def test_zero_points_of_columns_of_a_dynamic_product(agree, model, rng) -> None:
    x, zero = rng.normal(size=(2, 4)).astype(F32), byte(rng, 3)
    made = dynamic(model, "MatMulInteger", x, byte(rng, 4, 3), scalar(0.1), zero)
    # sums of real numbers here, of integers there
    graph = agree(made, {"x": x}, rtol=1e-5, atol=1e-4)
    assert "FullyConnected" in {node.op_type for node in graph.nodes}


@pytest.mark.parametrize("size", [2, 3])
def test_zero_points_of_filters_of_a_dynamic_product(model, read, run, rng, size) -> None:
    """They go along the first axis, be the last as long or not; onnxruntime takes but one."""
    x, zero = rng.normal(size=(1, 2, 5, 5)).astype(F32), np.array([1, 200], np.uint8)
    filters = byte(rng, 2, 2, size, size)
    made = dynamic(model, "ConvInteger", x, filters, scalar(0.01), zero)
    made.graph.output.add(name="qs")
    made.graph.output.add(name="q")
    made.graph.output.add(name="qz")
    graph = read(made)
    assert "Conv2d" in {node.op_type for node in graph.nodes}
    found = run(graph, {"x": x})
    image = (found["q"].astype(np.float64) - found["qz"]) * found["qs"]
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), (2, 3))
    taps = (filters.astype(np.float64) - zero.reshape(2, 1, 1, 1)) * 0.01
    wanted = np.einsum("nchwij,kcij->nkhw", windows, taps)
    np.testing.assert_allclose(found["y"], wanted, rtol=1e-5, atol=1e-4)


def test_scales_beside_a_vector_are_not_those_of_columns(model, read, run, rng) -> None:
    """A vector's sums, (4,), times 4 scales are no sums of scaled products."""
    x, scale = rng.normal(size=(4, 4)).astype(F32), rng.uniform(0.1, 1, 4).astype(F32)
    weights = byte(rng, 4)
    made = dynamic(model, "MatMulInteger", x, weights, scale, scalar(3, np.uint8))
    for name in ("qs", "q", "qz"):
        made.graph.output.add(name=name)
    found = run(read(made), {"x": x})
    sums = (found["q"].astype(np.int64) - found["qz"]) @ (weights.astype(np.int64) - 3)
    np.testing.assert_allclose(found["y"], sums * found["qs"] * scale, rtol=1e-6)


@pytest.mark.parametrize("op_type", ["MatMulInteger", "ConvInteger"])
def test_a_dynamic_product_of_nothing(model, read, rng, op_type) -> None:
    x, weights = rng.normal(size=(1, 2, 2, 2)).astype(F32), byte(rng, 2, 2, 2, 2)
    made = dynamic(model, op_type, x, weights, scalar(0.1), scalar(3, np.uint8))
    made.graph.node[1].input[1] = ""
    with pytest.raises(FrontendError, match=r"left out|marked single but has an empty string"):
        read(made)


@pytest.mark.parametrize("op_type", ["MatMulInteger", "QLinearMatMul"])
def test_a_product_of_one_number(model, read, op_type) -> None:
    number, matrix, known = scalar(3, np.uint8), np.ones((2, 3), np.uint8), {}
    names = ["x", "w"]
    if op_type == "QLinearMatMul":
        known = {"s": scalar(1), "z": number}
        names = ["x", "s", "z", "w", "s", "z", "s", "z"]
    node = helper.make_node(op_type, names, ["y"])
    with pytest.raises(FrontendError, match=r"must have rank 2 or more|must not be scalars"):
        read(model([node], {"x": number, "w": matrix}, ["y"], known))
