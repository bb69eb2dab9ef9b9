"""Convolutions against the peer, and the layouts that they are emitted in."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32 = np.float32


def data(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


@pytest.mark.parametrize("opset", [7, 11, 22])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 1]},
        {"pads": [1, 0, 2, 1]},
        {"dilations": [2, 3]},
        {"pads": [1, 1, 1, 1], "strides": [2, 2], "dilations": [2, 2]},
        {"auto_pad": "VALID"},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 3]},
        {"kernel_shape": [3, 2]},
    ],
)
def test_attributes(check, rng, opset, attributes) -> None:
    x, w, b = data(rng, 2, 3, 9, 10), data(rng, 4, 3, 3, 2), data(rng, 4)
    check("Conv", [x], known=[w, b], opset=opset, **attributes)


@pytest.mark.parametrize(
    ("channels", "units", "group", "op_type"),
    [
        (4, 6, 1, "Conv2d"),
        (4, 6, 2, "Conv2d"),
        (4, 4, 4, "DepthWiseConv2d"),
        (4, 12, 4, "DepthWiseConv2d"),
        (1, 3, 1, "Conv2d"),
    ],
)
def test_groups(check, rng, channels, units, group, op_type) -> None:
    w = data(rng, units, channels // group, 3, 3)
    graph = check("Conv", [data(rng, 2, channels, 7, 6)], known=[w], group=group, pads=[1, 1, 1, 1])
    assert [n.op_type for n in graph.nodes] == ["Transpose", op_type, "Transpose"]


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("attributes", [{}, {"pads": [2, 1], "strides": [2], "dilations": [2]}])
def test_one_dimension(check, rng, group, attributes) -> None:
    w, b = data(rng, 8, 4 // group, 3), data(rng, 8)
    check("Conv", [data(rng, 2, 4, 11)], known=[w, b], group=group, **attributes)
    check("Conv", [data(rng, 2, 4, 11), w, b], group=group, **attributes)


def test_filters_of_a_run(check, rng) -> None:
    check("Conv", [data(rng, 1, 3, 6, 6), data(rng, 4, 3, 3, 3), data(rng, 4)])


def test_filters_lie_as_qnn_wants_them_and_keep_their_name(check, rng) -> None:
    w = data(rng, 5, 2, 3, 4)
    graph = check("Conv", [data(rng, 1, 2, 8, 8)], known=[w])
    filters = graph.tensor("c0")
    assert (filters.source, filters.source_perm) == ("c0", (2, 3, 1, 0))
    np.testing.assert_array_equal(filters.values(), w.transpose(2, 3, 1, 0))


def test_names_and_layouts_can_be_traced_back(check, rng) -> None:
    graph = check("Conv", [data(rng, 1, 2, 8, 8)], known=[data(rng, 3, 2, 3, 3)])
    before, conv, after = graph.nodes
    assert {before.sources, conv.sources, after.sources} == {("the_node",)}
    assert (before.outputs[0].source, before.outputs[0].source_perm) == ("x0", (0, 2, 3, 1))
    assert (conv.outputs[0].source, conv.outputs[0].source_perm) == ("y0", (0, 2, 3, 1))
    assert after.outputs[0].name == "y0"


def test_shared_filters_are_stored_once(agree, model, rng) -> None:
    nodes = [helper.make_node("Conv", [a, "w"], [b], pads=[1] * 4) for a, b in ("xt", "ty")]
    x, w = data(rng, 1, 2, 5, 5), data(rng, 2, 2, 3, 3)
    graph = agree(model(nodes, {"x": x}, ["y"], {"w": w}), {"x": x})
    assert sum(t.data is not None for t in graph.tensors.values()) == 1


@pytest.mark.parametrize("opset", [7, 11, 22])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"group": 2, "strides": [2, 1, 2], "pads": [1, 0, 2, 0, 1, 1]},
        {"group": 4, "dilations": [1, 2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2, 3]},
    ],
)
def test_three_dimensions(check, rng, opset, attributes) -> None:
    x = data(rng, 2, 4, 5, 6, 7)
    w, b = data(rng, 8, 4 // attributes.get("group", 1), 2, 3, 2), data(rng, 8)
    # some sums of 48 products nearly cancel: the error is one of what was added
    graph = check("Conv", [x], known=[w, b], opset=opset, atol=1e-5, **attributes)
    assert [n.op_type for n in graph.nodes] == ["Transpose", "Conv3d", "Transpose"]
    check("Conv", [x, w, b], opset=opset, atol=1e-5, **attributes)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_negative_pads_crop(read, run, model, rng, rank) -> None:
    # runtimes do not take them: what is compared with is the convolution of the cropped input
    x, w = data(rng, 1, 2, *[7] * rank), data(rng, 3, 2, *[3] * rank)
    pads = [-1] * rank + [1] + [-2] * (rank - 1)
    ends = (None, *[-2] * (rank - 1))
    cropped = x[(slice(None), slice(None), *(slice(1, end) for end in ends))]
    found = []
    for image, amount in ((x, pads), (cropped, [max(p, 0) for p in pads])):
        node = helper.make_node("Conv", ["x", "w"], ["y"], pads=amount)
        graph = read(model([node], {"x": image}, ["y"], {"w": w}))
        found.append(run(graph, {"x": image})["y"])
    np.testing.assert_array_equal(*found)


def test_four_dimensions_are_refused(check, rng) -> None:
    with pytest.raises(UnsupportedOpError) as caught:
        check("Conv", [data(rng, 1, 2, 4, 4, 4, 4)], known=[data(rng, 2, 2, 3, 3, 3, 3)])
    (problem,) = caught.value.problems
    assert problem.where == "Conv node 'the_node'"
    assert "4 spatial dimensions" in problem.message


@pytest.mark.parametrize(
    ("shape", "attributes", "message"),
    [
        (
            (4, 3, 3, 3),
            {},
            "do not match an input of 2 channels",
        ),
        ((3, 1, 3, 3), {"group": 2}, "do(es)? not match"),
        ((4, 2, 3), {}, "do not match the input"),
        ((4, 2, 3, 3), {"kernel_shape": [2, 2]}, "contradicts"),
        ((4, 2, 3, 3), {"pads": [1, 1]}, "pads"),
        ((4, 2, 3, 3), {"pads": [-4, 0, -4, 0]}, "remove all"),
        ((4, 2, 3, 3), {"strides": [0, 1]}, "strides"),
        ((4, 2, 3, 3), {"auto_pad": "ROUGHLY"}, "auto_pad"),
        ((4, 2, 13, 3), {}, "does not fit spatial axis"),
    ],
)
def test_contradictions_name_the_node(model, read, rng, shape, attributes, message) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="bad", **attributes)
    with pytest.raises(FrontendError, match=message) as caught:
        read(model([node], {"x": data(rng, 1, 2, 8, 8)}, ["y"], {"w": data(rng, *shape)}))
    assert caught.value.problems[0].where == "Conv node 'bad'"
