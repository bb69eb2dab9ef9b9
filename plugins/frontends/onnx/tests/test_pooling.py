"""Pooling against the peer: padding, rounding and divisors are where runtimes differ."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import UnsupportedOpError

F32 = np.float32
WINDOWS = [
    {"kernel_shape": [2, 2]},
    {"kernel_shape": [3, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [0, 1, 2, 0]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [4, 3], "strides": [3, 2], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [2, 2], "auto_pad": "VALID"},
]
# Sizes at which the last window begins inside, ends beyond, or would begin in the padding behind.
CEIL = [
    {"kernel_shape": [3, 3], "strides": [2, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 2], "strides": [3, 3], "pads": [1, 0, 1, 0]},
    {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
]


def negative(rng, *shape):
    """Numbers below 0: padding with 0 would win every maximum."""
    return (-rng.uniform(1, 2, shape)).astype(F32)


@pytest.mark.parametrize("opset", [7, 8, 10, 11, 12, 22])
@pytest.mark.parametrize("window", WINDOWS)
def test_max(check, rng, opset, window) -> None:
    check("MaxPool", [negative(rng, 2, 3, 9, 8)], opset=opset, **window)


@pytest.mark.parametrize("size", [(7, 7), (8, 8), (9, 6), (6, 9), (5, 10)])
@pytest.mark.parametrize("window", CEIL)
@pytest.mark.parametrize("opset", [11, 22])
def test_max_rounded_up(check, rng, opset, window, size) -> None:
    check("MaxPool", [negative(rng, 1, 2, *size)], opset=opset, ceil_mode=1, **window)


@pytest.mark.parametrize("opset", [7, 10, 11, 19, 22])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("include", [0, 1])
def test_average(check, rng, opset, window, include) -> None:
    x = rng.standard_normal((2, 3, 9, 8)).astype(F32)
    check("AveragePool", [x], opset=opset, count_include_pad=include, **window)


@pytest.mark.parametrize("size", [(7, 7), (8, 8), (9, 6), (6, 9), (5, 10)])
@pytest.mark.parametrize("window", CEIL)
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("opset", [11, 22])
def test_average_rounded_up(check, rng, opset, window, include, size) -> None:
    x = rng.standard_normal((1, 2, *size)).astype(F32)
    check("AveragePool", [x], opset=opset, ceil_mode=1, count_include_pad=include, **window)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("dilations", [[1], [2]])
def test_one_dimension(check, rng, op_type, dilations) -> None:
    x = negative(rng, 2, 3, 11)
    window = {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}
    check(op_type, [x], opset=22, dilations=dilations, **window)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("attributes", [{}, {"dilations": [2, 1]}, {"ceil_mode": 1}])
def test_negative_pads_crop(model, read, run, rng, op_type, attributes) -> None:
    # runtimes do not take them: what is compared with is the pool of the cropped input
    x = negative(rng, 1, 2, 8, 9)
    found = []
    for image, pads in ((x, [-2, 1, 0, -1]), (x[:, :, 2:, :-1], [0, 1, 0, 0])):
        window = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": pads, **attributes}
        graph = read(
            model(
                [helper.make_node(op_type, ["x"], ["y"], **window)], {"x": image}, ["y"], opset=22
            )
        )
        found.append(run(graph, {"x": image})["y"])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("spatial", [(6,), (5, 7), (3, 4, 5)])
def test_global(check, rng, op_type, opset, spatial) -> None:
    check(op_type, [negative(rng, 2, 3, *spatial)], opset=opset)


def padded_pool(model, first: str, x):
    nodes = [
        helper.make_node(first, ["x"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    ]
    return model(nodes, {"x": x}, ["y"])


def test_padding_stays_in_the_pool_where_nothing_is_negative(agree, model, rng) -> None:
    x = rng.standard_normal((1, 2, 6, 6)).astype(F32)
    graph = agree(padded_pool(model, "Relu", x), {"x": x})
    assert "Pad" not in [n.op_type for n in graph.nodes]
    graph = agree(padded_pool(model, "Tanh", x), {"x": x})
    assert "Pad" in [n.op_type for n in graph.nodes]


DILATED = [
    {"kernel_shape": [2, 3], "dilations": [3, 2]},
    {"kernel_shape": [3, 2], "dilations": [2, 1], "strides": [2, 3], "pads": [1, 0, 2, 1]},
    {"kernel_shape": [2, 2], "dilations": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]},
]


@pytest.mark.parametrize("size", [(7, 7), (8, 9)])
@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("window", DILATED)
@pytest.mark.parametrize("opset", [11, 22])
def test_dilated_max(check, rng, opset, window, ceil, size) -> None:
    check("MaxPool", [negative(rng, 2, 3, *size)], opset=opset, ceil_mode=ceil, **window)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(
    ("auto_pad", "pads"), [("SAME_UPPER", [2, 1, 2, 2]), ("SAME_LOWER", [2, 2, 2, 1])]
)
def test_dilated_same(check, model, read, run, rng, op_type, auto_pad, pads) -> None:
    # ONNX Runtime forgets the dilation when it pads by itself: it is told what (9, 8) needs
    x, window = negative(rng, 2, 3, 9, 8), {"kernel_shape": [3, 3], "dilations": [2, 2]}
    told = check(op_type, [x], opset=22, strides=[1, 2], pads=pads, **window)
    node = helper.make_node(op_type, ["x0"], ["y0"], strides=[1, 2], auto_pad=auto_pad, **window)
    graph = read(model([node], {"x0": x}, ["y0"], opset=22))
    np.testing.assert_array_equal(run(graph, {"x0": x})["y0"], run(told, {"x0": x})["y0"])


@pytest.mark.parametrize("size", [(7, 7), (8, 9)])
@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("window", DILATED)
def test_dilated_average(check, rng, window, include, ceil, size) -> None:
    x = rng.standard_normal((2, 3, *size)).astype(F32)
    check("AveragePool", [x], opset=19, ceil_mode=ceil, count_include_pad=include, **window)


@pytest.mark.parametrize(
    "window",
    [
        {"kernel_shape": [2, 3, 2]},
        {"kernel_shape": [3, 2, 3], "strides": [2, 1, 3], "pads": [1, 0, 2, 1, 1, 0]},
        {"kernel_shape": [2, 3, 3], "strides": [2, 2, 2], "auto_pad": "SAME_LOWER"},
        {"kernel_shape": [3, 2, 3], "strides": [2, 2, 2], "pads": [1] * 6, "ceil_mode": 1},
    ],
)
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("opset", [18, 22])
def test_three_dimensions(check, rng, op_type, opset, window) -> None:
    check(op_type, [negative(rng, 2, 3, 6, 5, 7)], opset=opset, **window)


def test_three_dimensions_are_one_op(check, rng) -> None:
    x = negative(rng, 1, 2, 4, 4, 4)
    for op_type, named in (("MaxPool", "PoolMax3d"), ("AveragePool", "PoolAvg3d")):
        graph = check(op_type, [x], kernel_shape=[2, 2, 2])
        assert [n.op_type for n in graph.nodes] == ["Transpose", named, "Transpose"]


@pytest.mark.parametrize("opset", [7, 11, 18, 22])
@pytest.mark.parametrize("window", WINDOWS)
def test_lp(check, rng, opset, window) -> None:
    x = rng.standard_normal((2, 3, 9, 8)).astype(F32)
    graph = check("LpPool", [x], opset=opset, **window)
    assert "L2Pool2d" in [n.op_type for n in graph.nodes]


@pytest.mark.parametrize("order", [1, 3, 4])
@pytest.mark.parametrize("window", [WINDOWS[3], *DILATED])
def test_lp_of_other_orders(check, rng, order, window) -> None:
    x = rng.standard_normal((2, 3, 9, 8)).astype(F32)
    check("LpPool", [x], opset=18, p=order, **window)


@pytest.mark.parametrize("window", [CEIL[0], CEIL[3], DILATED[0], DILATED[2]])
def test_lp_of_two(check, rng, window) -> None:
    x = rng.standard_normal((2, 3, 8, 9)).astype(F32)
    check("LpPool", [x], opset=18, ceil_mode=1, **window)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("spatial", [(6,), (5, 7), (3, 4, 5)])
def test_global_lp(check, model, read, run, rng, order, spatial) -> None:
    x = rng.standard_normal((2, 3, *spatial)).astype(F32)
    check("GlobalLpPool", [x], opset=7, p=order)
    # no peer knows version 22, which means the same
    node = helper.make_node("GlobalLpPool", ["x"], ["y"], p=order)
    y = run(read(model([node], {"x": x}, ["y"], opset=22)), {"x": x})["y"]
    wanted = np.linalg.norm(x.reshape(2, 3, -1).astype(np.float64), order, axis=2)
    np.testing.assert_allclose(y.reshape(2, 3), wanted, rtol=1e-5)  # sums of 60 float32 numbers


@pytest.mark.parametrize("opset", [8, 11, 22])
@pytest.mark.parametrize("window", WINDOWS)
def test_places_of_maxima(check, rng, opset, window) -> None:
    check("MaxPool", [negative(rng, 2, 3, 9, 8)], opset=opset, outputs=2, **window)


@pytest.mark.parametrize("size", [(7, 7), (8, 9)])
@pytest.mark.parametrize("window", [*CEIL, *DILATED])
def test_places_of_maxima_rounded_up_and_dilated(check, rng, window, size) -> None:
    check("MaxPool", [negative(rng, 2, 3, *size)], opset=22, outputs=2, ceil_mode=1, **window)


@pytest.mark.parametrize("spatial", [(9,), (5, 6), (4, 5, 6)])
@pytest.mark.parametrize("order", [0, 1])
def test_places_of_maxima_by_rank_and_order(model, read, run, rng, spatial, order) -> None:
    # ONNX Runtime's column-major order is not that of PyTorch or ONNX's text in three dimensions
    x = negative(rng, 2, 3, *spatial)
    axes = len(spatial)
    window = {"kernel_shape": [3] * axes, "strides": [2] * axes, "pads": [1] * 2 * axes}
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], storage_order=order, **window)
    found = run(read(model([node], {"x": x}, ["y", "i"], opset=22)), {"x": x})
    size = int(np.prod(spatial))
    planes = x.reshape(6, *spatial)
    flat = np.stack([plane.reshape(-1, order="CF"[order]) for plane in planes]).reshape(-1)
    assert found["i"].dtype == np.int64
    np.testing.assert_array_equal(flat[found["i"]], found["y"])
    of_plane = np.arange(6).reshape(2, 3, *[1] * axes)
    np.testing.assert_array_equal(found["i"] // size, np.broadcast_to(of_plane, found["i"].shape))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_places_of_the_first_of_equal_integers(check, dtype) -> None:
    # the least number there is, everywhere: padding must not win
    x = np.full((1, 2, 5, 5), np.iinfo(dtype).min, dtype)
    x[0, 1, 2, 3] = 9
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    check("MaxPool", [x], opset=12, outputs=2, **window)


def test_places_in_a_cropped_input(model, read, run, rng) -> None:
    # runtimes take no negative pads
    x = negative(rng, 2, 2, 8, 9)
    window = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [-2, 1, 0, -1]}
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], **window)
    found = run(read(model([node], {"x": x}, ["y", "i"], opset=22)), {"x": x})
    np.testing.assert_array_equal(x.reshape(-1)[found["i"]], found["y"])


def test_pooling_undone(agree, model, rng) -> None:
    x = rng.standard_normal((2, 3, 8, 6)).astype(F32)
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p", "i"], **window),
        helper.make_node("MaxUnpool", ["p", "i"], ["y"], **window),
    ]
    agree(model(nodes, {"x": x}, ["y"], opset=11), {"x": x})


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [2, 1, 1, 0]])
@pytest.mark.parametrize(
    ("strides", "dilations", "is_pool"),
    [([3, 2], [3, 2], True), ([4, 6], [2, 3], True), ([4, 3], [6, 2], False)],
)
def test_strides_make_up_for_dilation(check, rng, strides, dilations, is_pool, pads) -> None:
    window = {"kernel_shape": [3, 2], "strides": strides, "dilations": dilations, "pads": pads}
    graph = check("MaxPool", [negative(rng, 2, 3, 17, 16)], opset=22, **window)
    assert ("PoolMax2d" in [n.op_type for n in graph.nodes]) == is_pool


def test_refusals(model, read, rng) -> None:
    x = rng.standard_normal((1, 2, 90, 6)).astype(F32)
    indices = helper.make_node("MaxPool", ["x"], ["y", "i"], name="indexed", kernel_shape=[8, 7])
    large = helper.make_node("MaxPool", ["x"], ["z"], kernel_shape=[40, 2], dilations=[2, 1])
    order = helper.make_node("LpPool", ["x"], ["p"], kernel_shape=[2, 2], p=0)
    with pytest.raises(UnsupportedOpError) as caught:
        read(model([indices, large, order], {"x": x}, ["y", "i", "z", "p"]))
    messages = [str(p) for p in caught.value.problems]
    assert len(messages) == 3
    assert "would take 56 slices, and at most 49" in messages[0]
    assert "more than 32 slices" in messages[1]
    assert "p must be at least 1, got 0" in messages[2]
