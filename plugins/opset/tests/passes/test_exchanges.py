"""Channel shuffles and blocks written as Reshape, Transpose, Reshape become one op."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import Array, DType, Graph, Pass, ScaleOffset, Shape, Spec, Tensor, TensorKind
from dovetail_opset.build import add
from dovetail_opset.passes import (
    CONVERT_DEFAULT,
    ChannelsLast,
    FuseChannelShuffle,
    FuseDepthToSpace,
)

Evaluate = Callable[..., Any]
F32 = DType.FLOAT_32


def written_out(shape: Shape, parts: Shape, perm: Shape, out: Shape, **x: Any) -> Graph:
    """Return a graph x -> groups -> turned -> y."""
    graph = Graph("g")
    dtype, encoding = x.get("dtype", F32), x.get("encoding")
    given = Tensor("x", dtype, shape, TensorKind.APP_WRITE, encoding=encoding)
    graph.add_tensor(given)
    groups = add(graph, "Reshape", [given], name="groups", spec=Spec(dtype, parts, encoding))
    turned = add(graph, "Transpose", [groups], name="turned", perm=perm)
    y = add(graph, "Reshape", [turned], name="y", spec=Spec(dtype, out, encoding))
    y.kind = TensorKind.APP_READ
    return graph


def check(graph: Graph, run: Pass, evaluate: Evaluate) -> list[str]:
    x = graph.inputs[0]
    feed = np.arange(int(np.prod(x.shape))).astype(x.dtype.storage).reshape(x.shape)
    before: Array = evaluate(graph, {"x": feed})["y"]
    assert run.run(graph)
    np.testing.assert_array_equal(evaluate(graph, {"x": feed})["y"], before)
    assert not run.run(graph)
    return [node.op_type for node in graph.nodes]


@pytest.mark.parametrize(
    ("shape", "parts", "perm", "axis"),
    [
        ((2, 6, 4, 5), (2, 3, 2, 4, 5), (0, 2, 1, 3, 4), 1),
        ((2, 6, 4, 5), (2, 2, 3, 20), (0, 2, 1, 3), 1),
        ((2, 4, 5, 6), (2, 4, 5, 3, 2), (0, 1, 2, 4, 3), 3),
        ((2, 4, 5, 6), (40, 3, 2), (0, 2, 1), 3),
        ((6,), (3, 2), (1, 0), 0),
        ((1, 6, 1), (1, 2, 3, 1), (0, 2, 1, 3), 1),
    ],
)
def test_channel_shuffle(
    evaluate: Evaluate, shape: Shape, parts: Shape, perm: Shape, axis: int
) -> None:
    graph = written_out(shape, parts, perm, shape)
    assert check(graph, FuseChannelShuffle(), evaluate) == ["ChannelShuffle"]
    (node,) = graph.nodes
    assert (node.params["axis"].value, node.sources) == (axis, ("groups", "turned", "y"))
    assert set(graph.tensors) == {"x", "y"}


NOT_SHUFFLES = [
    ((2, 6, 4), (2, 3, 2, 4), (0, 2, 1, 3), (2, 3, 8)),  # does not give x's shape back
    ((2, 6, 4), (2, 3, 2, 4), (0, 2, 3, 1), (2, 6, 4)),  # turns more than the groups
    ((6, 4), (2, 3, 4), (1, 0, 2), (3, 2, 4)),
    ((2, 3, 4), (2, 3, 4), (1, 0, 2), (2, 3, 4)),  # exchanges two axes
    ((4, 6), (2, 12), (1, 0), (4, 6)),
]


@pytest.mark.parametrize(("shape", "parts", "perm", "out"), NOT_SHUFFLES)
def test_what_is_no_shuffle_stays(shape: Shape, parts: Shape, perm: Shape, out: Shape) -> None:
    graph = written_out(shape, parts, perm, out)
    assert not FuseChannelShuffle().run(graph)
    assert len(graph.nodes) == 3


# letters: batch, channels, height, width, rows and columns of a block, with their extents
LETTERS = {"n": 2, "c": 3, "h": 4, "w": 5, "r": 2, "k": 3}
FORMS = [
    ("n rkc h w", "n c hr wk", 0),
    ("n crk h w", "n c hr wk", 1),
    ("n h w rkc", "n hr wk c", 0),
    ("n h w crk", "n hr wk c", 1),
]


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize(("deep", "wide", "mode"), FORMS)
def test_blocks(evaluate: Evaluate, deep: str, wide: str, mode: int, inverted: bool) -> None:
    before, after = (wide, deep) if inverted else (deep, wide)

    def extents(form: str) -> Shape:
        return tuple(int(np.prod([LETTERS[p] for p in part])) for part in form.split())

    parts, order = before.replace(" ", ""), after.replace(" ", "")
    perm = tuple(parts.index(p) for p in order)
    graph = written_out(extents(before), tuple(LETTERS[p] for p in parts), perm, extents(after))
    found = check(graph, FuseDepthToSpace(), evaluate)
    op_type = "SpaceToDepth" if inverted else "DepthToSpace"
    is_last = deep.startswith("n h")
    assert found == ([op_type] if is_last else ["Transpose", op_type, "Transpose"])
    node = graph.nodes[not is_last]
    assert node.params["mode"].value == mode
    assert node.params["block_size"].values().tolist() == [2, 3]
    assert all(n.sources == ("groups", "turned", "y") for n in graph.nodes)


@pytest.mark.parametrize(
    ("parts", "perm", "out"),
    [
        ((2, 2, 3, 3, 4, 5), (0, 4, 3, 1, 5, 2), (2, 12, 2, 15)),
        ((2, 18, 2, 2, 1, 5), (0, 1, 3, 4, 2, 5), (2, 18, 2, 10)),
        ((2, 18, 4, 5), (0, 1, 3, 2), (2, 18, 4, 5)),
    ],
)
def test_what_is_no_block_stays(parts: Shape, perm: Shape, out: Shape) -> None:
    graph = written_out((2, 18, 4, 5), parts, perm, out)
    assert not FuseDepthToSpace().run(graph)


@pytest.mark.parametrize("run", [FuseChannelShuffle(), FuseDepthToSpace()])
def test_one_encoding_throughout(evaluate: Evaluate, run: Pass) -> None:
    shapes = {
        "fuse-channel-shuffle": ((1, 6), (1, 3, 2), (0, 2, 1), (1, 6)),
        "fuse-depth-to-space": (
            (1, 1, 1, 6),
            (1, 1, 1, 2, 3, 1),
            (0, 1, 3, 2, 4, 5),
            (1, 2, 3, 1),
        ),
    }
    u8, code = DType.UFIXED_POINT_8, ScaleOffset(1e-3, -3)
    graph = written_out(*shapes[run.name], dtype=u8, encoding=code)
    graph.node("y").outputs[0].encoding = ScaleOffset(0.5)
    assert not run.run(graph)
    graph.node("y").outputs[0].encoding = code
    assert len(check(graph, run, evaluate)) == 1


def test_what_others_read_stays() -> None:
    graph = written_out((2, 6), (2, 3, 2), (0, 2, 1), (2, 6))
    graph.node("turned").outputs[0].kind = TensorKind.APP_READ
    assert not FuseChannelShuffle().run(graph)


def test_transposes_cancel_through_a_shuffle(evaluate: Evaluate, maker: Any, feeds: Any) -> None:
    made = maker(3)
    x = made.conv(made.values[0], 6)
    groups = made.step("Reshape", x, spec=Spec(F32, (2, 3, 2, *x.shape[2:])))
    turned = made.step("Transpose", groups, perm=(0, 2, 1, 3, 4))
    x = made.step("Reshape", turned, spec=x.spec)
    graph = made.finish(made.conv(x))
    feed = feeds(graph)
    (out,) = graph.outputs
    before = evaluate(graph, feed)[out.name]
    CONVERT_DEFAULT.run(graph)
    np.testing.assert_allclose(evaluate(graph, feed)[out.name], before, rtol=2e-5, atol=1e-5)
    ops = [node.op_type for node in graph.nodes]
    assert ops == ["Transpose", "Conv2d", "ChannelShuffle", "Conv2d", "Transpose"]
    assert not ChannelsLast().run(graph)
