"""Transposed convolutions against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError
from dovetail_opset.passes import CONVERT_DEFAULT

F32 = np.float32


def data(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


ONE = [
    {},
    {"strides": [2], "pads": [1, 0]},
    {"strides": [3], "pads": [1, 2], "output_padding": [2]},
    {"dilations": [2], "strides": [2], "output_padding": [1]},
    {"strides": [2], "auto_pad": "SAME_UPPER"},
    {"strides": [2], "auto_pad": "SAME_LOWER"},
    {"strides": [2], "auto_pad": "VALID"},
    {"strides": [2], "output_shape": [10]},
    {"strides": [2], "output_shape": [10], "auto_pad": "SAME_UPPER"},
    {"strides": [2], "output_shape": [9], "output_padding": [1]},
    {"strides": [2], "output_shape": [12]},
    {"strides": [4], "output_shape": [22]},
    {"strides": [4], "output_shape": [21], "auto_pad": "SAME_UPPER"},
]
TWO = [
    {},
    {"strides": [2, 1], "pads": [1, 0, 0, 2]},
    {"strides": [2, 3], "pads": [1, 1, 1, 1], "output_padding": [1, 2]},
    {"dilations": [2, 3], "strides": [2, 2], "pads": [0, 1, 2, 1]},
    {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"strides": [2, 2], "auto_pad": "SAME_LOWER", "dilations": [1, 2]},
    {"strides": [2, 2], "output_shape": [10, 11], "kernel_shape": [3, 2]},
    {"strides": [3, 2], "output_shape": [17, 12], "dilations": [1, 2]},
    {"strides": [3, 2], "output_shape": [11, 13], "auto_pad": "SAME_UPPER"},
]
THREE = [
    {},
    {"strides": [2, 1, 2], "pads": [1, 0, 1, 0, 1, 1], "output_padding": [1, 0, 0]},
    {"dilations": [1, 2, 2], "strides": [2, 2, 1]},
    {"strides": [2, 2, 2], "auto_pad": "SAME_LOWER"},
    {"strides": [2, 3, 1], "output_shape": [8, 13, 2]},
]


@pytest.mark.parametrize("opset", [7, 11, 22])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(
    ("spatial", "kernel", "attributes"),
    [
        *(((5,), (3,), a) for a in ONE),
        *(((5, 6), (3, 2), a) for a in TWO),
        *(((3, 4, 2), (3, 2, 2), a) for a in THREE),
    ],
)
def test_attributes(check, rng, opset, group, spatial, kernel, attributes) -> None:
    x, w, b = data(rng, 2, 4, *spatial), data(rng, 4, 3, *kernel), data(rng, 3 * group)
    graph = check("ConvTranspose", [x], known=[w, b], opset=opset, group=group, **attributes)
    axes = max(len(spatial), 2)
    assert f"TransposeConv{axes}d" in [n.op_type for n in graph.nodes]


@pytest.mark.parametrize(
    ("spatial", "attributes"),
    [
        ((5,), {"strides": [2], "output_padding": [1]}),
        ((5, 6), {"strides": [2, 1]}),
        ((3, 4, 2), {"dilations": [1, 2, 2]}),
        ((5,), {"dilations": [3], "strides": [2]}),
        ((5, 6), {"dilations": [2, 3], "strides": [2, 1], "pads": [1, 0, 0, 2]}),
        ((5, 6), {"dilations": [1, 2], "strides": [2, 2], "output_shape": [12, 12]}),
        ((3, 4, 2), {"dilations": [1, 2, 2], "strides": [2, 2, 3], "output_shape": [8, 12, 9]}),
    ],
)
def test_filters_of_a_run(check, rng, spatial, attributes) -> None:
    w, b = data(rng, 4, 3, *[3] * len(spatial)), data(rng, 3)
    check("ConvTranspose", [data(rng, 1, 4, *spatial), w, b], **attributes)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    ("spatial", "pads"),
    [((4,), [-1, 1]), ((4, 5), [-2, 1, 0, -3]), ((2, 3, 2), [-1, 0, 0, -2, 0, 1])],
)
def test_negative_pads_are_more_output(check, rng, spatial, pads, is_known) -> None:
    # ONNX Runtime refuses them; ONNX's own evaluator, the peer from here on, does not
    x, w, b = data(rng, 1, 2, *spatial), data(rng, 2, 3, *[2] * len(spatial)), data(rng, 3)
    fed, known = ([x], [w, b]) if is_known else ([x, w, b], [])
    strides = [2] * len(spatial)
    check("ConvTranspose", fed, known=known, opset=25, pads=pads, strides=strides)


def test_a_network_of_volumes_runs_channels_last(agree, model, run, rng) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 6),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2] * 3, strides=[2] * 3),
        helper.make_node("ConvTranspose", ["p", "u"], ["t"], strides=[2] * 3),
        helper.make_node("Add", ["t", "shift"], ["s"]),
        helper.make_node("AveragePool", ["s"], ["y"], kernel_shape=[2] * 3),
    ]
    known = {
        "w": data(rng, 4, 2, 3, 3, 3),
        "u": data(rng, 4, 3, 2, 2, 2),
        "shift": data(rng, 3, 1, 1, 1),
    }
    x = data(rng, 1, 2, 6, 4, 8)
    graph = agree(model(nodes, {"x": x}, ["y"], known), {"x": x}, atol=1e-5)
    before = run(graph, {"x": x})["y"]
    CONVERT_DEFAULT.run(graph)
    inner = ["Conv3d", "Relu", "PoolMax3d", "TransposeConv3d", "PoolAvg3d"]
    assert [n.op_type for n in graph.nodes] == ["Transpose", *inner, "Transpose"]
    # the shift became a bias, which is added at the same place
    np.testing.assert_array_equal(run(graph, {"x": x})["y"], before)


def test_filters_keep_their_name_and_type(check, rng) -> None:
    w = data(rng, 2, 5, 3, 4)
    graph = check("ConvTranspose", [data(rng, 1, 2, 4, 4)], known=[w])
    filters = graph.tensor("c0")
    assert (filters.source, filters.source_perm) == ("c0", (2, 3, 0, 1))
    np.testing.assert_array_equal(filters.values(), w.transpose(2, 3, 0, 1))


@pytest.mark.parametrize(
    ("shape", "attributes", "message"),
    [
        (
            (3, 3, 3, 3),
            {},
            "do not match an input of 2 channels",
        ),
        ((2, 1, 3, 3), {"group": 3}, "in 3 groups do not match an input of 2 channels"),
        ((2, 4, 3), {}, "do not match the input"),
        ((2, 4, 3, 3), {"kernel_shape": [2, 2]}, "contradicts"),
        ((2, 4, 3, 3), {"pads": [1, 1]}, "pads"),
        ((2, 4, 3, 3), {"strides": [0, 1]}, "strides"),
        ((2, 4, 3, 3), {"output_padding": [1]}, "output_padding"),
        ((2, 4, 3, 3), {"output_shape": [9]}, "output_shape"),
        ((2, 4, 3, 3), {"auto_pad": "ROUGHLY"}, "auto_pad"),
        ((2, 4, 1, 1), {"pads": [9, 0, 9, 0]}, "removes more"),
    ],
)
def test_contradictions_name_the_node(model, read, rng, shape, attributes, message) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="bad", **attributes)
    with pytest.raises(FrontendError, match=message) as caught:
        read(model([node], {"x": data(rng, 1, 2, 8, 8)}, ["y"], {"w": data(rng, *shape)}))
    assert caught.value.problems[0].where == "ConvTranspose node 'bad'"


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_strides_beyond_the_windows(model, read, run, run_peer, rng, auto_pad) -> None:
    # ONNX has strides * extents; ONNX Runtime leaves out what no window reaches
    x, known = data(rng, 1, 2, 4, 3), {"w": data(rng, 2, 3, 2, 3), "b": data(rng, 3)}
    strides = {"strides": [3, 5]}
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], auto_pad=auto_pad, **strides)
    found = run(read(model([node], {"x": x}, ["y"], known)), {"x": x})["y"]
    plain = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **strides)
    reached = run_peer(model([plain], {"x": x}, ["y"], known), {"x": x})["y"]
    assert (reached.shape, found.shape) == ((1, 3, 11, 13), (1, 3, 12, 15))
    wanted = np.broadcast_to(known["b"][:, None, None], found.shape).copy()
    wanted[:, :, :11, :13] = reached
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "attributes",
    [
        {"output_shape": [6, 5]},
        {"output_shape": [9, 7], "strides": [2, 1]},
        {"output_shape": [9, 2**40], "strides": [2, 2], "output_padding": [1, 1]},
    ],
)
def test_outputs_larger_by_a_stride_are_refused(model, read, rng, attributes) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)
    given, known = {"x": data(rng, 1, 2, 4, 4)}, {"w": data(rng, 2, 4, 2, 2)}
    with pytest.raises(UnsupportedOpError, match="windows reach, by a stride or more"):
        read(model([node], given, ["y"], known))
